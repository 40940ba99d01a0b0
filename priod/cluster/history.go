package cluster

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// UsePeriod is how far back trial-and-error use counts against a budget.
const UsePeriod = 24 * time.Hour

// History is what priod knows beyond one snapshot. It is fed by Observe and by
// the outcomes of writes, is the same in the daemon and in the simulator, and
// can be lost: then budgets and orders start from what Slurm shows.
type History struct {
	// FirstEligible is when a job still in the queue could first have run; a
	// requeue resets Slurm's own times.
	FirstEligible JobMap[time.Time]
	// Counted is the class under which a job in the queue was last ranked.
	Counted JobMap[Class]
	// Written holds the last write for each job in the queue.
	Written map[JobID]Written
	// Requests holds what priod made of the requests of jobs in the queue, until
	// it has taken that back.
	Requests map[JobID]map[slurmplug.Lever]Requested
	// Sizes holds what became of other sizes for waiting jobs.
	Sizes map[JobID]SizePast
	// Refused holds the last refusal of each field of a waiting job.
	Refused map[JobID]map[slurmplug.Lever]Refusal
	// Claiming are the jobs for which room is being made or held: they go before
	// others of their class. Returning are the BE jobs that were evicted and have
	// not started again: they go before other BE jobs. Both come from the journal
	// of evictions.
	Claiming, Returning map[JobID]bool
	// LostFor is the work, in GPU-seconds, that evictions for the TE jobs of each user lost within a day.
	LostFor map[string]float64
	// Reserved are the nodes that priod keeps for claims by reservations of its own: a
	// minute later they are as free for others as before.
	Reserved map[string]bool

	former  func(j *Job, inherits bool) // see Remember
	running JobMap[*Stay]
	recent  map[Run]*Stay        // closed intervals that still reach into UsePeriod, and some that lately did
	swept   time.Time            // recent was, of those that do no more
	changes int                  // of recent, but for those too old
	ends    []Stay               // of recent those of TE jobs, by their start; nil: to be rebuilt
	filled  []Stay               // from accounting, not yet returned by Observe
	past    map[JobID][]PastStay // from accounting, since the last Observe
	seen    JobMap[sight]        // which job an id names, see known
	tags    JobMap[comment]      // see KeepTags
	unread  map[JobID]bool       // jobs of the last poll whose records no poll could read
	poll    uint32               // counts calls of Observe
	at      time.Time            // of the last snapshot
}

// NewHistory returns a History that knows nothing.
func NewHistory() *History {
	return &History{
		Written:  map[JobID]Written{},
		Requests: map[JobID]map[slurmplug.Lever]Requested{},
		Sizes:    map[JobID]SizePast{},
		Refused:  map[JobID]map[slurmplug.Lever]Refusal{},
		recent:   map[Run]*Stay{},
		past:     map[JobID][]PastStay{},
		unread:   map[JobID]bool{},
	}
}

// Restore puts back an stay that an earlier process recorded.
func (h *History) Restore(i Stay) {
	if !i.Closed {
		h.running.Set(i.Job, &i)
		return
	}
	h.keep(i)
}

// keep takes in an interval that is over.
func (h *History) keep(i Stay) {
	_, again := h.recent[i.Run()]
	h.recent[i.Run()] = &i
	h.changes++
	switch n := len(h.ends); {
	case again || h.ends == nil:
		h.ends = nil
	case i.Class == TE:
		for h.ends = append(h.ends, i); n > 0 && h.ends[n-1].Start.After(i.Start); n-- {
			h.ends[n-1], h.ends[n] = h.ends[n], h.ends[n-1]
		}
	}
}

// pastTE are the intervals of TE jobs that are over and reach into UsePeriod, by their
// start: what a job ran too long it did last.
func (h *History) pastTE(since time.Time) iter.Seq[*Stay] {
	if h.ends == nil {
		h.ends = make([]Stay, 0, len(h.recent))
		for _, i := range h.recent {
			if i.Class == TE {
				h.ends = append(h.ends, *i)
			}
		}
		slices.SortFunc(h.ends, func(a, b Stay) int { return cmp.Or(a.Start.Compare(b.Start), a.Job.Compare(b.Job)) })
	}
	return func(yield func(*Stay) bool) {
		for i := range h.ends {
			if h.ends[i].End.After(since) && !yield(&h.ends[i]) {
				return
			}
		}
	}
}

// Saw says that an earlier process had this job in its last snapshot: a task
// known by itself inherits nothing more from its array.
func (h *History) Saw(j *Job) {
	h.seen.Set(j.ID, sight{Identify(j.User, j.Submit), h.poll})
	h.keepTag(j)
}

// comment is what a job's comment said of a tag: Job.TagText and TagErr.
type comment struct{ text, err string }

// KeepTags gives the jobs of a snapshot that have started what their tags said of evictions when they did, as far as
// polls have shown it. Their owners can change the comment of a running job: what they agreed to before holds for the
// run.
func (h *History) KeepTags(s *Snapshot) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State == Unread {
			continue
		}
		id, known := h.known(j)
		if now, was := (comment{j.TagText, j.TagErr}), h.tags.Get(id); known && j.State != Pending && now != was {
			j.keepTag(was)
		}
		h.keepTag(j)
	}
}

// keepTag gives a job back what an earlier comment said of evictions.
func (j *Job) keepTag(was comment) {
	tag := jobtag.Read(was.text).Tag
	if now := j.Tag; j.TagErr == "" && was.err == "" {
		if now.Type == tag.Type && now.Grace == tag.Grace && now.Signal == tag.Signal && now.Ckpt == tag.Ckpt {
			return
		}
		now.Type, now.Grace, now.Signal, now.Ckpt = tag.Type, tag.Grace, tag.Signal, tag.Ckpt
		tag = now
	}
	j.Tag, j.TagText, j.TagErr = tag, was.text, was.err
}

func (h *History) keepTag(j *Job) {
	now := comment{j.TagText, j.TagErr}
	switch was, known := h.tags.Find(j.ID); {
	case now == comment{}:
		h.tags.Delete(j.ID)
	case !known || was != now:
		h.tags.Set(j.ID, now)
	}
}

// Remember sets who puts into the History what priod wrote into a job that it does not know: one that was gone from the queue and
// was requeued, for a failed job is not in squeue until then, or one that an earlier process wrote into. A task that inherits holds
// what was written into its array.
func (h *History) Remember(recall func(j *Job, inherits bool)) { h.former = recall }

// Fill takes in what accounting knows: runs that no poll saw, exact ends of
// those that one did, and when requeued jobs could first have run.
func (h *History) Fill(past []PastStay) {
	for _, p := range past {
		if !p.Eligible.IsZero() {
			h.past[p.Job] = append(h.past[p.Job], p)
		}
		if !p.Closed || p.GPUs == 0 && p.Class != TE {
			continue
		}
		if r := h.running.Get(p.Job); r != nil && r.Run() == p.Run() {
			continue // the next poll ends it
		}
		p.Charge = p.Charged()
		known, ok := h.recent[p.Run()]
		if ok {
			p.Class = known.Class // as it was ranked, not as it was tagged
		}
		if ok && known.End.Equal(p.End) {
			continue
		}
		h.filled = append(h.filled, p.Stay)
		h.keep(p.Stay)
	}
}

// Observe takes in a snapshot and returns the stays that began or ended,
// in the order of the snapshot, ended ones last.
func (h *History) Observe(s *Snapshot) []Stay {
	changed := h.filled
	h.filled = nil
	if s.At.Before(h.at) || h.at.IsZero() {
		changed = append(changed, h.setBack(s.At)...)
	}
	h.at = s.At
	h.poll++
	clear(h.unread)
	charges := NewCharges(s)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		id, known := h.known(j)
		known = known && id == j.ID
		was := h.seen.Get(j.ID)
		was.poll = h.poll
		if j.State == Unread { // it did not leave; the first read of a new one is still to come
			if known {
				h.seen.Set(j.ID, was)
			} else {
				h.unread[j.ID] = true
			}
			continue
		}
		if !known {
			h.recallWritten(j)
			h.inherit(j.ID)
		}
		was.See(j)
		h.seen.Set(j.ID, was)
		h.keepOrder(j)
		if j.Tasks != "" && len(h.Written)+len(h.Requests) > 0 {
			h.collect(j)
		}
		h.recall(j)
		h.saved(j, s.At)
		switch j.State {
		case Pending:
			h.eligible(j, s.At)
		case Running:
			delete(h.Sizes, j.ID)
			changed = append(changed, h.extend(j, s.At, charges)...)
		}
	}
	changed = append(changed, h.end(s)...)
	clear(h.past)
	h.forget(s.At)
	return changed
}

// inherit gives a task that has got a record of its own what was known of its
// array.
func (h *History) inherit(id JobID) {
	if id.Task == slurmplug.NoTask {
		return
	}
	array := slurmplug.Plain(id.ID)
	h.FirstEligible.inherit(array, id)
	h.Counted.inherit(array, id)
	if past, known := h.Sizes[array]; known {
		if _, own := h.Sizes[id]; !own {
			h.Sizes[id] = past
		}
	}
	h.inheritWritten(id)
	h.inheritRequests(id)
}

// inherit gives a task without a value that of its array.
func (m *JobMap[T]) inherit(array, task JobID) {
	if _, known := m.Find(task); known {
		return
	}
	if v, known := m.Find(array); known {
		m.Set(task, v)
	}
}

// recall takes from accounting when a job could first have run. Ids come again:
// a run counts only where it can be the job's own.
func (h *History) recall(j *Job) {
	for _, p := range h.past[j.ID] {
		if j.Replaces(p.User, p.Submit) {
			continue
		}
		if t, known := h.FirstEligible.Find(j.ID); !known || p.Eligible.Before(t) {
			h.FirstEligible.Set(j.ID, p.Eligible)
		}
	}
}

func (h *History) eligible(j *Job, at time.Time) {
	if _, known := h.FirstEligible.Find(j.ID); known || j.Eligible.IsZero() {
		return
	}
	// What Slurm ranks already can run by Slurm's clock, which is the one that counts.
	if j.Eligible.After(at) && !j.SiteFactorKnown {
		return
	}
	h.FirstEligible.Set(j.ID, j.Eligible)
}

// extend lengthens the stay of a running job, or begins one and returns what
// that changed. A restart between two polls ends the old stay where it was last
// seen. Jobs without GPUs have one if they are TE.
func (h *History) extend(j *Job, at time.Time, charges *Charges) (changed []Stay) {
	old := h.running.Get(j.ID)
	if j.GPUs == 0 && old == nil && h.ClassOf(j) != TE {
		return nil
	}
	if old != nil && old.Start.Equal(j.Start) {
		old.End = Later(old.End, at)
		if class, known := h.Counted.Find(j.ID); known && class != old.Class { // found out while it runs
			old.Class = class
			return []Stay{*old}
		}
		return nil
	}
	if old != nil {
		changed = append(changed, h.close(old))
	}
	now := &Stay{
		Job: j.ID, Start: j.Start, End: Later(j.Start, at), GPUType: j.GPUType, GPUs: j.GPUs * max(j.TaskCount, 1),
		Charge: charges.Of(j) * float64(max(j.TaskCount, 1)),
		User:   j.User, Account: j.Account, Class: h.ClassOf(j), Restarts: j.Restarts,
	}
	if _, over := h.recent[now.Run()]; over { // it was not, after all
		delete(h.recent, now.Run())
		h.changes++
		h.ends = nil
	}
	h.running.Set(j.ID, now)
	return append(changed, *now)
}

// ClassOf is the class under which a job was last ranked; its tag says when it
// never was.
func (h *History) ClassOf(j *Job) Class {
	class, known := h.Counted.Find(j.ID)
	if !known && j.Tag.Type == "te" {
		class = TE
	}
	return class
}

// Later is the later one of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Earlier is the earlier one.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// end closes the stays of jobs that no longer run.
func (h *History) end(s *Snapshot) []Stay {
	if h.running.Len() == 0 {
		return nil
	}
	stopped := map[JobID]bool{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State != Running && j.State != Suspended && j.State != Unread && h.running.Get(j.ID) != nil {
			stopped[j.ID] = true
		}
	}
	var ended []Stay
	for id, i := range h.running.All() {
		if stopped[id] || h.gone(id) {
			ended = append(ended, h.close(i))
			h.running.Delete(id)
		}
	}
	slices.SortFunc(ended, func(a, b Stay) int { return a.Job.Compare(b.Job) })
	return ended
}

func (h *History) close(i *Stay) Stay {
	i.Closed = true
	h.keep(*i)
	return *i
}

// left reports whether the last poll showed neither the job nor the array in which it may still be.
func (h *History) left(id JobID) bool { return h.gone(id) && h.gone(slurmplug.Plain(id.ID)) }

// gone reports whether the last poll did not show the job.
func (h *History) gone(id JobID) bool { return h.seen.Get(id).poll != h.poll && !h.unread[id] }

func (h *History) forget(at time.Time) {
	h.FirstEligible.DeleteFunc(func(id JobID, _ time.Time) bool { return h.gone(id) })
	h.Counted.DeleteFunc(func(id JobID, _ Class) bool { return h.gone(id) })
	h.tags.DeleteFunc(func(id JobID, _ comment) bool { return h.gone(id) })
	maps.DeleteFunc(h.Written, func(id JobID, _ Written) bool { return h.gone(id) })
	maps.DeleteFunc(h.Requests, func(id JobID, _ map[slurmplug.Lever]Requested) bool { return h.gone(id) })
	maps.DeleteFunc(h.Sizes, func(id JobID, _ SizePast) bool { return h.left(id) })
	maps.DeleteFunc(h.Refused, func(id JobID, _ map[slurmplug.Lever]Refusal) bool { return h.left(id) })
	h.seen.DeleteFunc(func(_ JobID, s sight) bool { return s.poll != h.poll })
	if at.Sub(h.swept).Abs() < sweepEvery {
		return // readers of recent leave them out
	}
	since := at.Add(-UsePeriod)
	maps.DeleteFunc(h.recent, func(_ Run, i *Stay) bool { return !i.End.After(since) })
	h.swept, h.ends = at, nil
}

// sweepEvery is how often what is too old is taken out of a day's intervals, which are
// many.
const sweepEvery = 15 * time.Minute

// Changes is another number whenever Stays may have other ones that ended, but for those
// that are too old by now.
func (h *History) Changes() int { return h.changes }

// Charged is what a running job counts as in use, GPUs; false where no stay of it is open.
func (h *History) Charged(id JobID) (gpus float64, runs bool) {
	if i := h.running.Get(id); i != nil {
		return i.Charged(), true
	}
	return 0, false
}

// Stays are those on GPUs that are open, up to the last poll, and those that ended
// within UsePeriod, in no order. Without ended they are only those that are open. They are
// not to be written to.
func (h *History) Stays(ended bool) iter.Seq[*Stay] {
	return func(yield func(*Stay) bool) {
		for _, i := range h.running.All() {
			if i.GPUs > 0 && !yield(i) {
				return
			}
		}
		if !ended {
			return
		}
		since := h.at.Add(-UsePeriod)
		for _, i := range h.recent {
			if i.GPUs > 0 && i.End.After(since) && !yield(i) {
				return
			}
		}
	}
}

// Use is what trial-and-error jobs of one user or account hold and have had.
type Use struct {
	GPUs       float64 // held now, as Charges has them
	GPUSeconds float64 // of the same, within UsePeriod
}

// TEUse sums trial-and-error use by user and by account up to the time at, and
// returns how long each job ran as TE within UsePeriod. What a job runs beyond the
// limit of its user and account (0: none) is no TE use, and holds none.
func (h *History) TEUse(at time.Time, limit func(user, account string) time.Duration) (byUser, byAccount map[string]Use, ran map[JobID]time.Duration) {
	byUser, byAccount, ran = map[string]Use{}, map[string]Use{}, map[JobID]time.Duration{}
	since := at.Add(-UsePeriod)
	add := func(i *Stay, end time.Time, held float64) {
		took := max(end.Sub(i.Start), 0)
		beyond, most := time.Duration(0), limit(i.User, i.Account)
		if ran[i.Job] += took; most > 0 {
			beyond = min(max(ran[i.Job]-most, 0), took)
		}
		if beyond > 0 {
			held = 0
		}
		if start := Later(i.Start, since); !end.After(start) && held == 0 {
			return
		}
		seconds := i.Charged() * max(end.Sub(Later(i.Start, since))-beyond, 0).Seconds()
		for _, to := range []struct {
			m    map[string]Use
			name string
		}{{byUser, i.User}, {byAccount, i.Account}} {
			u := to.m[to.name]
			u.GPUs += held
			u.GPUSeconds += seconds
			to.m[to.name] = u
		}
	}
	for i := range h.pastTE(since) {
		add(i, i.End, 0)
	}
	for _, i := range h.running.All() {
		if i.Class == TE {
			add(i, at, i.Charged())
		}
	}
	return byUser, byAccount, ran
}
