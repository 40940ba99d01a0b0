// Package policies is all of Gavel's policies (OSDI 2020): those of package allocate,
// which priod runs, and those that only the papers have. These are rules (fifo, sjf,
// isolated, proportional), what needs prices and deadlines (min-cost, max-throughput),
// each policy without regard to speeds, space sharing, where pairs of jobs run on the
// same GPUs, which Slurm does not do, and the baselines AlloX, Gandiva and
// strategy-proof.
package policies

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/allocate"
)

// Problem is what a policy divides, among jobs that may run in pairs.
type Problem struct {
	allocate.Problem
	PerHour   []float64   // the price of a GPU of each type for an hour, for min-cost; nil: unknown
	Deadlines []float64   // of each job, s from now; nil: none
	Previous  [][]float64 // the times of each job in the last allocation; nil: none
	Pairs     []Pair
	// Together says how fast two jobs run on the same GPUs of a type, in the
	// place of Pairs, for jobs that their kind tells apart. Not called for gangs
	// of different size; 0: they do not run together.
	Together func(a, b, gpuType int) (speedA, speedB float64)
	Kinds    []int  // with Together: which program each job runs
	Drawn    *Drawn // gandiva: the pairs of the last time; may be nil
}

// Pair is two jobs that may run on the same GPUs at the same time.
type Pair struct {
	A, B  int          // index in Jobs
	Speed [][2]float64 // of A and B, steps/s, on each type; 0: not together there
}

// Allocation is who spends which fraction of time where, alone and in pairs.
type Allocation struct {
	allocate.Allocation
	Pairs    []PairTime
	Mixes    []Mix     // Time and Pairs by class; nil: the policy looks at jobs one by one
	Discount []float64 // strategy-proof: the part of its time that each job keeps
}

// PairTime is the time that two jobs spend together.
type PairTime struct {
	A, B int
	Time []float64  // by type
	Rate [2]float64 // what that adds to the rates of A and B
}

// Mix is the time that the jobs of one class, or of two side by side, have on
// a type together.
type Mix struct {
	A, B  []int // their indices in Jobs, do not write; B is nil when nobody is beside A
	Type  int
	Time  float64    // how many run so at once, on average
	Speed [2]float64 // of one of A and one of B, steps/s
}

// Policy is one of Names, with its variants.
type Policy struct {
	Name     string
	Agnostic bool // takes all GPU types for equally fast
	Packed   bool // space sharing: pairs of jobs on the same GPUs
}

type solver func(*Problem) (*Allocation, error)

// alone are the policies without pairs.
var alone = map[string]solver{
	"max-min":              priods("max-min"),
	"water-filling":        priods("max-min"), // which goes on where others stop at the least
	"hierarchical":         priods("hierarchical"),
	"finish-time-fairness": priods("finish-time-fairness"),
	"makespan":             priods("makespan"),
	"max-throughput":       maxThroughput,
	"min-cost":             minCost,
	"fifo":                 fifo,
	"sjf":                  sjf,
	"isolated":             isolated,
	"proportional":         proportional,
	"allox":                alloX,
	"gandiva":              gandiva,
	"strategy-proof":       strategyProof,
}

// Of the policies without regard to speeds, steps count in some, and jobs stay on their type in some.
var (
	steps = []string{"finish-time-fairness", "makespan", "sjf", "allox"}
	stays = []string{"fifo", "sjf", "allox"}
)

// priods is a policy that priod runs.
func priods(policy allocate.Policy) solver {
	return func(p *Problem) (*Allocation, error) {
		a, err := policy.Solve(&p.Problem)
		if err != nil {
			return nil, err
		}
		return &Allocation{Allocation: *a}, nil
	}
}

// Names of the policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(alone)) }

// ParsePolicy reads NAME[:agnostic][:packed].
func ParsePolicy(text string) (Policy, error) {
	words := strings.Split(text, ":")
	p := Policy{Name: words[0]}
	for _, w := range words[1:] {
		switch w {
		case "agnostic":
			p.Agnostic = true
		case "packed":
			p.Packed = true
		default:
			return p, fmt.Errorf("policy %.80q: %.40q is neither agnostic nor packed", text, w)
		}
	}
	return p, p.check()
}

func (p Policy) check() error {
	switch {
	case alone[p.Name] == nil:
		return fmt.Errorf("no policy %.80q: want one of %s", p.Name, strings.Join(Names(), ", "))
	case p.Packed && packedPolicies[p.Name] == nil:
		return fmt.Errorf("policy %s: no space sharing: %s have it", p.Name, strings.Join(slices.Sorted(maps.Keys(packedPolicies)), ", "))
	case p.Pairs() && p.Agnostic:
		return errors.New("space sharing looks at how fast pairs run: it cannot be agnostic")
	}
	return nil
}

// Pairs says whether jobs may run in pairs.
func (p Policy) Pairs() bool { return p.Packed || p.Name == "gandiva" }

// Allocate solves the problem.
func (p Policy) Allocate(problem *Problem) (*Allocation, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := problem.check(); err != nil {
		return nil, err
	}
	solve := alone[p.Name]
	if p.Packed {
		solve = packedPolicies[p.Name]
	} else if p.Agnostic {
		solve = func(q *Problem) (*Allocation, error) {
			return q.agnostic(alone[p.Name], slices.Contains(steps, p.Name), slices.Contains(stays, p.Name))
		}
	}
	var a *Allocation
	err := problem.SolveRetrying(p.Name, func(own *allocate.Problem) (err error) {
		whole := *problem
		if whole.Problem = *own; !p.Pairs() {
			whole.Pairs, whole.Together = nil, nil
		}
		a, err = whole.solve(solve)
		return err
	})
	if err != nil {
		return nil, err
	}
	a.Rate = make([]float64, len(problem.Jobs))
	for _, s := range a.Pairs {
		a.Rate[s.A] += s.Rate[0]
		a.Rate[s.B] += s.Rate[1]
	}
	problem.AddRates(&a.Allocation)
	return a, nil
}

// solve refuses an answer that rounding has spoilt.
func (p *Problem) solve(by solver) (*Allocation, error) {
	a, err := by(p)
	if err != nil {
		return nil, err
	}
	spent, used := make([]float64, len(p.Jobs)), make([]float64, len(p.Types))
	for _, s := range a.Pairs {
		for t, x := range s.Time {
			if !(x >= 0) {
				return nil, fmt.Errorf("jobs %.80q and %.80q have %v of their time: %w", p.Jobs[s.A].ID, p.Jobs[s.B].ID, x, allocate.ErrNumeric)
			}
			spent[s.A] += x
			spent[s.B] += x
			used[t] += x * float64(p.Jobs[s.A].GPUs)
		}
	}
	return a, p.CheckTimes(a.Time, spent, used)
}

// deadline of a job, s from now; infinite where it has none.
func (p *Problem) deadline(job int) float64 {
	if p.Deadlines == nil {
		return math.Inf(1)
	}
	return p.Deadlines[job]
}

// before are the times of a job in the last allocation; nil: none.
func (p *Problem) before(job int) []float64 {
	if job >= len(p.Previous) {
		return nil
	}
	return p.Previous[job]
}

// nothing is an allocation in which nobody has anything.
func (p *Problem) nothing() *Allocation { return &Allocation{Allocation: *p.NoTimes()} }

// check says what is wrong with a problem.
func (p *Problem) check() error {
	if err := p.Check(); err != nil {
		return err
	}
	for t, price := range p.PerHour {
		if !(price >= 0 && price <= huge) {
			return fmt.Errorf("GPU type %.80q: a price of %v: want a number from 0", p.Types[t].Name, price)
		}
	}
	for i, d := range p.Deadlines {
		if math.IsNaN(d) {
			return fmt.Errorf("job %.80q: deadline is no number", p.Jobs[i].ID)
		}
	}
	for _, s := range p.Pairs {
		if err := p.checkPair(s); err != nil {
			return err
		}
	}
	return nil
}

// huge is more than any speed.
const huge = 1e30

func (p *Problem) checkPair(s Pair) error {
	if s.A < 0 || s.B < 0 || s.A >= len(p.Jobs) || s.B >= len(p.Jobs) || s.A == s.B {
		return fmt.Errorf("pair of jobs %d and %d: want two jobs", s.A, s.B)
	}
	a, b := &p.Jobs[s.A], &p.Jobs[s.B]
	if a.GPUs != b.GPUs {
		return fmt.Errorf("pair of %.80q and %.80q: %d and %d GPUs: want as many", a.ID, b.ID, a.GPUs, b.GPUs)
	}
	if len(s.Speed) != len(p.Types) {
		return fmt.Errorf("pair of %.80q and %.80q: %d speeds for %d GPU types", a.ID, b.ID, len(s.Speed), len(p.Types))
	}
	for _, v := range s.Speed {
		if !(v[0] >= 0 && v[0] <= huge && v[1] >= 0 && v[1] <= huge) {
			return fmt.Errorf("pair of %.80q and %.80q: speeds %v: want steps/s from 0", a.ID, b.ID, v)
		}
	}
	return nil
}
