package virtual

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// queuePart is a partition as the scheduler sees it: its first job that does not fit blocks the others there. Jobs
// that name none share one of all nodes, those with GPUs and those without apart.
type queuePart struct {
	trace.Partition                 // what is said of it; its name is "" where jobs name none
	used            int             // GPUs of its jobs that run
	bonus           int64           // by its PriorityJobFactor
	kinds           placement.Types // of its nodes
	off             []int32         // nodes of these kinds that are not in it
	head            *job            // the first job that does not fit, in this pass
}

// order is the place of a job in the order of all, in this partition.
func (p *queuePart) order(j *job) key {
	k := j.key
	k.tier -= 2 * int32(p.Tier)
	k.rank -= float64(p.bonus)
	return k
}

// refuses says why a partition starts no job like this one; "" where it does.
func (p *queuePart) refuses(j *trace.Job) string {
	switch limit := p.MaxTime.Seconds(); {
	case p.Closed() != "":
		return fmt.Sprintf("partition %s is %s", p.Name, p.Closed())
	case limit > 0 && j.Limit > limit:
		return fmt.Sprintf("its time limit is longer than the %s of partition %s", p.MaxTime, p.Name)
	case p.MaxNodes > 0 && j.Nodes > p.MaxNodes:
		return fmt.Sprintf("its %d nodes are more than partition %s allows (%d)", j.Nodes, p.Name, p.MaxNodes)
	case p.JobGPUs > 0 && j.GPUs > p.JobGPUs, p.AllGPUs > 0 && j.GPUs > p.AllGPUs:
		return fmt.Sprintf("its %d GPUs are more than the QOS of partition %s allows", j.GPUs, p.Name)
	}
	return ""
}

// beyond reports whether so many GPUs more are beyond what the partition's QOS allows of its jobs together.
func (p *queuePart) beyond(gpus int) bool { return p.AllGPUs > 0 && p.used+gpus > p.AllGPUs }

// line is the jobs with one list of partitions.
type line struct {
	parts []*queuePart    // in the order of the list
	kinds placement.Types // of the nodes of any of these
	off   int32           // nodes of these kinds that are in none of them, as of a request
}

// gpuLine is the line of jobs with GPUs that name no partition, or run on a cluster that is not divided. Other lines
// have their lists of partitions as names; that of jobs without GPUs that name no partition of the nodes, "".
const gpuLine = "\x00"

// lineOf is the line of a job in those of a list of partitions that may start it; why says that none may.
func (e *engine) lineOf(j *trace.Job, list string) (l *line, why string) {
	if j.GPUs > 0 && (list == "" || !e.divided) {
		return e.lineNamed(gpuLine, nil), ""
	}
	parts := e.partsOf(list)
	if len(parts) == 0 && j.GPUs == 0 {
		return e.lineNamed("", nil), ""
	}
	if len(parts) == 0 {
		return nil, fmt.Sprintf("the cluster has no partition %s", list)
	}
	parts = slices.DeleteFunc(parts, func(p *queuePart) bool {
		no := p.refuses(j)
		why = cmp.Or(why, no)
		return no != ""
	})
	if len(parts) == 0 {
		return nil, why
	}
	return e.lineNamed(names(parts), parts), ""
}

// names is a list of partitions as jobs name it.
func names(parts []*queuePart) string {
	all := make([]string, len(parts))
	for i, p := range parts {
		all[i] = p.Name
	}
	return strings.Join(all, ",")
}

// lineNamed is a line, made when the first job of it comes.
func (e *engine) lineNamed(name string, parts []*queuePart) *line {
	if l := e.lines[name]; l != nil {
		return l
	}
	l := &line{parts: parts}
	if name == gpuLine || name == "" {
		l.parts = []*queuePart{{Partition: trace.Partition{Tier: 1}, kinds: 1<<uint(len(e.types)) - 1}}
	}
	var off []int32
	for i, p := range l.parts {
		if l.kinds |= p.kinds; i == 0 {
			off = p.off
		}
	}
	if len(l.parts) > 1 {
		off = e.outside(l.kinds, func(g *trace.NodeGroup) bool {
			return slices.ContainsFunc(l.parts, func(p *queuePart) bool { return slices.Contains(g.Partitions, p.Name) })
		})
	}
	l.off = e.nodes.Refused(off)
	e.lines[name] = l
	return l
}

// partsOf are the partitions of a list that nodes are in.
func (e *engine) partsOf(list string) (parts []*queuePart) {
	for name := range strings.SplitSeq(list, ",") {
		if p := e.partOf(name); p != nil && !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// partOf is the partition of a name; nil: no node is in it.
func (e *engine) partOf(name string) *queuePart {
	if p, known := e.parts[name]; known {
		return p
	}
	in := func(g *trace.NodeGroup) bool { return slices.Contains(g.Partitions, name) }
	p := &queuePart{Partition: trace.Partition{Name: name, Tier: 1, JobFactor: 1}}
	if said := e.cluster.Partition(name); said != nil && e.divided {
		p.Partition = *said
	}
	if e.divided {
		p.bonus = e.factors.partition(p.JobFactor, e.cluster.Partitions)
	}
	for i := range e.cluster.Nodes {
		if in(&e.cluster.Nodes[i]) {
			p.kinds |= 1 << uint(e.kinds.of[i])
		}
	}
	if p.off = e.outside(p.kinds, in); p.kinds == 0 {
		p = nil
	}
	e.parts[name] = p
	return p
}

// outside are the nodes of these kinds that are not of such groups.
func (e *engine) outside(kinds placement.Types, in func(*trace.NodeGroup) bool) (off []int32) {
	node := int32(0)
	for i := range e.cluster.Nodes {
		g := &e.cluster.Nodes[i]
		for range g.Count {
			if kinds.Has(e.kinds.of[i]) && !in(g) {
				off = append(off, node)
			}
			node++
		}
	}
	return off
}

// in is a request, of a job of this line, in one of its partitions.
func (e *engine) in(r placement.Request, l *line, p *queuePart) placement.Request {
	if p.MaxNodes > 0 && r.Nodes == 0 {
		r.Most = int32(min(cmp.Or(int(r.Most), p.MaxNodes), p.MaxNodes))
	}
	if len(l.parts) == 1 {
		return r
	}
	if r.Types &= p.kinds; len(p.off) > 0 {
		off := slices.Concat(p.off, e.nodes.Off(r))
		slices.Sort(off)
		r.Off = e.nodes.Refused(slices.Compact(off))
	}
	return r
}

// fitsEmpty reports whether the empty cluster holds a job in one of its partitions.
func (e *engine) fitsEmpty(j *job) bool {
	return slices.ContainsFunc(j.line.parts, func(p *queuePart) bool {
		_, fits := e.empty.Fit(e.in(j.request, j.line, p), nil)
		return fits
	})
}

// gpusOf counts the GPUs of a partition that are of one type, where that is among some.
func (e *engine) gpusOf(p *queuePart, t int32, among placement.Types) int {
	if !among.Has(t) || !p.kinds.Has(t) {
		return 0
	}
	n := e.empty.FreeGPUs(t)
	for _, node := range p.off {
		if e.nodes.Type(node) == t {
			n -= int(e.nodes.Size(node).GPUs)
		}
	}
	return n
}

// keep keeps the nodes of a head's partition from other jobs.
func (e *engine) keep(p *queuePart) {
	if p.Name == "" {
		return
	}
	for n := range int32(e.nodes.Len()) {
		if p.kinds.Has(e.nodes.Type(n)) && !slices.Contains(p.off, n) {
			e.beyond.SetDown(n, true)
		}
	}
}

// groups are the group of each node.
func (e *engine) groups() (of []*trace.NodeGroup) {
	for i := range e.cluster.Nodes {
		for range e.cluster.Nodes[i].Count {
			of = append(of, &e.cluster.Nodes[i])
		}
	}
	return of
}

// partitions are those of a divided cluster, and the list of those with GPUs.
func (e *engine) partitions() (all []cluster.Partition, list string) {
	var withGPUs []string
	for i := range e.cluster.Nodes {
		for _, name := range e.cluster.Nodes[i].Partitions {
			if e.cluster.Nodes[i].GPUs > 0 && !slices.Contains(withGPUs, name) {
				withGPUs = append(withGPUs, name)
			}
			if slices.ContainsFunc(all, func(p cluster.Partition) bool { return p.Name == name }) {
				continue
			}
			p := &e.partOf(name).Partition
			o := cluster.Partition{Name: name, Tier: p.Tier, JobFactor: p.JobFactor, MaxTime: cmp.Or(p.MaxTime, slurmplug.Unlimited), MaxNodes: p.MaxNodes, JobGPUs: p.JobGPUs, QOSGPUs: p.AllGPUs, Closed: p.Closed()}
			if o.Closed == "DRAIN" {
				o.Closed, o.Draining = "", true
			}
			all = append(all, o)
		}
	}
	return all, strings.Join(withGPUs, ",")
}

// setBeyond tells of waiting jobs in which partitions they are beyond what a QOS allows.
func (s *slurm) setBeyond() {
	parts := slices.DeleteFunc(slices.Collect(maps.Values(s.e.parts)), func(p *queuePart) bool { return p == nil || p.JobGPUs+p.AllGPUs == 0 })
	if len(parts) == 0 {
		return
	}
	slices.SortFunc(parts, func(a, b *queuePart) int { return cmp.Compare(a.Name, b.Name) })
	for i, j := range s.jobs {
		beyond := slices.DeleteFunc(slices.Clone(parts), func(p *queuePart) bool { return j.holds() || !p.beyond(j.GPUs) && p.refuses(&j.Job) == "" })
		s.snapshot.Jobs[i].Beyond = names(beyond)
	}
}

// partition is that of a job's row. On a divided cluster it is the one in which the job runs, else its list; of a job with
// GPUs that names none, all. On others it is Partition, or another one where priod does not look.
func (s *slurm) partition(j *job) string {
	if only := s.e.opt.Daemon.Partitions; !s.e.divided {
		if j.GPUs == 0 && j.Partition != "" && len(only) > 0 && !slices.Contains(only, j.Partition) {
			return j.Partition
		}
		return Partition
	}
	parts := j.line.parts
	if j.holds() {
		parts = []*queuePart{j.part}
	}
	switch own := names(parts); {
	case own != "" || j.GPUs == 0:
		return cmp.Or(own, Partition)
	case j.holds():
		return append(slices.Clone(s.nodes[j.shares[0].Node].Partitions), Partition)[0]
	}
	return s.anywhere
}
