package allocate_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/allocate"
	"slurmprio/tests/problems"
)

func three(speeds ...[]float64) *allocate.Problem {
	p := problems.Three(speeds...)
	return &p
}

// The examples of the research's instance A, for a clone without the papers' data.
func TestSmallExamples(t *testing.T) {
	two := func() *allocate.Problem {
		p := three([]float64{0.5, 1, 2}, []float64{1, 2, 3})
		p.Jobs[1].StepsLeft = 50_000
		return p
	}
	for policy, want := range map[string]float64{
		"max-min": 1.2631578947368423, "makespan": 20_000, "finish-time-fairness": 0.7916666666, "max-throughput": 4,
	} {
		if a := solve(t, policy, two()); !problems.Near(a.Objective, want, 1e-6) || !problems.Near(a.Bound, want, 1e-6) {
			t.Errorf("%s: objective %v, bound %v, want %v", policy, a.Objective, a.Bound, want)
		}
	}
}

// Two calls of finish-time fairness, the second with what the first left.
func TestFinishTimeFairnessRemembers(t *testing.T) {
	p := three([]float64{0.5, 1, 2}, []float64{1, 2, 3})
	p.Jobs[0].StepsLeft, p.Jobs[1].StepsLeft = 2500, 49_000
	for i, alone := range []float64{428.5714285714286, 500} {
		p.Jobs[i].Elapsed, p.Jobs[i].IsolatedElapsed = 600, alone
	}
	a := solve(t, "finish-time-fairness", p)
	for i, want := range []float64{0.399575624 + 2*0.600424376, 2*0.600424376 + 3*0.399575624} {
		if !problems.Near(a.Rate[i], want, 1e-5) {
			t.Errorf("job %d: %v steps/s, want %v", i, a.Rate[i], want)
		}
	}
}

// What holds of every policy on any problem: feasible (solve checks it), the
// same twice, the bound reached, and no GPU idle that somebody could use.
func TestEveryPolicy(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { everyPolicy(r, rapid.Uint64().Draw(r, "seed")) })
}

func TestEveryPolicyOnKnownProblems(t *testing.T) {
	for _, seed := range problems.Known {
		everyPolicy(t, seed)
	}
}

func everyPolicy(t rapid.TB, seed uint64) {
	for _, name := range allocate.Names() {
		policy := allocate.Policy(name)
		make := func() *allocate.Problem {
			p := problems.Invent(rand.New(rand.NewPCG(seed, 1)), func() {})
			problems.InEntities(&p)
			return &p
		}
		p := make()
		a, err := policy.Allocate(p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		problems.Feasible(t, name, p, a)
		again, _ := policy.Allocate(make())
		if !reflect.DeepEqual(a.Time, again.Time) {
			t.Fatalf("%s: two runs differ", name)
		}
		if !math.IsNaN(a.Bound) && !math.IsInf(a.Objective, 0) && !problems.Near(a.Objective, a.Bound, 1e-6) {
			t.Fatalf("%s: objective %v, bound %v", name, a.Objective, a.Bound)
		}
		if name != "max-throughput" {
			problems.Busy(t, name, p, a, false)
		}
	}
}

// Numbers at the ends of what is accepted get an answer or an error, and no
// policy searches on for ever.
func TestExtremes(t *testing.T) {
	for _, name := range allocate.Names() {
		for n := range 625 {
			p := problems.Extreme(n)
			if a, err := allocate.Policy(name).Allocate(&p); (err == nil) == (a == nil) {
				t.Errorf("%s: %v and %v", name, a, err)
			}
		}
	}
}

func TestBadProblems(t *testing.T) {
	for want, spoil := range map[string]func(*allocate.Problem){
		"no GPUs":          func(p *allocate.Problem) { p.Types = []allocate.GPUType{{Name: "a"}}; p.Jobs = nil },
		"speed NaN":        func(p *allocate.Problem) { p.Jobs[0].Speed[1] = math.NaN() },
		"weight -1":        func(p *allocate.Problem) { p.Jobs[0].Weight = -1 },
		"0 GPUs":           func(p *allocate.Problem) { p.Jobs[0].GPUs = 0 },
		"steps remaining":  func(p *allocate.Problem) { p.Jobs[0].StepsLeft = math.Inf(1) },
		"2 speeds for 3":   func(p *allocate.Problem) { p.Jobs[0].Speed = p.Jobs[0].Speed[:2] },
		"weight 0: want a": func(p *allocate.Problem) { p.Entities = []allocate.Entity{{Name: "e"}} },
	} {
		p := three([]float64{0.5, 1, 2}, []float64{1, 2, 3})
		spoil(p)
		_, err := allocate.Policy("max-min").Allocate(p)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p := three([]float64{0, 0, 0}, []float64{1, 2, 3})
	p.Jobs[1].GPUs = 2
	a := solve(t, "max-min", p)
	if len(a.Notes) != 2 {
		t.Errorf("jobs that fit nowhere: notes %q", a.Notes)
	}
}

func solve(t testing.TB, name string, p *allocate.Problem) *allocate.Allocation {
	t.Helper()
	a, err := allocate.Policy(name).Allocate(p)
	if err != nil {
		t.Fatal(name, err)
	}
	problems.Feasible(t, name, p, a)
	return a
}
