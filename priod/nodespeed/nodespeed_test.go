package nodespeed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/workload/speed"
)

// site generates runs: each node runs some program each day, and gangs of up to widest
// nodes take part. A run is as slow as its slowest node.
type site struct {
	nodes, programs, days, widest int
	noise                         float64
	steps                         bool
	slow                          map[string]float64 // by node, or node and program
}

func name(node int) string { return fmt.Sprintf("n%02d", node) }

func (s *site) runs(seed uint64) []speed.Run {
	r := rand.New(rand.NewPCG(seed, 1))
	var all []speed.Run
	job := uint32(0)
	for day := range s.days {
		free := r.Perm(s.nodes)
		for len(free) > 0 {
			width := min(1+r.IntN(s.widest), len(free))
			names, program, slowest := []string{}, fmt.Sprint("p", r.IntN(s.programs)), 1.0
			for _, n := range free[:width] {
				names = append(names, name(n))
				slowest = max(slowest, s.slow[name(n)], s.slow[name(n)+" "+program])
			}
			free = free[width:]
			job++
			run := speed.Run{
				Program: speed.Program{User: "u" + program, Name: program, GPUs: width * 4},
				Seconds: map[string]float64{"a100": 600 * slowest * math.Exp(s.noise*r.NormFloat64())},
				Place:   speed.Place{Nodes: strings.Join(names, ","), Start: time.Unix(int64(day)*86400+int64(job%1000), 0), Job: job},
			}
			if s.steps {
				steps := math.Exp(3 * r.Float64())
				run.Work = steps
				run.Seconds["a100"] *= steps
			}
			all = append(all, run)
		}
	}
	return all
}

func slow(nodes []Node) (names []string) {
	for _, n := range nodes {
		if n.Slow {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Nodes that are equal are not named, whatever the noise: not in two of five looks, which
// Risk puts beyond one in a thousand, and the bound far beyond that.
func TestEqualNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := site{
			nodes: rapid.IntRange(2, 40).Draw(t, "nodes"), programs: rapid.IntRange(1, 8).Draw(t, "programs"), days: rapid.IntRange(1, 30).Draw(t, "days"),
			widest: rapid.IntRange(1, 4).Draw(t, "widest"), noise: rapid.SampledFrom([]float64{0, 0.02, 0.1, 0.5, 3}).Draw(t, "noise"), steps: rapid.Bool().Draw(t, "steps"),
		}
		seed, looks := rapid.Uint64().Draw(t, "seed"), 0
		for i := range uint64(5) {
			found := Find(s.runs(seed + i))
			if len(slow(found)) > 0 {
				looks++
			}
			for _, n := range found {
				if n.Runs > 0 && n.Factor == nil || n.Low != nil && (*n.Low > *n.Factor || *n.High < *n.Factor) {
					t.Fatalf("%+v", n)
				}
			}
		}
		if looks > 1 {
			t.Fatalf("%d of 5 looks name a node", looks)
		}
	})
}

// A slow node among others is found, and no other one; the order of runs and the units of
// a program do not matter.
func TestSlowNodeIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := site{
			nodes: rapid.IntRange(8, 24).Draw(t, "nodes"), programs: rapid.IntRange(2, 4).Draw(t, "programs"), days: 60,
			widest: rapid.IntRange(1, 2).Draw(t, "widest"), noise: 0.05, steps: rapid.Bool().Draw(t, "steps"), slow: map[string]float64{"n03": 1.2},
		}
		runs := s.runs(rapid.Uint64().Draw(t, "seed"))
		found := Find(runs)
		if diff := cmp.Diff([]string{"n03"}, slow(found)); diff != "" {
			t.Fatal(diff)
		}
		if n := found[0]; n.Name != "n03" || *n.Low > 1.25 || *n.High < 1.15 || *n.Factor < 1.15 || *n.Factor > 1.25 || len(n.Where) == 0 {
			t.Fatalf("%+v: %v from %v to %v", n, *n.Factor, *n.Low, *n.High)
		}
		mixed := rapid.Permutation(runs).Draw(t, "mixed")
		if diff := cmp.Diff(found, Find(mixed)); diff != "" {
			t.Fatal(diff)
		}
		for i := range mixed {
			if r := &mixed[i]; r.Program.Name == "p0" {
				r.Seconds = map[string]float64{"a100": r.Seconds["a100"] * 4}
			}
		}
		if diff := cmp.Diff(slow(found), slow(Find(mixed))); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Several slow nodes in gangs: each is told from those that it runs with.
func TestGangsAccuseTheirSlowestNode(t *testing.T) {
	s := site{nodes: 32, programs: 3, days: 90, widest: 6, noise: 0.1, steps: true, slow: map[string]float64{"n03": 2, "n04": 1.5, "n20": 1.3}}
	found := Find(s.runs(1))
	if diff := cmp.Diff([]string{"n03", "n04", "n20"}, slow(found)); diff != "" {
		t.Fatal(diff)
	}
	for i, n := range found[:3] {
		t.Logf("%s: %.2f (%.2f to %.2f) of %d runs", n.Name, *n.Factor, *n.Low, *n.High, n.Runs)
		if want := s.slow[n.Name]; i != slices.Index([]string{"n03", "n04", "n20"}, n.Name) || *n.Low > want || *n.High < want*0.95 {
			t.Errorf("%+v", n)
		}
	}
}

// Of nodes that only ever run together nobody can tell which one is slow.
func TestNodesThatNeverRanApart(t *testing.T) {
	s := site{nodes: 16, programs: 2, days: 60, widest: 1, noise: 0.05, steps: true, slow: map[string]float64{"n03": 2}}
	runs := s.runs(1)
	for i := range runs {
		if p := &runs[i].Place; p.Nodes == "n03" {
			p.Nodes = "n03,n16"
		} else {
			p.Nodes += ",m" + p.Nodes[1:]
		}
	}
	if found := slow(Find(runs)); found != nil {
		t.Errorf("%v", found)
	}
}

// A node that is slow for one program alone is named for it.
func TestSlowForOneProgram(t *testing.T) {
	s := site{nodes: 16, programs: 5, days: 60, widest: 1, noise: 0.1, steps: true, slow: map[string]float64{"n08 p2": 2.8}}
	found := Find(s.runs(1))
	if diff := cmp.Diff([]string{"n08"}, slow(found)); diff != "" {
		t.Fatal(diff)
	}
	if n := found[0]; n.Where[0].Name != "p2" || math.Abs(n.Where[0].Factor-2.8) > 0.3 || math.Abs(n.Where[1].Factor-1) > 0.1 || math.Abs(*n.Factor-1) > 0.1 {
		t.Errorf("%+v: %v", n, *n.Factor)
	}
}

// A user who keeps long runs on one node does not make it slow, nor does a sweep in one day.
func TestLongerWorkIsNoSlowness(t *testing.T) {
	s := site{nodes: 16, programs: 5, days: 60, widest: 1, noise: 0.1}
	runs := s.runs(1)
	for i := range runs {
		if r := &runs[i]; r.Place.Nodes == "n05" && r.Program.User == "up1" {
			r.Seconds["a100"] *= 3
		}
	}
	for i := range uint32(100) {
		for p := range 3 {
			runs = append(runs, speed.Run{
				Program: speed.Program{User: fmt.Sprint("up", p), Name: fmt.Sprint("p", p), GPUs: 4}, Seconds: map[string]float64{"a100": 7200},
				Place: speed.Place{Nodes: "n06", Start: time.Unix(86400*7+5, 0), Job: 10000 + i},
			})
		}
	}
	if found := slow(Find(runs)); found != nil {
		t.Errorf("%v", found)
	}
}

// Runs of one program that overlap on the same nodes count once, and those after each other
// each, where their steps are said.
func TestRunsThatCount(t *testing.T) {
	run := func(job uint32, start int64, work float64) speed.Run {
		return speed.Run{
			Program: speed.Program{Workload: "w", GPUs: 1}, Seconds: map[string]float64{"a100": 600 + float64(job)}, Work: work,
			Place: speed.Place{Nodes: "n1", Start: time.Unix(start, 0), Job: job},
		}
	}
	for _, c := range []struct {
		work float64
		want int
	}{{100, 3}, {0, 2}} {
		found := Find([]speed.Run{run(5, 90000, c.work), run(1, 0, c.work), run(2, 0, c.work), run(3, 500, c.work), run(4, 601, c.work)})
		if found[0].Runs != c.want {
			t.Errorf("steps %v: %d runs, want %d", c.work, found[0].Runs, c.want)
		}
	}
}

// What tells nothing is passed over.
func TestRunsThatTellNothing(t *testing.T) {
	good := speed.Run{
		Program: speed.Program{Workload: "w", GPUs: 1}, Seconds: map[string]float64{"a100": 60}, Place: speed.Place{Nodes: "n1"},
	}
	runs := []speed.Run{good}
	for _, change := range []func(r *speed.Run){
		func(r *speed.Run) { r.Program.Workload = "" },
		func(r *speed.Run) { r.Seconds = map[string]float64{"a100": 60, "v100": 60} },
		func(r *speed.Run) { r.Seconds = nil },
		func(r *speed.Run) { r.Seconds = map[string]float64{"a100": 0} },
		func(r *speed.Run) { r.Seconds = map[string]float64{"a100": math.NaN()} },
		func(r *speed.Run) { r.Place.Nodes = "" },
		func(r *speed.Run) { r.Place.Nodes = "n[1-" },
	} {
		r := good
		change(&r)
		runs = append(runs, r)
	}
	one := 1.0
	if diff := cmp.Diff([]Node{{Name: "n1", GPUType: "a100", Runs: 1, Factor: &one, Doubt: 1, Where: []Program{}}}, Find(runs)); diff != "" {
		t.Error(diff)
	}
	if found := Find(nil); len(found) != 0 || found == nil {
		t.Errorf("%v", found)
	}
}

// The bound holds for all that chance can do, and is close to it where it is small.
func TestBound(t *testing.T) {
	const own, others = 4, 12
	counts := make([]float64, own*others+1)
	total := 0.0
	var place func(i, from, pairs int)
	place = func(i, from, pairs int) { // the i-th of own, in rising order, stands above so many of others
		if i == own {
			counts[pairs]++
			total++
			return
		}
		for above := from; above <= others; above++ {
			place(i+1, above, pairs+above)
		}
	}
	place(0, 0, 0)
	tail := 0.0
	for pairs := own * others; pairs >= 0; pairs-- {
		tail += counts[pairs]
		exact, got := math.Log(tail/total), bound([]part{{own, others, pairs}}, nil)
		if got < exact-1e-9 || got > exact+2.5 && exact < -1 {
			t.Errorf("%d pairs: bound %v, exactly %v", pairs, got, exact)
		}
	}
	if exact, got := math.Log(1/total), bound([]part{{own, others, own * others}}, nil); math.Abs(exact-got) > 1e-3 {
		t.Errorf("all pairs: %v, exactly %v", got, exact)
	}
}

// Sign test: Hollander & Wolfe's table of the binomial distribution.
func TestWithin(t *testing.T) {
	for n, want := range map[int]int{0: -1, 1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 10: 1, 12: 2, 20: 5, 25: 7, 100: 39, 100000: 49689} {
		if got := within(n); got != want {
			t.Errorf("of %d: %d, want %d", n, got, want)
		}
	}
}

// How many runs of one program with steps a node needs until it is named in 9 cases of 10,
// where all nodes have as many (docs/evidence/nodespeed.md).
func TestRunsNeeded(t *testing.T) {
	nodes, noises, factors := []int{16}, []float64{0.1}, []float64{1.5} // a part of it in each run of all tests
	if os.Getenv("SLURMPRIO_TABLE") == "1" {
		nodes, noises, factors = []int{16, 256}, []float64{0.03, 0.1, 0.3}, []float64{1.1, 1.2, 1.5, 2.8}
	}
	for _, n := range nodes {
		for _, noise := range noises {
			for _, f := range factors {
				need := 0
				for _, days := range []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 60} {
					found := 0
					for seed := range uint64(10) {
						s := site{nodes: n, programs: 1, days: days, widest: 1, noise: noise, steps: true, slow: map[string]float64{name(3): f}}
						if cmp.Equal(slow(Find(s.runs(seed))), []string{name(3)}) {
							found++
						}
					}
					if found >= 9 {
						need = days
						break
					}
				}
				t.Logf("%d nodes, noise %v, %v times as long: %d runs", n, noise, f, need)
				if f == 1.5 && noise == 0.1 && n == 16 && need > 5 {
					t.Errorf("%d runs", need)
				}
			}
		}
	}
}
