package mechanisms_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/size"
	"slurmprio/priod/workload"
	"slurmprio/tests/papers/mechanisms"
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

// sizes are CPUs and relative speed of each job, "-" for those not granted.
func sizes(jobs int, grants []size.Grant) []string {
	words := make([]string, jobs)
	for i := range words {
		words[i] = "-"
	}
	for _, g := range grants {
		cpus := 0.0
		for _, p := range g.Parts {
			cpus += p.CPUs
		}
		words[g.Job] = fmt.Sprintf("%gx%g", cpus, g.Speed)
	}
	return words
}

// The worked example of Synergy's code on one server (research notes, 1.4), and
// what the other mechanisms make of it.
func TestOneServer(t *testing.T) {
	curve := curves(t)
	hungryFirst := []string{"alexnet", "alexnet", "alexnet", "alexnet", "gnmt", "gnmt", "gnmt", "gnmt"}
	hungryLast := []string{"gnmt", "gnmt", "gnmt", "gnmt", "alexnet", "alexnet", "alexnet", "alexnet"}
	for _, c := range []struct {
		mechanism string
		models    []string
		want      []string
	}{
		{"proportional", hungryFirst, []string{"3x1", "3x1", "3x1", "3x1", "3x1", "3x1", "3x1", "3x1"}},
		{"greedy", hungryFirst, []string{"12x2.94", "12x2.94", "-", "-", "-", "-", "-", "-"}},
		{"tune", hungryFirst, []string{"3x1", "3x1", "3x1", "3x1", "1x1", "1x1", "1x1", "1x1"}},
		{"tune", hungryLast, []string{"1x1", "1x1", "1x1", "1x1", "3x1", "3x1", "3x1", "3x1"}},
		{"tune-best-fit", hungryFirst, []string{"3x1", "3x1", "3x1", "3x1", "1x1", "1x1", "1x1", "1x1"}},
		{"waterfill", hungryFirst, []string{"5x1.53", "5x1.53", "5x1.53", "5x1.53", "1x1", "1x1", "1x1", "1x1"}},
	} {
		var jobs []size.Job
		for _, m := range c.models {
			jobs = append(jobs, job(curve(m), 1))
		}
		got := sizes(len(jobs), pack(t, c.mechanism)(jobs, servers(1)))
		if !slices.Equal(got, c.want) {
			t.Errorf("%v of %v: %v, want %v", c.mechanism, c.models, got, c.want)
		}
	}
}

// What nobody knows gets its share and is never resized.
func TestUnknown(t *testing.T) {
	for _, m := range mechanisms.Names {
		got := sizes(1, pack(t, m)([]size.Job{job(nil, 2)}, servers(1)))
		if want := []string{"6x1"}; !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", m, got, want)
		}
	}
}

// A curve that begins beyond what a node has, or falls, or says two things: the
// job runs, with its share at least, and never with more than there is.
func TestCurvesNoNodeCanMeet(t *testing.T) {
	for name, c := range map[string]*workload.Curve{
		"begins above the node":        {IterationS: 1, DemandCPUs: 128, DemandMemMB: 1 << 40, CPUs: []float64{64, 128}, MemMB: []int64{1 << 39, 1 << 40}, Speed: [][]float64{{1, 2}, {2, 3}}},
		"falls with CPUs":              {IterationS: 1, DemandCPUs: 6, DemandMemMB: 64000, CPUs: []float64{1, 3, 6}, MemMB: []int64{64000}, Speed: [][]float64{{2}, {1}, {0.5}}},
		"falls with memory":            {IterationS: 1, DemandCPUs: 6, DemandMemMB: 96000, CPUs: []float64{6}, MemMB: []int64{64000, 96000}, Speed: [][]float64{{2, 1}}},
		"demands what makes it slower": {IterationS: 1, DemandCPUs: 12, DemandMemMB: 64000, CPUs: []float64{3, 6, 12}, MemMB: []int64{64000}, Speed: [][]float64{{1}, {3}, {0.1}}},
	} {
		jobs := []size.Job{job(c, 1), job(c, 1), job(c, 2), job(c, 4)}
		for _, m := range mechanisms.Names {
			grants := pack(t, m)(jobs, servers(1))
			if m == "greedy" {
				continue // passes over whom it cannot satisfy
			}
			if len(grants) != len(jobs) {
				t.Errorf("%s, %v: %v", name, m, grants)
			}
			var cpus, mem float64
			for _, g := range grants {
				p := g.Parts[0]
				cpus, mem = cpus+p.CPUs, mem+p.MemMB
				if gpus := float64(p.GPUs); p.CPUs < gpus*min(3, c.DemandCPUs)-1e-9 || p.MemMB < gpus*min(64000, float64(c.DemandMemMB))-1e-6 {
					t.Errorf("%s, %v: job %d has %+v", name, m, g.Job, p)
				}
			}
			if cpus > server.CPUs+1e-9 || mem > server.MemMB+1e-6 {
				t.Errorf("%s, %v: %v CPUs and %v MB are handed out", name, m, cpus, mem)
			}
		}
	}
}

func TestByName(t *testing.T) {
	if _, err := mechanisms.ByName("most"); err == nil {
		t.Error("no error")
	}
}

// pack is a mechanism.
func pack(t testing.TB, name string) mechanisms.Pack {
	p, err := mechanisms.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// situation is a cluster of two GPU types and kinds of nodes, and jobs.
type situation struct {
	jobs  []size.Job
	nodes []size.Node
}

func drawSituation(r *rapid.T, busy bool) situation {
	types := rapid.IntRange(1, 2).Draw(r, "types")
	var s situation
	for range rapid.IntRange(1, 6).Draw(r, "nodes") {
		gpus := rapid.IntRange(1, 8).Draw(r, "gpus")
		total := size.Amount{
			GPUs: gpus, CPUs: float64(gpus * rapid.IntRange(1, 8).Draw(r, "cpus for each GPU")), MemMB: float64(gpus) * float64(rapid.IntRange(1, 8).Draw(r, "mem for each GPU")) * 16000,
		}
		free := total
		if busy { // by jobs that hold their share
			free.GPUs = rapid.IntRange(0, gpus).Draw(r, "free")
			free.CPUs *= float64(free.GPUs) / float64(gpus)
			free.MemMB *= float64(free.GPUs) / float64(gpus)
		}
		s.nodes = append(s.nodes, size.Node{Type: rapid.IntRange(0, types-1).Draw(r, "type"), Total: total, Free: free})
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

// What holds whatever comes in: nobody twice or in pieces, nodes hold what is
// placed on them, nobody is below the smaller of demand and share, no GPU idles
// beside a job that fits by GPUs, waterfill is never slower than TUNE, and the
// same input gives the same result.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawSituation(r, rapid.Bool().Draw(r, "busy"))
		total := map[string]float64{}
		var admitted []int
		for _, m := range mechanisms.Names {
			one := pack(t, m)
			grants := slices.Clone(one(s.jobs, s.nodes))
			checkGrants(r, m, s, grants)
			if again := pack(t, m)(s.jobs, s.nodes); !reflect.DeepEqual(slices.Clone(again), grants) {
				r.Fatalf("%v: %v, then %v", m, grants, again)
			}
			one(s.jobs[:len(s.jobs)/2], s.nodes)
			if again := one(s.jobs, s.nodes); len(grants) > 0 && !reflect.DeepEqual(again, grants) {
				r.Fatalf("%v, asked again: %v, not %v", m, again, grants)
			}
			var who []int
			for _, g := range grants {
				total[m] += g.Speed
				who = append(who, g.Job)
			}
			if m == "waterfill" {
				admitted = who
			} else if m != "greedy" && !slices.Equal(who, admitted) {
				r.Fatalf("%v runs %v, waterfill %v", m, who, admitted)
			}
		}
		if total["waterfill"] < total["tune-best-fit"]*(1-rounding) {
			r.Fatalf("waterfill %v, TUNE %v", total["waterfill"], total["tune-best-fit"])
		}
	})
}

// Where others, such as CPU-only jobs, hold CPUs and memory that GPUs stand
// beside, a node still gives no more than it has left.
func TestOthersHoldCPUs(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := drawSituation(r, true)
		for i := range s.nodes {
			s.nodes[i].Free.CPUs *= rapid.Float64Range(0, 1).Draw(r, "cpus left")
			s.nodes[i].Free.MemMB *= rapid.Float64Range(0, 1).Draw(r, "mem left")
		}
		for _, m := range mechanisms.Names {
			left := make([]size.Amount, len(s.nodes))
			for i := range left {
				left[i] = s.nodes[i].Free
			}
			for _, g := range pack(t, m)(s.jobs, s.nodes) {
				gpus := 0
				for _, p := range g.Parts {
					l := &left[p.Node]
					gpus += p.GPUs
					l.GPUs, l.CPUs, l.MemMB = l.GPUs-p.GPUs, l.CPUs-p.CPUs, l.MemMB-p.MemMB
				}
				if gpus != s.jobs[g.Job].GPUs {
					r.Fatalf("%v: job %d has %d GPUs", m, g.Job, gpus)
				}
			}
			for i, l := range left {
				if n := &s.nodes[i].Total; l.GPUs < 0 || l.CPUs < -rounding*n.CPUs || l.MemMB < -rounding*n.MemMB {
					r.Fatalf("%v: node %d is left with %v", m, i, l)
				}
			}
		}
	})
}

func checkGrants(r *rapid.T, m string, s situation, grants []size.Grant) {
	left := make([]size.Amount, len(s.nodes))
	largest := map[int]size.Amount{}
	free := map[int]int{}
	for i, n := range s.nodes {
		left[i] = n.Free
		l := largest[n.Type]
		largest[n.Type] = size.Amount{GPUs: max(l.GPUs, n.Total.GPUs), CPUs: max(l.CPUs, n.Total.CPUs), MemMB: max(l.MemMB, n.Total.MemMB)}
		free[n.Type] += n.Free.GPUs
	}
	runs := map[int]bool{}
	for _, g := range grants {
		if runs[g.Job] {
			r.Fatalf("%v: job %d twice", m, g.Job)
		}
		runs[g.Job] = true
		gpus, on := 0, s.jobs[g.Job].On[g.Type]
		for _, p := range g.Parts {
			n := &s.nodes[p.Node]
			if n.Type != g.Type || on.Speed == 0 || p.GPUs == 0 {
				r.Fatalf("%v: job %d on node %d: %v", m, g.Job, p.Node, p)
			}
			gpus += p.GPUs
			free[g.Type] -= p.GPUs
			l := &left[p.Node]
			l.GPUs, l.CPUs, l.MemMB = l.GPUs-p.GPUs, l.CPUs-p.CPUs, l.MemMB-p.MemMB
			part := float64(p.GPUs) / float64(n.Total.GPUs)
			cpus, mem := part*n.Total.CPUs, part*n.Total.MemMB
			if on.Curve != nil {
				cpus, mem = min(cpus, on.Curve.DemandCPUs*float64(p.GPUs)), min(mem, float64(on.Curve.DemandMemMB)*float64(p.GPUs))
				// A node of another kind may be the largest; then its size caps the demand.
				cpus, mem = min(cpus, largest[n.Type].CPUs*float64(p.GPUs)/float64(s.jobs[g.Job].GPUs)), min(mem, largest[n.Type].MemMB*float64(p.GPUs)/float64(s.jobs[g.Job].GPUs))
			}
			if s.jobs[g.Job].GPUs <= largest[n.Type].GPUs && (p.CPUs < cpus*(1-rounding) || p.MemMB < mem*(1-rounding)) {
				r.Fatalf("%v: job %d has %v, less than %v CPUs and %v MB", m, g.Job, p, cpus, mem)
			}
		}
		if gpus != s.jobs[g.Job].GPUs {
			r.Fatalf("%v: job %d has %d GPUs", m, g.Job, gpus)
		}
	}
	for i, l := range left {
		n := &s.nodes[i]
		if l.GPUs < 0 || l.CPUs < -rounding*n.Total.CPUs || l.MemMB < -rounding*n.Total.MemMB {
			r.Fatalf("%v: node %d is left with %v", m, i, l)
		}
	}
	if m == "greedy" {
		return
	}
	for i, j := range s.jobs {
		for t, on := range j.On {
			if !runs[i] && on.Speed > 0 && j.GPUs <= free[t] {
				r.Fatalf("%v: job %d waits for %d GPUs beside %d", m, i, j.GPUs, free[t])
			}
		}
	}
}
