package waits

import (
	"maps"
	"slices"
	"time"
	"unique"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Tracker keeps why jobs wait, over the cycles. The zero value has seen nothing.
type Tracker struct {
	entries cluster.JobMap[*entry]
	gone    map[cluster.JobID]*entry // left the queue while they waited, within remember
	at      time.Time                // last cycle
	cycle   uint32
	pools   relaxed
	runs    map[cluster.Run]*run // in the relaxed cluster, not over there or in truth
	held    map[string]int       // GPUs of those that have not ended, by pool
	changed []*plan.Wait
}

// Causes are the GPUs that waiting jobs ask for, by what they wait for now.
func (t *Tracker) Causes() map[plan.Cause]int {
	causes := map[plan.Cause]int{}
	for _, e := range t.entries.All() {
		if spans := e.wait.Spans; e.start.IsZero() && len(spans) > 0 {
			causes[spans[len(spans)-1].Cause] += e.wait.GPUs * max(e.wait.Tasks, 1)
		}
	}
	return causes
}

// entry is a job in the queue, or gone from it.
type entry struct {
	wait  *plan.Wait
	start time.Time // its run began; zero while it waits
	cycle uint32    // that saw it last
	open  bool      // it asks for no feature of its nodes

	split   int    // tasks that got a record of their own,
	splitAt uint32 // in this cycle
}

// another reports whether a record is of a later wait than the one of e: its job was
// requeued between two cycles, or is another one by the same id.
func (e *entry) another(j *cluster.Job) bool {
	return !e.start.IsZero() || j.Submit.After(e.wait.Submit.Add(time.Second))
}

// remember is how long after it left the queue accounting may say that a job had started.
const remember = time.Hour

// look is what one cycle saw.
type look struct {
	snapshot *cluster.Snapshot
	stays    []cluster.Stay // that began or ended since the last one
	verdicts []verdict
	explain  func(*verdict) (what, words string, fits *plan.FitsNow)
	pools    func(j *cluster.Job) (pool string, all bool)  // where a running job is; whether it might be on all of it
	ofType   func(gpuType, partition string) (pool string) // "": there is none such, or are several
	sizes    map[string]int                                // GPUs of each pool
	used     map[string]int                                // those of them in use, whatever holds them
	gap      time.Duration                                 // a longer time between two cycles is not observed; 0: none is
}

func (t *Tracker) init() {
	if t.gone == nil {
		t.gone, t.pools, t.runs, t.held = map[cluster.JobID]*entry{}, relaxed{}, map[cluster.Run]*run{}, map[string]int{}
	}
}

// Restore takes in the waits that had no end in the last cycle of an earlier process. The
// relaxed cluster starts over, as the real one is then.
func (t *Tracker) Restore(open []*plan.Wait, at time.Time) {
	t.init()
	t.at = at
	for _, w := range open {
		w.Until = cluster.Later(w.Until, at)
		t.entries.Set(w.Job, &entry{wait: w})
	}
}

// Fragmented is Wait.Fragmented of a job in the queue.
func (t *Tracker) Fragmented(id cluster.JobID, now time.Time) time.Duration {
	e := t.entries.Get(id)
	if e == nil || !e.start.IsZero() {
		return 0
	}
	return e.wait.Fragmented(now)
}

// Waited is Wait.For of a job in the queue, or of the array that it has just left, up to
// the last cycle.
func (t *Tracker) Waited(j *cluster.Job, cause plan.Cause, what string) time.Duration {
	e, _ := t.entries.Inherited(j.ID)
	if e == nil || e.another(j) || j.Restarts > 0 && e.wait.Job != j.ID {
		return 0
	}
	return e.wait.For(cause, what)
}

// observe takes in a cycle.
func (t *Tracker) observe(l *look) {
	t.init()
	t.cycle++
	if l.snapshot.At.Before(t.at) {
		t.setBack(l.snapshot.At)
	}
	unseen := l.gap > 0 && !t.at.IsZero() && l.snapshot.At.Sub(t.at) > l.gap
	for i := range l.verdicts {
		t.waiting(l, &l.verdicts[i], unseen)
	}
	started := map[string][]*run{}
	seen := len(l.verdicts)
	for i := range l.snapshot.Jobs {
		j := &l.snapshot.Jobs[i]
		if j.GPUs > 0 && j.State != cluster.Pending && !j.Start.IsZero() {
			t.running(l, j, started)
			seen++
		}
		if e := t.entries.Get(j.ID); j.State == cluster.Unread && e != nil { // it did not leave
			e.cycle = t.cycle
			seen++
		}
	}
	t.ended(l, started)
	if seen < t.entries.Len() { // else all are there
		t.leave()
	}
	t.forgetGone(l.snapshot.At)
	t.relax(l, started)
	t.at = l.snapshot.At
}

// setBack shortens what was seen up to a time that the clock says is still to come.
func (t *Tracker) setBack(at time.Time) {
	for _, e := range t.entries.All() {
		if e.start.IsZero() && e.wait.Until.After(at) {
			e.cut(cluster.Later(at, e.wait.Submit))
			t.note(e.wait)
		}
	}
}

// note puts a wait among those that are to be stored.
func (t *Tracker) note(w *plan.Wait) {
	if !w.Changed {
		w.Changed = true
		t.changed = append(t.changed, w)
	}
}

// waiting takes in why a job waits.
func (t *Tracker) waiting(l *look, v *verdict, unseen bool) {
	j, at := &l.snapshot.Jobs[v.job], l.snapshot.At
	e := t.entries.Get(j.ID)
	if e != nil && e.another(j) {
		e = t.again(l, e, j)
	}
	if e == nil {
		e = t.begin(l, j)
	} else if e.cycle = t.cycle; unseen {
		e.turn(t.at, plan.NotObserved, "", "", nil)
	}
	w := e.wait
	w.Until = cluster.Later(w.Until, at)
	e.open = v.group == nil || v.group.asks.Features == ""
	if w.Tasks != max(j.TaskCount, 1) {
		w.Tasks = max(j.TaskCount, 1)
		t.note(w)
	}
	n := len(w.Spans)
	what := v.what
	if n > 0 && w.Spans[n-1].Cause == v.cause && (v.group != nil && what == "" || w.Spans[n-1].What == what) {
		return // as before
	}
	what, words, fits := l.explain(v)
	if e.turn(cluster.Later(at, w.Submit), v.cause, what, words, fits) {
		t.note(w)
	}
}

// turn begins another cause at a time, until which the last one held.
func (e *entry) turn(at time.Time, cause plan.Cause, what, words string, fits *plan.FitsNow) bool {
	w := e.wait
	if n := len(w.Spans); n > 0 {
		if last := &w.Spans[n-1]; last.Cause == cause && last.What == what {
			return false
		} else if !last.From.Before(at) {
			w.Spans = w.Spans[:n-1] // it lasted no time
			return e.turn(at, cause, what, words, fits)
		}
	} else {
		at = w.Submit
	}
	w.Spans = append(w.Spans, plan.WaitSpan{From: at, Cause: cause, What: kept(what), Words: kept(words), Fits: fits})
	w.Until = cluster.Later(w.Until, at)
	bound(w)
	return true
}

// cut ends the wait earlier, or later with its last cause.
func (e *entry) cut(at time.Time) {
	w := e.wait
	n := len(w.Spans)
	for n > 0 && !w.Spans[n-1].From.Before(at) {
		n--
	}
	w.Spans, w.Until = w.Spans[:n], at
}

// begin is the first look at a wait.
func (t *Tracker) begin(l *look, j *cluster.Job) *entry {
	e := t.inherit(j)
	at := l.snapshot.At
	if e == nil {
		e = newEntry(j, j.Submit)
		if late := at.Sub(j.Submit); l.gap > 0 && late > l.gap {
			e.turn(j.Submit, plan.NotObserved, "", "", nil)
		}
	}
	e.cycle = t.cycle
	t.entries.Set(j.ID, e)
	t.note(e.wait)
	return e
}

// kept is a text that holds no part of what Slurm printed, once for all jobs.
func kept(text string) string { return unique.Make(text).Value() }

func newEntry(j *cluster.Job, from time.Time) *entry {
	return &entry{wait: &plan.Wait{
		Job: j.ID, Submit: from, Until: from, User: kept(j.User), Account: kept(j.Account), Partition: kept(j.Partition),
		GPUType: kept(j.GPUType), GPUs: j.GPUs, Tasks: max(j.TaskCount, 1),
	}}
}

// inherit gives a task with a record of its own what was known of its array.
func (t *Tracker) inherit(j *cluster.Job) *entry {
	array := t.entries.Get(slurmplug.Plain(j.ID.ID))
	if j.ID.Task == slurmplug.NoTask || array == nil || !array.start.IsZero() || j.Restarts > 0 || j.Submit.Sub(array.wait.Submit).Abs() > time.Second {
		return nil
	}
	w := *array.wait
	w.Job, w.Tasks, w.Changed = j.ID, 1, false
	w.Spans = slices.Clone(w.Spans)
	if array.splitAt != t.cycle {
		array.split, array.splitAt = 0, t.cycle
	}
	array.split++
	return &entry{wait: &w}
}

// again ends the wait of an entry, where its end was not seen, and begins that of a
// requeued job: when its run ended, as far as Slurm does not say when it was requeued;
// nil where Slurm says so.
func (t *Tracker) again(l *look, e *entry, j *cluster.Job) *entry {
	t.entries.Delete(j.ID)
	if e.start.IsZero() {
		t.close(e, e.wait.Until, plan.LeftQueue)
		t.gone[j.ID] = e
		return nil
	}
	if !j.Submit.Before(e.start) {
		return nil
	}
	from := cluster.Later(e.start, t.at)
	for _, s := range l.stays {
		if s.Job == j.ID && s.Closed && s.Start.Equal(e.start) {
			from = cluster.Later(e.start, s.End)
		}
	}
	next := newEntry(j, from)
	next.cycle = t.cycle
	t.entries.Set(j.ID, next)
	t.note(next.wait)
	return next
}

// running takes in a job that has started.
func (t *Tracker) running(l *look, j *cluster.Job, started map[string][]*run) {
	e := t.entries.Get(j.ID)
	if e != nil && (e.start.Equal(j.Start) || !e.start.IsZero() && j.State == cluster.Completing) {
		e.cycle = t.cycle // the start of a requeued job in its epilog is the time of its requeue (Slurm's job_mgr.c)
		return
	}
	if e != nil && e.another(j) {
		e = t.again(l, e, j)
	}
	old := e == nil && t.cycle == 1 && (t.at.IsZero() || !j.Start.After(t.at) || j.State == cluster.Completing) // what it waited is not known, or stored
	if e == nil {
		if e = t.inherit(j); e == nil {
			e = newEntry(j, cluster.Earlier(j.Submit, j.Start))
		}
		t.entries.Set(j.ID, e)
	}
	if len(e.wait.Spans) == 0 {
		cause := plan.Starting
		if l.gap > 0 && j.Start.Sub(e.wait.Submit) > l.gap {
			cause = plan.NotObserved
		}
		e.turn(e.wait.Submit, cause, "", "", nil)
	} else if gap := j.Start.Sub(e.wait.Until); l.gap > 0 && gap > l.gap {
		e.turn(e.wait.Until, plan.NotObserved, "", "", nil)
	}
	e.cycle, e.start = t.cycle, j.Start
	e.wait.GPUType = kept(j.GPUType)
	if !old {
		t.close(e, j.Start, plan.Started)
	}
	since := cluster.Earlier(e.wait.RoomSince(), j.Start)
	key, all := l.pools(j)
	if old || !all {
		since = j.Start
	}
	if key != "" {
		e.wait.Pool, e.wait.PoolGPUs = key, l.sizes[key]
		r := &run{job: j.ID, pool: key, gpus: j.GPUs, since: since, start: j.Start, entry: e}
		started[key] = append(started[key], r)
		t.run(r)
	}
}

// run takes in a run of which the pool is known.
func (t *Tracker) run(r *run) {
	key := cluster.RunOf(r.job, r.start)
	if same := t.runs[key]; same != nil && same.end.IsZero() {
		t.held[same.pool] -= same.gpus
	}
	if t.runs[key] = r; r.end.IsZero() {
		t.held[r.pool] += r.gpus
	}
}

// close ends a wait.
func (t *Tracker) close(e *entry, at time.Time, how plan.WaitEnd) {
	e.cut(cluster.Later(at, e.wait.Submit))
	e.wait.Ended = how
	t.note(e.wait)
}

// ended takes in which runs are over: at the time that accounting tells, or in the middle
// between the last cycle that saw them and this one.
func (t *Tracker) ended(l *look, started map[string][]*run) {
	for i := range l.stays {
		s := &l.stays[i]
		if !s.Closed {
			continue
		}
		r := t.runs[s.Run()]
		switch {
		case r == nil:
			t.missed(l, s, started)
		case r.end.IsZero():
			seen := cluster.Later(s.End, r.start)
			r.end = cluster.Later(seen, seen.Add(l.snapshot.At.Sub(seen)/2))
			t.held[r.pool] -= r.gpus
		case r.settled.IsZero() && s.End.After(r.start):
			r.end = s.End
		}
	}
}

// missed takes in a run of a job that left the queue while it waited, as it seemed.
func (t *Tracker) missed(l *look, s *cluster.Stay, started map[string][]*run) {
	e := t.gone[s.Job]
	if now := t.entries.Get(s.Job); now != nil && now.cycle != t.cycle {
		e = now
	}
	if e == nil || !e.start.IsZero() || s.Start.Before(e.wait.Submit) {
		return
	}
	e.start, e.wait.GPUType = s.Start, kept(s.GPUType)
	t.close(e, s.Start, plan.Started)
	r := &run{job: s.Job, gpus: s.GPUs, since: s.Start, start: s.Start, end: cluster.Later(s.End, s.Start), entry: e}
	if e.open {
		r.since = e.wait.RoomSince()
	}
	if key := l.ofType(s.GPUType, e.wait.Partition); key != "" {
		e.wait.Pool, e.wait.PoolGPUs = key, l.sizes[key]
		r.pool = key
		started[key] = append(started[key], r)
		t.run(r)
	}
}

// leave takes in which jobs are no longer in the queue.
func (t *Tracker) leave() {
	for id, e := range t.entries.All() {
		if e.cycle == t.cycle {
			continue
		}
		t.entries.Delete(id)
		if !e.start.IsZero() {
			continue
		}
		e.cycle = t.cycle
		if e.splitAt == t.cycle {
			e.wait.Tasks -= e.split
		}
		if id.Task == slurmplug.NoTask && e.wait.Tasks <= 0 {
			t.close(e, e.wait.Until, plan.SplitUp)
			continue
		}
		t.close(e, e.wait.Until, plan.LeftQueue)
		t.gone[id] = e
	}
}

// forgetGone drops those of the jobs that left of which nothing more is to be heard.
func (t *Tracker) forgetGone(now time.Time) {
	maps.DeleteFunc(t.gone, func(_ cluster.JobID, e *entry) bool {
		return !e.start.IsZero() || now.Sub(e.wait.Until).Abs() > remember
	})
}

// relax lets the relaxed cluster continue. What a job waited beyond its start there was
// fragmentation.
func (t *Tracker) relax(l *look, started map[string][]*run) {
	for key, gpus := range l.sizes { // what others have, such as jobs in their epilog, is not free for any job
		t.pools.resize(key, l.snapshot.At, gpus-max(l.used[key]-t.held[key], 0))
	}
	for key, p := range t.pools {
		for _, r := range p.advance(l.snapshot.At, started[key]) {
			if r.entry != nil && r.settled.Before(r.start) && r.entry.backlog(r.settled) {
				t.note(r.entry.wait)
			}
			r.entry = nil
		}
	}
	if t.cycle%forgetEvery == 0 {
		maps.DeleteFunc(t.runs, func(_ cluster.Run, r *run) bool {
			return !r.end.IsZero() && !r.settled.IsZero() && r.over().Before(l.snapshot.At.Add(-remember))
		})
	}
}

// forgetEvery is how many cycles pass until the runs are looked through for those to forget.
const forgetEvery = 16

// Backlog is the What of a wait for GPUs that would have been free, had those before it
// been placed at once.
const Backlog = "backlog"

// leastBacklog is the shortest wait that may be for such GPUs: less is Slurm's own time between two passes (bf_interval).
const leastBacklog = 30 * time.Second

// backlog makes fragmentation of what a job waited for room since a time, unless priod kept
// it waiting.
func (e *entry) backlog(since time.Time) bool {
	w := e.wait
	if w.Until.Sub(w.Submit) < leastBacklog {
		return false
	}
	old := w.Spans
	w.Spans = nil
	changed := false
	for i, s := range old {
		until := w.Until
		if i+1 < len(old) {
			until = old[i+1].From
		}
		late := s
		late.From, late.Cause, late.What, late.Words, late.Fits = cluster.Later(s.From, since), plan.Fragmentation, Backlog, "", nil
		if !until.After(since) || s.Cause == plan.Fragmentation || s.Cause == plan.Locality || !s.Cause.ForRoom() {
			w.Spans = append(w.Spans, s)
			continue
		}
		changed = true
		if s.From.Before(late.From) {
			w.Spans = append(w.Spans, s)
		}
		if n := len(w.Spans); n == 0 || w.Spans[n-1].Cause != late.Cause || w.Spans[n-1].What != late.What {
			w.Spans = append(w.Spans, late)
		}
	}
	return changed
}

// Changed are the waits that changed since the last call, sorted.
func (t *Tracker) Changed() []*plan.Wait {
	changed := t.changed
	t.changed = nil
	slices.SortFunc(changed, (*plan.Wait).Compare)
	for _, w := range changed {
		w.Changed = false
	}
	return changed
}
