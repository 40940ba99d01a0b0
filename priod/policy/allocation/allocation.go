// Package allocation divides the time of GPUs of several types among jobs, as
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
package allocation

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/lp"
	"slurmprio/priod/policy/allocation/market"
)

// Problem is what a policy divides, and among whom.
type Problem struct {
	Types    []GPUType
	Jobs     []Job
	Entities []Entity
	Pairs    []Pair
	// Together says how fast two jobs run on the same GPUs of a type, in the
	// place of Pairs, for jobs that their Kind tells apart. Not called for gangs
	// of different size; 0: they do not run together.
	Together func(a, b, gpuType int) (speedA, speedB float64)
	Warm     *Warm // what the last solution of a similar problem leaves; may be nil
}

// GPUType is all GPUs of one type.
type GPUType struct {
	Name  string
	GPUs  int
	Price float64 // of one GPU for an hour, for min-cost; 0: unknown
}

// Job is one job. Every field has to be set: a zero is a zero.
type Job struct {
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
	Kind            int       // with Together: which program it runs
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

// Pair is two jobs that may run on the same GPUs at the same time.
type Pair struct {
	A, B  int          // index in Jobs
	Speed [][2]float64 // of A and B, steps/s, on each type; 0: not together there
}

// Allocation is who spends which fraction of time where, and the proof.
type Allocation struct {
	Time      [][]float64 // by job and type; rows may be shared, do not write
	Pairs     []PairTime
	Mixes     []Mix     // Time and Pairs by class; nil: the policy looks at jobs one by one
	Rate      []float64 // steps/s of each job with that
	Discount  []float64 // strategy-proof: the part of its time that each job keeps
	Objective float64   // as the policy defines it
	Bound     float64   // no allocation is better than this; NaN: the policy is a rule without objective
	Notes     []string
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

// Warm carries prices from one problem to the next: a queue that changes by a
// job costs a few steps then. For gandiva it carries the pairs.
type Warm struct {
	price []float64
	pairs [][2]string // ids
	draws uint64      // problems solved with it
}

// Policy is one of Names, with its variants.
type Policy struct {
	Name     string
	Agnostic bool // takes all GPU types for equally fast
	Packed   bool // space sharing: pairs of jobs on the same GPUs
}

type allocate func(*Problem) (*Allocation, error)

var policies = map[string]allocate{
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
	"allox":                alloX,
	"gandiva":              gandiva,
	"strategy-proof":       strategyProof,
}

// Names of the policies, sorted.
func Names() []string {
	var all []string
	for name := range policies {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

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
	case policies[p.Name] == nil:
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
	solve := policies[p.Name]
	if p.Packed {
		solve = packedPolicies[p.Name]
	}
	if p.Agnostic {
		solve = agnostic(p.Name, solve)
	}
	a, err := problem.solve(solve)
	if Numeric(err) && problem.Warm != nil { // perhaps the start was bad
		cold := *problem
		*problem.Warm, cold.Warm = Warm{}, nil
		a, err = cold.solve(solve)
	}
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	problem.rates(a)
	return a, nil
}

func (p *Problem) solve(by allocate) (*Allocation, error) {
	a, err := by(p)
	if err == nil {
		err = p.fit(a)
	}
	return a, err
}

// ErrNumeric says that the optimiser's answer is none: it does not fit, or is far
// from what the prices promise.
var ErrNumeric = errors.New("the allocation is spoilt by rounding errors")

// fit refuses an answer that rounding has spoilt.
func (p *Problem) fit(a *Allocation) error {
	const part = 1e-6
	used, spent := make([]float64, len(p.Types)), make([]float64, len(p.Jobs))
	sound := true
	add := func(row []float64, gpus int) (sum float64) {
		for t, x := range row {
			sound = sound && x >= 0 // NaN is not
			sum += x
			used[t] += x * float64(gpus)
		}
		return sum
	}
	for i, row := range a.Time {
		spent[i] += add(row, p.Jobs[i].GPUs)
	}
	for _, s := range a.Pairs {
		sum := add(s.Time, p.Jobs[s.A].GPUs)
		spent[s.A] += sum
		spent[s.B] += sum
	}
	for i, sum := range spent {
		if !sound || sum > 1+part {
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

// rates fills in Rate, and notes who gets nothing because no type fits.
func (p *Problem) rates(a *Allocation) {
	a.Rate = make([]float64, len(p.Jobs))
	for _, s := range a.Pairs {
		a.Rate[s.A] += s.Rate[0]
		a.Rate[s.B] += s.Rate[1]
	}
	for i := range p.Jobs {
		fits := false
		for t, s := range p.Jobs[i].Speed {
			a.Rate[i] += s * a.Time[i][t]
			fits = fits || p.usable(&p.Jobs[i], t)
		}
		if !fits {
			a.Notes = append(a.Notes, fmt.Sprintf("job %.80q fits no GPU type: it gets nothing", p.Jobs[i].ID))
		}
	}
}

func (p *Problem) usable(j *Job, t int) bool { return j.Speed[t] > 0 && j.GPUs <= p.Types[t].GPUs }

// Numbers beyond these are nobody's: what the policies make of them overflows, and
// some would search for ever. What is left of a job's steps may be as little as it is.
const huge, tiny = 1e30, 1e-30

// check says what is wrong with a problem. Jobs that fit no type are not: they
// get nothing, and a note.
func (p *Problem) check() error {
	number := func(v float64) bool { return v >= 0 && v <= huge }
	if len(p.Types) == 0 {
		return errors.New("no GPU types")
	}
	total := 0
	for _, t := range p.Types {
		if t.GPUs < 0 || !number(t.Price) {
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
		if err := p.checkJob(&p.Jobs[i], number); err != nil {
			return fmt.Errorf("job %.80q: %w", p.Jobs[i].ID, err)
		}
	}
	for _, s := range p.Pairs {
		if err := p.checkPair(s, number); err != nil {
			return err
		}
	}
	return nil
}

func (p *Problem) checkJob(j *Job, number func(float64) bool) error {
	if len(j.Speed) != len(p.Types) {
		return fmt.Errorf("%d speeds for %d GPU types", len(j.Speed), len(p.Types))
	}
	for t, s := range j.Speed {
		if !number(s) || s > 0 && s < tiny {
			return fmt.Errorf("speed %v on %.40q: want steps/s from 0", s, p.Types[t].Name)
		}
	}
	switch {
	case j.GPUs < 1:
		return fmt.Errorf("%d GPUs: want at least one", j.GPUs)
	case j.Weight < tiny || !number(j.Weight):
		return fmt.Errorf("weight %v: want a number above 0", j.Weight)
	case !number(j.StepsLeft) || !number(j.Elapsed) || !number(j.IsolatedElapsed):
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

func (p *Problem) checkPair(s Pair, number func(float64) bool) error {
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
		if !number(v[0]) || !number(v[1]) {
			return fmt.Errorf("pair of %.80q and %.80q: speeds %v: want steps/s from 0", a.ID, b.ID, v)
		}
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
