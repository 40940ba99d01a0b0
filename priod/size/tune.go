package size

import (
	"cmp"
	"slices"
)

// tuneBestFit is Synergy-TUNE as the paper describes it: the largest jobs first,
// on the node with the least left that has room.
func (p *packing) tuneBestFit() {
	// A search that failed fails again until something is cut.
	type search struct {
		typ, gpus int
		want      point
		known     bool
	}
	failed := map[search]bool{}
	for _, i := range p.bySize() {
		r := &p.admitted[i]
		s := search{r.typ, r.gpus, r.want, r.known}
		if !failed[s] && p.grantParts(i, p.bestFit(i, p.demanded)) {
			continue
		}
		failed[s] = true
		if p.grantParts(i, p.bestFit(i, p.least)) {
			continue
		}
		clear(failed)
		for _, n := range p.roomiest(i) {
			p.shrink(n, p.shortage(i, n))
		}
		if !p.grantParts(i, p.bestFit(i, p.least)) {
			p.placeByShrinking(i)
		}
	}
}

// placeByShrinking places a request wherever smaller sizes of placed jobs make room. It
// fails only where jobs that are not sized here hold too much.
func (p *packing) placeByShrinking(i int) {
	r := &p.admitted[i]
	for _, node := range p.open[r.typ] {
		if n := min(p.left[node].GPUs, r.gpus); n > 0 {
			at := gpusOn{node, n}
			p.shrink(at, p.shortage(i, at))
		}
	}
	p.grantParts(i, p.bestFit(i, p.least))
}

// gpusOn is a number of GPUs on a node.
type gpusOn struct{ node, gpus int }

// roomiest chooses nodes by their free GPUs alone: for a gang the first that
// holds it whole, else those with the fewest free first.
func (p *packing) roomiest(i int) []gpusOn {
	r := &p.admitted[i]
	if r.gpus == 1 {
		least := gpusOn{-1, 1}
		for _, node := range p.open[r.typ] {
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
	for _, node := range p.open[r.typ] {
		switch n := p.left[node].GPUs; {
		case n >= r.gpus:
			return []gpusOn{{node, r.gpus}}
		case n > 0:
			all = append(all, gpusOn{node, n})
		}
	}
	slices.SortStableFunc(all, func(a, b gpusOn) int { return a.gpus - b.gpus })
	need := r.gpus
	for k := range all {
		all[k].gpus = min(all[k].gpus, need)
		if need -= all[k].gpus; need == 0 {
			return all[:k+1]
		}
	}
	return all
}

// shortage is what a node lacks for those GPUs of a request at its least.
func (p *packing) shortage(i int, at gpusOn) point {
	s, l, n := p.least(i, at.node), &p.left[at.node], float64(at.gpus)
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
	return slices.ContainsFunc(p.grants[i].Parts, func(q Part) bool { return perGPU(&q).exceeds(p.least(i, q.Node)) })
}

// shrink gives placed requests on a node their least until the shortage is covered:
// those on one node first, those with the most CPUs for each GPU first, then the most
// memory.
func (p *packing) shrink(at gpusOn, short point) {
	here := p.on[at.node]
	slices.SortStableFunc(here, func(a, b int) int {
		x, y := p.perGPUOf(a), p.perGPUOf(b)
		return cmp.Or(len(p.grants[a].Parts)-len(p.grants[b].Parts), cmp.Compare(y.cpus, x.cpus), cmp.Compare(y.mem, x.mem))
	})
	for _, i := range here {
		if short == (point{}) {
			return
		}
		if !p.above(i) {
			continue
		}
		before := p.left[at.node]
		p.resize(i, p.least)
		after := p.left[at.node]
		gained := point{after.CPUs - before.CPUs, after.MemMB - before.MemMB}.max(point{})
		short = point{missing(short.cpus, gained.cpus), missing(short.mem, gained.mem)}
	}
}

// perGPUOf is what each GPU of a placed request has.
func (p *packing) perGPUOf(i int) point {
	var sum Part
	for _, q := range p.grants[i].Parts {
		sum.GPUs += q.GPUs
		sum.CPUs += q.CPUs
		sum.MemMB += q.MemMB
	}
	return perGPU(&sum)
}
