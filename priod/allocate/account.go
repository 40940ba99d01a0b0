package allocate

import (
	"slices"

	"slurmprio/priod/cluster"
)

// Account adds up what each job has received of each GPU type.
type Account struct {
	jobs     cluster.JobMap[*jobAccount]
	gpuTypes []string  // GPU types, in the order in which they were met: they are few
	all      []float64 // by type: s that all jobs, also those that are gone, ran since Reset
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
}

// countedRun is what an interval has added to the account so far.
type countedRun struct {
	start   int64 // Unix nanoseconds
	gpuType string
	seconds float64
}

// NewAccount returns an account in which no job has anything.
func NewAccount() *Account { return &Account{} }

// findOrAdd returns a job's account and the index of a type in it, both added if they
// are new.
func (a *Account) findOrAdd(id cluster.JobID, gpuType string) (*jobAccount, int) {
	t := slices.Index(a.gpuTypes, gpuType)
	if t < 0 {
		t = len(a.gpuTypes)
		a.gpuTypes, a.all = append(a.gpuTypes, gpuType), append(a.all, 0)
	}
	j := a.jobs.Get(id)
	if j == nil {
		j = &jobAccount{}
		a.jobs.Set(id, j)
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

// index returns the places of types, below 0 for those without a run.
func (a *Account) index(gpuTypes []string) []int {
	at := make([]int, len(gpuTypes))
	for i, name := range gpuTypes {
		at[i] = slices.Index(a.gpuTypes, name)
	}
	return at
}

// of returns what a job has of the type with this index, zero when nothing is known of it
// (nil).
func (a *Account) of(j *jobAccount, t int) typeAccount {
	if j == nil || t < 0 || t >= len(j.types) {
		return typeAccount{}
	}
	return j.types[t]
}

// fraction is a job's part of the time that all jobs ran on the type with this index since
// the last Reset, given what it had; 0 when none did. As in Gavel it counts jobs, not GPUs.
func (a *Account) fraction(had typeAccount, t int) float64 {
	if t < 0 || !(a.all[t] > 0) {
		return 0
	}
	return min(max(had.fresh/a.all[t], 0), 1)
}

// Reset restarts the fractions, as Gavel does at each new allocation.
// What was received in a job's life stays.
func (a *Account) Reset() {
	clear(a.all)
	for _, j := range a.jobs.All() {
		for t := range j.types {
			j.types[t].fresh = 0
		}
	}
}
