package allocate

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
)

// Account is the received and the promised of the jobs in the queue.
type Account struct {
	jobs  map[cluster.JobID]*job
	types []string  // GPU types, in the order in which they were met: they are few
	all   []float64 // by type: s that all jobs, also those forgotten, ran since Reset

	last   cluster.JobID // the job that was last looked for, and is often the next one
	lastOf *job          // nil: none was
}

type job struct {
	runs  map[int64]*run // by start, Unix nanoseconds
	last  *run
	types []account
}

// account is a job's on one GPU type.
type account struct {
	received float64 // s, holding all of its GPUs
	fresh    float64 // of that, since Reset
	promised float64 // s
}

// run is what an interval has added so far.
type run struct {
	start   int64
	gpuType string
	seconds float64
}

// New returns an account in which nobody has anything.
func New() *Account {
	return &Account{jobs: map[cluster.JobID]*job{}}
}

// job finds a job's account; nil when nothing is known.
func (a *Account) job(id cluster.JobID) *job {
	if a.lastOf == nil || a.last != id {
		a.last, a.lastOf = id, a.jobs[id]
	}
	return a.lastOf
}

// of finds a job's account of a type, and the type's index, and adds them.
func (a *Account) of(id cluster.JobID, gpuType string) (*job, int) {
	t := slices.Index(a.types, gpuType)
	if t < 0 {
		t = len(a.types)
		a.types = append(a.types, gpuType)
		a.all = append(a.all, 0)
	}
	j := a.job(id)
	if j == nil {
		j = &job{runs: map[int64]*run{}}
		a.jobs[id], a.lastOf = j, j
	}
	for len(j.types) <= t {
		j.types = append(j.types, account{})
	}
	return j, t
}

// Observe takes in an interval, or what is now known of it. One that ends
// before it starts counts nothing; one of an unknown GPU type counts nowhere.
func (a *Account) Observe(i cluster.Stay) {
	now := run{i.Start.UnixNano(), i.GPUType, max(i.End.Sub(i.Start).Seconds(), 0)}
	j, _ := a.of(i.Job, i.GPUType)
	old := j.last
	if old == nil || old.start != now.start {
		old = j.runs[now.start]
	}
	if old == nil {
		old = &run{start: now.start}
		j.runs[now.start] = old
	}
	a.add(i.Job, old, -1)
	a.add(i.Job, &now, 1)
	*old = now
	j.last = old
}

func (a *Account) add(id cluster.JobID, r *run, sign float64) {
	if r.gpuType == "" {
		return
	}
	j, t := a.of(id, r.gpuType)
	had := &j.types[t]
	had.received += sign * r.seconds
	had.fresh += sign * r.seconds
	a.all[t] += sign * r.seconds
}

// Promise adds what an allocation gives the job of a type while it stands:
// its fraction of the time that passed, s.
func (a *Account) Promise(id cluster.JobID, gpuType string, fraction float64, passed time.Duration) {
	if fraction > 0 && passed > 0 {
		j, t := a.of(id, gpuType)
		j.types[t].promised += fraction * passed.Seconds()
	}
}

// look is a job's account of a type; empty when nothing is known.
func (a *Account) look(id cluster.JobID, gpuType string) (account, int) {
	j, t := a.job(id), slices.Index(a.types, gpuType)
	if j == nil || t < 0 || t >= len(j.types) {
		return account{}, t
	}
	return j.types[t], t
}

// Received is how long the job has held all of its GPUs, of the type, in its
// life, s.
func (a *Account) Received(id cluster.JobID, gpuType string) float64 {
	had, _ := a.look(id, gpuType)
	return had.received
}

// Owed is what the job was promised of the type in its life and has not had,
// s; below zero when it has had more.
func (a *Account) Owed(id cluster.JobID, gpuType string) float64 {
	had, _ := a.look(id, gpuType)
	return had.promised - had.received
}

// Fraction is the job's part of the time that all jobs ran on the type since
// the last Reset; 0 when nobody did. As in Gavel it counts jobs, not GPUs.
func (a *Account) Fraction(id cluster.JobID, gpuType string) float64 {
	had, t := a.look(id, gpuType)
	if t < 0 || !(a.all[t] > 0) {
		return 0
	}
	return min(max(had.fresh/a.all[t], 0), 1)
}

// Reset begins the fractions anew, as Gavel does at each new allocation.
// What was received in a job's life, and promised, stays.
func (a *Account) Reset() {
	clear(a.all)
	for _, j := range a.jobs {
		for t := range j.types {
			j.types[t].fresh = 0
		}
	}
}

// Forget drops a job that has left the queue. Its time still counts in the
// others' fractions.
func (a *Account) Forget(id cluster.JobID) {
	delete(a.jobs, id)
	a.lastOf = nil
}
