// Package allocate divides the time of GPUs of several types among jobs, as
// the policies of Gavel (OSDI 2020) do: an allocation says for each job and GPU
// type the fraction of wall time that the job spends there. Each policy has a
// file, at whose top stand its objective and constraints.
//
// Of all policies holds: a job spends at most its whole time (sum over types
// <= 1), no type gives more than it has (sum of time x gang <= GPUs), a gang
// larger than a type's GPUs never gets that type. Jobs that nothing tells apart
// are one class (classes.go). Policies that raise all jobs together are a
// curve, rate of each job over a common level, and one search (raise.go, on
// package market).
package allocate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slurmprio/priod/allocate/lp"
	"slurmprio/priod/allocate/market"
)

// Allocation is who spends which fraction of time where, and the proof.
type Allocation struct {
	Time      [][]float64 // by job and type; rows may be shared, do not write
	Rate      []float64   // steps/s of each job with that
	Objective float64     // as the policy defines it
	Bound     float64     // no allocation is better than this; NaN: the policy is a rule without objective
	Notes     []string
}

// Policy is one of Names, with its variant.
type Policy struct {
	Name     string
	Agnostic bool // takes all GPU types for equally fast
}

type solver func(*Problem) (*Allocation, error)

var policies = map[string]solver{
	"max-min":              maxMin,
	"water-filling":        waterFilling,
	"hierarchical":         hierarchical,
	"finish-time-fairness": finishTimeFairness,
	"makespan":             makespan,
	"max-throughput":       maxThroughput,
	"min-cost":             minCost,
	"fifo":                 fifo,
	"sjf":                  sjf,
	"isolated":             isolatedPolicy,
	"proportional":         proportionalPolicy,
}

// Names of the policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(policies)) }

// ParsePolicy reads NAME[:agnostic].
func ParsePolicy(text string) (Policy, error) {
	words := strings.Split(text, ":")
	p := Policy{Name: words[0]}
	for _, w := range words[1:] {
		if w != "agnostic" {
			return p, fmt.Errorf("policy %.80q: %.40q is not agnostic", text, w)
		}
		p.Agnostic = true
	}
	return p, p.check()
}

func (p Policy) check() error {
	if policies[p.Name] == nil {
		return fmt.Errorf("no policy %.80q: want one of %s", p.Name, strings.Join(Names(), ", "))
	}
	return nil
}

// Allocate solves the problem.
func (p Policy) Allocate(problem *Problem) (*Allocation, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := problem.Check(); err != nil {
		return nil, err
	}
	var a *Allocation
	err := problem.SolveRetrying(p.Name, func(problem *Problem) (err error) {
		a, err = problem.solve(p)
		return err
	})
	if err != nil {
		return nil, err
	}
	problem.AddRates(a)
	return a, nil
}

// Twice solves the problem, and where the optimiser fails once more without Warm:
// perhaps the start was bad.
func (p *Problem) SolveRetrying(policy string, solve func(*Problem) error) error {
	err := solve(p)
	if Numeric(err) && p.Warm != nil {
		cold := *p
		*p.Warm, cold.Warm = Warm{}, nil
		err = solve(&cold)
	}
	if err != nil {
		return fmt.Errorf("policy %s: %w", policy, err)
	}
	return nil
}

func (p *Problem) solve(by Policy) (a *Allocation, err error) {
	solve := policies[by.Name]
	if by.Agnostic {
		steps := by.Name == "finish-time-fairness" || by.Name == "makespan" || by.Name == "sjf"
		a, err = p.Agnostic(solve, steps, by.Name == "fifo" || by.Name == "sjf")
	} else {
		a, err = solve(p)
	}
	if err == nil {
		err = p.CheckTimes(a.Time, nil, nil)
	}
	return a, err
}

// ErrNumeric says that the optimiser's answer is none: it does not fit, or is far
// from what the prices promise.
var ErrNumeric = errors.New("the allocation is spoilt by rounding errors")

// Fit refuses an answer that rounding has spoilt. spent of the jobs' time and
// used of the types' GPUs are taken beside it; nil: nothing is.
func (p *Problem) CheckTimes(time [][]float64, spent, used []float64) error {
	const part = 1e-6
	if spent == nil {
		spent, used = make([]float64, len(p.Jobs)), make([]float64, len(p.Types))
	}
	sound := true
	for i, row := range time {
		for t, x := range row {
			sound = sound && x >= 0 // NaN is not
			spent[i] += x
			used[t] += x * float64(p.Jobs[i].GPUs)
		}
	}
	for i, sum := range spent {
		if !sound || !(sum <= 1+part) {
			return fmt.Errorf("job %.80q has %v of its time: %w", p.Jobs[i].ID, sum, ErrNumeric)
		}
	}
	for t, sum := range used {
		if sum > float64(p.Types[t].GPUs)*(1+part) {
			return fmt.Errorf("%v of %d GPUs of type %.80q: %w", sum, p.Types[t].GPUs, p.Types[t].Name, ErrNumeric)
		}
	}
	return nil
}

// Numeric says whether the error is the optimiser's: the problem is sound, and
// worth keeping.
func Numeric(err error) bool {
	return errors.Is(err, ErrNumeric) || errors.Is(err, market.ErrNumeric) || errors.Is(err, lp.ErrNumeric) || errors.Is(err, lp.ErrUnbounded)
}

// Rates adds to Rate what the times give, and notes who gets nothing because no
// type fits.
func (p *Problem) AddRates(a *Allocation) {
	if a.Rate == nil {
		a.Rate = make([]float64, len(p.Jobs))
	}
	for i := range p.Jobs {
		fits := false
		for t, s := range p.Jobs[i].Speed {
			a.Rate[i] += s * a.Time[i][t]
			fits = fits || p.Usable(&p.Jobs[i], t)
		}
		if !fits {
			a.Notes = append(a.Notes, fmt.Sprintf("job %.80q fits no GPU type: it gets nothing", p.Jobs[i].ID))
		}
	}
}
