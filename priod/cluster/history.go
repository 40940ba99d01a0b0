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

// RevertPeriod is how soon a value must be written again for that to count as
// a fight with another writer over it.
const RevertPeriod = 10 * time.Minute

// Written is the last value that priod wrote into a job and how Slurm took it.
type Written struct {
	Lever   slurmplug.Lever `json:"lever"` // SiteFactor; in the journal, for priods that wrote others, too
	Value   int64           `json:"value"` // as written
	Tried   int64           `json:"tried"` // sent later, and not known whether Slurm took it; else Value
	At      time.Time       `json:"at"`
	Reverts int             `json:"reverts,omitempty"` // times that a value had to be written again within RevertPeriod each
	Older   []Sent          `json:"older,omitempty"`   // values before Value and Tried, the oldest first
}

// Sent is a value of priod's that a later one replaced.
type Sent struct {
	Value int64     `json:"value"`
	Until time.Time `json:"until"` // when the later one was sent
}

// slurmctld may show an older value of priod's again: one that dies loses what came after
// its last save, one that hung may carry out a command late. For so long after it was
// replaced such a value counts as priod's own.
const olderPeriod, maxOlder = 10 * time.Minute, 16

// Sent reports whether priod wrote a value itself: the last one, or one that may
// have come back since.
func (w Written) Sent(value int64) bool {
	return value == w.Value || value == w.Tried || slices.ContainsFunc(w.Older, func(o Sent) bool { return o.Value == value })
}

// Holding takes in that Slurm still showed a value at a time: an older one of
// priod's did not only come back.
func (w Written) Holding(value int64, at time.Time) Written {
	if i := slices.IndexFunc(w.Older, func(o Sent) bool { return o.Value == value }); i >= 0 {
		w.Older = append(slices.Delete(slices.Clone(w.Older), i, i+1), Sent{value, at})
	}
	return w
}

// Replaced gives what is Older once next is sent.
func (w Written) Replaced(next Written) []Sent {
	if w.Lever == "" {
		return nil // nothing was written
	}
	var older []Sent
	for _, o := range append(slices.Clone(w.Older), Sent{w.Value, next.At}, Sent{w.Tried, next.At}) {
		past := next.At.Sub(o.Until) >= olderPeriod
		if !past && o.Value != next.Value && !slices.ContainsFunc(older, func(e Sent) bool { return e.Value == o.Value }) {
			older = append(older, o)
		}
	}
	return older[max(0, len(older)-maxOlder):]
}

// Requested is what priod made of one field of a job's request. The values are as
// Slurm shows the field.
type Requested struct {
	Was   slurmplug.Value   `json:"was"`            // the user's own, from before priod first wrote: all else is made from it
	Value slurmplug.Value   `json:"value"`          // sent last
	Sure  bool              `json:"sure,omitempty"` // Slurm took Value
	Older []slurmplug.Value `json:"older,omitempty"`
	At    time.Time         `json:"at"`              // Value was sent
	Saved bool              `json:"saved,omitempty"` // Slurm has shown Value since, for so long that no older one can come back
}

// savedAfter is how long after a write slurmctld has surely written it to its state
// file, from which it would start again: it does within seconds (slurmctld/controller.c).
const savedAfter = 15 * time.Second

// maxSent is how many earlier values of priod's are remembered.
const maxSent = 16

// Next is r after another value was sent.
func (r Requested) Next(value slurmplug.Value, sure bool, at time.Time) Requested {
	var older []slurmplug.Value
	for _, s := range append(slices.Clone(r.Older), r.Value) {
		if s != r.Was && s != value && !slices.Contains(older, s) {
			older = append(older, s)
		}
	}
	r.Older = older[max(0, len(older)-maxSent):]
	r.Value, r.Sure, r.At, r.Saved = value, sure, at, false
	return r
}

// Ours reports whether a field that shows now holds a value of priod's. An older one may
// come back as slurmctld starts again from its state file; later it is the user's, who
// wants what priod wrote once.
func (r Requested) Ours(now slurmplug.Value) bool {
	return now != r.Was && (now == r.Value || !r.Saved && slices.Contains(r.Older, now))
}

// Theirs reports whether the field was changed by others after priod wrote it. Such a
// field is never written again.
func (r Requested) Theirs(now slurmplug.Value) bool {
	if now == r.Was {
		return r.Sure && r.Value != r.Was
	}
	return !r.Ours(now)
}

// Freed is a size that was changed by others after priod wrote it, with the user's own nodes
// in place of those that priod named; false when it names none of priod's.
func (r Requested) Freed(now slurmplug.Value) (size slurmplug.Value, pinned bool) {
	freed, own := now.Size(), r.Was.Size()
	for _, v := range append(slices.Clone(r.Older), r.Value) {
		ours := v.Size()
		pinned = pinned || ours.Nodes == freed.Nodes && ours.Nodes != own.Nodes
	}
	freed.Nodes = own.Nodes
	return freed.Value(), pinned && !r.Ours(now)
}

// SizePast is what became of earlier writes of a waiting job's size.
type SizePast struct {
	Rests time.Time `json:"rests,omitzero"`  // it has its own request again since then, because it did not start with another
	Ahead bool      `json:"ahead,omitempty"` // its size was written while no node had room for it
	Since time.Time `json:"since,omitzero"`  // the first such write of those that follow one another
}

// Refusal is why priod leaves a field of a waiting job alone: Slurm refused a write, or nothing can be written.
type Refusal struct {
	Words string    `json:"words,omitempty"`
	At    time.Time `json:"at,omitzero"` // zero: there is none
}

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

// keepOrder gives a list of partitions that priod knows its order again, which a requeue changes: the one in which
// the job ran stands first then.
func (h *History) keepOrder(j *Job) {
	r, known := h.Requests[j.ID][slurmplug.PartitionList]
	if !known || j.State != Pending {
		return
	}
	for _, v := range append([]slurmplug.Value{r.Value, r.Was}, r.Older...) {
		if PartitionSet(v.String()) == PartitionSet(j.Partition) {
			j.Partition = v.String()
			return
		}
	}
}

// saved notes which values of priod's Slurm shows, and has had time to save.
func (h *History) saved(j *Job, at time.Time) {
	for l, r := range h.Requests[j.ID] {
		if r.Saved {
			continue
		}
		if now, shown := j.Request(l); shown && now == r.Value && at.Sub(r.At) >= savedAfter {
			r.Saved = true
			h.Requests[j.ID][l] = r
		}
	}
}

// setBack ends stays now that ended, or were last seen, later than now: by a
// clock that was ahead. They would count against budgets until it is that late.
func (h *History) setBack(at time.Time) (changed []Stay) {
	for name, known := range h.recent {
		if end := Later(known.Start, at); known.End.After(end) {
			i := *known
			i.End = end
			h.recent[name], h.ends = &i, nil
			h.changes++
			changed = append(changed, i)
		}
	}
	for _, i := range h.running.All() {
		if end := Later(i.Start, at); i.End.After(end) {
			i.End = end
		}
	}
	slices.SortFunc(changed, func(a, b Stay) int { return cmp.Or(a.Job.Compare(b.Job), a.Start.Compare(b.Start)) })
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

// inheritWritten gives a task what was written into its array. A write to the task of
// which it is not known whether it arrived may have left it there: then it may hold what the
// array got later, too.
func (h *History) inheritWritten(id JobID) {
	of, written := h.Written[slurmplug.Plain(id.ID)]
	w, known := h.Written[id]
	switch {
	case !written:
	case !known:
		h.Written[id] = of
	case w.Tried != w.Value && of.At.After(w.At):
		of.Older = slices.Concat(w.Replaced(of), of.Older)
		h.Written[id] = of
	}
}

// inheritRequests gives a task what was written into its array's request, as inheritWritten
// does.
func (h *History) inheritRequests(id JobID) {
	of := h.Requests[slurmplug.Plain(id.ID)]
	requests, known := h.Requests[id]
	if !known && of != nil {
		h.Requests[id] = maps.Clone(of)
	}
	for l, r := range requests {
		if later := of[l]; !r.Sure && later.Was == r.Was && later.At.After(r.At) {
			for _, v := range later.Older {
				r = r.Next(v, false, later.At)
			}
			requests[l] = r.Next(later.Value, later.Sure, later.At)
		}
	}
}

// recallWritten asks what was written into a job that is new here.
func (h *History) recallWritten(j *Job) {
	if h.former != nil {
		array := slurmplug.Plain(j.ID.ID)
		_, written := h.Written[array]
		h.former(j, j.Restarts > 0 && !written && h.Requests[array] == nil)
	}
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

// collect gives an array's record what was written for its tasks and stands in the
// record: Slurm writes there what is for all tasks that the record still has.
func (h *History) collect(j *Job) {
	task := j.FirstTask()
	if w, known := h.Written[task]; known && w.At.After(h.Written[j.ID].At) {
		if !j.SiteFactorKnown || w.Sent(j.SiteFactor) {
			h.Written[j.ID] = w
		}
	}
	for l, r := range h.Requests[task] {
		now, shown := j.Request(l)
		if old, known := h.Requests[j.ID][l]; known && !(shown && r.At.After(old.At)) || shown && !r.Ours(now) {
			continue
		}
		h.SetRequest(j.ID, l, r)
	}
}

// SetRequest says what priod made of one field of a job's request.
func (h *History) SetRequest(id JobID, l slurmplug.Lever, r Requested) {
	if h.Requests[id] == nil {
		h.Requests[id] = map[slurmplug.Lever]Requested{}
	}
	h.Requests[id][l] = r
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

// split gives a task of an array what was written into that, before a write of its own
// splits it off.
func (h *History) split(id JobID) {
	if _, seen := h.seen.Find(id); !seen && id.Task != slurmplug.NoTask {
		h.inheritWritten(id)
		h.inheritRequests(id)
	}
}

// Shown takes in the value that Slurm showed before a write: an older one of priod's
// that stands there still did not only come back.
func (h *History) Shown(id JobID, value int64, at time.Time) {
	if w, known := h.Written[id]; known {
		h.Written[id] = w.Holding(value, at)
	}
}

// Wrote takes in a value that Slurm accepted for a job. takenBack says that
// the last one had been replaced by the job's own.
func (h *History) Wrote(id JobID, w Written, takenBack bool) {
	h.split(id)
	old := h.Written[id]
	w.Tried, w.Reverts, w.Older = w.Value, 0, old.Replaced(w)
	again := takenBack || old.Value == w.Value
	since := w.At.Sub(old.At) // negative when the clock was set back: that says nothing
	if old.Lever != "" && again && since >= 0 && since < RevertPeriod {
		w.Reverts = old.Reverts + 1
	}
	h.Written[id] = w
}

// Try takes in a value that was sent and may or may not have arrived.
func (h *History) Try(id JobID, w Written) {
	h.split(id)
	old := h.Written[id]
	old.Lever, old.Older = w.Lever, old.Replaced(w)
	old.Tried, old.At = w.Value, w.At
	h.Written[id] = old
}

// Asked takes in a value that was sent into a job's request in place of what
// stood there; sure says that Slurm took it. The user's own ends the matter.
func (h *History) Asked(id JobID, l slurmplug.Lever, was, value slurmplug.Value, sure bool, at time.Time) {
	h.split(id)
	if sure && value == was {
		delete(h.Requests[id], l)
		if len(h.Requests[id]) == 0 && (id.Task == slurmplug.NoTask || h.Requests[slurmplug.Plain(id.ID)] == nil) {
			delete(h.Requests, id)
		}
		return
	}
	r, known := h.Requests[id][l]
	if !known || r.Was != was {
		r = Requested{Was: was, Value: was}
	}
	h.SetRequest(id, l, r.Next(value, sure, at))
}

// Refusal is the last one of a field in this wait of a job; of a task, that of the array that it is or was part of where it
// has none of its own.
func (h *History) Refusal(j *Job, id JobID, l slurmplug.Lever) (r Refusal) {
	if len(h.Refused) == 0 {
		return r
	}
	for _, id := range Lineage(id) {
		if r, known := h.Refused[id][l]; known && !r.At.Before(j.Submit) { // else of an earlier wait
			return r
		}
	}
	return Refusal{}
}

// Refuse takes in that Slurm refused a write into a field, in its words, or why nothing can be written there.
func (h *History) Refuse(id JobID, l slurmplug.Lever, words string, at time.Time) {
	if h.Refused[id] == nil {
		h.Refused[id] = map[slurmplug.Lever]Refusal{}
	}
	h.Refused[id][l] = Refusal{words, at}
}

// Sized takes in a write of a job's size: whether the job has its own request again
// because it did not start with another, or the size is for a job without room yet.
func (h *History) Sized(id JobID, rests, ahead bool, at time.Time) {
	p := h.Sizes[id]
	switch {
	case !ahead:
		p.Since = time.Time{}
	case !p.Ahead:
		p.Since = at
	}
	p.Ahead = ahead
	if rests {
		p.Rests = at
	}
	if p != (SizePast{}) {
		h.Sizes[id] = p
	}
}

// Reaches are the partitions in which a waiting job may come to run: its user's own, and those that its site adds.
func (h *History) Reaches(j *Job) string {
	own := j.Partition
	if len(h.Requests) > 0 {
		own = h.Own(j, slurmplug.PartitionList).String()
	}
	if j.Site == nil || j.Site.AnyOf == "" || j.State != Pending {
		return own
	}
	return Union(own, j.Site.AnyOf)
}

// Own is what the user asked for in a field of a job's request: what stands
// there, unless priod wrote it.
func (h *History) Own(j *Job, l slurmplug.Lever) slurmplug.Value { return h.Field(j, l).Own }

// Field is one field of a job's request, and whose it is.
type Field struct {
	Lever   slurmplug.Lever
	Now     slurmplug.Value
	Shown   bool            // Now is known
	Own     slurmplug.Value // what its user wants there
	Ours    bool            // Now is priod's
	Theirs  bool            // others changed it after priod had written it: it is never written again
	Written bool            // priod wrote there, perhaps without effect
	Last    Requested       // what
	Refused Refusal
}

// Field is the field of a lever.
func (h *History) Field(j *Job, l slurmplug.Lever) Field {
	f := Field{Lever: l, Refused: h.Refusal(j, j.ID, l)}
	f.Now, f.Shown = j.Request(l)
	f.Own = f.Now
	if f.Last, f.Written = h.Requests[j.ID][l]; f.Written {
		f.Ours, f.Theirs = f.Last.Ours(f.Now), f.Last.Theirs(f.Now)
	}
	if f.Ours {
		f.Own = f.Last.Was
	}
	return f
}
