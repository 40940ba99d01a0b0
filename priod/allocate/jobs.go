package allocate

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// jobRecord is what the ledger knows of one job. Its Share is what others read.
type jobRecord struct {
	plan.Share
	profile    *speedProfile
	runs       []cluster.Stay // few: one for each start, in Unix s
	work, left float64        // s on its fastest type: all of it, and what is still to do
	who        cluster.Identity
	could      bool   // it could have run before
	poll       uint32 // the last cycle in which the job was seen; 0: only a store knew it

	request     cluster.Request // by its user's own constraint and partitions
	id          string
	firstSubmit time.Time // runs from before are another job's with the same id; zero: not known

	isolatedElapsed float64 // s that its work so far would have taken in that reference
	countedWork     float64 // the work that isolatedElapsed covers
	isolatedRate    float64 // s of work per s in Gavel's isolated reference
	storedFits      []bool  // by type: whether it fitted while it waited, as an earlier process stored it; nil: not known

	excluded placement.Types // types on which it cannot run, see Exclude
}

// run is the run that began at a time; nil: none is known.
func (e *jobRecord) run(start time.Time) *cluster.Stay {
	for k := len(e.runs) - 1; k >= 0; k-- {
		if e.runs[k].Start.Unix() == start.Unix() {
			return &e.runs[k]
		}
	}
	return nil
}

// program is all that decides how fast a job is. User and name stand there only where runs
// are known by these.
type program struct {
	workload, speed, user, name string
	gpus                        int
}

// profileKey is what jobs that share a speedProfile have in common.
type profileKey struct {
	request  cluster.Request
	program  program
	excluded placement.Types
}

// speedProfile is how fast jobs with the same request and program are.
type speedProfile struct {
	answers *speed.Answers
	speed   []float64 // by type, the fastest 1; 0: the jobs do not fit
	steps   float64   // steps per second of the fastest; 0: not known
	slowest float64   // the lowest speed above 0: a time limit has to be enough on that type, too
}

// takesPart reports whether a job gets a part of the allocation: it wants GPUs in a
// ranked partition, and runs or could run. That it could run once, as History has it, stays so.
func (l *Ledger) takesPart(j *cluster.Job, could *bool, h *cluster.History, at time.Time) bool {
	if j.GPUs <= 0 || j.HetLeader != 0 || !l.set.Ranking.Ranks(j.Partition) {
		return false
	}
	switch j.State {
	case cluster.Running, cluster.Suspended:
		return true
	case cluster.Pending:
		if l.set.Ranking.Alone(j) != "" {
			return false
		}
		*could = *could || !h.FirstEligible.Get(j.ID).IsZero()
		return *could || j.Begins(at)
	}
	return false
}

// syncJobs brings the records up to the jobs of the snapshot: new ones for new jobs,
// none for jobs that left, and for each where it fits and how fast it is.
func (l *Ledger) syncJobs(s *cluster.Snapshot, h *cluster.History, nodes func() *nodemap.Map) {
	l.poll++
	known := 0
	l.queue = slices.Grow(l.queue[:0], len(s.Jobs))[:len(s.Jobs)]
	clear(l.queue)
	l.shares.Queue = slices.Grow(l.shares.Queue[:0], len(s.Jobs))[:len(s.Jobs)]
	clear(l.shares.Queue)
	partitions := s.PartitionsByName()
	empty := sync.OnceValue(func() *placement.Nodes { return nodes().Empty() })
	for i := range s.Jobs {
		j := &s.Jobs[i]
		e := l.jobs.Get(j.ID)
		if j.State == cluster.Unread { // it did not leave
			if e != nil {
				e.poll = l.poll
				known++
			}
			continue
		}
		if e != nil && !e.who.Is(j) {
			e = nil // Slurm gave the id to another job
		}
		could := e != nil && e.could
		if !l.takesPart(j, &could, h, s.At) {
			continue
		}
		if e == nil {
			e = l.newRecord(j)
			l.jobs.Set(j.ID, e)
			l.shares.Jobs.Set(j.ID, &e.Share)
			delete(l.departed, j.ID)
			l.dirty, l.members = true, true
		}
		if e.poll == 0 {
			l.shares.Jobs.Set(j.ID, &e.Share)
			l.dirty = true
		}
		l.queue[i], l.shares.Queue[i] = e, &e.Share
		known++
		e.who.See(j)
		e.poll, e.could = l.poll, could
		if e.profile == nil || j.State == cluster.Pending {
			partition := partitions.Starting(h.Reaches(j), j)
			l.updateRequest(e, j, h.Own(j, slurmplug.Features).String(), partition, nodes, empty)
		}
	}
	for id, e := range l.jobs.All() {
		if known == l.jobs.Len() {
			break // all are there
		}
		if e.poll != l.poll {
			if len(e.runs) > 0 {
				l.departed[id] = e
			}
			l.jobs.Delete(id)
			l.shares.Jobs.Delete(id)
			l.dirty, l.members = true, true
		}
	}
	if len(l.profiles) > 2*l.jobs.Len()+1024 { // most of them belong to jobs that are gone
		clear(l.profiles)
		l.fits = cluster.ByRequest[[]bool]{}
		clear(l.speeds)
	}
}

// newRecord makes a job's record. A task that has got a record of its own, apart from
// its array, keeps what was promised to the array.
func (l *Ledger) newRecord(j *cluster.Job) *jobRecord {
	e := &jobRecord{id: j.ID.String()}
	e.Promised = make([]float64, len(l.shares.Types))
	if j.Restarts == 0 {
		e.firstSubmit = j.Submit
	}
	if j.ID.Task != slurmplug.NoTask {
		if array := l.jobs.Get(slurmplug.Plain(j.ID.ID)); array != nil && array.who.Is(j) {
			e.Promised, e.Time, e.Given = slices.Clone(array.Promised), array.Time, array.Given
			e.request, e.storedFits, e.excluded = array.request, array.storedFits, array.excluded
		}
	}
	return e
}

// updateRequest takes over what a job asks for, by its user's own constraint and partitions, and looks up where it fits and how fast
// it is when that has changed. Of a running job Slurm shows what it got, not what it
// asked for: the request that was seen while it waited stays.
func (l *Ledger) updateRequest(e *jobRecord, j *cluster.Job, constraint, partition string, nodes func() *nodemap.Map, empty func() *placement.Nodes) {
	r := j.Asks(partition)
	r.Features, r.Admitted = constraint, false
	waits := j.State == cluster.Pending
	switch {
	case waits:
		e.storedFits = nil
	case e.request != (cluster.Request{}):
		r = e.request
	}
	if e.profile != nil && r == e.request {
		return
	}
	e.request = r
	p := program{workload: j.Tag.Workload, speed: l.speedText(j), gpus: j.GPUs}
	own := speed.Program{User: j.User, Name: j.Name, GPUs: j.GPUs}
	switch {
	case p.workload != "":
	case l.set.Knowledge.Knows(own):
		p.user, p.name = j.User, j.Name
	case l.set.Knowledge.Knows(own.Pooled()):
		p.name = j.Name
	}
	key := profileKey{r, p, e.excluded}
	k := l.profiles[key]
	if k == nil || e.storedFits != nil {
		k = &speedProfile{}
		fits := l.restoredFits(e, j, r, nodes, empty)
		if fits == nil {
			fits = without(l.fittingTypes(r, nodes, empty), e.excluded)
			l.profiles[key] = k
		}
		l.lookUpSpeeds(k, j, fits)
	}
	l.dirty = l.dirty || e.profile == nil || !slices.Equal(e.profile.speed, k.speed)
	e.profile, e.Answers, e.Speed = k, k.answers, k.speed
}

// restoredFits tells on which types a running job fits whose request was last seen by an earlier
// process, of which storedFits is left; nil for any other job. Nodes have changed since: it fits where
// it runs, and where its type was left open on those types, too, that have room for what it holds.
func (l *Ledger) restoredFits(e *jobRecord, j *cluster.Job, r cluster.Request, nodes func() *nodemap.Map, empty func() *placement.Nodes) []bool {
	if e.storedFits == nil {
		return nil
	}
	fits, open := slices.Clone(e.storedFits), 0
	for t, fit := range fits {
		if fit {
			open++
		}
		fits[t] = fit || l.shares.Types[t] == j.GPUType
	}
	if open < 2 {
		return fits
	}
	r.GPUType = ""
	for t, fit := range l.fittingTypes(r, nodes, empty) {
		fits[t] = fits[t] || fit
	}
	return fits
}

// speedText is what a job's tag says of its speeds. Many jobs have the same tag.
func (l *Ledger) speedText(j *cluster.Job) string {
	if j.TagText == "" {
		return fmt.Sprint(j.Tag.Speed)
	}
	text, known := l.speeds[j.TagText]
	if !known {
		text = fmt.Sprint(j.Tag.Speed)
		l.speeds[j.TagText] = text
	}
	return text
}

// Exclude says on which types, in the order of the last Allocate, jobs cannot run: the
// next Allocate gives them no time there.
func (l *Ledger) Exclude(out map[cluster.JobID]placement.Types) {
	for id, types := range out {
		if e := l.jobs.Get(id); e != nil && e.excluded != types {
			e.excluded, e.profile = types, nil
		}
	}
}

// without returns fits minus the excluded types; or all of fits when nothing would be
// left: Slurm decides then.
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

// fittingTypes tells on which types a job with this request would fit if the cluster were
// empty. A constraint that cannot be parsed is ignored.
func (l *Ledger) fittingTypes(r cluster.Request, nodes func() *nodemap.Map, empty func() *placement.Nodes) []bool {
	return l.fits.Get(&r, func() []bool { return l.fitOn(r.Job(), nodes(), empty) })
}

// fitOn is fittingTypes for a job that waits.
func (l *Ledger) fitOn(j cluster.Job, m *nodemap.Map, empty func() *placement.Nodes) []bool {
	kinds, understood := m.Types(&j)
	if !understood {
		j.Features = ""
		kinds, _ = m.Types(&j)
	}
	fits := make([]bool, len(l.shares.Types))
	for t, name := range l.shares.Types {
		var of placement.Types
		for k, n := range m.Kinds {
			if n.GPUType == name && kinds.Has(int32(k)) && l.countsNode(n) {
				of |= 1 << uint(k)
			}
		}
		if of != 0 {
			_, fits[t] = empty().Fit(m.Request(&j, of), nil)
		}
	}
	return fits
}

// lookUpSpeeds fills in how fast a job is on the types on which it fits.
func (l *Ledger) lookUpSpeeds(k *speedProfile, j *cluster.Job, fits []bool) {
	asked := speed.Job{Tag: j.Tag, User: j.User, Name: j.Name, GPUs: j.GPUs}
	answers := l.set.Speeds.For(&asked, l.shares.Types, l.set.Table, l.set.Knowledge)
	k.answers, k.speed, k.slowest = &answers, make([]float64, len(fits)), 1
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
		if k.speed[t] > 0 {
			k.slowest = min(k.slowest, k.speed[t])
		}
		if k.speed[t] == 1 && answers.Speeds[t].Source == speed.Workload {
			if id, known := l.set.Table.Lookup(j.Tag.Workload); known {
				k.steps, _ = l.set.Table.Speed(id, j.GPUs, l.shares.Types[t])
			}
		}
	}
}
