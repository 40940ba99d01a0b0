package policies_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/allocate"
	"slurmprio/tests/papers/policies"
	"slurmprio/tests/problems"
)

func three(speeds ...[]float64) *policies.Problem {
	return &policies.Problem{Problem: problems.Three(speeds...), PerHour: []float64{0.45, 1.46, 2.48}}
}

// The examples of the research's instance A and of misc_policies.json, for a
// clone without the papers' data.
func TestSmallExamples(t *testing.T) {
	for policy, want := range map[string]float64{"max-min:agnostic": 1, "makespan:agnostic": 16666.666666666668, "finish-time-fairness:agnostic": 1, "max-throughput": 4} {
		p := three([]float64{0.5, 1, 2}, []float64{1, 2, 3})
		p.Jobs[1].StepsLeft = 50_000
		if a := solve(t, policy, p); !problems.Near(a.Objective, want, 1e-6) || !problems.Near(a.Bound, want, 1e-6) {
			t.Errorf("%s: objective %v, bound %v, want %v", policy, a.Objective, a.Bound, want)
		}
	}
	for name, c := range map[string]struct {
		deadline, steps map[int]float64
		relaxed         int
	}{
		"none":       {nil, nil, 0},
		"feasible":   {map[int]float64{0: 1000}, map[int]float64{0: 1500}, 0},
		"tight":      {map[int]float64{0: 1000, 2: 1000}, map[int]float64{0: 1900, 2: 500}, 0},
		"infeasible": {map[int]float64{0: 1000, 1: 1000}, map[int]float64{0: 2000, 1: 3000}, 1},
	} {
		p := three([]float64{0.5, 1, 2}, []float64{1, 2, 3}, []float64{1, 1, 1})
		p.Deadlines = slices.Repeat([]float64{math.Inf(1)}, len(p.Jobs))
		for i, d := range c.deadline {
			p.Deadlines[i], p.Jobs[i].StepsLeft = d, c.steps[i]
		}
		a := solve(t, "min-cost", p)
		if !problems.Near(a.Objective, 4.398536853733981, 1e-6) || len(a.Notes) != c.relaxed {
			t.Errorf("min-cost, deadlines %s: objective %v, notes %q", name, a.Objective, a.Notes)
		}
		for i, d := range c.deadline {
			if len(a.Notes) == 0 && a.Rate[i]*d < c.steps[i]*(1-1e-6) {
				t.Errorf("min-cost, deadlines %s: job %d makes %v steps/s", name, i, a.Rate[i])
			}
		}
	}
}

// What priod runs is the same here: max-throughput where no job has a deadline.
func TestThroughputIsPriods(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := invent(rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1)), false)
		whole, err := policies.Policy{Name: "max-throughput"}.Allocate(p)
		if err != nil {
			r.Fatal(err)
		}
		own, err := allocate.Policy("max-throughput").Allocate(&p.Problem)
		if err != nil || !reflect.DeepEqual(own.Time, whole.Time) || !problems.Near(own.Bound, whole.Bound, 1e-9) {
			r.Fatalf("%v: %v and %v", err, own, whole)
		}
	})
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
	for _, name := range policies.Names() {
		for _, variant := range []string{"", ":agnostic", ":packed"} {
			policy, err := policies.ParsePolicy(name + variant)
			if err != nil {
				continue
			}
			make := func() *policies.Problem {
				p := invent(rand.New(rand.NewPCG(seed, 1)), policy.Pairs())
				problems.InEntities(&p.Problem)
				for i := range p.Jobs {
					if name == "allox" {
						p.Jobs[i].GPUs = 1
					}
				}
				return p
			}
			p := make()
			a, err := policy.Allocate(p)
			if err != nil {
				t.Fatalf("%s%s: %v", name, variant, err)
			}
			feasible(t, name+variant, p, a)
			again, _ := policy.Allocate(make())
			if !reflect.DeepEqual(a.Time, again.Time) || !reflect.DeepEqual(a.Pairs, again.Pairs) {
				t.Fatalf("%s%s: two runs differ", name, variant)
			}
			if !math.IsNaN(a.Bound) && !math.IsInf(a.Objective, 0) && !problems.Near(a.Objective, a.Bound, 1e-6) {
				t.Fatalf("%s%s: objective %v, bound %v", name, variant, a.Objective, a.Bound)
			}
			if !wasteful[name] && variant == "" && name != "min-cost" && name != "max-throughput" {
				problems.Busy(t, name, &p.Problem, &a.Allocation, name == "fifo" || name == "sjf")
			}
		}
	}
}

// Numbers at the ends of what is accepted get an answer or an error, and no
// policy searches on for ever.
func TestExtremes(t *testing.T) {
	for _, name := range policies.Names() {
		for _, variant := range []string{"", ":agnostic", ":packed"} {
			policy, err := policies.ParsePolicy(name + variant)
			if err != nil {
				continue
			}
			for n := range 625 {
				p := three()
				p.Problem = problems.Extreme(n)
				if a, err := policy.Allocate(p); (err == nil) == (a == nil) {
					t.Errorf("%s%s: %v and %v", name, variant, a, err)
				}
			}
		}
	}
}

// wasteful policies leave GPUs idle that somebody could use: that is their rule.
var wasteful = map[string]bool{"isolated": true, "proportional": true, "allox": true, "gandiva": true, "strategy-proof": true}

func TestBadPairs(t *testing.T) {
	for want, spoil := range map[string]func(*policies.Problem){
		"1 and 2 GPUs": func(p *policies.Problem) {
			p.Jobs[1].GPUs = 2
			p.Pairs = []policies.Pair{{A: 0, B: 1, Speed: make([][2]float64, 3)}}
		},
		"want two jobs":  func(p *policies.Problem) { p.Pairs = []policies.Pair{{A: 0, B: 0, Speed: make([][2]float64, 3)}} },
		"1 speeds for 3": func(p *policies.Problem) { p.Pairs = []policies.Pair{{A: 0, B: 1, Speed: make([][2]float64, 1)}} },
		"speeds [-1 0]": func(p *policies.Problem) {
			p.Pairs = []policies.Pair{{A: 0, B: 1, Speed: [][2]float64{{-1, 0}, {}, {}}}}
		},
	} {
		p := three([]float64{0.5, 1, 2}, []float64{1, 2, 3})
		spoil(p)
		_, err := policies.Policy{Name: "max-min"}.Allocate(p)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
