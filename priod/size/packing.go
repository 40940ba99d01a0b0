package size

import (
	"cmp"
	"math"
	"slices"
)

// packing is one way to place the admitted jobs.
type packing struct {
	*Packer
	left      []Amount
	grants    []Grant // by request; without parts: not placed
	on        [][]int // requests, by node
	open      [][]int // nodes with free GPUs and a few that are full, by type
	fullNodes []int   // how many are full
	parts     []Part  // scratch
	sizes     []sized // scratch
}

func (p *packing) reset(s *Packer) {
	p.Packer = s
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
	p.open, p.fullNodes = p.open[:0], p.fullNodes[:0]
	for _, nodes := range s.byType {
		p.open, p.fullNodes = append(p.open, slices.Clone(nodes)), append(p.fullNodes, 0)
	}
	p.grants = p.grants[:0]
	for range s.admitted {
		p.grants = append(p.grants, Grant{})
	}
}

// result is what was placed, in the order of admission.
func (p *packing) result() []Grant {
	return slices.DeleteFunc(p.grants, func(g Grant) bool { return len(g.Parts) == 0 })
}

// sizeOn says what each GPU of a request is to get on a node.
type sizeOn func(request, node int) point

// demanded is the demand, or the share when the demand is not known.
func (p *packing) demanded(i, node int) point {
	if r := &p.admitted[i]; r.known {
		return r.want
	}
	return share(&p.nodes[node])
}

// least is what no job gets less than: the smaller of its demand and its share.
func (p *packing) least(i, node int) point { return p.demanded(i, node).min(share(&p.nodes[node])) }

// gpusThatFit returns how many GPUs, at most n, fit on a node with that size each.
func (p *packing) gpusThatFit(node int, size point, n int) int {
	l := &p.left[node]
	n = min(n, l.GPUs)
	if n == 0 {
		return 0
	}
	if p.set.Reserve {
		return p.gpusThatFitBeside(node, size, n)
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

// gpusThatFitBeside is gpusThatFit where the GPUs that stay free keep their share.
// Where other jobs already have some of that, a job may still have its least.
func (p *packing) gpusThatFitBeside(node int, size point, n int) int {
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

// bestFit takes the node with the least left on which all fits, by GPUs, then by
// the larger part of CPUs or memory; without one, the fewest nodes.
func (p *packing) bestFit(i int, size sizeOn) []Part {
	r := &p.admitted[i]
	best, least := -1, 0.0
	for _, node := range p.open[r.typ] {
		l, total := &p.left[node], &p.nodes[node].Total
		if l.GPUs < r.gpus || best >= 0 && l.GPUs > p.left[best].GPUs {
			continue
		}
		rest := max(l.CPUs*total.MemMB, l.MemMB*total.CPUs) / (total.CPUs * total.MemMB)
		if (best < 0 || l.GPUs < p.left[best].GPUs || rest < least) && p.gpusThatFit(node, size(i, node), r.gpus) == r.gpus {
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
func (p *packing) split(i int, size sizeOn) []Part {
	r := &p.admitted[i]
	type room struct{ node, gpus int }
	var rooms []room
	for _, node := range p.open[r.typ] {
		if n := p.gpusThatFit(node, size(i, node), r.gpus); n > 0 {
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

// place gives a request its parts; without parts it returns false.
func (p *packing) grantParts(i int, parts []Part) bool {
	if parts == nil {
		return false
	}
	r := &p.admitted[i]
	p.grants[i] = Grant{Job: r.job, Type: r.typ, Parts: slices.Clone(parts)}
	for _, q := range parts {
		p.on[q.Node] = append(p.on[q.Node], i)
	}
	p.occupy(i, 1)
	for _, q := range parts {
		if p.left[q.Node].GPUs == 0 {
			p.fullNodes[r.typ]++
		}
	}
	if open := p.open[r.typ]; p.fullNodes[r.typ] > len(open)/2 {
		p.open[r.typ], p.fullNodes[r.typ] = slices.DeleteFunc(open, func(node int) bool { return p.left[node].GPUs == 0 }), 0
	}
	p.grants[i].Speed = p.speed(i)
	return true
}

// occupy takes a grant's parts from what is left of the nodes; sign -1 gives them back.
func (p *packing) occupy(i, sign int) {
	for _, q := range p.grants[i].Parts {
		l := &p.left[q.Node]
		l.GPUs -= sign * q.GPUs
		l.CPUs -= float64(sign) * q.CPUs
		l.MemMB -= float64(sign) * q.MemMB
	}
}

// resize gives a placed request other CPUs and memory on the same GPUs.
func (p *packing) resize(i int, size sizeOn) {
	p.occupy(i, -1)
	g := &p.grants[i]
	for k, q := range g.Parts {
		g.Parts[k] = part(q.Node, q.GPUs, size(i, q.Node))
	}
	p.occupy(i, 1)
	g.Speed = p.speed(i)
}

func perGPU(q *Part) point {
	g := float64(q.GPUs)
	return point{q.CPUs / g, q.MemMB / g}
}

// speed is that of the slowest part.
func (p *packing) speed(i int) float64 {
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
func (p *packing) total() (speed float64, placed int) {
	for i := range p.grants {
		if len(p.grants[i].Parts) > 0 {
			speed += p.grants[i].Speed
			placed++
		}
	}
	return speed, placed
}

// bySize sorts requests by GPUs, CPUs and memory, the most first.
func (s *Packer) bySize() []int {
	order := s.inOrder()
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &s.admitted[a], &s.admitted[b]
		g, h := float64(x.gpus), float64(y.gpus)
		return cmp.Or(y.gpus-x.gpus, cmp.Compare(y.want.cpus*h, x.want.cpus*g), cmp.Compare(y.want.mem*h, x.want.mem*g))
	})
	return order
}

func (s *Packer) inOrder() []int {
	order := make([]int, len(s.admitted))
	for i := range order {
		order[i] = i
	}
	return order
}
