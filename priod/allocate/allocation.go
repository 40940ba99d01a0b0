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
	"math"
	"slices"
	"strings"

	"slurmprio/priod/allocate/lp"
	"slurmprio/priod/allocate/market"
)

// Problem is what a policy divides, and among whom.
type Problem struct {
	Types    []GPUType
	Jobs     []ProblemJob
	Entities []Entity
	Warm     *Warm // what the last solution of a similar problem leaves; may be nil
}

// GPUType is all GPUs of one type.
type GPUType struct {
	Name  string
	GPUs  int
	Price float64 // of one GPU for an hour, for min-cost; 0: unknown
}

// Job is one job. Every field has to be set: a zero is a zero.
type ProblemJob struct {
	ID              string
	Speed           []float64 // steps/s on each type with all of the job's GPUs; 0: cannot run there
	GPUs            int
	Weight          float64 // of its share, above 0
	StepsLeft       float64
	Elapsed         float64   // s since its arrival
	IsolatedElapsed float64   // s that its steps so far would have taken in isolation (finish-time fairness)
	Arrival         float64   // s
	Deadline        float64   // s from now; NoDeadline
	Entity          int       // index in Entities; NoEntity
	Previous        []float64 // its times in the last allocation; nil: none
}

// NoDeadline and NoEntity are what a Job has without one.
var NoDeadline = math.Inf(1)

const NoEntity = -1

// Entity is a group of jobs that shares as one: a Slurm account.
type Entity struct {
	Name   string
	Weight float64
	FIFO   bool // its jobs one after the other, else by their weights
}

// Allocation is who spends which fraction of time where, and the proof.
type Allocation struct {
	Time      [][]float64 // by job and type; rows may be shared, do not write
	Rate      []float64   // steps/s of each job with that
	Objective float64     // as the policy defines it
	Bound     float64     // no allocation is better than this; NaN: the policy is a rule without objective
	Notes     []string
}

// Warm carries prices from one problem to the next: a queue that changes by a
// job costs a few steps then.
type Warm struct{ price []float64 }

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

// Usable tells whether a job may run on a type.
func (p *Problem) Usable(j *ProblemJob, t int) bool {
	return j.Speed[t] > 0 && j.GPUs <= p.Types[t].GPUs
}

// Numbers beyond these are nobody's: what the policies make of them overflows, and
// some would search for ever. What is left of a job's steps may be as little as it is.
const huge, tiny = 1e30, 1e-30

func isCount(v float64) bool { return v >= 0 && v <= huge }

// Check says what is wrong with a problem. Jobs that fit no type are not: they
// get nothing, and a note.
func (p *Problem) Check() error {
	if len(p.Types) == 0 {
		return errors.New("no GPU types")
	}
	total := 0
	for _, t := range p.Types {
		if t.GPUs < 0 || !isCount(t.Price) {
			return fmt.Errorf("GPU type %.80q: %d GPUs at a price of %v: want no negative numbers", t.Name, t.GPUs, t.Price)
		}
		total += t.GPUs
	}
	if total == 0 {
		return errors.New("no GPUs")
	}
	for i, e := range p.Entities {
		if !(e.Weight > 0) || math.IsInf(e.Weight, 1) {
			return fmt.Errorf("entity %.80q: weight %v: want a number above 0", p.Entities[i].Name, e.Weight)
		}
	}
	for i := range p.Jobs {
		if err := p.checkJob(&p.Jobs[i]); err != nil {
			return fmt.Errorf("job %.80q: %w", p.Jobs[i].ID, err)
		}
	}
	return nil
}

func (p *Problem) checkJob(j *ProblemJob) error {
	if len(j.Speed) != len(p.Types) {
		return fmt.Errorf("%d speeds for %d GPU types", len(j.Speed), len(p.Types))
	}
	for t, s := range j.Speed {
		if !isCount(s) || s > 0 && s < tiny {
			return fmt.Errorf("speed %v on %.40q: want steps/s from 0", s, p.Types[t].Name)
		}
	}
	switch {
	case j.GPUs < 1:
		return fmt.Errorf("%d GPUs: want at least one", j.GPUs)
	case j.Weight < tiny || !isCount(j.Weight):
		return fmt.Errorf("weight %v: want a number above 0", j.Weight)
	case !isCount(j.StepsLeft) || !isCount(j.Elapsed) || !isCount(j.IsolatedElapsed):
		return fmt.Errorf("%v steps remaining after %v s (%v s in isolation): want numbers from 0", j.StepsLeft, j.Elapsed, j.IsolatedElapsed)
	case math.IsNaN(j.Arrival) || math.IsInf(j.Arrival, 0):
		return fmt.Errorf("arrival %v", j.Arrival)
	case math.IsNaN(j.Deadline):
		return errors.New("deadline is no number")
	case j.Entity != NoEntity && (j.Entity < 0 || j.Entity >= len(p.Entities)):
		return fmt.Errorf("no entity %d", j.Entity)
	}
	return nil
}

// gpus of each type, as the optimiser counts them.
func (p *Problem) gpus() []float64 {
	n := make([]float64, len(p.Types))
	for t := range n {
		n[t] = float64(p.Types[t].GPUs)
	}
	return n
}
