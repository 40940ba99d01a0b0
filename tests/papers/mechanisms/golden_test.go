package mechanisms_test

import (
	"math"
	"testing"

	"slurmprio/priod/size"
	"slurmprio/tests/shared"
	"slurmprio/tests/sizes"
)

// golden is one round of the published simulator.
type golden struct {
	Name, Strategy, Mechanism string
	Servers                   int
	Jobs                      []struct {
		Model string
		GPUs  int
		Speed float64 `json:"effective_speedup"`
		Alloc map[int]struct{ GPU, CPU, Mem float64 }
	}
}

const gb = 1024 // MB

// Every first-fit allocation of the published simulator comes out the same; and
// on every job list ours is as fast as the published TUNE, either placement.
func TestGolden(t *testing.T) {
	curve := sizes.Curves(t)
	exact := map[string]string{"fair": "proportional", "greedy": "greedy", "tune": "tune"}
	replayed, better := 0, 0
	var all []golden
	shared.JSON(t, "synergy/expected/alloc_golden.json", &all)
	for _, c := range all {
		var jobs []size.Job
		published := 0.0
		for _, j := range c.Jobs {
			jobs = append(jobs, sizes.Job(curve(j.Model), j.GPUs))
			slowest := math.Inf(1)
			for _, a := range j.Alloc {
				slowest = min(slowest, curve(j.Model).Relative(a.CPU/a.GPU, a.Mem*gb/a.GPU))
			}
			if len(j.Alloc) > 0 {
				published += slowest
			}
		}
		name := c.Name + " " + c.Strategy + " " + c.Mechanism
		if c.Strategy == "SYNERGY_RANDOM" {
			replayed++
			got := map[int]size.Grant{}
			for _, g := range pack(t, exact[c.Mechanism])(jobs, sizes.Servers(c.Servers)) {
				got[g.Job] = g
			}
			for i, j := range c.Jobs {
				g := got[i]
				if len(g.Parts) != len(j.Alloc) {
					t.Errorf("%s: job %d: %v, want %v", name, i, g.Parts, j.Alloc)
					continue
				}
				for _, p := range g.Parts {
					if a := j.Alloc[p.Node]; float64(p.GPUs) != a.GPU || math.Abs(p.CPUs-a.CPU) > 1e-6 || math.Abs(p.MemMB-a.Mem*gb) > 1e-3 {
						t.Errorf("%s: job %d: %v, want %v", name, i, p, a)
					}
				}
				// Of a demand cut to the server the published speed is a straight line, ours the curve's.
				k := curve(j.Model)
				whole := k.DemandCPUs*float64(j.GPUs) <= sizes.Server.CPUs && k.DemandMemMB*int64(j.GPUs) <= int64(sizes.Server.MemMB)
				if len(j.Alloc) > 0 && (whole || c.Mechanism == "fair") && math.Abs(g.Speed-j.Speed) > 1e-9 {
					t.Errorf("%s: job %d: speed %v, want %v", name, i, g.Speed, j.Speed)
				}
			}
		}
		if c.Mechanism != "tune" {
			continue
		}
		ours := 0.0
		for _, g := range size.NewPacker(size.Rule{}).Pack(jobs, sizes.Servers(c.Servers)) {
			ours += g.Speed
		}
		if ours < published-1e-9 {
			t.Errorf("%s: ours %v in total, published TUNE %v", name, ours, published)
		}
		if ours > published+1e-9 {
			better++
		}
		t.Logf("%-45s TUNE %6.2f, ours %6.2f", name, published, ours)
	}
	if replayed != 42 || better == 0 {
		t.Errorf("%d cases replayed, want 42; ours better in %d", replayed, better)
	}
	t.Logf("ours faster in %d of 28", better)
}
