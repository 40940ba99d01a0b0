package allocate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// entry is one job of the ledger.
type jobRecord struct {
	plan.Share
	id          string
	user        string
	submit      time.Time // Slurm's; a requeue resets it
	firstSubmit time.Time // no run from before is its own; zero: not known
	request     request
	program     program
	profile     *speedProfile
	runs        map[int64]cluster.Interval // by start, Unix s
	poll        uint32

	work, left      float64 // s on its fastest type: all of it, and what is still to do
	isolatedElapsed float64 // what its work so far would have taken in isolation, s
	countedWork     float64 // the work for which that is so
	isolatedRate    float64 // of work in isolation
	storedFits      []bool  // types on which it fitted while it waited, by an earlier process; nil: not known

	excluded placement.Types // types on which it cannot run, by what a closer look told of it
}

// request is all that decides on which types a job fits.
type request struct {
	gpuType, features, partition string
	nodes, gpus, cpus            int
	memMB                        int64
	node                         cluster.Least
}

// programKey is all that decides how fast a job is.
type program struct {
	workload, speed, user, name string
	gpus                        int
}

type profileKey struct {
	request  request
	program  program
	excluded placement.Types
}

// kind is what jobs with the same request and program have in common.
type speedProfile struct {
	answers *speed.Answers
	speed   []float64 // of those on which it fits, the fastest 1
	steps   float64   // steps per second of the fastest; 0: not known
}

// takesPart tells whether the allocation counts a job.
func (l *Ledger) takesPart(j *cluster.Job, h *cluster.History, at time.Time) bool {
	if j.GPUs <= 0 || j.HetLeader != 0 || !l.set.Ranking.Ranks(j.Partition) {
		return false
	}
	switch j.State {
	case cluster.Running, cluster.Suspended:
		return true
	case cluster.Pending:
		return l.set.Ranking.Alone(j) == "" && (!h.FirstEligible[j.ID].IsZero() || j.Begins(at))
	}
	return false
}

// meet finds out which jobs there are, what they are and where they fit.
func (l *Ledger) syncJobs(s *cluster.Snapshot, h *cluster.History) {
	l.poll++
	var empty *nodemap.Map
	nodes := func() *nodemap.Map {
		if empty == nil {
			empty = nodemap.New(s)
		}
		return empty
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if !l.takesPart(j, h, s.At) {
			continue
		}
		e := l.jobs[j.ID]
		if e != nil && (!cluster.SameUser(e.user, j.User) || j.Restarts == 0 && j.Submit.After(e.submit)) {
			e = nil // the id means another job now
		}
		if e == nil {
			e = l.newRecord(j)
			l.jobs[j.ID], l.shares.Jobs[j.ID] = e, &e.Share
			delete(l.departed, j.ID)
			l.dirty = true
		}
		if e.poll == 0 {
			l.shares.Jobs[j.ID] = &e.Share
			l.dirty = true
		}
		e.poll, e.submit = l.poll, j.Submit
		l.updateRequest(e, j, h.Own(j, slurmplug.Features), nodes)
	}
	for id, e := range l.jobs {
		if e.poll != l.poll {
			if len(e.runs) > 0 {
				l.departed[id] = e
			}
			delete(l.jobs, id)
			delete(l.shares.Jobs, id)
			l.dirty = true
		}
	}
	if len(l.profiles) > 2*len(l.jobs)+1024 { // mostly of jobs that are gone
		clear(l.profiles)
		clear(l.fits)
	}
}

// newcomer is a job's entry. A task that has got a record of its own was
// promised what its array was.
func (l *Ledger) newRecord(j *cluster.Job) *jobRecord {
	e := &jobRecord{id: j.ID.String(), user: j.User, submit: j.Submit, runs: map[int64]cluster.Interval{}}
	e.Promised = make([]float64, len(l.shares.Types))
	if j.Restarts == 0 {
		e.firstSubmit = j.Submit
	}
	if j.ID.Task != slurmplug.NoTask {
		if array := l.jobs[slurmplug.Plain(j.ID.ID)]; array != nil && cluster.SameUser(array.user, j.User) {
			e.Promised, e.Time, e.Given = slices.Clone(array.Promised), array.Time, array.Given
			e.request, e.storedFits, e.excluded = array.request, array.storedFits, array.excluded
		}
	}
	return e
}

// describe brings up to date what a job is. What a running job asked for Slurm
// does not show as it was: that stays as it was known.
func (l *Ledger) updateRequest(e *jobRecord, j *cluster.Job, constraint string, nodes func() *nodemap.Map) {
	r := request{
		gpuType: j.GPUType, features: constraint, partition: j.Partition, nodes: j.Nodes, gpus: j.GPUs, cpus: j.CPUs, memMB: j.MemMB, node: j.Node,
	}
	waits := j.State == cluster.Pending
	switch {
	case waits:
		e.storedFits = nil
	case e.request != (request{}):
		r = e.request
	}
	if e.profile != nil && r == e.request {
		return
	}
	e.request = r
	e.program = program{workload: j.Tag.Workload, speed: speedText(j.Tag.Speed), gpus: j.GPUs}
	if j.Tag.Workload == "" {
		e.program.user, e.program.name = j.User, j.Name
	}
	key := profileKey{r, e.program, e.excluded}
	k := l.profiles[key]
	if k == nil || e.storedFits != nil {
		k = &speedProfile{}
		fits := e.storedFits
		if fits == nil {
			fits = without(l.fittingTypes(r, j, nodes), e.excluded)
			l.profiles[key] = k
		}
		l.lookUpSpeeds(k, j, fits)
	}
	l.dirty = l.dirty || e.profile == nil || !slices.Equal(e.profile.speed, k.speed)
	e.profile, e.Answers, e.Speed = k, k.answers, k.speed
}

// Exclude takes in on which types, in the order of the last Allocate, jobs cannot run:
// the next Allocate gives them no time there.
func (l *Ledger) Exclude(out map[cluster.JobID]placement.Types) {
	for id, types := range out {
		if e := l.jobs[id]; e != nil && e.excluded != types {
			e.excluded, e.profile = types, nil
		}
	}
}

// except is fits without some types, unless it leaves none: then Slurm knows.
func without(fits []bool, out placement.Types) []bool {
	left := slices.Clone(fits)
	for t := range left {
		left[t] = left[t] && !out.Has(int32(t))
	}
	if !slices.Contains(left, true) {
		return fits
	}
	return left
}

func speedText(speeds map[string]float64) string {
	if len(speeds) == 0 {
		return ""
	}
	var b strings.Builder
	for _, t := range slices.Sorted(maps.Keys(speeds)) {
		fmt.Fprintf(&b, "%s:%x,", t, speeds[t])
	}
	return b.String()
}

// where tells on which types a job fits, on an empty cluster. A constraint that
// is not understood keeps it from none: Slurm knows.
func (l *Ledger) fittingTypes(r request, j *cluster.Job, nodes func() *nodemap.Map) []bool {
	fits, known := l.fits[r]
	if known {
		return fits
	}
	m := nodes()
	any := *j
	any.Features = r.features
	kinds, understood := m.Types(&any)
	if !understood {
		any.Features = ""
		kinds, _ = m.Types(&any)
	}
	empty := m.Empty()
	fits = make([]bool, len(l.shares.Types))
	for t, name := range l.shares.Types {
		var of placement.Types
		for k, n := range m.Kinds {
			if n.GPUType == name && kinds.Has(int32(k)) && l.countsNode(n) {
				of |= 1 << uint(k)
			}
		}
		if of != 0 {
			_, fits[t] = empty.Fit(m.Request(&any, of), nil)
		}
	}
	l.fits[r] = fits
	return fits
}

// judge asks how fast a job is.
func (l *Ledger) lookUpSpeeds(k *speedProfile, j *cluster.Job, fits []bool) {
	asked := speed.Job{Tag: j.Tag, User: j.User, Name: j.Name, GPUs: j.GPUs}
	answers := l.set.Speeds.For(&asked, l.shares.Types, l.set.Table, l.set.Knowledge)
	k.answers, k.speed = &answers, make([]float64, len(fits))
	fastest := 0.0
	for t, a := range answers.Speeds {
		if fits[t] {
			k.speed[t] = a.Speed
			fastest = max(fastest, a.Speed)
		}
	}
	for t := range k.speed {
		if fastest > 0 {
			k.speed[t] /= fastest
		}
		if k.speed[t] == 1 && l.set.Table != nil && answers.Speeds[t].Source == speed.Workload {
			if id, known := l.set.Table.Lookup(j.Tag.Workload); known {
				k.steps, _ = l.set.Table.Speed(id, j.GPUs, l.shares.Types[t])
			}
		}
	}
}
