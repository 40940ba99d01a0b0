package bounds_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/size"
	"slurmprio/priod/workload"
	"slurmprio/tests/papers/bounds"
)

// server is Synergy's: 8 GPUs, 24 CPUs, 500 GB.
var server = size.Amount{GPUs: 8, CPUs: 24, MemMB: 512000}

func servers(n int) []size.Node {
	nodes := make([]size.Node, n)
	for i := range nodes {
		nodes[i] = size.Node{Total: server, Free: server}
	}
	return nodes
}

// curves are those of the published models, as workloads.toml ships them.
func curves(t testing.TB) func(model string) *workload.Curve {
	table, err := workload.Default()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*workload.Curve{}
	return func(model string) *workload.Curve {
		if all[model] == nil {
			id, ok := table.Lookup(model)
			if !ok {
				t.Fatalf("no workload %s", model)
			}
			c := table.Get(id).Curves["v100"]
			all[model] = &c
		}
		return all[model]
	}
}

func job(c *workload.Curve, gpus int) size.Job {
	return size.Job{GPUs: gpus, On: []size.Sensitivity{{Speed: 1, Curve: c}}}
}

// situation is a cluster of two GPU types and kinds of nodes, and jobs.
type situation struct {
	jobs  []size.Job
	nodes []size.Node
}

func drawSituation(r *rapid.T) situation {
	types := rapid.IntRange(1, 2).Draw(r, "types")
	var s situation
	for range rapid.IntRange(1, 6).Draw(r, "nodes") {
		gpus := rapid.IntRange(1, 8).Draw(r, "gpus")
		total := size.Amount{
			GPUs: gpus, CPUs: float64(gpus * rapid.IntRange(1, 8).Draw(r, "cpus for each GPU")), MemMB: float64(gpus) * float64(rapid.IntRange(1, 8).Draw(r, "mem for each GPU")) * 16000,
		}
		s.nodes = append(s.nodes, size.Node{Type: rapid.IntRange(0, types-1).Draw(r, "type"), Total: total, Free: total})
	}
	var curves []*workload.Curve
	for range 4 {
		curves = append(curves, drawCurve(r))
	}
	for range rapid.IntRange(0, 40).Draw(r, "jobs") {
		j := size.Job{GPUs: rapid.SampledFrom([]int{1, 1, 1, 1, 2, 4, 8, 16}).Draw(r, "job's gpus")}
		for range types {
			on := size.Sensitivity{Speed: rapid.SampledFrom([]float64{0, 1, 2}).Draw(r, "speed")}
			if rapid.IntRange(0, 9).Draw(r, "known") > 0 {
				on.Curve = rapid.SampledFrom(curves).Draw(r, "curve")
			}
			j.On = append(j.On, on)
		}
		s.jobs = append(s.jobs, j)
	}
	return s
}

// drawCurve makes any curve that workloads.toml takes, falling ones too.
func drawCurve(r *rapid.T) *workload.Curve {
	c := &workload.Curve{IterationS: 1, CPUs: []float64{1, 2, 3, 6, 12}, MemMB: []int64{8000, 32000, 64000}}
	for range c.CPUs {
		c.Speed = append(c.Speed, rapid.SliceOfN(rapid.Float64Range(0.1, 4), len(c.MemMB), len(c.MemMB)).Draw(r, "row"))
	}
	if rapid.IntRange(0, 3).Draw(r, "rises") > 0 {
		for i := range c.Speed {
			slices.Sort(c.Speed[i])
			for k := range c.Speed[i] {
				if i > 0 {
					c.Speed[i][k] = max(c.Speed[i][k], c.Speed[i-1][k])
				}
			}
		}
	}
	c.DemandCPUs = rapid.Float64Range(0.5, 16).Draw(r, "demand")
	c.DemandMemMB = rapid.Int64Range(1000, 100000).Draw(r, "demand of memory")
	return c
}

const rounding = 1e-6

// A curve that begins beyond what a node has, or falls, or says two things: OPT
// has an answer for each job.
func TestCurvesNoNodeCanMeet(t *testing.T) {
	for name, c := range map[string]*workload.Curve{
		"begins above the node":        {IterationS: 1, DemandCPUs: 128, DemandMemMB: 1 << 40, CPUs: []float64{64, 128}, MemMB: []int64{1 << 39, 1 << 40}, Speed: [][]float64{{1, 2}, {2, 3}}},
		"falls with CPUs":              {IterationS: 1, DemandCPUs: 6, DemandMemMB: 64000, CPUs: []float64{1, 3, 6}, MemMB: []int64{64000}, Speed: [][]float64{{2}, {1}, {0.5}}},
		"falls with memory":            {IterationS: 1, DemandCPUs: 6, DemandMemMB: 96000, CPUs: []float64{6}, MemMB: []int64{64000, 96000}, Speed: [][]float64{{2, 1}}},
		"demands what makes it slower": {IterationS: 1, DemandCPUs: 12, DemandMemMB: 64000, CPUs: []float64{3, 6, 12}, MemMB: []int64{64000}, Speed: [][]float64{{1}, {3}, {0.1}}},
	} {
		jobs := []size.Job{job(c, 1), job(c, 1), job(c, 2), job(c, 4)}
		if all, err := bounds.Optimum(jobs, servers(1)); err != nil || len(all) != len(jobs) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
}

// Waterfill against what no mechanism can exceed.
func TestBound(t *testing.T) {
	curve := curves(t)
	models := []string{"alexnet", "gnmt", "res18", "lstm", "m5", "transformer", "shufflenet", "res50", "deepspeech", "mobilenet"}
	for _, seed := range []int{1, 3, 7, 9} {
		var jobs []size.Job
		for i := range 32 {
			jobs = append(jobs, job(curve(models[i*seed%10]), 1))
		}
		nodes := servers(4)
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
		s := drawSituation(r)
		bound := bounds.Bound(s.jobs, s.nodes)
		for _, tuned := range []bool{false, true} {
			sum := 0.0
			for _, g := range size.NewPacker(size.Rule{Tuned: tuned}).Pack(s.jobs, s.nodes) {
				sum += g.Speed
			}
			if sum > bound*(1+rounding) {
				r.Fatalf("tuned %v: total %v above the bound %v", tuned, sum, bound)
			}
		}
	})
}

// alike makes all nodes of a type like its first.
func alike(s situation) situation {
	first := map[int]size.Amount{}
	for i := range s.nodes {
		n := &s.nodes[i]
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
		s := alike(drawSituation(r))
		all, err := bounds.Optimum(s.jobs, s.nodes)
		if err != nil {
			r.Fatal(err)
		}
		sum, used, pieces := 0.0, make([]point, len(s.nodes)), 0
		for _, g := range all {
			j := &s.jobs[g.Job]
			sum += g.Speed
			whole := 0.0
			for _, on := range g.On {
				if s.nodes[on.Node].Type != g.Type || on.Part <= 0 {
					r.Fatalf("job %d: %+v", g.Job, g)
				}
				gpus := on.Part * float64(j.GPUs)
				whole += on.Part
				u := &used[on.Node]
				u.gpus, u.cpus, u.mem = u.gpus+gpus, u.cpus+gpus*g.CPUs, u.mem+gpus*g.MemMB
			}
			if whole < 1-rounding || whole > 1+rounding {
				r.Fatalf("job %d: %v of it is placed", g.Job, whole)
			}
			if len(g.On) > 1 {
				pieces++
			}
			if c := j.On[g.Type].Curve; c == nil && g.Speed != 1 || c != nil && g.Speed != c.Relative(g.CPUs, g.MemMB) {
				r.Fatalf("job %d: %+v", g.Job, g)
			}
		}
		for i, n := range s.nodes {
			if u := used[i]; u.gpus > float64(n.Total.GPUs)*(1+rounding) || u.cpus > n.Total.CPUs*(1+rounding) || u.mem > n.Total.MemMB*(1+rounding) {
				r.Fatalf("node %d has %+v, and gives %+v", i, n.Total, u)
			}
		}
		if pieces > 3*len(s.nodes) {
			r.Fatalf("%d jobs in pieces on %d nodes", pieces, len(s.nodes))
		}
		if bound := bounds.Bound(s.jobs, s.nodes); sum > bound*(1+rounding) {
			r.Fatalf("OPT %v, its bound %v", sum, bound)
		}
		for _, tuned := range []bool{false, true} {
			total, grants := 0.0, size.NewPacker(size.Rule{Tuned: tuned}).Pack(s.jobs, s.nodes)
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
			c := drawCurve(r)
			c.MemMB = []int64{1000}
			for i := range c.Speed {
				c.Speed[i] = c.Speed[i][:1]
			}
			c.DemandCPUs, c.DemandMemMB = rapid.SampledFrom(c.CPUs).Draw(r, "cpus demanded"), 1000
			jobs = append(jobs, job(c, 1))
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
		if want := best(0, node.CPUs); got < want-1e-3 || got > want+rounding {
			r.Fatalf("OPT %v, the best %v", got, want)
		}
	})
}

func TestOptimumWantsNodesAlike(t *testing.T) {
	c := curves(t)("alexnet")
	nodes := servers(2)
	nodes[1].Total.CPUs++
	nodes[1].Free = nodes[1].Total
	if _, err := bounds.Optimum([]size.Job{job(c, 1)}, nodes); !errors.Is(err, bounds.ErrUnlike) {
		t.Error(err)
	}
	nodes[1] = nodes[0]
	nodes[1].Free.CPUs = 1
	if _, err := bounds.Optimum([]size.Job{job(c, 1)}, nodes); !errors.Is(err, bounds.ErrUnlike) {
		t.Error(err)
	}
}
