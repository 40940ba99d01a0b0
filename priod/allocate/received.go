package allocate

import (
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// recordRuns enters into the account which job ran where. The fractions count from the last
// whole multiple of Settings.Every, so that they do not depend on when priod started.
// When the next multiple is reached, or a run turns up that began before the last one,
// the account is made again from all known runs. Runs that are over are entered once.
func (l *Ledger) recordRuns(s *cluster.Snapshot, h *cluster.History) {
	since := s.At.Truncate(max(l.set.Every, time.Second))
	anew := !since.Equal(l.since)
	ended := anew || l.members || h.Changes() != l.changes
	l.since, l.shares.Since, l.members, l.changes = since, since, false, h.Changes()
	var others []*cluster.Stay // of jobs without a record
	for stay := range h.Stays(ended) {
		e := l.jobs.Get(stay.Job)
		if e == nil {
			e = l.departed[stay.Job]
		}
		if e == nil {
			others = append(others, stay)
			continue
		}
		if !cluster.SameUser(stay.User, e.who.User()) || stay.Start.Before(e.firstSubmit) {
			continue
		}
		i := *stay
		i.GPUType = l.set.Speeds.Today(i.GPUType)
		switch r := e.run(i.Start); {
		case r != nil && *r == i:
			continue
		case r != nil:
			anew = anew || r.End.Before(since) // it was taken to have run before the fractions began
			*r = i
		default:
			anew = anew || i.Start.Before(since)
			e.runs = append(e.runs, i)
		}
		if !anew {
			l.account.Observe(i)
		}
	}
	if anew {
		l.account = NewAccount()
		clear(l.departed)
		for id, e := range l.jobs.All() {
			for _, i := range e.runs {
				i.Job = id
				i.End = cluster.Earlier(i.End, since)
				l.account.Observe(i)
			}
		}
		l.account.Reset()
		for id, e := range l.jobs.All() {
			for _, i := range e.runs {
				i.Job = id
				l.account.Observe(i)
			}
		}
	}
	if anew {
		others = others[:0]
		for stay := range h.Stays(true) {
			if l.jobs.Get(stay.Job) == nil && l.departed[stay.Job] == nil {
				others = append(others, stay)
			}
		}
	}
	for _, stay := range others { // they count in the fractions of all, too
		if stay.End.After(since) {
			i := *stay
			i.GPUType = l.set.Speeds.Today(i.GPUType)
			i.Start = cluster.Later(i.Start, since)
			l.account.Observe(i)
		}
	}
}

// updateReceived finds what each job has received of each type, and how long it would
// still run on each.
func (l *Ledger) updateReceived(s *cluster.Snapshot) {
	n, index := len(l.shares.Types), l.account.index(l.shares.Types)
	for i, e := range l.queue {
		if e == nil {
			continue
		}
		j := &s.Jobs[i]
		if len(e.Run) != n {
			all := make([]float64, 4*n)
			e.Seconds, e.Received, e.Owed, e.Run = all[:n:n], all[n:2*n:2*n], all[2*n:3*n:3*n], all[3*n:]
		}
		e.work = noTimeLimit
		switch {
		case j.Tag.Steps > 0 && e.profile.steps > 0:
			e.work = j.Tag.Steps / e.profile.steps
		case j.TimeLimit != slurmplug.Unlimited:
			e.work = j.TimeLimit.Seconds() * e.profile.slowest
		}
		done := 0.0
		if len(e.runs) > 0 {
			its := l.account.jobs.Get(j.ID)
			for t, at := range index {
				had := l.account.of(its, at)
				e.Seconds[t], e.Received[t] = had.received, l.account.fraction(had, at)
			}
			done = e.workDone(j, l.shares.Types, l.set.Speeds.Today(j.GPUType))
		}
		e.left, e.Beyond = max(e.work-done, 1), max(done-e.work, 0)
		for t, v := range e.Speed {
			e.Run[t] = math.Inf(1)
			if v > 0 {
				e.Run[t] = e.left / v
			}
		}
	}
}

// workDone is the work that a job has done and would not have to do again, in seconds
// on its fastest type: all of it when the job saves its state, else that of its present
// run.
func (e *jobRecord) workDone(j *cluster.Job, types []string, now string) (sum float64) {
	if j.Tag.Ckpt == 0 && j.Tag.Grace == 0 {
		run := e.run(j.Start)
		if at, known := slices.BinarySearch(types, now); run != nil && known && j.State != cluster.Pending {
			return run.End.Sub(run.Start).Seconds() * e.Speed[at]
		}
		return 0
	}
	for t, s := range e.Seconds {
		sum += s * e.Speed[t]
	}
	return sum
}
