// Package allocate says how much of which GPU type each job is to have, as Gavel does
// (Narayanan et al., OSDI 2020), and keeps an account of what was promised and
// received.
//
// An allocation gives each job, for each GPU type, the fraction of wall time that the
// job spends there. A policy of Gavel chooses the allocation. In every policy a job
// spends at most its whole time (the sum over the types is at most 1), and the jobs
// together use at most the GPUs that there are (for each type, the sum of time x gang
// is at most its GPUs); a gang larger than the GPUs of a type gets no time there.
//
// The daemon does not run jobs in rounds, as Gavel does. The Ledger follows the jobs
// and nodes of the cluster from cycle to cycle and lets a policy divide the time again
// when jobs or GPUs come or go, or the last allocation is old. It hands out, for each
// job, what it was promised of each type, what it has received there and the
// difference: the rooms order and steer decide by that.
//
// The ledger:
//   - ledger.go: settings, and one cycle from nodes and jobs to shares
//   - types.go: the GPU types and how many GPUs of each can be used; pools.go: by which jobs
//   - jobs.go: the jobs that take part, where they fit and how fast they are
//   - received.go: which job ran where, for how long, and how much work is left (account.go
//     adds up)
//   - promised.go: solves the policy, and what each job is owed since
//   - feature.go: how the allocation takes part in a cycle
//
// The policies:
//   - problem.go: the input of a policy; json.go: the same as JSON
//   - allocate.go: the list of policies, and what all of them have in common
//   - maxmin.go, finishtime.go, makespan.go, waterfilling.go (hierarchical),
//     throughput.go: one policy each, with its objective, its constraints and the
//     paper's section; tests/papers has the others of Gavel's table
//   - classes.go: jobs that nothing tells apart are solved as one
//   - raise.go: policies that raise the rates of all jobs together, by package market
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

// Allocation says which fraction of its time each job spends where, and proves how good that is.
type Allocation struct {
	Time      [][]float64 // by job and type; rows may be shared, do not write
	Rate      []float64   // steps/s of each job with that
	Objective float64     // as the policy defines it
	Bound     float64     // no allocation is better than this; NaN: the policy is a rule without objective
	Notes     []string
}

// Policy is one of Names.
type Policy string

type solver func(*Problem) (*Allocation, error)

var policies = map[Policy]solver{
	"max-min":              maxMin,
	"hierarchical":         hierarchical,
	"finish-time-fairness": finishTimeFairness,
	"makespan":             makespan,
	"max-throughput":       maxThroughput,
}

// Names of the policies, sorted.
func Names() (names []string) {
	for _, p := range slices.Sorted(maps.Keys(policies)) {
		names = append(names, string(p))
	}
	return names
}

// Check refuses what is none of Names.
func (p Policy) Check() error {
	if policies[p] == nil {
		return fmt.Errorf("no policy %.80q: want one of %s", p, strings.Join(Names(), ", "))
	}
	return nil
}

// Allocate solves the problem.
func (p Policy) Allocate(problem *Problem) (*Allocation, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := problem.Check(); err != nil {
		return nil, err
	}
	var a *Allocation
	err := problem.SolveRetrying(string(p), func(problem *Problem) (err error) {
		a, err = p.Solve(problem)
		return err
	})
	if err != nil {
		return nil, err
	}
	problem.AddRates(a)
	return a, nil
}

// SolveRetrying solves the problem. Where the optimiser fails it solves it again
// without Warm, which may have been a bad start.
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

// Solve solves a problem that is sound, once, and without Rate.
func (p Policy) Solve(problem *Problem) (*Allocation, error) {
	a, err := policies[p](problem)
	if err == nil {
		err = problem.CheckTimes(a.Time, nil, nil)
	}
	return a, err
}

// ErrNumeric says that the optimiser's answer is none: it does not fit, or is far
// from what the prices promise.
var ErrNumeric = errors.New("the allocation is spoilt by rounding errors")

// CheckTimes refuses times that rounding errors have spoilt: below 0, more than a job's
// whole time, or more GPUs than a type has. spent (of each job's time) and used (of
// each type's GPUs) are what is taken beside them; nil: nothing is.
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

// Numeric reports whether an error is the optimiser's own: the problem is sound then, and
// worth keeping for a repair of the optimiser.
func Numeric(err error) bool {
	return errors.Is(err, ErrNumeric) || errors.Is(err, market.ErrNumeric) || errors.Is(err, lp.ErrNumeric) || errors.Is(err, lp.ErrUnbounded)
}

// AddRates adds to Rate what the times give each job, and notes the jobs that get
// nothing because no type fits.
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
