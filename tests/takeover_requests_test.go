package tests

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
	"slurmprio/tests/shim"
)

// levers are what priod writes into requests of waiting jobs, with what scontrol is told then.
var levers = []struct {
	lever slurmplug.Lever
	told  string
}{
	{slurmplug.Features, ` Features=`},
	{slurmplug.Size, ` (?:NumCPUs|CPUsPerTask|MinCPUsNode|CpusPerTres)=`},
	{slurmplug.Switches, ` Switches=`},
	{slurmplug.PartitionList, ` Partition=`},
}

// A host is lost for ever between the undo line of each lever and its write, or right after
// that, with everything on. The other one writes it, or, with the features turned off, has
// given each job back what its user asked for within two cycles of its take-over; and so it is
// after reset.
func TestHostIsLostAmidAWrite(t *testing.T) {
	t.Parallel()
	for n, l := range levers {
		for _, when := range []string{"before", "after"} {
			if n == 0 && when == "before" || long() {
				eitherHost(t, n, string(l.lever)+", "+when, func(t *testing.T, backup bool) { loseAmidAWrite(t, n, when, backup) })
			}
		}
	}
}

func loseAmidAWrite(t *testing.T, lever int, when string, backup bool) {
	p := newHostPair(t, backup, lab.Options{
		Nodes:      []lab.NodeSpec{{Prefix: "n", Count: 4, GPUType: "a100", GPUs: 4}, {Prefix: "v", Count: 1, GPUType: "v100", GPUs: 4}, {Prefix: "t", Count: 1, GPUType: "t4", GPUs: 4}, {Prefix: "p", Count: 1, GPUType: "p100", GPUs: 4}},
		Partitions: []string{"gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP", "t4 Nodes=t1 MaxTime=INFINITE State=UP", "p100 Nodes=p1 MaxTime=INFINITE State=UP"},
		ExtraConf:  []string{"TopologyPlugin=topology/tree", "SchedulerParameters=max_switch_wait=86400"},
		ExtraFiles: map[string]string{"topology.conf": "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4],v1,t1,p1\nSwitchName=top Switches=s[1-2]\n"},
	})
	acts, stays := p.acts, p.stays
	for _, s := range []*evictable{acts, stays} {
		s.partitions = []string{}
		s.configure(sharingOf(s.site) + "[gpu_types.t4]\nfeature = \"no_t4\"\n[gpu_types.p100]\nfeature = \"no_p100\"\n") // given by partitions
	}
	for _, held := range []string{"a100:4", "a100:4", "a100:4", "a100:4", "v100:4", "t4:4", "p100:4"} {
		acts.blocker(held)
	}
	d, standby := p.begin(t)
	of, twins := map[slurmplug.Lever]string{}, map[slurmplug.Lever]string{} // which ask for the same and agreed to nothing
	for lever, args := range map[slurmplug.Lever][]string{
		slurmplug.Features:      {"--prio-type=be", "--prio-speed=v100:1,a100:3", "--gres=gpu:4", "--time=60", "--constraint=v100|a100"},
		slurmplug.Size:          {"--prio-type=be", "--prio-cpu=a100:1x1-8x6", "--gres=gpu:a100:1", "-c", "1", "--mem=2000", "--time=60"},
		slurmplug.Switches:      {"--prio-type=be", "--gres=gpu:a100:4", "--nodes=2", "--time=600"},
		slurmplug.PartitionList: {"--prio-type=be", "--prio-speed=t4:1,p100:3", "--gres=gpu:4", "--time=60", "--partition=t4,p100"},
	} {
		of[lever] = acts.submit(append(args, "--wrap", "sleep 600")...)
		own := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "--prio-") })
		twins[lever] = acts.submit(append(own, "--wrap", "sleep 600")...)
	}
	acts.throw(d, shim.Fault{Command: "scontrol update", When: when, Has: levers[lever].told, Do: shim.Kill})
	first := acts.doomed()
	acts.wait("the write of "+string(levers[lever].lever), func() bool { return len(d.Thrown()) > 0 })
	first.ends()
	acts.throw(d)
	l, id := levers[lever].lever, of[levers[lever].lever]
	u, err := undo.Open(sharedBy(t, acts.site), "")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	if u.Find(slurmplug.Plain(uint32(n)), l) == nil {
		t.Fatalf("the undo journal has no line of %s of job %s: priod wrote first:\n%s", l, id, first.log)
	}
	if is := stays.asked(of)[l] != stays.asked(twins)[l]; is != (when == "after") {
		t.Fatalf("the write was carried out: %v", is)
	}
	if when == "after" {
		off := sharingOf(stays.site)
		for _, table := range []string{"steering", "sizing", "rounds", "locality"} {
			off = regexp.MustCompile(`(\[`+table+`\]\n(?:[^\[]*\n)?)enabled = true`).ReplaceAllString(off, "${1}enabled = false")
		}
		stays.configure(off)
		standby.cmd.Process.Signal(syscall.SIGHUP)
		standby.waitLog("configuration reloaded")
	}
	p.lose(t, first, standby)
	if when == "before" {
		stays.wait("the write", func() bool { return stays.asked(of)[l] != stays.asked(twins)[l] })
	} else {
		stays.wait("each job to have its own request again", func() bool { return maps.Equal(stays.asked(of), stays.asked(twins)) })
	}
	if when == "after" {
		standby.wait("the line about it", func() bool { return len(wroteIn(standby, id, l)) > 0 })
		if cycle, took := wroteIn(standby, id, l)[0], tookOver(t, standby); cycle > took+1 {
			t.Errorf("%s of job %s is given back in cycle %d, after a take-over in cycle %d:\n%s", l, id, cycle, took, standby.log)
		}
	}
	actsWithinTwoCycles(t, standby)
	standby.stop()
	stays.must("reset")
	if now, own := stays.asked(of), stays.asked(twins); !maps.Equal(now, own) {
		t.Errorf("reset leaves %v, and their users asked for %v", now, own)
	}
}

// asked is what waiting jobs ask for now, as far as levers change it.
func (s *site) asked(of map[slurmplug.Lever]string) map[slurmplug.Lever]string {
	s.Helper()
	all := map[slurmplug.Lever]string{}
	for lever, id := range of {
		text := s.slurm("scontrol", "show", "job", id)
		switches := strings.Join(strings.Fields(s.slurm("squeue", "--noheader", "--job="+id, "--Format=ReqSwitch,Wait4Switch")), "@")
		words := []string{field(text, "Partition"), field(text, "Features"), field(text, "NumCPUs"), field(text, "CPUs/Task"), field(text, "MinMemoryNode"), field(text, "ReqNodeList"), field(text, "ExcNodeList"), switches}
		all[lever] = strings.Join(words, " ")
	}
	return all
}

// wroteIn are the cycles in which a priod wrote into a job, by its log.
func wroteIn(d *running, id string, lever slurmplug.Lever) (cycles []int) {
	for _, m := range regexp.MustCompile(`wrote: cycle=(\d+) job=`+id+` lever=`+string(lever)+` `).FindAllStringSubmatch(d.log.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		cycles = append(cycles, n)
	}
	return cycles
}

// A host is lost for ever in the middle of the requeue of a job that failed, before and after
// each of its commands: it runs again once, refuses the node on which it failed, and reset
// gives it back what its user asked for.
func TestHostIsLostAmidARetry(t *testing.T) {
	longOnly(t)
	t.Parallel()
	moments := []shim.Fault{
		{Command: "scontrol requeue", When: "before", Call: 1, Do: shim.Kill},
		{Command: "scontrol requeue", When: "after", Call: 1, Do: shim.Kill},
		{Command: "scontrol update", When: "before", Has: " ExcNodeList=", Do: shim.Kill},
		{Command: "scontrol update", When: "after", Has: " ExcNodeList=", Do: shim.Kill},
	}
	for n, m := range moments[:rounds(1, len(moments))] {
		eitherHost(t, n, m.Command+", "+m.When, func(t *testing.T, backup bool) {
			p := newHostPair(t, backup, lab.Options{Nodes: []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 4}}})
			acts, stays := p.acts, p.stays
			d, standby := p.begin(t)
			acts.throw(d, m)
			first := acts.doomed()
			first.waitLog("and so does priod")
			id := ""
			acts.wait("Slurm to take the job", func() bool {
				out, err := p.Run(t.Context(), bin+"/sbatchwrap", "--parsable", "--output=/dev/null", "--prio-type=be", "--prio-retry=always", "--gres=gpu:4", "--time=5",
					"--wrap", `sleep 5; [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] && exec sleep 600; kill -SEGV $$`)
				id = strings.TrimSpace(out)
				return err == nil
			})
			show := func() string { return stays.slurm("scontrol", "show", "job", id) }
			node := ""
			acts.wait("it to run", func() bool { node = field(show(), "NodeList"); return node != "" })
			acts.wait("the moment", func() bool { return len(d.Thrown()) > 0 })
			first.ends()
			acts.throw(d)
			p.lose(t, first, standby)
			stays.wait("it to wait, and to refuse its node", func() bool {
				text := show() // the end of a run that slurmctld missed is told again after a minute
				return field(text, "Restarts") == "1" && field(text, "ExcNodeList") == node && field(text, "JobState") == "PENDING"
			})
			actsWithinTwoCycles(t, standby)
			standby.wait("the line about its failure", func() bool { return strings.Contains(standby.log.String(), "job="+id) })
			standby.stop()
			stays.must("reset")
			if text := show(); field(text, "ExcNodeList") != "" || field(text, "Restarts") != "1" {
				t.Errorf("reset leaves\n%s", text)
			}
		})
	}
}
