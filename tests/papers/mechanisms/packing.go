package mechanisms

import (
	"math"
	"slices"

	"slurmprio/priod/size"
)

// point is what each GPU of a job gets of CPUs and memory.
type point struct{ cpus, mem float64 }

func (p point) min(q point) point { return point{min(p.cpus, q.cpus), min(p.mem, q.mem)} }
func (p point) max(q point) point { return point{max(p.cpus, q.cpus), max(p.mem, q.mem)} }

// exceeds says whether p is above q in some component.
func (p point) exceeds(q point) bool { return p.cpus > q.cpus*rounding || p.mem > q.mem*rounding }

// rounding forgives what floating point does to sums of shares.
const rounding = 1 + 1e-9

// packing is one way to place the admitted jobs.
type packing struct {
	admitted []Request
	nodes    []size.Node
	left     []size.Amount
	grants   []size.Grant // by request; without parts: not placed
	on       [][]int      // requests, by node
}

func newPacking(admitted []Request, nodes []size.Node) *packing {
	p := &packing{admitted: admitted, nodes: nodes, grants: make([]size.Grant, len(admitted)), on: make([][]int, len(nodes))}
	for i := range nodes {
		p.left = append(p.left, nodes[i].Free)
	}
	return p
}

// result is what was placed, in the order of admission.
func (p *packing) result() []size.Grant {
	return slices.DeleteFunc(p.grants, func(g size.Grant) bool { return len(g.Parts) == 0 })
}

// sizeOn says what each GPU of a request is to get on a node.
type sizeOn func(request, node int) point

// share is the proportional share.
func (p *packing) share(_, node int) point {
	n := &p.nodes[node].Total
	return point{n.CPUs / float64(n.GPUs), n.MemMB / float64(n.GPUs)}
}

// demanded is the demand, or the share when the demand is not known.
func (p *packing) demanded(i, node int) point {
	if r := &p.admitted[i]; r.Known {
		return r.want()
	}
	return p.share(i, node)
}

// least is what no job gets less than: the smaller of its demand and its share.
func (p *packing) least(i, node int) point { return p.demanded(i, node).min(p.share(i, node)) }

// open yields the nodes of a request's type with free GPUs.
func (p *packing) open(i int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for node := range p.nodes {
			if p.nodes[node].Type == p.admitted[i].Type && p.left[node].GPUs > 0 && !yield(node) {
				return
			}
		}
	}
}

// gpusThatFit returns how many GPUs, at most n, fit on a node with that size each.
func (p *packing) gpusThatFit(node int, at point, n int) int {
	l := &p.left[node]
	return min(n, l.GPUs, times(l.CPUs, at.cpus), times(l.MemMB, at.mem))
}

// times is how often a part goes into a whole.
func times(whole, part float64) int {
	if part <= 0 {
		return math.MaxInt32
	}
	return int(min(max(whole*rounding, 0)/part, math.MaxInt32))
}

func part(node, gpus int, at point) size.Part {
	return size.Part{Node: node, Amount: size.Amount{GPUs: gpus, CPUs: at.cpus * float64(gpus), MemMB: at.mem * float64(gpus)}}
}

// firstFit takes GPUs node by node, as many as fit on each. nil: not all fit.
func (p *packing) firstFit(i int, at sizeOn) (parts []size.Part) {
	need := p.admitted[i].GPUs
	for node := range p.open(i) {
		if n := p.gpusThatFit(node, at(i, node), need); n > 0 {
			parts = append(parts, part(node, n, at(i, node)))
			if need -= n; need == 0 {
				return parts
			}
		}
	}
	return nil
}

// bestFit takes the node with the least left on which all fits, by GPUs, then by
// the larger part of CPUs or memory; without one, the nodes with the most room first.
func (p *packing) bestFit(i int, at sizeOn) []size.Part {
	r := &p.admitted[i]
	best, least := -1, 0.0
	type room struct{ node, gpus int }
	var rooms []room
	for node := range p.open(i) {
		l, total := &p.left[node], &p.nodes[node].Total
		n := p.gpusThatFit(node, at(i, node), r.GPUs)
		if n > 0 {
			rooms = append(rooms, room{node, n})
		}
		rest := max(l.CPUs*total.MemMB, l.MemMB*total.CPUs) / (total.CPUs * total.MemMB)
		if n == r.GPUs && (best < 0 || l.GPUs < p.left[best].GPUs || l.GPUs == p.left[best].GPUs && rest < least) {
			best, least = node, rest
		}
	}
	if best >= 0 {
		return []size.Part{part(best, r.GPUs, at(i, best))}
	}
	slices.SortStableFunc(rooms, func(a, b room) int { return b.gpus - a.gpus })
	var parts []size.Part
	need := r.GPUs
	for _, o := range rooms {
		n := min(need, o.gpus)
		parts = append(parts, part(o.node, n, at(i, o.node)))
		if need -= n; need == 0 {
			return parts
		}
	}
	return nil
}

// place gives a request its parts; without parts it returns false.
func (p *packing) place(i int, parts []size.Part) bool {
	if parts == nil {
		return false
	}
	p.grants[i] = size.Grant{Job: p.admitted[i].Job, Type: p.admitted[i].Type, Parts: parts}
	for _, q := range parts {
		p.on[q.Node] = append(p.on[q.Node], i)
	}
	p.occupy(i, 1)
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
func (p *packing) resize(i int, at sizeOn) {
	p.occupy(i, -1)
	g := &p.grants[i]
	for k, q := range g.Parts {
		g.Parts[k] = part(q.Node, q.GPUs, at(i, q.Node))
	}
	p.occupy(i, 1)
	g.Speed = p.speed(i)
}

func perGPU(q *size.Part) point {
	return point{q.CPUs / float64(q.GPUs), q.MemMB / float64(q.GPUs)}
}

// speed is that of the slowest part.
func (p *packing) speed(i int) float64 {
	curve := p.admitted[i].Curve
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
