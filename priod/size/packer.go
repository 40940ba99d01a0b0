package size

import (
	"slices"

	"slurmprio/priod/workload"
)

// Rule says how a Packer works.
type Rule struct {
	Tuned bool // it stops at Synergy-TUNE with best fit, which waterfill improves on
	// Reserve leaves, on every node, each GPU that is still free its
	// proportional share: nothing can be taken back from a job that Slurm has
	// started.
	Reserve bool
}

// Amount of what a node has.
type Amount struct {
	GPUs  int
	CPUs  float64
	MemMB float64
}

// Node is a node with GPUs.
type Node struct {
	Type        int // index of its GPU type
	Total, Free Amount
}

// Job asks for GPUs of one type, on one node or, if need be, on several.
type Job struct {
	GPUs int
	On   []Sensitivity // by GPU type
}

// Sensitivity is how fast a job is on one GPU type.
type Sensitivity struct {
	Speed float64         // any unit; 0: it never runs there
	Curve *workload.Curve // nil: not known, it gets its proportional share
}

// Grant is what one job gets.
type Grant struct {
	Job   int     // index into jobs
	Type  int     // of its GPUs
	Speed float64 // relative, as its curve has it; that of its slowest part
	Parts []Part  // by node
}

// Part is a job's share of one node.
type Part struct {
	Node int // index into nodes
	Amount
}

// point is what each GPU of a job gets of CPUs and memory.
type point struct{ cpus, mem float64 }

func share(n *Node) point {
	gpus := float64(n.Total.GPUs)
	return point{n.Total.CPUs / gpus, n.Total.MemMB / gpus}
}

func (p point) min(q point) point { return point{min(p.cpus, q.cpus), min(p.mem, q.mem)} }
func (p point) max(q point) point { return point{max(p.cpus, q.cpus), max(p.mem, q.mem)} }

// exceeds says whether p is above q in some component.
func (p point) exceeds(q point) bool { return p.cpus > q.cpus*rounding || p.mem > q.mem*rounding }

// rounding forgives what floating point does to sums of shares.
const rounding = 1 + 1e-9

// Packer sizes and places jobs by waterfill, what improves on Synergy-TUNE as the paper
// describes it (section 4). A job gets at least the smaller of its proportional share, which
// is a node's total in proportion to its GPUs, and its demand, beyond which it gets no
// faster. A Packer keeps its buffers from call to call,
// and is not safe for concurrent use.
type Packer struct {
	set      Rule
	jobs     []Job
	nodes    []Node
	byType   [][]int // nodes, by type
	largest  []Amount
	free     []int // GPUs, by type
	admitted []request
	levels   map[demand][]level
	plans    [2]packing
}

// NewPacker returns a Packer.
func NewPacker(set Rule) *Packer {
	return &Packer{set: set, levels: map[demand][]level{}}
}

// request is an admitted job.
type request struct {
	job, gpus, typ int
	curve          *workload.Curve
	want           point // its demand for each GPU, or its share
	known          bool  // whether want is its demand
}

// demand is all that the levels of a request depend on.
type demand struct {
	curve *workload.Curve
	want  point
}

// Pack returns what is granted to the jobs, in the order of admission. Jobs
// stand in the order of the queue: each is admitted to the GPU type on which it is
// fastest among those with enough free GPUs, and passed over when there is none, so
// that sizes never change which jobs run. The grants are valid until the next call.
func (s *Packer) Pack(jobs []Job, nodes []Node) []Grant {
	s.reset(jobs, nodes)
	s.admit()
	p := &s.plans[0]
	p.reset(s)
	p.tuneBestFit()
	if !s.set.Tuned {
		p = s.waterfill(p)
	}
	return p.result()
}

func (s *Packer) reset(jobs []Job, nodes []Node) {
	s.jobs, s.nodes, s.admitted = jobs, nodes, s.admitted[:0]
	if len(s.levels) > 1<<12 {
		clear(s.levels) // most of them are of curves that are no longer used
	}
	for i := range s.byType {
		s.byType[i] = s.byType[i][:0]
	}
	clear(s.largest)
	clear(s.free)
	for i := range nodes {
		n := &nodes[i]
		for len(s.byType) <= n.Type {
			s.byType, s.largest, s.free = append(s.byType, nil), append(s.largest, Amount{}), append(s.free, 0)
		}
		s.byType[n.Type] = append(s.byType[n.Type], i)
		s.free[n.Type] += n.Free.GPUs
		l := &s.largest[n.Type]
		l.GPUs, l.CPUs, l.MemMB = max(l.GPUs, n.Total.GPUs), max(l.CPUs, n.Total.CPUs), max(l.MemMB, n.Total.MemMB)
	}
}

// fastest is the type on which a job is fastest among those with enough free
// GPUs, -1 when there is none.
func (s *Packer) fastest(j *Job) int {
	best := -1
	for t := range min(len(s.free), len(j.On)) {
		if s.free[t] >= j.GPUs && j.On[t].Speed > 0 && (best < 0 || j.On[t].Speed > j.On[best].Speed) {
			best = t
		}
	}
	return best
}

func (s *Packer) anyFree() bool {
	return slices.ContainsFunc(s.free, func(n int) bool { return n > 0 })
}

func (s *Packer) admit() {
	for i := range s.jobs {
		if !s.anyFree() {
			return
		}
		if t := s.fastest(&s.jobs[i]); t >= 0 {
			s.free[t] -= s.jobs[i].GPUs
			s.admitted = append(s.admitted, s.request(i, t))
		}
	}
}

func (s *Packer) request(job, t int) request {
	j := &s.jobs[job]
	r := request{job: job, gpus: j.GPUs, typ: t, curve: j.On[t].Curve}
	if r.curve == nil {
		r.want = share(&Node{Total: s.largest[t]})
	} else {
		r.want.cpus, r.want.mem = Usable(r.curve, j.GPUs, s.largest[t])
		r.known = true
	}
	return r
}

// Usable is what each of a job's GPUs can use: its curve's demand, at most what the
// largest node has; for a job of more GPUs than that node, the node's share
// (add_synergy_profile in Synergy's simulator).
func Usable(c *workload.Curve, gpus int, largest Amount) (cpus, memMB float64) {
	g := float64(gpus)
	most := func(want, node float64) float64 {
		switch {
		case want*g <= node*rounding:
			return want
		case gpus > largest.GPUs:
			return min(want, node/float64(largest.GPUs))
		}
		return node / g
	}
	return most(c.DemandCPUs, largest.CPUs), most(float64(c.DemandMemMB), largest.MemMB)
}
