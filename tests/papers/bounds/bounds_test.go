package bounds_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/size"
	"slurmprio/tests/papers/bounds"
	"slurmprio/tests/sizes"
)

// A curve that begins beyond what a node has, or falls, or says two things: OPT
// has an answer for each job.
func TestCurvesNoNodeCanMeet(t *testing.T) {
	for name, c := range sizes.Unmeetable {
		jobs := []size.Job{sizes.Job(c, 1), sizes.Job(c, 1), sizes.Job(c, 2), sizes.Job(c, 4)}
		if all, err := bounds.Optimum(jobs, sizes.Servers(1)); err != nil || len(all) != len(jobs) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}

// Waterfill against what no mechanism can exceed.
func TestBound(t *testing.T) {
	curve := sizes.Curves(t)
	for _, seed := range []int{1, 3, 7, 9} {
		var jobs []size.Job
		for i := range 32 {
			jobs = append(jobs, sizes.Job(curve(sizes.Models[i*seed%10]), 1))
		}
		nodes := sizes.Servers(4)
		s := size.NewPacker(size.Rule{})
		sum := 0.0
		for _, g := range s.Pack(jobs, nodes) {
			sum += g.Speed
		}
		bound := bounds.Bound(jobs, nodes)
		if gap := 1 - sum/bound; gap < -1e-9 || gap > 0.06 {
			t.Errorf("seed %d: total %v, bound %v: gap %.1f %%", seed, sum, bound, 100*gap)
		} else {
			t.Logf("seed %d: total %.2f, bound %.2f: gap %.1f %%", seed, sum, bound, 100*gap)
		}
	}
}

func TestBoundHolds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := sizes.Draw(r, false)
		bound := bounds.Bound(s.Jobs, s.Nodes)
		for _, tuned := range []bool{false, true} {
			sum := 0.0
			for _, g := range size.NewPacker(size.Rule{Tuned: tuned}).Pack(s.Jobs, s.Nodes) {
				sum += g.Speed
			}
			if sum > bound*(1+sizes.Rounding) {
				r.Fatalf("tuned %v: total %v above the bound %v", tuned, sum, bound)
			}
		}
	})
}

// alike makes all nodes of a type like its first.
func alike(s sizes.Situation) sizes.Situation {
	first := map[int]size.Amount{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if _, more := first[n.Type]; !more {
			first[n.Type] = n.Total
		}
		n.Total, n.Free = first[n.Type], first[n.Type]
	}
	return s
}

// What OPT grants: no mechanism that runs the same jobs is faster, its bound is
// not slower, nobody is below its least, nodes hold what is on them, and no more
// than three jobs for each node are in pieces.
func TestOptimum(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := alike(sizes.Draw(r, false))
		all, err := bounds.Optimum(s.Jobs, s.Nodes)
		if err != nil {
			r.Fatal(err)
		}
		sum, used, pieces := 0.0, make([]point, len(s.Nodes)), 0
		for _, g := range all {
			j := &s.Jobs[g.Job]
			sum += g.Speed
			whole := 0.0
			for _, on := range g.On {
				if s.Nodes[on.Node].Type != g.Type || on.Part <= 0 {
					r.Fatalf("job %d: %+v", g.Job, g)
				}
				gpus := on.Part * float64(j.GPUs)
				whole += on.Part
				u := &used[on.Node]
				u.gpus, u.cpus, u.mem = u.gpus+gpus, u.cpus+gpus*g.CPUs, u.mem+gpus*g.MemMB
			}
			if whole < 1-sizes.Rounding || whole > 1+sizes.Rounding {
				r.Fatalf("job %d: %v of it is placed", g.Job, whole)
			}
			if len(g.On) > 1 {
				pieces++
			}
			if c := j.On[g.Type].Curve; c == nil && g.Speed != 1 || c != nil && g.Speed != c.Relative(g.CPUs, g.MemMB) {
				r.Fatalf("job %d: %+v", g.Job, g)
			}
		}
		for i, n := range s.Nodes {
			if u := used[i]; u.gpus > float64(n.Total.GPUs)*(1+sizes.Rounding) || u.cpus > n.Total.CPUs*(1+sizes.Rounding) || u.mem > n.Total.MemMB*(1+sizes.Rounding) {
				r.Fatalf("node %d has %+v, and gives %+v", i, n.Total, u)
			}
		}
		if pieces > 3*len(s.Nodes) {
			r.Fatalf("%d jobs in pieces on %d nodes", pieces, len(s.Nodes))
		}
		if bound := bounds.Bound(s.Jobs, s.Nodes); sum > bound*(1+sizes.Rounding) {
			r.Fatalf("OPT %v, its bound %v", sum, bound)
		}
		for _, tuned := range []bool{false, true} {
			total, grants := 0.0, size.NewPacker(size.Rule{Tuned: tuned}).Pack(s.Jobs, s.Nodes)
			for i, g := range grants {
				if g.Job != all[i].Job || g.Type != all[i].Type {
					r.Fatalf("tuned %v runs %+v, OPT %+v", tuned, g, all[i])
				}
				total += g.Speed
			}
			if total > sum+1e-3 || len(grants) != len(all) {
				r.Fatalf("tuned %v: %v, OPT %v", tuned, total, sum)
			}
		}
	})
}

type point struct{ gpus, cpus, mem float64 }

// On one node of whole CPUs OPT is the best of all ways to hand them out.
func TestOptimumIsOne(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		node := size.Amount{GPUs: 4, CPUs: float64(rapid.IntRange(4, 24).Draw(r, "cpus")), MemMB: 4e5}
		var jobs []size.Job
		for range rapid.IntRange(1, 4).Draw(r, "jobs") {
			c := sizes.DrawCurve(r)
			c.MemMB = []int64{1000}
			for i := range c.Speed {
				c.Speed[i] = c.Speed[i][:1]
			}
			c.DemandCPUs, c.DemandMemMB = rapid.SampledFrom(c.CPUs).Draw(r, "cpus demanded"), 1000
			jobs = append(jobs, sizes.Job(c, 1))
		}
		all, err := bounds.Optimum(jobs, []size.Node{{Total: node, Free: node}})
		if err != nil || len(all) != len(jobs) {
			r.Fatal(all, err)
		}
		got := 0.0
		for _, g := range all {
			got += g.Speed
		}
		var best func(i int, left float64) float64
		best = func(i int, left float64) float64 {
			if i == len(jobs) {
				return 0
			}
			most := -1e9
			c := jobs[i].On[0].Curve
			least := min(c.DemandCPUs, node.CPUs/4)
			for _, cpus := range append([]float64{least, min(c.DemandCPUs, node.CPUs)}, c.CPUs...) {
				if cpus >= least && cpus <= c.DemandCPUs && cpus <= left*(1+1e-9) {
					most = max(most, c.Relative(cpus, 1000)+best(i+1, left-cpus))
				}
			}
			return most
		}
		if want := best(0, node.CPUs); got < want-1e-3 || got > want+sizes.Rounding {
			r.Fatalf("OPT %v, the best %v", got, want)
		}
	})
}

func TestOptimumWantsNodesAlike(t *testing.T) {
	c := sizes.Curves(t)("alexnet")
	nodes := sizes.Servers(2)
	nodes[1].Total.CPUs++
	nodes[1].Free = nodes[1].Total
	if _, err := bounds.Optimum([]size.Job{sizes.Job(c, 1)}, nodes); !errors.Is(err, bounds.ErrUnlike) {
		t.Error(err)
	}
	nodes[1] = nodes[0]
	nodes[1].Free.CPUs = 1
	if _, err := bounds.Optimum([]size.Job{sizes.Job(c, 1)}, nodes); !errors.Is(err, bounds.ErrUnlike) {
		t.Error(err)
	}
}
