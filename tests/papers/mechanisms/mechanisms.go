// Package mechanisms is how Synergy (OSDI 2022, section 4) and its authors' simulator hand out CPUs and memory, where each
// job may be resized at any time. From every mechanism but Greedy a job gets at least the smaller of its proportional share,
// which is a node's total in proportion to its GPUs, and its demand, beyond which it gets no faster. Greedy passes a job
// over whose demand does not fit. What priod runs is package size.
//
// mechanisms.go has the list and which jobs are admitted, packing.go one way to place them, tune.go Synergy-TUNE as its
// authors' simulator has it.
package mechanisms

import (
	"fmt"
	"slices"

	"slurmprio/priod/size"
	"slurmprio/priod/workload"
)

// Names of the mechanisms.
var Names = []string{"waterfill", "tune-best-fit", "tune", "greedy", "proportional"}

// Pack returns what a mechanism grants to the jobs, which stand in the order of the queue, in the order of admission.
type Pack func(jobs []size.Job, nodes []size.Node) []size.Grant

// ByName is one of Names.
func ByName(name string) (Pack, error) {
	switch name {
	case "waterfill":
		return size.NewPacker(size.Rule{}).Pack, nil
	case "tune-best-fit":
		return size.NewPacker(size.Rule{Tuned: true}).Pack, nil
	case "tune":
		return tuned, nil
	case "greedy":
		return greedy, nil
	case "proportional":
		return proportional, nil
	}
	return nil, fmt.Errorf("sizing %q: want one of %v", name, Names)
}

// Request is a job that a mechanism admits, with what each of its GPUs can use.
type Request struct {
	Job, GPUs, Type int
	Curve           *workload.Curve
	CPUs, MemMB     float64
	Known           bool // that it can use that; else it gets its share
}

func (r *Request) want() point { return point{r.CPUs, r.MemMB} }

// Admitted returns the jobs that any mechanism but Greedy runs: each on the GPU type on which it is fastest among those
// with enough free GPUs.
func Admitted(jobs []size.Job, nodes []size.Node) (all []Request) {
	c := count(nodes)
	for i := range jobs {
		if t := c.fastest(&jobs[i]); t >= 0 {
			c.free[t] -= jobs[i].GPUs
			all = append(all, c.request(jobs, i, t))
		}
	}
	return all
}

// counted is what nodes have, by type.
type counted struct {
	free    []int // GPUs
	largest []size.Amount
}

func count(nodes []size.Node) *counted {
	c := &counted{}
	for i := range nodes {
		n := &nodes[i]
		for len(c.free) <= n.Type {
			c.free, c.largest = append(c.free, 0), append(c.largest, size.Amount{})
		}
		c.free[n.Type] += n.Free.GPUs
		l := &c.largest[n.Type]
		l.GPUs, l.CPUs, l.MemMB = max(l.GPUs, n.Total.GPUs), max(l.CPUs, n.Total.CPUs), max(l.MemMB, n.Total.MemMB)
	}
	return c
}

// fastest is the type on which a job is fastest among those with enough free GPUs, -1 when there is none.
func (c *counted) fastest(j *size.Job) int {
	best := -1
	for t := range min(len(c.free), len(j.On)) {
		if c.free[t] >= j.GPUs && j.On[t].Speed > 0 && (best < 0 || j.On[t].Speed > j.On[best].Speed) {
			best = t
		}
	}
	return best
}

func (c *counted) request(jobs []size.Job, i, t int) Request {
	r := Request{Job: i, GPUs: jobs[i].GPUs, Type: t, Curve: jobs[i].On[t].Curve}
	if l := c.largest[t]; r.Curve == nil {
		r.CPUs, r.MemMB = l.CPUs/float64(l.GPUs), l.MemMB/float64(l.GPUs)
	} else {
		r.CPUs, r.MemMB = size.Usable(r.Curve, r.GPUs, l)
		r.Known = true
	}
	return r
}

// Best is the relative speed of a job when its demand is met on a node.
func Best(c *workload.Curve, gpus int, node size.Amount) float64 {
	return c.Relative(size.Usable(c, gpus, node))
}

// proportional grants each job its share, on the first GPUs that are free: the baseline.
func proportional(jobs []size.Job, nodes []size.Node) []size.Grant {
	p := newPacking(Admitted(jobs, nodes), nodes)
	for i := range p.admitted {
		p.place(i, p.firstFit(i, p.share))
	}
	return p.result()
}

// greedy gives each job its demand or nothing.
func greedy(jobs []size.Job, nodes []size.Node) []size.Grant {
	c, p := count(nodes), newPacking(nil, nodes)
	for i := range jobs {
		t := c.fastest(&jobs[i])
		if t < 0 {
			continue
		}
		p.admitted, p.grants = append(p.admitted, c.request(jobs, i, t)), append(p.grants, size.Grant{})
		at := len(p.admitted) - 1
		if p.place(at, p.firstFit(at, p.demanded)) {
			c.free[t] -= jobs[i].GPUs
			continue
		}
		p.admitted, p.grants = slices.Delete(p.admitted, at, at+1), p.grants[:at]
	}
	return p.result()
}
