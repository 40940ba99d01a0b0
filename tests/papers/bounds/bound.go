// Package bounds is what no mechanism of sizing can exceed: Synergy's OPT and a
// bound of it. Nothing can run what they grant.
package bounds

import (
	"math"

	"slurmprio/priod/size"
	"slurmprio/priod/workload"
	"slurmprio/tests/papers/mechanisms"
)

// Bound is above what any mechanism that gives nobody less than its least can
// reach in total relative speed with the jobs that it admits: what Synergy's
// OPT maximises, each GPU type seen as one large node (OSDI'22, section 4.3),
// with the capacities priced instead of kept (Lagrange). The nodes must be free.
func Bound(jobs []size.Job, nodes []size.Node) float64 {
	byType, requests := byType(nodes), admitted(jobs, nodes)
	bound := 0.0
	for t := range byType {
		bound += boundOf(t, nodes, byType[t], requests)
	}
	return bound
}

// byType lists the nodes of each type.
func byType(nodes []size.Node) (all [][]int) {
	for i := range nodes {
		for len(all) <= nodes[i].Type {
			all = append(all, nil)
		}
		all[nodes[i].Type] = append(all[nodes[i].Type], i)
	}
	return all
}

// request is a job that any mechanism admits.
type request struct {
	job, gpus, typ int
	curve          *workload.Curve
	want           point
	known          bool
}

func admitted(jobs []size.Job, nodes []size.Node) (all []request) {
	for _, r := range mechanisms.Admitted(jobs, nodes) {
		all = append(all, request{r.Job, r.GPUs, r.Type, r.Curve, point{r.CPUs, r.MemMB}, r.Known})
	}
	return all
}

// point is what each GPU of a job gets.
type point struct{ cpus, mem float64 }

func (p point) min(q point) point { return point{min(p.cpus, q.cpus), min(p.mem, q.mem)} }

// share is a GPU's part of a node.
func share(node size.Amount) point {
	gpus := float64(node.GPUs)
	return point{node.CPUs / gpus, node.MemMB / gpus}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// rounding forgives what floating point does to sums of shares.
const rounding = 1 + 1e-9

func boundOf(t int, nodes []size.Node, on []int, admitted []request) float64 {
	var capacity point
	fairest := point{math.Inf(1), math.Inf(1)} // no node's share is less
	for _, node := range on {
		capacity.cpus += nodes[node].Total.CPUs
		capacity.mem += nodes[node].Total.MemMB
		fairest = fairest.min(share(nodes[node].Total))
	}
	var requests []*request
	for i := range admitted {
		if admitted[i].typ == t {
			requests = append(requests, &admitted[i])
		}
	}
	if len(requests) == 0 {
		return 0
	}
	// At any prices the dual is a bound: each job takes what is worth most to it.
	dual := func(price point) float64 {
		sum := price.cpus + price.mem
		for _, r := range requests {
			sum += r.worth(price, capacity, fairest)
		}
		return sum
	}
	most := 0.0 // at which nothing is worth its price
	for _, r := range requests {
		most += r.worth(point{}, capacity, fairest)
	}
	return lowest(most, func(cpus float64) float64 {
		return lowest(most, func(mem float64) float64 { return dual(point{cpus, mem}) })
	})
}

// worth is the best speed of a job less the price of its part of the capacity.
func (r *request) worth(price, capacity, fairest point) float64 {
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
