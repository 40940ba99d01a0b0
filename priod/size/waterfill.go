package size

import (
	"cmp"
	"slices"
)

// waterfill improves on TUNE, whose cut jobs never grow again, in three ways:
//
//   - What TUNE left idle on a node goes to the jobs there by the best gain in
//     speed for what is used.
//   - Where that is faster, a node's jobs all start from their least instead:
//     demoting in steps, the cheapest loss first, seen from the other end.
//   - Where that is faster, jobs are spread so that every node has something to
//     give: those that need little evenly, then those that gain the most where
//     the most is spare.
//
// It is never slower in total than TUNE with best fit, whose packing tuned is.
func (s *Packer) waterfill(tuned *packing) *packing {
	for node := range s.nodes {
		tuned.fillBest(node)
	}
	spread := &s.plans[1]
	spread.reset(s)
	spread.spread()
	for node := range s.nodes {
		spread.fill(node)
	}
	a, placed := tuned.total()
	if b, n := spread.total(); n > placed || n == placed && b > a*rounding {
		return spread
	}
	return tuned
}

// fillBest fills a node up from what its jobs have, or from their least,
// whichever makes them faster. A job on several nodes stays as it is: its
// slowest part sets its pace.
func (p *packing) fillBest(node int) {
	p.fill(node)
	grown := p.sizes[:0]
	faster := 0.0 // how much faster the jobs are from their least than from what they had
	for _, i := range p.on[node] {
		if p.onOneNode(i) {
			g := &p.grants[i]
			grown = append(grown, sized{g.Parts[0], g.Speed})
			faster -= g.Speed
			p.resize(i, p.least)
		}
	}
	p.sizes = grown
	p.fill(node)
	for _, i := range p.on[node] {
		if p.onOneNode(i) {
			faster += p.grants[i].Speed
		}
	}
	if faster > 0 {
		return
	}
	for _, i := range p.on[node] {
		if p.onOneNode(i) {
			p.occupy(i, -1)
			p.grants[i].Parts[0], p.grants[i].Speed = grown[0].Part, grown[0].speed
			p.occupy(i, 1)
			grown = grown[1:]
		}
	}
}

// sized is what a request on one node had.
type sized struct {
	Part
	speed float64
}

// onOneNode reports whether all of a request is on one node.
func (p *packing) onOneNode(i int) bool { return len(p.grants[i].Parts) == 1 }

// fill hands out what is idle on a node.
func (p *packing) fill(node int) {
	total := &p.nodes[node].Total
	for {
		best, to, worth := -1, point{}, 0.0
		idle := p.idle(node)
		for _, i := range p.on[node] {
			r, g := &p.admitted[i], &p.grants[i]
			if !r.known || !p.onOneNode(i) {
				continue
			}
			has, gpus := perGPU(&g.Parts[0]), float64(r.gpus)
			for _, l := range p.levelsOf(r) {
				at, speed := l.point.max(has), l.speed
				if l.speed <= g.Speed*rounding {
					continue
				}
				if at != l.point {
					speed = r.curve.Relative(at.cpus, at.mem)
				}
				more := point{(at.cpus - has.cpus) * gpus, (at.mem - has.mem) * gpus}
				if speed <= g.Speed*rounding || more.exceeds(idle) {
					continue
				}
				if v := (speed - g.Speed) / (ratio(more.cpus, total.CPUs) + ratio(more.mem, total.MemMB)); v > worth*rounding {
					best, to, worth = i, at, v
				}
			}
		}
		if best < 0 {
			return
		}
		p.resize(best, func(int, int) point { return to })
	}
}

// idle is what may be handed out on a node.
func (p *packing) idle(node int) point {
	l := &p.left[node]
	idle := point{l.CPUs, l.MemMB}
	if p.set.Reserve {
		fair, gpus := share(&p.nodes[node]), float64(l.GPUs)
		idle = point{idle.cpus - fair.cpus*gpus, idle.mem - fair.mem*gpus}
	}
	return idle.max(point{})
}

// level is a size that some job can use, and its relative speed there.
type level struct {
	point
	speed float64
}

// levelsOf are the measured points of a curve up to the demand, and the demand,
// without those that are no faster than one which needs no more.
func (s *Packer) levelsOf(r *request) []level {
	key := demand{r.curve, r.want}
	if all, ok := s.levels[key]; ok {
		return all
	}
	cpus, mem := []float64{r.want.cpus}, []float64{r.want.mem}
	for _, c := range r.curve.CPUs {
		if c < r.want.cpus {
			cpus = append(cpus, c)
		}
	}
	for _, m := range r.curve.MemMB {
		if float64(m) < r.want.mem {
			mem = append(mem, float64(m))
		}
	}
	var all []level
	for _, c := range cpus {
		for _, m := range mem {
			all = append(all, level{point{c, m}, r.curve.Relative(c, m)})
		}
	}
	slices.SortFunc(all, func(a, b level) int {
		return cmp.Or(cmp.Compare(a.cpus, b.cpus), cmp.Compare(a.mem, b.mem))
	})
	useful := all[:0]
	for _, l := range all {
		if !slices.ContainsFunc(useful, func(u level) bool { return u.mem <= l.mem && u.speed >= l.speed }) {
			useful = append(useful, l)
		}
	}
	s.levels[key] = useful
	return useful
}

// spread places every request at its least: gangs first; then those that leave
// some of their share, where the least is spare; then the others by their gain,
// where the most is spare.
func (p *packing) spread() {
	pressure := make([]float64, len(p.admitted)) // demand above the share of a typical node
	density := make([]float64, len(p.admitted))  // gain in speed for that
	for i := range p.admitted {
		r := &p.admitted[i]
		if !r.known {
			continue
		}
		most := &p.largest[r.typ]
		fair := share(&Node{Total: *most})
		more := point{(r.want.cpus - fair.cpus) * float64(r.gpus), (r.want.mem - fair.mem) * float64(r.gpus)}
		pressure[i] = ratio(more.cpus, most.CPUs) + ratio(more.mem, most.MemMB)
		if pressure[i] > 0 {
			least := r.want.min(fair)
			density[i] = (r.curve.Relative(r.want.cpus, r.want.mem) - r.curve.Relative(least.cpus, least.mem)) / pressure[i]
		}
	}
	order := p.inOrder()
	slices.SortStableFunc(order, func(a, b int) int {
		if (pressure[a] > 0) != (pressure[b] > 0) && p.admitted[a].gpus == p.admitted[b].gpus {
			return cmp.Compare(pressure[a], pressure[b])
		}
		return cmp.Or(p.admitted[b].gpus-p.admitted[a].gpus, cmp.Compare(density[b], density[a]), cmp.Compare(pressure[a], pressure[b]))
	})
	spare := make([]float64, len(p.nodes))
	for node := range p.nodes {
		n, l := &p.nodes[node], &p.left[node]
		fair := share(n)
		spare[node] = ratio(l.CPUs-fair.cpus*float64(l.GPUs), n.Total.CPUs) + ratio(l.MemMB-fair.mem*float64(l.GPUs), n.Total.MemMB)
	}
	for _, i := range order {
		r := &p.admitted[i]
		most := pressure[i] > 0
		best := -1
		for _, node := range p.open[r.typ] {
			if p.left[node].GPUs < r.gpus {
				continue
			}
			if best >= 0 && (most && spare[node] <= spare[best] || !most && spare[node] >= spare[best]) {
				continue
			}
			if p.gpusThatFit(node, p.least(i, node), r.gpus) == r.gpus {
				best = node
			}
		}
		if best >= 0 {
			p.parts = append(p.parts[:0], part(best, r.gpus, p.least(i, best)))
			p.grantParts(i, p.parts)
			spare[best] -= pressure[i]
		} else {
			p.grantParts(i, p.split(i, p.least))
		}
	}
}
