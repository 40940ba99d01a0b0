package waits

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// life is what really became of a job: runs, each from a submission or requeue on.
type life struct {
	id    cluster.JobID
	array uint32 // task of an array, which has its record until it starts; 0: none
	runs  []oneRun
}

type oneRun struct{ submit, start, end int } // s

func second(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }

func someLives(t *rapid.T) (lives []life) {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	for k := range number("jobs", 1, 6) {
		l := life{id: slurmplug.Plain(uint32(k + 1))}
		at := number("submit", 0, 2000)
		for range number("runs", 1, 3) {
			r := oneRun{submit: at, start: at + number("wait", 0, 900)}
			r.end = r.start + number("length", 1, 500)
			at = r.end + number("epilog", 0, 20) // Slurm dates a requeue when the epilog has ended
			l.runs = append(l.runs, r)
		}
		lives = append(lives, l)
	}
	for k := range number("arrays", 0, 2) {
		id, submit := uint32(100+k), number("submit", 0, 1000)
		for task := range number("tasks", 1, 4) {
			r := oneRun{submit: submit, start: submit + number("wait", 0, 900)}
			r.end = r.start + number("length", 1, 500)
			lives = append(lives, life{id: cluster.JobID{ID: id, Task: int32(task)}, array: id, runs: []oneRun{r}})
		}
	}
	return lives
}

// seen is what a poll shows at a time.
func seen(lives []life, now int) (jobs []cluster.Job) {
	arrays := map[uint32]int{}
	for _, l := range lives {
		for n, r := range l.runs {
			j := cluster.Job{ID: l.id, GPUs: 1, GPUType: "a", NodeList: "n0", TaskCount: 1, Submit: second(r.submit), Restarts: n}
			switch {
			case n+1 < len(l.runs) && now >= r.end && now < l.runs[n+1].submit: // as squeue of 22.05.8 shows it
				j.State, j.Start, j.Restarts = cluster.Completing, second(r.end), n+1
			case now < r.submit || now >= r.end:
				continue
			case now >= r.start:
				j.State, j.Start = cluster.Running, second(r.start)
			case l.array != 0:
				if at, has := arrays[l.array]; has {
					jobs[at].TaskCount++
					continue
				}
				arrays[l.array] = len(jobs)
				j.ID, j.State = slurmplug.Plain(l.array), cluster.Pending
			default:
				j.State = cluster.Pending
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// stored is what a database would hold.
type stored map[storedKey]plan.Wait

type storedKey struct {
	job    cluster.JobID
	submit int64
}

func (s stored) take(t *Tracker) {
	for _, w := range t.Changed() {
		c := *w
		c.Spans = slices.Clone(w.Spans)
		s[storedKey{w.Job, w.Submit.Unix()}] = c
	}
}

func (s stored) open() (open []*plan.Wait) {
	for _, w := range s {
		if w.Ended == plan.StillWaits {
			w.Spans = slices.Clone(w.Spans)
			open = append(open, &w)
		}
	}
	return open
}

// All spans of a wait follow each other without a gap from its beginning to its end, which
// is the start that Slurm tells: over requeues, restarts of priod, times in which it did
// not look, steps of its clock, and tasks that leave their array.
func TestCausesSumToTheWait(t *testing.T) {
	causes := []plan.Cause{plan.Capacity, plan.Fragmentation, plan.Locality, plan.Precedence, plan.Starting, plan.HeldBack, plan.AtLimit}
	rapid.Check(t, func(t *rapid.T) {
		lives := someLives(t)
		tracker, db, offset, last := &Tracker{}, stored{}, 0, time.Time{}
		stepped := false             // a clock that stood ahead when priod ended hides a start from the next one, also once it is right again
		shown := map[storedKey]int{} // runs that a poll showed, by submission: their starts
		for now := 0; now < 6000; now += rapid.SampledFrom([]int{1, 10, 30, 30, 60, 400}).Draw(t, "gap") {
			switch rapid.IntRange(0, 30).Draw(t, "trouble") {
			case 0:
				step := rapid.IntRange(-200, 200).Draw(t, "step")
				offset, stepped = offset+step, stepped || step != 0
			case 1:
				tracker = &Tracker{}
				tracker.Restore(db.open(), last)
			}
			s := &cluster.Snapshot{At: second(now + offset), Jobs: seen(lives, now)}
			l := &look{snapshot: s, explain: func(v *verdict) (string, string, *plan.FitsNow) { return v.what, "", nil }, gap: 5 * time.Minute, sizes: map[string]int{"a": 3},
				pools: func(*cluster.Job) (string, bool) { return "a", true }, ofType: func(string, string) string { return "a" }}
			for i := range s.Jobs {
				if s.Jobs[i].State == cluster.Pending {
					l.verdicts = append(l.verdicts, verdict{job: i, cause: rapid.SampledFrom(causes).Draw(t, "cause")})
				}
			}
			tracker.observe(l)
			db.take(tracker)
			for i := range s.Jobs {
				if j := &s.Jobs[i]; j.State == cluster.Running && j.Start.After(noon) {
					shown[storedKey{j.ID, j.Submit.Unix()}] = int(j.Start.Sub(noon).Seconds())
				}
			}
			last = s.At
		}
		for key, w := range db {
			check(t, &w)
			if start, was := shown[key]; was && (w.Ended != plan.Started || !w.Until.Equal(second(start))) {
				t.Fatalf("%s: %s at %v, it started at %v", w.Job, w.Ended, w.Until, second(start))
			}
			if w.Ended == plan.StillWaits {
				t.Fatalf("%s: it has left, and is said to wait", w.Job)
			}
		}
		for key, start := range shown {
			if w, is := db[key]; !is && !stepped {
				t.Fatalf("%s, submitted %v, started %v: nothing is stored, but %v", key.job, time.Unix(key.submit, 0).UTC(), second(start), w)
			}
		}
	})
}

func check(t interface{ Fatalf(string, ...any) }, w *plan.Wait) {
	sum := time.Duration(0)
	for i, s := range w.Spans {
		if i == 0 && !s.From.Equal(w.Submit) || i > 0 && !s.From.After(w.Spans[i-1].From) || s.From.After(w.Until) {
			t.Fatalf("%s, waits from %v until %v: %+v", w.Job, w.Submit, w.Until, w.Spans)
		}
		sum += w.Length(i)
	}
	if sum != w.Until.Sub(w.Submit) {
		t.Fatalf("%s: its causes sum to %v, it waited %v", w.Job, sum, w.Until.Sub(w.Submit))
	}
}

// A task that Slurm dates otherwise than its array has a wait of its own, and is not
// taken for a new one in each cycle.
func TestTaskWithATimeOfItsOwn(t *testing.T) {
	tracker := &Tracker{}
	look := func(now int) int {
		s := &cluster.Snapshot{At: second(now), Jobs: []cluster.Job{
			{ID: slurmplug.Plain(7), State: cluster.Pending, GPUs: 1, TaskCount: 5, Submit: second(0)},
			{ID: cluster.JobID{ID: 7, Task: 3}, State: cluster.Pending, GPUs: 1, TaskCount: 1, Submit: second(5)},
		}}
		tracker.observe(&look{snapshot: s, explain: func(v *verdict) (string, string, *plan.FitsNow) { return "", "", nil }, verdicts: []verdict{{job: 0, cause: plan.Capacity}, {job: 1, cause: plan.Capacity}}})
		return len(tracker.Changed())
	}
	if n := look(10); n != 2 {
		t.Errorf("%d waits", n)
	}
	if n := look(20) + look(30); n != 0 || len(tracker.gone) != 0 {
		t.Errorf("%d changes, %d gone, where nothing changed", n, len(tracker.gone))
	}
}

// What a job has waited for locality is known by what, after a restart of priod and to a task
// that leaves its array, until the job waits again; it never becomes fragmentation.
func TestWaitedForLocality(t *testing.T) {
	j := cluster.Job{ID: slurmplug.Plain(1), State: cluster.Pending, GPUs: 1, GPUType: "a", TaskCount: 2, Tasks: "1-2", Submit: second(0)}
	tracker, db := &Tracker{}, stored{}
	s := &cluster.Snapshot{At: second(0), Jobs: []cluster.Job{j}}
	cycle := func(at int, cause plan.Cause, what string) {
		s.At = second(at)
		l := &look{snapshot: s, explain: func(v *verdict) (string, string, *plan.FitsNow) { return v.what, "", nil }, sizes: map[string]int{"a": 3},
			pools: func(*cluster.Job) (string, bool) { return "a", true }, ofType: func(string, string) string { return "a" }}
		if s.Jobs[0].State == cluster.Pending {
			l.verdicts = []verdict{{cause: cause, what: what, group: &group{}}}
		}
		tracker.observe(l)
		db.take(tracker)
	}
	waited := func(j *cluster.Job, what string) int { return int(tracker.Waited(j, plan.Locality, what).Seconds()) }
	cycle(0, plan.Capacity, "")
	cycle(10, plan.Locality, plan.SlowNodes)
	cycle(30, plan.Locality, plan.FewSwitches)
	cycle(70, plan.Locality, plan.FewSwitches+","+plan.SlowNodes)
	cycle(150, plan.Capacity, "")
	cycle(310, plan.Capacity, "")
	for _, when := range []string{"before", "after a restart"} {
		task := j
		task.ID, task.Tasks, task.TaskCount = cluster.JobID{ID: 1, Task: 2}, "", 1
		requeued, again := task, j
		requeued.Restarts, again.Submit = 1, second(320)
		for name, c := range map[string]struct {
			job             *cluster.Job
			slow, fewSwitch int
		}{"the array": {&j, 100, 120}, "a task": {&task, 100, 120}, "a task that has run": {&requeued, 0, 0}, "submitted again": {&again, 0, 0}} {
			if slow, few := waited(c.job, plan.SlowNodes), waited(c.job, plan.FewSwitches); slow != c.slow || few != c.fewSwitch {
				t.Errorf("%s, %s: %d and %d s, want %d and %d", when, name, slow, few, c.slow, c.fewSwitch)
			}
		}
		open := db.open()
		tracker = &Tracker{}
		tracker.Restore(open, second(310))
	}
	s.Jobs[0].State, s.Jobs[0].Start, s.Jobs[0].NodeList = cluster.Running, second(320), "n0"
	cycle(330, "", "")
	w := db[storedKey{j.ID, noon.Unix()}]
	if by := w.By(); by[plan.Locality] != 140*time.Second || waited(&s.Jobs[0], plan.SlowNodes) != 0 {
		t.Errorf("%v, and %d s while it runs", by, waited(&s.Jobs[0], plan.SlowNodes))
	}
}

// A job whose record cannot be read in one poll did not leave, and its wait goes on.
func TestWaitOfAnUnreadJob(t *testing.T) {
	tracker, db := &Tracker{}, stored{}
	waits := cluster.Job{ID: slurmplug.Plain(7), State: cluster.Pending, GPUs: 1, TaskCount: 1, Submit: second(0)}
	look := func(now int, jobs ...cluster.Job) {
		l := &look{snapshot: &cluster.Snapshot{At: second(now), Jobs: jobs}, explain: func(*verdict) (string, string, *plan.FitsNow) { return "", "", nil }}
		for i := range jobs {
			if jobs[i].State == cluster.Pending {
				l.verdicts = append(l.verdicts, verdict{job: i, cause: plan.Capacity})
			}
		}
		tracker.observe(l)
		db.take(tracker)
	}
	look(10, waits)
	look(20, cluster.Job{ID: slurmplug.Plain(7), State: cluster.Unread})
	if len(tracker.gone) != 0 || len(db.open()) != 1 {
		t.Errorf("%d gone, %+v", len(tracker.gone), db)
	}
	look(30, waits)
	look(40)
	if len(tracker.gone) != 1 || len(db) != 1 || len(db.open()) != 0 {
		t.Errorf("%d gone, %+v", len(tracker.gone), db)
	}
}

// A job that waited for free GPUs no longer than Slurm takes between two passes waited for its start; one that waited for
// minutes, for fragmentation.
func TestShortWaitsAreNoFragmentation(t *testing.T) {
	for waited, want := range map[int]plan.Cause{0: "", 1: plan.Starting, 29: plan.Starting, 240: plan.Fragmentation} {
		tracker, at := &Tracker{}, []cluster.Job{}
		cycle := func(now int) {
			tracker.observe(&look{
				snapshot: &cluster.Snapshot{At: second(now), Jobs: at}, gap: 5 * time.Minute, sizes: map[string]int{"a": 8},
				explain: func(v *verdict) (string, string, *plan.FitsNow) { return v.what, "", nil },
				pools:   func(*cluster.Job) (string, bool) { return "a", true }, ofType: func(string, string) string { return "a" },
			})
		}
		cycle(0)
		j := cluster.Job{ID: slurmplug.Plain(7), State: cluster.Running, GPUs: 1, GPUType: "a", NodeList: "n0", TaskCount: 1, Submit: second(10), Start: second(10 + waited)}
		at = append(at, j)
		cycle(300)
		var got plan.Cause
		for _, w := range tracker.Changed() {
			for i, s := range w.Spans {
				if w.Length(i) > 0 {
					got = s.Cause
				}
			}
		}
		if got != want {
			t.Errorf("a wait of %d s: %q, want %q", waited, got, want)
		}
	}
}
