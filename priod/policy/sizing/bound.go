package sizing

import "math"

// Bound is above what any mechanism that gives nobody less than its least can
// reach in total relative speed with the jobs that it admits: what Synergy's
// OPT maximises, each GPU type seen as one large node (OSDI'22, section 4.3),
// with the capacities priced instead of kept (Lagrange). The nodes must be free.
func Bound(jobs []Job, nodes []Node) float64 {
	s := New(Settings{})
	s.reset(jobs, nodes)
	s.admit()
	bound := 0.0
	for t := range s.byType {
		bound += s.boundOf(t)
	}
	return bound
}

func (s *Sizer) boundOf(t int) float64 {
	var capacity point
	fairest := point{math.Inf(1), math.Inf(1)} // no node's share is less
	for _, node := range s.byType[t] {
		capacity.cpus += s.nodes[node].Total.CPUs
		capacity.mem += s.nodes[node].Total.MemMB
		fairest = fairest.min(share(&s.nodes[node]))
	}
	var requests []int
	for i := range s.admitted {
		if s.admitted[i].typ == t {
			requests = append(requests, i)
		}
	}
	if len(requests) == 0 {
		return 0
	}
	// At any prices the dual is a bound: each job takes what is worth most to it.
	dual := func(price point) float64 {
		sum := price.cpus + price.mem
		for _, i := range requests {
			sum += s.worth(&s.admitted[i], price, capacity, fairest)
		}
		return sum
	}
	most := 0.0 // at which nothing is worth its price
	for _, i := range requests {
		most += s.worth(&s.admitted[i], point{}, capacity, fairest)
	}
	return lowest(most, func(cpus float64) float64 {
		return lowest(most, func(mem float64) float64 { return dual(point{cpus, mem}) })
	})
}

// worth is the best speed of a job less the price of its part of the capacity.
func (s *Sizer) worth(r *request, price, capacity, fairest point) float64 {
	cost := func(at point) float64 {
		g := float64(r.gpus)
		return price.cpus*ratio(at.cpus*g, capacity.cpus) + price.mem*ratio(at.mem*g, capacity.mem)
	}
	if !r.known {
		return 1 - cost(fairest)
	}
	least := r.want.min(fairest)
	best := r.curve.Relative(least.cpus, least.mem) - cost(least)
	// Linear between measured points, the best size is one of their corners.
	for _, c := range axis(r.curve.CPUs, least.cpus, r.want.cpus) {
		for _, m := range axis(r.curve.MemMB, least.mem, r.want.mem) {
			best = max(best, r.curve.Relative(c, m)-cost(point{c, m}))
		}
	}
	return best
}

// axis is the measured points between two others, and these.
func axis[T int64 | float64](points []T, from, to float64) []float64 {
	all := []float64{from, to}
	for _, p := range points {
		if v := float64(p); v > from && v < to {
			all = append(all, v)
		}
	}
	return all
}

// lowest is about the least of a convex function between 0 and most, never less.
func lowest(most float64, f func(float64) float64) float64 {
	low, high := 0.0, most
	best := f(0)
	for range 24 {
		a, b := low+(high-low)/3, high-(high-low)/3
		x, y := f(a), f(b)
		best = min(best, x, y)
		if x < y {
			high = b
		} else {
			low = a
		}
	}
	return best
}
