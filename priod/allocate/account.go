package allocate

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
)

// Account adds up what each job has received and was promised of each GPU type.
type Account struct {
	jobs     map[cluster.JobID]*jobAccount
	gpuTypes []string  // GPU types, in the order in which they were met: they are few
	all      []float64 // by type: s that all jobs, also those forgotten, ran since Reset
}

// jobAccount is one job's part of the account.
type jobAccount struct {
	runs  []countedRun // few: one for each start
	types []typeAccount
}

// typeAccount is what one job has of one GPU type.
type typeAccount struct {
	received float64 // s, holding all of its GPUs
	fresh    float64 // of that, since Reset
	promised float64 // s
}

// countedRun is what an interval has added to the account so far.
type countedRun struct {
	start   int64 // Unix nanoseconds
	gpuType string
	seconds float64
}

// NewAccount returns an account in which no job has anything.
func NewAccount() *Account {
	return &Account{jobs: map[cluster.JobID]*jobAccount{}}
}

// findOrAdd returns a job's account and the index of a type in it, both added if they
// are new.
func (a *Account) findOrAdd(id cluster.JobID, gpuType string) (*jobAccount, int) {
	t := slices.Index(a.gpuTypes, gpuType)
	if t < 0 {
		t = len(a.gpuTypes)
		a.gpuTypes, a.all = append(a.gpuTypes, gpuType), append(a.all, 0)
	}
	j := a.jobs[id]
	if j == nil {
		j = &jobAccount{}
		a.jobs[id] = j
	}
	for len(j.types) <= t {
		j.types = append(j.types, typeAccount{})
	}
	return j, t
}

// Observe enters an interval in which a job ran, or what is now known of it: an
// interval with the same start replaces the earlier one. One that ends before it starts
// counts as 0 s; one of an unknown GPU type is not counted.
func (a *Account) Observe(i cluster.Stay) {
	now := countedRun{i.Start.UnixNano(), i.GPUType, max(i.End.Sub(i.Start).Seconds(), 0)}
	j, t := a.findOrAdd(i.Job, i.GPUType)
	k := len(j.runs) - 1
	for k >= 0 && j.runs[k].start != now.start {
		k--
	}
	if k < 0 {
		k, j.runs = len(j.runs), append(j.runs, countedRun{})
	}
	if old := j.runs[k]; old.gpuType != "" {
		a.addRun(j, slices.Index(a.gpuTypes, old.gpuType), old, -1)
	}
	if now.gpuType != "" {
		a.addRun(j, t, now, 1)
	}
	j.runs[k] = now
}

// addRun adds a run to what its job has received; sign -1 takes it back.
func (a *Account) addRun(j *jobAccount, t int, r countedRun, sign float64) {
	had := &j.types[t]
	had.received += sign * r.seconds
	had.fresh += sign * r.seconds
	a.all[t] += sign * r.seconds
}

// Promise adds what an allocation gives the job of a type while it is in force: its
// fraction of the time that has passed.
func (a *Account) Promise(id cluster.JobID, gpuType string, fraction float64, passed time.Duration) {
	if fraction > 0 && passed > 0 {
		j, t := a.findOrAdd(id, gpuType)
		j.types[t].promised += fraction * passed.Seconds()
	}
}

// get returns what a job has of a type, zero when nothing is known, and the type's
// index.
func (a *Account) get(id cluster.JobID, gpuType string) (typeAccount, int) {
	return a.of(a.jobs[id], gpuType)
}

// of is get for a job that was found; nil: nothing is known of it.
func (a *Account) of(j *jobAccount, gpuType string) (typeAccount, int) {
	t := slices.Index(a.gpuTypes, gpuType)
	if j == nil || t < 0 || t >= len(j.types) {
		return typeAccount{}, t
	}
	return j.types[t], t
}

// Received is how long the job has held all of its GPUs, of the type, in its
// life, s.
func (a *Account) Received(id cluster.JobID, gpuType string) float64 {
	had, _ := a.get(id, gpuType)
	return had.received
}

// Owed is what the job was promised of the type in its life and has not had,
// s; below zero when it has had more.
func (a *Account) Owed(id cluster.JobID, gpuType string) float64 {
	had, _ := a.get(id, gpuType)
	return had.promised - had.received
}

// Fraction is the job's part of the time that all jobs ran on the type since
// the last Reset; 0 when nobody did. As in Gavel it counts jobs, not GPUs.
func (a *Account) Fraction(id cluster.JobID, gpuType string) float64 {
	return a.fraction(a.get(id, gpuType))
}

// fraction is Fraction of what a job has of the type with this index.
func (a *Account) fraction(had typeAccount, t int) float64 {
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
func (a *Account) Forget(id cluster.JobID) { delete(a.jobs, id) }
