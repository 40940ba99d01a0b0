package allocate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Problem is the input of a policy: GPU types and jobs.
type Problem struct {
	Types    []GPUType
	Jobs     []ProblemJob
	Entities []Entity
	Warm     *Warm // what the last solution of a similar problem leaves; may be nil
}

// GPUType is all GPUs of one type, or those of them that the same jobs can use.
type GPUType struct {
	Name string
	Pool int // counts from 0 those of a type
	GPUs int
}

// ProblemJob is one job of the problem. Every field has to be set: a zero is a zero.
type ProblemJob struct {
	ID              string
	Speed           []float64 // steps/s on each type with all of the job's GPUs; 0: cannot run there
	GPUs            int
	Weight          float64 // its share against others', above 0
	StepsLeft       float64
	Elapsed         float64 // s since its arrival
	IsolatedElapsed float64 // s that its steps so far would have taken in isolation (finish-time fairness)
	Arrival         float64 // s
	Entity          int     // index in Entities; NoEntity
}

// NoEntity is the Entity of a job without one.
const NoEntity = -1

// Entity is a group of jobs that shares as one: a Slurm account.
type Entity struct {
	Name   string
	Weight float64
	FIFO   bool // its jobs one after the other, else by their weights
}

// Warm carries prices from one problem to the next: when the queue has changed by one
// job, the optimiser needs a few steps only.
type Warm struct{ price []float64 }

// Usable reports whether a job may run on a type.
func (p *Problem) Usable(j *ProblemJob, t int) bool {
	return j.Speed[t] > 0 && j.GPUs <= p.Types[t].GPUs
}

// label names a type and its pool.
func (t *GPUType) label() string {
	if t.Pool == 0 {
		return t.Name
	}
	return fmt.Sprintf("%s pool %d", t.Name, t.Pool)
}

// gpus returns the GPUs of each type as the optimiser's numbers.
func (p *Problem) gpus() []float64 {
	n := make([]float64, len(p.Types))
	for t := range n {
		n[t] = float64(p.Types[t].GPUs)
	}
	return n
}

// Larger numbers than huge, and speeds and weights below tiny, are refused: policies
// would overflow, or search without end. The steps left of a job may be as few as they
// are.
const huge, tiny = 1e30, 1e-30

func isCount(v float64) bool { return v >= 0 && v <= huge }

// Check says what is wrong with a problem. A job that fits no type is not wrong: it
// gets nothing, and a note.
func (p *Problem) Check() error {
	if len(p.Types) == 0 {
		return errors.New("no GPU types")
	}
	total := 0
	for _, t := range p.Types {
		if t.GPUs < 0 {
			return fmt.Errorf("GPU type %.80q: %d GPUs: want no negative number", t.Name, t.GPUs)
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
	case j.Entity != NoEntity && (j.Entity < 0 || j.Entity >= len(p.Entities)):
		return fmt.Errorf("no entity %d", j.Entity)
	}
	return nil
}

// Arrivals lists the jobs by arrival, then as they stand.
func (p *Problem) Arrivals() []int {
	order := make([]int, len(p.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Jobs[a].Arrival, p.Jobs[b].Arrival) })
	return order
}

// NoTimes returns an allocation in which no job has any time.
func (p *Problem) NoTimes() *Allocation {
	a := &Allocation{Time: make([][]float64, len(p.Jobs)), Bound: math.NaN(), Objective: math.NaN()}
	flat := make([]float64, len(p.Jobs)*len(p.Types))
	for i := range a.Time {
		a.Time[i], flat = flat[:len(p.Types):len(p.Types)], flat[len(p.Types):]
	}
	return a
}
