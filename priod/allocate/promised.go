package allocate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// NextAt is when the last allocation is too old.
func (l *Ledger) NextAt() time.Time { return l.shares.At.Add(l.set.Every) }

// due reports whether the last allocation is too old at a time, or lies after it because
// the clock was set back.
func (l *Ledger) due(at time.Time) bool { return at.Before(l.shares.At) || !at.Before(l.NextAt()) }

// allocateWhenDue lets the policy divide the time when jobs or GPUs came or went, or
// the last allocation is old.
func (l *Ledger) allocateWhenDue(s *cluster.Snapshot) {
	if sum(l.gpus) == 0 || !l.dirty && !l.due(s.At) {
		if l.failure != "" {
			l.note(plan.AllocationFailed, l.failure)
		}
		return // with every node down, what was allocated stays
	}
	records := l.buildProblem(s)
	l.dirty, l.shares.At, l.failure = false, s.At, ""
	if len(records) == 0 {
		return
	}
	a, err := l.set.Policy.Allocate(&l.problem)
	if err != nil {
		l.failure = fmt.Sprintf("the allocation failed and the last one stays: %v", err)
		if l.set.OnFailure != nil {
			l.failure += "; " + l.set.OnFailure(&l.problem, err)
		}
		l.note(plan.AllocationFailed, l.failure)
		return
	}
	if l.set.Policy == "finish-time-fairness" {
		for i, rate := range l.problem.IsolatedRates() {
			records[i].isolatedRate = rate
		}
	}
	for i := 0; i < len(records); {
		n := i + 1
		for n < len(records) && records[n] == records[i] {
			n++
		}
		records[i].assignTimes(l.byType(mean(a.Time[i:n])), s.At)
		i = n
	}
}

// mean returns the average of an array's tasks, which each of them gets: hierarchical with
// accounts in order of arrival gives some tasks all of their time and others none.
func mean(rows [][]float64) []float64 {
	if len(rows) == 1 {
		return rows[0]
	}
	of := make([]float64, len(rows[0]))
	for _, row := range rows {
		for t, x := range row {
			of[t] += x / float64(len(rows))
		}
	}
	return of
}

func sum(n []int) (sum int) {
	for _, v := range n {
		sum += v
	}
	return sum
}

// maxTasks is the most tasks of an unsplit array that count as jobs of their own: more
// would change no share much, and cost time.
const maxTasks = 1000

// buildProblem builds the optimiser's problem from the records, an array as one job for
// each task. It returns the record that each job of the problem belongs to.
func (l *Ledger) buildProblem(s *cluster.Snapshot) []*jobRecord {
	p, rows := &l.problem, 0
	for i, e := range l.queue {
		if e != nil {
			rows += tasksOf(&s.Jobs[i])
		}
	}
	*p = Problem{Types: p.Types[:0], Jobs: slices.Grow(p.Jobs[:0], rows), Warm: &l.warm}
	l.setColumns()
	for i, c := range l.columns {
		p.Types = append(p.Types, GPUType{Name: l.shares.Types[c.gpuType], GPUs: c.gpus})
		if i > 0 && l.columns[i-1].gpuType == c.gpuType {
			p.Types[i].Pool = p.Types[i-1].Pool + 1
		}
	}
	speeds := map[*speedProfile][]float64{}
	entity := map[string]int{}
	records := make([]*jobRecord, 0, rows)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := l.queue[i]
		if e == nil || !slices.ContainsFunc(e.Speed, func(v float64) bool { return v > 0 }) {
			continue
		}
		if e.isolatedRate > 0 {
			e.isolatedElapsed += max(e.work-e.left-e.countedWork, 0) / e.isolatedRate
		}
		e.countedWork = e.work - e.left
		if _, known := speeds[e.profile]; !known {
			speeds[e.profile] = l.spread(e.Speed, e.request.Partitions)
		}
		row := ProblemJob{
			ID: e.id, Speed: speeds[e.profile], GPUs: j.GPUs, Weight: l.weight(j.Account), StepsLeft: e.left,
			Elapsed: max(s.At.Sub(j.Submit).Seconds(), 0), IsolatedElapsed: e.isolatedElapsed, Arrival: float64(j.Submit.Unix()),
			Entity: NoEntity,
		}
		if l.set.Policy == "hierarchical" {
			row.Weight = 1
			at, known := entity[j.Account]
			if !known {
				at = len(p.Entities)
				entity[j.Account] = at
				p.Entities = append(p.Entities, l.entity(j.Account))
			}
			row.Entity = at
		}
		for range tasksOf(j) {
			p.Jobs, records = append(p.Jobs, row), append(records, e)
		}
	}
	return records
}

// tasksOf is how many jobs a record is to the optimiser: at least one, or those that may run at a time.
func tasksOf(j *cluster.Job) int { return min(max(j.TasksNow(), 1), maxTasks) }

// weight returns the weight of an account's jobs.
func (l *Ledger) weight(account string) float64 {
	if w, known := l.set.Weights[account]; known {
		return w
	}
	return 1
}

// entity returns an account as an entity: with the operator's weight, else Slurm's
// share.
func (l *Ledger) entity(account string) Entity {
	e := Entity{Name: account, Weight: l.weight(account), FIFO: slices.Contains(l.set.FIFO, account)}
	if _, said := l.set.Weights[account]; !said && l.set.Accounts[account] > 0 {
		e.Weight = l.set.Accounts[account]
	}
	return e
}

// A job keeps its times until one of them would change by more than keepsTime and by
// more than keepsPart of it: else priorities would be written, and jobs swap places,
// for nothing.
const (
	keepsPart = 0.05
	keepsTime = 1e-4
)

// assignTimes gives the job new times, if they differ enough from those that it has.
func (e *jobRecord) assignTimes(row []float64, at time.Time) {
	if e.Time != nil && !slices.ContainsFunc(differences(e.Time, row), func(d float64) bool { return d > 0 }) {
		return
	}
	passed := max(at.Sub(e.Given).Seconds(), 0)
	for t := range e.Promised {
		if e.Time != nil {
			e.Promised[t] += e.Time[t] * passed
		}
	}
	e.Time, e.Given = slices.Clone(row), at
}

// differences are how far new times lie beyond what a job keeps its old ones for.
func differences(old, now []float64) []float64 {
	d := make([]float64, len(now))
	for t, x := range now {
		d[t] = math.Abs(x-old[t]) - keepsTime - keepsPart*max(x, old[t])
	}
	return d
}

// updateOwed works out what each job is owed of each type: the time that it was
// promised so far, minus what it received. Priority is Gavel's (section 5, round-based
// scheduling): the fraction of the allocation over the fraction received since the last
// reset, the highest over the types; plan.Untouched stands for a division by 0.
func (l *Ledger) updateOwed(at time.Time) {
	for _, e := range l.queue {
		if e == nil {
			continue
		}
		passed := max(at.Sub(e.Given).Seconds(), 0)
		e.Priority = 0
		for t := range e.Owed {
			e.Owed[t] = e.Promised[t] - e.Seconds[t]
			if e.Time == nil {
				continue
			}
			e.Owed[t] += e.Time[t] * passed
			switch x, had := e.Time[t], e.Received[t]; {
			case !(x > 0) || e.Speed[t] == 0:
			case had > 0:
				e.Priority = max(e.Priority, x/had)
			default:
				e.Priority = max(e.Priority, x*plan.Untouched)
			}
		}
	}
}
