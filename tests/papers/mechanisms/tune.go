package mechanisms

import (
	"cmp"
	"slices"

	"slurmprio/priod/size"
)

// tuned is Synergy-TUNE as its authors' simulator has it
// (resources/cluster.py, _tune): in the policy's order, on the first GPUs whose
// nodes have room.
func tuned(jobs []size.Job, nodes []size.Node) []size.Grant {
	p := newPacking(Admitted(jobs, nodes), nodes)
	for i := range p.admitted {
		if p.place(i, p.firstFit(i, p.demanded)) || p.place(i, p.firstFit(i, p.published)) {
			continue
		}
		for _, n := range p.roomiest(i) {
			p.shrink(n, p.shortage(i, n, p.published), p.published, func(int) bool { return true })
		}
		if !p.place(i, p.firstFit(i, p.published)) {
			p.placeByShrinking(i) // the released code stops here
		}
	}
	return p.result()
}

// published is what TUNE falls back to in its authors' simulator: the whole share when
// some component of the demand is above it, else the demand.
func (p *packing) published(i, node int) point {
	want, fair := p.demanded(i, node), p.share(i, node)
	if want.exceeds(fair) {
		return fair
	}
	return want
}

// placeByShrinking places a request wherever smaller sizes of placed jobs make room. It
// fails only where jobs that are not sized here hold too much.
func (p *packing) placeByShrinking(i int) {
	r := &p.admitted[i]
	for node := range p.open(i) {
		if n := min(p.left[node].GPUs, r.GPUs); n > 0 {
			at := gpusOn{node, n}
			p.shrink(at, p.shortage(i, at, p.least), p.least, p.above)
		}
	}
	p.place(i, p.bestFit(i, p.least))
}

// gpusOn is a number of GPUs on a node.
type gpusOn struct{ node, gpus int }

// roomiest chooses nodes by their free GPUs alone: for a gang the first that
// holds it whole, else those with the fewest free first.
func (p *packing) roomiest(i int) []gpusOn {
	r := &p.admitted[i]
	if r.GPUs == 1 {
		least := gpusOn{-1, 1}
		for node := range p.open(i) {
			if n := p.left[node].GPUs; n > 0 && (least.node < 0 || n < p.left[least.node].GPUs) {
				least.node = node
			}
		}
		if least.node < 0 {
			return nil
		}
		return []gpusOn{least}
	}
	var all []gpusOn
	for node := range p.open(i) {
		switch n := p.left[node].GPUs; {
		case n >= r.GPUs:
			return []gpusOn{{node, r.GPUs}}
		case n > 0:
			all = append(all, gpusOn{node, n})
		}
	}
	slices.SortStableFunc(all, func(a, b gpusOn) int { return a.gpus - b.gpus })
	need := r.GPUs
	for k := range all {
		all[k].gpus = min(all[k].gpus, need)
		if need -= all[k].gpus; need == 0 {
			return all[:k+1]
		}
	}
	return all
}

// shortage is what a node lacks for those GPUs of a request.
func (p *packing) shortage(i int, at gpusOn, of sizeOn) point {
	s, l, n := of(i, at.node), &p.left[at.node], float64(at.gpus)
	return point{missing(s.cpus*n, l.CPUs), missing(s.mem*n, l.MemMB)}
}

func missing(need, have float64) float64 {
	if need <= have*rounding {
		return 0
	}
	return need - have
}

// above says whether a request has more than its least somewhere.
func (p *packing) above(i int) bool {
	return slices.ContainsFunc(p.grants[i].Parts, func(q size.Part) bool { return perGPU(&q).exceeds(p.least(i, q.Node)) })
}

// shrink gives placed requests on a node a smaller size until the shortage is covered:
// those on one node first, those with the most CPUs for each GPU first, then the most
// memory.
func (p *packing) shrink(at gpusOn, short point, of sizeOn, may func(int) bool) {
	here := p.on[at.node]
	slices.SortStableFunc(here, func(a, b int) int {
		x, y := p.perGPUOf(a), p.perGPUOf(b)
		return cmp.Or(len(p.grants[a].Parts)-len(p.grants[b].Parts), cmp.Compare(y.cpus, x.cpus), cmp.Compare(y.mem, x.mem))
	})
	for _, i := range here {
		if short == (point{}) {
			return
		}
		if !may(i) {
			continue
		}
		before := p.left[at.node]
		p.resize(i, of)
		if slices.ContainsFunc(p.grants[i].Parts, func(q size.Part) bool { return p.overfull(q.Node) }) {
			p.resize(i, p.least) // the whole share was more than it had; the released code stops here
		}
		after := p.left[at.node]
		gained := point{after.CPUs - before.CPUs, after.MemMB - before.MemMB}.max(point{})
		short = point{missing(short.cpus, gained.cpus), missing(short.mem, gained.mem)}
	}
}

// perGPUOf is what each GPU of a placed request has.
func (p *packing) perGPUOf(i int) point {
	var sum size.Part
	for _, q := range p.grants[i].Parts {
		sum.GPUs += q.GPUs
		sum.CPUs += q.CPUs
		sum.MemMB += q.MemMB
	}
	return perGPU(&sum)
}

// overfull says whether more was handed out than a node has, rounding aside.
func (p *packing) overfull(node int) bool {
	l, total := &p.left[node], &p.nodes[node].Total
	return l.CPUs < total.CPUs*(1-rounding) || l.MemMB < total.MemMB*(1-rounding)
}
