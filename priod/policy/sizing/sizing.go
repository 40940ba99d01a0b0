// Package sizing says which jobs run where, and with how many CPUs and how much
// memory beside their GPUs: the mechanisms of Synergy (Mohan et al., OSDI'22)
// and one of our own. The policy above it orders the jobs.
//
// It is pure: jobs in order and nodes in, grants out. A job's GPUs are fixed.
// Of CPUs and memory it gets at least the smaller of its proportional share (a
// node's total in proportion to the GPUs) and its demand (beyond which nothing
// gets faster), from every mechanism but Greedy, which passes it over instead.
package sizing

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/workload"
)

// Mechanism is how CPUs and memory are handed out.
type Mechanism int

const (
	Waterfill    Mechanism = iota // ours
	TuneBestFit                   // Synergy-TUNE as the paper describes it
	Tune                          // Synergy-TUNE as its authors' simulator has it: first fit, in the policy's order
	Greedy                        // demand or nothing
	Proportional                  // the baseline
)

var mechanisms = []string{"waterfill", "tune-best-fit", "tune", "greedy", "proportional"}

func (m Mechanism) String() string { return mechanisms[m] }

// Parse reads the name of a mechanism.
func Parse(name string) (Mechanism, error) {
	if i := slices.Index(mechanisms, name); i >= 0 {
		return Mechanism(i), nil
	}
	return 0, fmt.Errorf("sizing %q: want one of %v", name, mechanisms)
}

// Settings of a Sizer.
type Settings struct {
	Mechanism Mechanism
	// Reserve leaves, on every node, each GPU that is still free its
	// proportional share. It stands in for taking back, which nothing can do
	// with a job that Slurm has started.
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

// point is what each GPU of a job gets.
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

// Sizer keeps its memory from call to call. It is not safe for concurrent use.
type Sizer struct {
	set      Settings
	jobs     []Job
	nodes    []Node
	byType   [][]int // nodes, by type
	largest  []Amount
	free     []int // GPUs, by type
	admitted []request
	levels   map[demand][]level
	plans    [2]plan
}

// New returns a Sizer.
func New(set Settings) *Sizer {
	return &Sizer{set: set, levels: map[demand][]level{}}
}

// request is an admitted job.
type request struct {
	job, gpus, typ int
	curve          *workload.Curve
	want           point // what it demands for each GPU
	known          bool  // that it demands that; else it takes its share
}

// demand is what the levels of a request depend on.
type demand struct {
	curve *workload.Curve
	want  point
}

// Size grants each job in turn what the mechanism gives it, in the order of
// admission. Jobs stand in the policy's order: each is admitted to the type on
// which it is fastest among those with enough free GPUs, and passed over when
// there is none, so that the mechanism never changes who runs. The grants are
// valid until the next call.
func (s *Sizer) Size(jobs []Job, nodes []Node) []Grant {
	s.reset(jobs, nodes)
	if s.set.Mechanism == Greedy {
		return s.greedy()
	}
	s.admit()
	p := &s.plans[0]
	p.reset(s)
	switch s.set.Mechanism {
	case Proportional:
		for i := range s.admitted {
			p.add(i, p.firstFit(i, p.share))
		}
	case Tune:
		p.tune()
	case TuneBestFit:
		p.tuneBestFit()
	case Waterfill:
		p.tuneBestFit()
		p = s.waterfill(p)
	}
	return p.result()
}

func (s *Sizer) reset(jobs []Job, nodes []Node) {
	s.jobs, s.nodes, s.admitted = jobs, nodes, s.admitted[:0]
	if len(s.levels) > 1<<12 {
		clear(s.levels) // of curves that are long gone
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
func (s *Sizer) fastest(j *Job) int {
	best := -1
	for t := range min(len(s.free), len(j.On)) {
		if s.free[t] >= j.GPUs && j.On[t].Speed > 0 && (best < 0 || j.On[t].Speed > j.On[best].Speed) {
			best = t
		}
	}
	return best
}

func (s *Sizer) anyFree() bool { return slices.ContainsFunc(s.free, func(n int) bool { return n > 0 }) }

func (s *Sizer) admit() {
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

func (s *Sizer) request(job, t int) request {
	j := &s.jobs[job]
	r := request{job: job, gpus: j.GPUs, typ: t, curve: j.On[t].Curve}
	if r.curve == nil {
		r.want = share(&Node{Total: s.largest[t]})
	} else {
		r.want, r.known = wanted(r.curve, j.GPUs, s.largest[t]), true
	}
	return r
}

// Best is the relative speed of a job when its demand is met on a node.
func Best(c *workload.Curve, gpus int, node Amount) float64 {
	want := wanted(c, gpus, node)
	return c.Relative(want.cpus, want.mem)
}

// wanted is what each of a job's GPUs can use: its curve's demand, at most what
// the largest node has; the share of that node for a job of more GPUs than it
// has (Synergy's simulator, add_synergy_profile).
func wanted(c *workload.Curve, gpus int, largest Amount) point {
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
	return point{most(c.DemandCPUs, largest.CPUs), most(float64(c.DemandMemMB), largest.MemMB)}
}

// greedy gives demand or nothing.
func (s *Sizer) greedy() []Grant {
	p := &s.plans[0]
	p.reset(s)
	for i := range s.jobs {
		if !s.anyFree() {
			break
		}
		t := s.fastest(&s.jobs[i])
		if t < 0 {
			continue
		}
		s.admitted = append(s.admitted, s.request(i, t))
		at := len(s.admitted) - 1
		p.grow(at + 1)
		if parts := p.firstFit(at, p.demanded); parts != nil {
			p.add(at, parts)
			s.free[t] -= s.jobs[i].GPUs
		} else {
			s.admitted = s.admitted[:at]
		}
	}
	return p.result()
}

// plan is one way to place the admitted jobs.
type plan struct {
	*Sizer
	left   []Amount
	grants []Grant // by request; without parts: not placed
	on     [][]int // requests, by node
	open   [][]int // nodes with free GPUs and a few that are full, by type
	full   []int   // how many are full
	parts  []Part  // scratch
	sizes  []sized // scratch
}

func (p *plan) reset(s *Sizer) {
	p.Sizer = s
	p.left = p.left[:0]
	for i := range s.nodes {
		p.left = append(p.left, s.nodes[i].Free)
	}
	for i := range p.on {
		p.on[i] = p.on[i][:0]
	}
	for len(p.on) < len(s.nodes) {
		p.on = append(p.on, nil)
	}
	p.open, p.full = p.open[:0], p.full[:0]
	for _, nodes := range s.byType {
		p.open, p.full = append(p.open, slices.Clone(nodes)), append(p.full, 0)
	}
	p.grants = p.grants[:0]
	p.grow(len(s.admitted))
}

func (p *plan) grow(n int) {
	for len(p.grants) < n {
		p.grants = append(p.grants, Grant{})
	}
}

// result is what was placed, in the order of admission.
func (p *plan) result() []Grant {
	return slices.DeleteFunc(p.grants, func(g Grant) bool { return len(g.Parts) == 0 })
}

// What each GPU of a request should get on a node.
type sizeOn func(request, node int) point

// demanded is the demand; the share when it is not known.
func (p *plan) demanded(i, node int) point {
	if r := &p.admitted[i]; r.known {
		return r.want
	}
	return share(&p.nodes[node])
}

// share is the proportional share.
func (p *plan) share(_, node int) point { return share(&p.nodes[node]) }

// least is what nobody is ever below: the smaller of demand and share.
func (p *plan) least(i, node int) point { return p.demanded(i, node).min(share(&p.nodes[node])) }

// published is what TUNE falls back to: the whole share as soon as some
// component of the demand is above it, else the demand.
func (p *plan) published(i, node int) point {
	want, fair := p.demanded(i, node), share(&p.nodes[node])
	if want.exceeds(fair) {
		return fair
	}
	return want
}

// room is how many GPUs of that size fit on a node, at most n.
func (p *plan) room(node int, size point, n int) int {
	l := &p.left[node]
	n = min(n, l.GPUs)
	if n == 0 {
		return 0
	}
	if p.set.Reserve {
		return p.roomBeside(node, size, n)
	}
	return min(n, times(l.CPUs, size.cpus), times(l.MemMB, size.mem))
}

// times is how often a part goes into a whole.
func times(whole, part float64) int {
	if part <= 0 {
		return math.MaxInt32
	}
	return int(min(max(whole*rounding, 0)/part, math.MaxInt32))
}

// roomBeside is room that leaves the GPUs which stay free their share. Where
// others have taken of that already, a job may still have its least.
func (p *plan) roomBeside(node int, size point, n int) int {
	l, fair := &p.left[node], share(&p.nodes[node])
	beside := func(left, size, fair float64) int {
		n := min(n, times(left, size))
		if extra := size - fair; extra > fair*(rounding-1) {
			n = min(n, times(max(left-fair*float64(l.GPUs), 0), extra))
		}
		return n
	}
	return min(beside(l.CPUs, size.cpus, fair.cpus), beside(l.MemMB, size.mem, fair.mem))
}

func part(node, gpus int, size point) Part {
	return Part{node, Amount{gpus, size.cpus * float64(gpus), size.mem * float64(gpus)}}
}

// firstFit takes GPUs node by node, as many as fit on each. nil: not all fit.
func (p *plan) firstFit(i int, size sizeOn) []Part {
	r := &p.admitted[i]
	p.parts = p.parts[:0]
	need := r.gpus
	for _, node := range p.open[r.typ] {
		if p.left[node].GPUs == 0 {
			continue
		}
		at := size(i, node)
		if n := p.room(node, at, need); n > 0 {
			p.parts = append(p.parts, part(node, n, at))
			if need -= n; need == 0 {
				return p.parts
			}
		}
	}
	return nil
}

// bestFit takes the node with the least left on which all fits, by GPUs, then by
// the larger part of CPUs or memory; without one, the fewest nodes.
func (p *plan) bestFit(i int, size sizeOn) []Part {
	r := &p.admitted[i]
	best, least := -1, 0.0
	for _, node := range p.open[r.typ] {
		l, total := &p.left[node], &p.nodes[node].Total
		if l.GPUs < r.gpus || best >= 0 && l.GPUs > p.left[best].GPUs {
			continue
		}
		rest := max(l.CPUs*total.MemMB, l.MemMB*total.CPUs) / (total.CPUs * total.MemMB)
		if (best < 0 || l.GPUs < p.left[best].GPUs || rest < least) && p.room(node, size(i, node), r.gpus) == r.gpus {
			best, least = node, rest
		}
	}
	p.parts = p.parts[:0]
	if best >= 0 {
		p.parts = append(p.parts, part(best, r.gpus, size(i, best)))
		return p.parts
	}
	if r.gpus == 1 {
		return nil
	}
	return p.split(i, size)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// split takes the nodes with the most room first.
func (p *plan) split(i int, size sizeOn) []Part {
	r := &p.admitted[i]
	type room struct{ node, gpus int }
	var rooms []room
	for _, node := range p.open[r.typ] {
		if n := p.room(node, size(i, node), r.gpus); n > 0 {
			rooms = append(rooms, room{node, n})
		}
	}
	slices.SortStableFunc(rooms, func(a, b room) int { return b.gpus - a.gpus })
	need := r.gpus
	p.parts = p.parts[:0]
	for _, o := range rooms {
		n := min(need, o.gpus)
		p.parts = append(p.parts, part(o.node, n, size(i, o.node)))
		if need -= n; need == 0 {
			return p.parts
		}
	}
	return nil
}

// add places a request, or, without parts, does not.
func (p *plan) add(i int, parts []Part) bool {
	if parts == nil {
		return false
	}
	r := &p.admitted[i]
	p.grants[i] = Grant{Job: r.job, Type: r.typ, Parts: slices.Clone(parts)}
	for _, q := range parts {
		p.on[q.Node] = append(p.on[q.Node], i)
	}
	p.take(i, 1)
	for _, q := range parts {
		if p.left[q.Node].GPUs == 0 {
			p.full[r.typ]++
		}
	}
	if open := p.open[r.typ]; p.full[r.typ] > len(open)/2 {
		p.open[r.typ], p.full[r.typ] = slices.DeleteFunc(open, func(node int) bool { return p.left[node].GPUs == 0 }), 0
	}
	p.grants[i].Speed = p.speed(i)
	return true
}

// take takes a grant's parts from what is left; -1 gives them back.
func (p *plan) take(i, sign int) {
	for _, q := range p.grants[i].Parts {
		l := &p.left[q.Node]
		l.GPUs -= sign * q.GPUs
		l.CPUs -= float64(sign) * q.CPUs
		l.MemMB -= float64(sign) * q.MemMB
	}
}

// resize gives a placed request other CPUs and memory on the same GPUs.
func (p *plan) resize(i int, size sizeOn) {
	p.take(i, -1)
	g := &p.grants[i]
	for k, q := range g.Parts {
		g.Parts[k] = part(q.Node, q.GPUs, size(i, q.Node))
	}
	p.take(i, 1)
	g.Speed = p.speed(i)
}

func perGPU(q *Part) point {
	g := float64(q.GPUs)
	return point{q.CPUs / g, q.MemMB / g}
}

// speed is that of the slowest part.
func (p *plan) speed(i int) float64 {
	curve := p.admitted[i].curve
	if curve == nil {
		return 1
	}
	slowest := math.Inf(1)
	for k := range p.grants[i].Parts {
		at := perGPU(&p.grants[i].Parts[k])
		slowest = min(slowest, curve.Relative(at.cpus, at.mem))
	}
	return slowest
}

// total is the sum of the relative speeds, as Synergy's OPT has it: a job counts
// once, however many GPUs it has.
func (p *plan) total() (speed float64, placed int) {
	for i := range p.grants {
		if len(p.grants[i].Parts) > 0 {
			speed += p.grants[i].Speed
			placed++
		}
	}
	return speed, placed
}

// bySize sorts requests by GPUs, CPUs and memory, the most first.
func (s *Sizer) bySize() []int {
	order := s.inOrder()
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &s.admitted[a], &s.admitted[b]
		g, h := float64(x.gpus), float64(y.gpus)
		return cmp.Or(y.gpus-x.gpus, cmp.Compare(y.want.cpus*h, x.want.cpus*g), cmp.Compare(y.want.mem*h, x.want.mem*g))
	})
	return order
}

func (s *Sizer) inOrder() []int {
	order := make([]int, len(s.admitted))
	for i := range order {
		order[i] = i
	}
	return order
}
