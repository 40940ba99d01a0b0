package fit

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"slurmprio/tests/lab"
)

// site is a lab whose slurmctld is configured for some places, with nothing in its queue.
type site struct {
	*lab.Lab
	submitter lab.Client // of the cases' jobs
	tree      bool       // topology/tree, all nodes on one switch
	places    []*place
}

// place is the nodes, the partition and the QOS of cases with the same hardware.
type place struct {
	prefix string
	cases  []*Case // one after the other
}

// prologs is the file on which PrologSlurmctld waits: a job that starts holds its nodes, in state
// CONFIGURING, and no slurmd hears of it. So it costs a slurmctld's decision and nothing else.
const prologs = "prologs"

// markerNode is the node of the jobs that mark the end of a pass of the scheduler; see pass.
const markerNode = "marker"

// configuration are the options of a lab with these places.
func (s *site) configuration(places []*place) (lab.Options, error) {
	selects := places[0].cases[0].Select
	o := lab.Options{
		PreemptMode: "OFF",
		Nodes:       []lab.NodeSpec{{Prefix: markerNode, Count: 1, CPUs: 64, MemoryMB: 64000}},
		Partitions:  []string{markerNode + " Nodes=" + markerNode + "1 State=UP"},
		ExtraConf: []string{
			"SelectTypeParameters=" + selects, "DefMemPerCPU=1000", "GresTypes=gpu,shard,lscratch,fpga",
			// A job starts in a pass alone, not as it is submitted; backfill finds nothing that a pass does not.
			"SchedulerParameters=defer,batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=600,default_queue_depth=10000",
			"SlurmdTimeout=0",
		},
	}
	if !strings.Contains(selects, "Memory") {
		o.ExtraConf[1] = "DefMemPerCPU=0"
	}
	if s.Lab != nil {
		o.ExtraConf = append(o.ExtraConf, "PrologSlurmctld="+s.Dir+"/work/prolog")
	}
	var gres, licences []string
	all := []string{markerNode + "1"}
	for _, p := range places {
		c := p.cases[0]
		var names []string
		for i, line := range c.Nodes {
			name, spec, err := node(p.prefix, i, line)
			if err != nil {
				return o, fmt.Errorf("case %s: %w", c.Name, err)
			}
			names, all = append(names, name), append(all, name)
			o.Nodes = append(o.Nodes, spec)
			if len(c.Gres) == 0 {
				gres = append(gres, gresLines(name, spec.Gres)...)
			}
		}
		for _, g := range c.Gres {
			gres = append(gres, "NodeName="+of(g, p.prefix))
		}
		o.Partitions = append(o.Partitions, strings.TrimSpace(p.prefix+" Nodes="+strings.Join(names, ",")+" State=UP "+of(c.Partition, p.prefix)))
		if c.Licences != "" {
			licences = append(licences, of(c.Licences, p.prefix))
		}
		if c.QOS != "" {
			o.Sacctmgr = append(o.Sacctmgr, "modify qos "+p.prefix+" set "+noLimits, "modify qos "+p.prefix+" set "+c.QOS)
		}
	}
	if len(licences) > 0 {
		o.ExtraConf = append(o.ExtraConf, "Licenses="+strings.Join(licences, ","))
	}
	if s.tree {
		o.ExtraConf = append(o.ExtraConf, "TopologyPlugin=topology/tree")
		o.ExtraFiles = map[string]string{"topology.conf": "SwitchName=all Nodes=" + strings.Join(all, ",") + "\n"}
	}
	o.GresConf = strings.Join(gres, "\n") + "\n"
	return o, nil
}

// noLimits takes back what an earlier configuration may have set.
const noLimits = "MaxTRESPerNode=cpu=-1,mem=-1,node=-1,gres/gpu=-1 MaxTRESPerJob=cpu=-1,mem=-1,node=-1,gres/gpu=-1 " +
	"MaxTRESPerUser=cpu=-1,mem=-1,node=-1,gres/gpu=-1 MinTRESPerJob=cpu=-1,mem=-1,node=-1,gres/gpu=-1 GrpTRES=cpu=-1,mem=-1,node=-1,gres/gpu=-1"

// node is a node of a case as the lab wants it.
func node(prefix string, i int, line string) (name string, spec lab.NodeSpec, err error) {
	spec = lab.NodeSpec{Prefix: prefix + nodeLetters[i:i+1], Count: 1}
	cpus, rest := attribute(line, "CPUs")
	memory, rest := attribute(rest, "RealMemory")
	features, rest := attribute(rest, "Feature")
	spec.Gres, rest = attribute(rest, "Gres")
	_, spec.Extra = attribute(rest, "State")
	if features != "" {
		spec.Features = strings.Split(features, ",")
	}
	if spec.CPUs, err = strconv.Atoi(cpus); err == nil {
		spec.MemoryMB, err = strconv.Atoi(memory)
	}
	return spec.Prefix + "1", spec, err
}

// gresLines are gres.conf for Gres= of a node: GPUs have files, shards lie on them, all others are counted.
func gresLines(node, gres string) (lines []string) {
	file := 0
	for _, g := range strings.FieldsFunc(gres, func(r rune) bool { return r == ',' }) {
		parts := strings.Split(g, ":")
		count, _ := strconv.Atoi(parts[len(parts)-1])
		line := "NodeName=" + node + " Name=" + parts[0]
		switch {
		case parts[0] == "gpu":
			if len(parts) == 3 {
				line += " Type=" + parts[1]
			}
			line += fmt.Sprintf(" File=/dev/gpu[%d-%d]", file, file+count-1)
			file += count
		case parts[0] == "shard":
			line += fmt.Sprintf(" Count=%d", count)
		default:
			line += fmt.Sprintf(" Count=%d Flags=CountOnly", count)
		}
		lines = append(lines, line)
	}
	return lines
}

// configure makes the lab's slurmctld one of these places.
func (s *site) configure(ctx context.Context, places []*place) error {
	s.places = places
	for i, p := range places {
		p.prefix = fmt.Sprintf("c%d", i)
	}
	o, err := s.configuration(places)
	if err != nil {
		return err
	}
	if err := s.Rebuild(ctx, o); err != nil {
		return err
	}
	s.endPrologs() // of jobs of the slurmctld before
	var drained []string
	for _, p := range places {
		for i, line := range p.cases[0].Nodes {
			if state, _ := attribute(line, "State"); state == "DRAIN" {
				drained = append(drained, p.prefix+nodeLetters[i:i+1]+"1")
			}
		}
	}
	if len(drained) > 0 {
		_, err = s.Run(ctx, "scontrol", "update", "NodeName="+strings.Join(drained, ","), "State=DRAIN", "Reason=fit")
	}
	return err
}

// makePrologs makes what PrologSlurmctld runs.
func (s *site) makePrologs() error {
	fifo := s.Dir + "/work/" + prologs
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		return err
	}
	return os.WriteFile(s.Dir+"/work/prolog", []byte("#!/bin/sh\nexec cat "+fifo+"\n"), 0o755)
}

// endPrologs lets those that wait end.
func (s *site) endPrologs() {
	if f, err := os.OpenFile(s.Dir+"/work/"+prologs, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
		f.Close()
	}
}
