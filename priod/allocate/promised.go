package allocate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Due tells whether the last allocation is too old to stand at a time, or of a later
// one: the clock was set back.
func (l *Ledger) Due(at time.Time, set *Settings) bool {
	age := at.Sub(l.shares.At)
	return age < 0 || age >= set.Every
}

// divide solves the policy when it is time to.
func (l *Ledger) allocateWhenDue(s *cluster.Snapshot) {
	if sum(l.gpus) == 0 || !l.dirty && !l.Due(s.At, &l.set) {
		if l.failure != "" {
			l.note("%s", l.failure)
		}
		return // with every node down, what was allocated stays
	}
	entries := l.buildProblem(s)
	l.dirty, l.shares.At, l.failure = false, s.At, ""
	if len(entries) == 0 {
		return
	}
	a, err := l.set.Policy.Allocate(&l.problem)
	if err != nil {
		l.failure = fmt.Sprintf("the allocation failed and the last one stays: %v", err)
		if l.set.OnFailure != nil {
			l.failure += "; " + l.set.OnFailure(&l.problem, err)
		}
		l.note("%s", l.failure)
		return
	}
	if l.set.Policy.Name == "finish-time-fairness" {
		for i, rate := range l.problem.IsolatedRates() {
			entries[i].isolatedRate = rate
		}
	}
	for i := 0; i < len(entries); {
		n := i + 1
		for n < len(entries) && entries[n] == entries[i] {
			n++
		}
		entries[i].assignTimes(mean(a.Time[i:n]), s.At)
		i = n
	}
}

// mean is what each task of an array gets: policies such as fifo give some all of
// their time and others none.
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

// most is as how many jobs an unsplit array counts: more tasks than that change
// nobody's share much, and cost.
const maxTasks = 1000

// pose writes the problem down. An array is as many jobs as it has tasks.
func (l *Ledger) buildProblem(s *cluster.Snapshot) []*jobRecord {
	p := &l.problem
	*p = Problem{Types: p.Types[:0], Jobs: p.Jobs[:0], Warm: &l.warm}
	for t, name := range l.shares.Types {
		p.Types = append(p.Types, GPUType{Name: name, GPUs: l.gpus[t]})
	}
	entity := map[string]int{}
	var entries []*jobRecord
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := l.jobs[j.ID]
		if e == nil || !slices.ContainsFunc(e.Speed, func(v float64) bool { return v > 0 }) {
			continue
		}
		if e.isolatedRate > 0 {
			e.isolatedElapsed += max(e.work-e.left-e.countedWork, 0) / e.isolatedRate
		}
		e.countedWork = e.work - e.left
		row := ProblemJob{
			ID: e.id, Speed: e.Speed, GPUs: j.GPUs, Weight: l.weight(j.Account), StepsLeft: e.left,
			Elapsed: max(s.At.Sub(j.Submit).Seconds(), 0), IsolatedElapsed: e.isolatedElapsed, Arrival: float64(j.Submit.Unix()),
			Deadline: NoDeadline, Entity: NoEntity, Previous: e.Time,
		}
		if l.set.Policy.Name == "hierarchical" {
			row.Weight = 1
			at, known := entity[j.Account]
			if !known {
				at = len(p.Entities)
				entity[j.Account] = at
				p.Entities = append(p.Entities, l.entity(j.Account))
			}
			row.Entity = at
		}
		for range min(max(j.TaskCount, 1), maxTasks) {
			p.Jobs, entries = append(p.Jobs, row), append(entries, e)
		}
	}
	return entries
}

func (l *Ledger) weight(account string) float64 {
	if w, known := l.set.Weights[account]; known {
		return w
	}
	return 1
}

// entity is an account: the operator's weight, else Slurm's share.
func (l *Ledger) entity(account string) Entity {
	e := Entity{Name: account, Weight: l.weight(account), FIFO: slices.Contains(l.set.FIFO, account)}
	if _, said := l.set.Weights[account]; !said && l.set.Accounts[account] > 0 {
		e.Weight = l.set.Accounts[account]
	}
	return e
}

// A job keeps its times until one of them moves by a part of it: then little is
// written, and jobs do not swap places for nothing.
const (
	keepsPart = 0.05
	keepsTime = 1e-4
)

// give takes over new times if they differ enough from those that the job has.
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

// differences are by how much new times differ more than a job keeps.
func differences(old, now []float64) []float64 {
	d := make([]float64, len(now))
	for t, x := range now {
		d[t] = math.Abs(x-old[t]) - keepsTime - keepsPart*max(x, old[t])
	}
	return d
}

// owe sums what each job was promised, and finds its priority.
func (l *Ledger) updateOwed(at time.Time) {
	for _, e := range l.jobs {
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
