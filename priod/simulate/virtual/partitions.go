package virtual

import (
	"cmp"
	"fmt"
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

// refuses says why a partition never starts a job like this one; "" where it does.
func (e *engine) refuses(p *queuePart, j *trace.Job) string {
	h, asked := e.holderOf(j), j.Limit
	if j.Ending.State == "TIMEOUT" {
		asked -= killedWithin // the trace has its run time
	}
	switch limit := p.MaxTime.Seconds(); {
	case p.Closed() != "":
		return fmt.Sprintf("partition %s is %s", p.Name, p.Closed())
	case limit > 0 && asked > limit:
		return fmt.Sprintf("its time limit is longer than the %s of partition %s", p.MaxTime, p.Name)
	case p.MaxNodes > 0 && j.Nodes > p.MaxNodes:
		return fmt.Sprintf("its %d nodes are more than partition %s allows (%d)", j.Nodes, p.Name, p.MaxNodes)
	}
	for _, name := range e.qosIn(h, p) {
		if longest := e.cluster.QOS[name].MaxTime; longest > 0 && asked > longest.Seconds() {
			return fmt.Sprintf("its time limit is longer than the %s of QOS %s", longest, name)
		} else if longest > 0 {
			break
		}
	}
	for _, c := range e.claims(h, p, j.GPUs, asksCPUs(j)) {
		if c.asks > c.limit {
			return fmt.Sprintf("its %d %s are more than %s allows of %s (%d)", c.asks, c.tres, c.by, c.of.words, c.limit)
		}
	}
	return ""
}

// killedWithin is how long after its time limit Slurm may end a job, s.
const killedWithin = 60

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
		l = e.lineNamed(gpuLine, nil)
		return l, e.refuses(l.parts[0], j)
	}
	parts := e.partsOf(list)
	if len(parts) == 0 && j.GPUs == 0 {
		l = e.lineNamed("", nil)
		return l, e.refuses(l.parts[0], j)
	}
	if len(parts) == 0 {
		return nil, fmt.Sprintf("the cluster has no partition %s", list)
	}
	parts = slices.DeleteFunc(parts, func(p *queuePart) bool {
		no := e.refuses(p, j)
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
		if name == gpuLine && !e.divided {
			l.parts[0].QOS = e.onlyQOS()
		}
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

// onlyQOS is the QOS of the one partition of a cluster that is not divided.
func (e *engine) onlyQOS() string {
	for i := range e.cluster.Nodes {
		if g := &e.cluster.Nodes[i]; g.GPUs > 0 && len(g.Partitions) == 1 {
			if p := e.cluster.Partition(g.Partitions[0]); p != nil {
				return p.QOS
			}
		}
	}
	return ""
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
	said := e.cluster.Partition(name)
	if said != nil {
		p.QOS = said.QOS
	}
	if said != nil && e.divided {
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
			o := cluster.Partition{Name: name, Tier: p.Tier, JobFactor: p.JobFactor, MaxTime: cmp.Or(p.MaxTime, slurmplug.Unlimited), MaxNodes: p.MaxNodes, OwnQOS: p.QOS, Closed: p.Closed()}
			if o.Closed == "DRAIN" {
				o.Closed, o.Draining = "", true
			}
			all = append(all, o)
		}
	}
	return all, strings.Join(withGPUs, ",")
}

// setBeyond tells of waiting jobs in which partitions they are beyond limits, and for which limit they wait.
func (s *slurm) setBeyond() {
	if !s.e.limited() {
		return
	}
	type told struct{ beyond, reason string }
	of := map[*class]told{}
	for i, j := range s.jobs {
		row := &s.snapshot.Jobs[i]
		if row.Beyond = ""; j.state != waiting {
			continue
		}
		t, known := of[j.class]
		if !known {
			t.beyond, t.reason = s.e.beyondIn(j.class)
			of[j.class] = t
		}
		if row.Beyond = t.beyond; row.Reason != "BadConstraints" {
			row.Reason = t.reason
		}
	}
}

// beyondIn are the partitions in which limits hold a class of jobs back, also those that it does not name, and Slurm's reason of
// such a job.
func (e *engine) beyondIn(c *class) (beyond, reason string) {
	for i := range c.slots {
		x := holdsBack(c.slots[i].claims)
		if x == nil {
			reason = "Priority"
			break
		}
		reason = x.reason
	}
	var in []*queuePart
	for _, p := range e.parts {
		if e.divided && p != nil && holdsBack(e.claims(c.holder, p, int(c.request.GPUs), int(c.request.CPUs))) != nil {
			in = append(in, p)
		}
	}
	slices.SortFunc(in, func(a, b *queuePart) int { return cmp.Compare(a.Name, b.Name) })
	return names(in), reason
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
