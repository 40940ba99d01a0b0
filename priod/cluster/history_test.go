package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var t0 = time.Unix(1_800_000_000, 0)

func at(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }

func running(id uint32, gpus, start int) Job {
	return Job{ID: slurmplug.Plain(id), TaskCount: 1, User: "ann", Account: "vision", State: Running,
		GPUs: gpus, GPUType: "a100", Start: at(start), Tag: jobtag.Tag{Type: "te"}}
}

func see(h *History, s int, jobs ...Job) []Stay {
	return h.Observe(&Snapshot{At: at(s), Jobs: jobs})
}

func gpuSeconds(h *History, s int) float64 {
	users, _, _ := h.TEUse(at(s), func(string, string) time.Duration { return 0 })
	return users["ann"].GPUSeconds
}

func TestIntervalsBeginAndEnd(t *testing.T) {
	h := NewHistory()
	if c := see(h, 10, running(1, 2, 5)); len(c) != 1 || c[0].Closed || c[0].GPUType != "a100" || c[0].Class != TE {
		t.Fatalf("%+v", c)
	}
	if c := see(h, 20, running(1, 2, 5)); len(c) != 0 {
		t.Fatalf("%+v", c)
	}
	c := see(h, 30)
	if len(c) != 1 || !c[0].Closed || !c[0].End.Equal(at(20)) || c[0].GPUSeconds() != 30 {
		t.Fatalf("%+v", c)
	}
	if got := gpuSeconds(h, 40); got != 30 {
		t.Fatal(got)
	}
}

// A job that was requeued and started again between two polls has two runs.
func TestRestartBetweenPolls(t *testing.T) {
	h := NewHistory()
	see(h, 10, running(1, 1, 5))
	c := see(h, 60, running(1, 1, 50))
	if len(c) != 2 || !c[0].Closed || c[1].Closed || !c[1].Start.Equal(at(50)) {
		t.Fatalf("%+v", c)
	}
}

// A job that a poll showed in another state and the next one running again is
// still the same run.
func TestSameRunSeenAgainCountsOnce(t *testing.T) {
	h := NewHistory()
	see(h, 10, running(1, 1, 0))
	odd := running(1, 1, 0)
	odd.State = Other
	see(h, 20, odd)
	see(h, 30, running(1, 1, 0))
	if got := gpuSeconds(h, 30); got != 30 {
		t.Fatalf("30 s on one GPU count as %v", got)
	}
}

func TestUseFallsOutOfThePeriod(t *testing.T) {
	h := NewHistory()
	see(h, 0, running(1, 1, 0))
	see(h, 3600, running(1, 1, 0))
	see(h, 3610)
	day := int(UsePeriod / time.Second)
	if got := gpuSeconds(h, day+1800); got != 1800 {
		t.Fatalf("half the run lies within the period, and it counts %v s", got)
	}
	see(h, day+3700)
	if len(h.recent) != 0 {
		t.Fatal("old use is kept")
	}
}

func TestAccountingFillsGaps(t *testing.T) {
	h := NewHistory()
	see(h, 10, running(1, 1, 0))
	see(h, 20) // ended between 10 and 20
	past := []PastStay{
		{Stay: Stay{Job: slurmplug.Plain(1), Start: at(0), End: at(17), Closed: true, GPUs: 1, User: "ann", Class: TE}},
		{Stay: Stay{Job: slurmplug.Plain(2), Start: at(11), End: at(14), Closed: true, GPUs: 2, User: "ann", Class: TE}},
	}
	h.Fill(past)
	if got := gpuSeconds(h, 30); got != 17+6 {
		t.Fatalf("TE use %v", got)
	}
	if c := see(h, 30); len(c) != 2 {
		t.Fatalf("the store is told of %d stays", len(c))
	}
	h.Fill(past)
	if c := see(h, 40); len(c) != 0 || gpuSeconds(h, 40) != 23 {
		t.Fatal("filling twice counts twice")
	}
}

// What was ranked as BE, because it exceeded a budget, stays BE whatever its tag says.
func TestAccountingKeepsTheClassOfTheRanking(t *testing.T) {
	h := NewHistory()
	job := slurmplug.Plain(1)
	h.FirstEligible.Set(job, at(0))
	h.Counted.Set(job, BE)
	see(h, 10, running(1, 1, 5))
	see(h, 20)
	h.Fill([]PastStay{{Stay: Stay{Job: job, Start: at(5), End: at(17), Closed: true, GPUs: 1, User: "ann", Class: TE}}})
	if got := gpuSeconds(h, 30); got != 0 {
		t.Fatalf("a job over budget counts %v s as TE use", got)
	}
}

// Accounting keeps the jobs that had an id before: they did not wait for this one.
func TestEarlierJobsOfAnIDAreOthers(t *testing.T) {
	id := slurmplug.Plain(1)
	for name, p := range map[string]PastStay{
		"another user": {Stay: Stay{Job: id, User: "bob"}, Submit: at(100), Eligible: at(100)},
		"earlier":      {Stay: Stay{Job: id, User: "ann"}, Submit: at(20), Eligible: at(20)},
	} {
		h := NewHistory()
		h.Fill([]PastStay{p})
		see(h, 510, Job{ID: id, User: "ann", State: Pending, Submit: at(100), Eligible: at(110)})
		if !h.FirstEligible.Get(id).Equal(at(110)) {
			t.Errorf("%s: could first have run at %v", name, h.FirstEligible.Get(id))
		}
	}
}

func TestFirstEligibleSurvivesRequeueAndLostHistory(t *testing.T) {
	id := slurmplug.Plain(1)
	j := Job{ID: id, State: Pending, Eligible: at(500)}
	h := NewHistory()
	see(h, 400, j) // not yet eligible
	if _, known := h.FirstEligible.Find(id); known {
		t.Fatal("eligible in the future")
	}
	see(h, 510, j)
	j.Restarts = 1
	h.Fill([]PastStay{{Stay: Stay{Job: id}, Submit: at(20), Eligible: at(30)}})
	see(h, 515, j)
	if !h.FirstEligible.Get(id).Equal(at(30)) {
		t.Fatal(h.FirstEligible.Get(id))
	}
	see(h, 520)
	if h.FirstEligible.Len() != 0 {
		t.Fatal("a job that left is remembered")
	}
}

func TestTaskInheritsFromItsArray(t *testing.T) {
	array := slurmplug.Plain(9)
	h := NewHistory()
	see(h, 10, Job{ID: array, Tasks: "0-9", TaskCount: 10, State: Pending, Eligible: at(3)})
	h.Counted.Set(array, TE)
	h.Wrote(array, Written{Lever: slurmplug.SiteFactor, Value: 5}, false)
	task := JobID{ID: 9, Task: 9}
	see(h, 20, Job{ID: task, TaskCount: 1, State: Pending, Eligible: at(18)})
	if !h.FirstEligible.Get(task).Equal(at(3)) || h.Counted.Get(task) != TE || h.Written[task].Value != 5 {
		t.Fatalf("%+v", h)
	}
}

func TestTaskInheritsOnlyWhenItSplitsOff(t *testing.T) {
	h := NewHistory()
	array, task := slurmplug.Plain(9), JobID{ID: 9, Task: 0}
	jobs := []Job{
		{ID: array, Tasks: "1-9", TaskCount: 9, State: Pending, Eligible: at(3)},
		{ID: task, TaskCount: 1, State: Pending, Eligible: at(3)},
	}
	see(h, 10, jobs...)
	h.Wrote(array, Written{Lever: slurmplug.SiteFactor, Value: 5}, false)
	see(h, 20, jobs...)
	if w, known := h.Written[task]; known {
		t.Errorf("what was written to the array later counts as written to its task: %+v", w)
	}
	see(h, 30)
	if h.FirstEligible.Len()+len(h.Written)+h.seen.Len() != 0 {
		t.Errorf("%d jobs are remembered after they left", h.seen.Len())
	}
}

// What is written into all tasks that an array's record still has stands in the record:
// its user's own is known there, too. What its user wrote is not taken for it.
func TestRecordOfWrittenTasks(t *testing.T) {
	array, task := slurmplug.Plain(9), JobID{ID: 9, Task: 7}
	for name, c := range map[string]struct {
		features, own string
		asked         string // size, "" when it was not read
		levers        int
	}{
		"written": {"ssd&t4", "ssd", "", 2}, "never arrived": {"ssd", "ssd", "", 1}, "its user's": {"mine", "mine", "", 1},
		"sizes": {"ssd", "ssd", "cpus=4", 1}, "its user's size": {"ssd", "ssd", "cpus=9", 0},
	} {
		h := NewHistory()
		record := Job{ID: array, Tasks: "7-8", TaskCount: 2, State: Pending, Eligible: at(3), Features: "ssd"}
		see(h, 10, record)
		h.Asked(task, slurmplug.Features, slurmplug.Text("ssd"), slurmplug.Text("ssd&t4"), true, at(10))
		h.Asked(task, slurmplug.Size, slurmplug.Size.Value("cpus=1"), slurmplug.Size.Value("cpus=4"), true, at(10))
		if record.Features = c.features; c.asked != "" {
			record.Asked = &slurmplug.Asked{Holds: slurmplug.Size.Value(c.asked)}
		}
		for s := 20; s < 50; s += 10 {
			see(h, s, record)
		}
		if own := h.Own(&record, slurmplug.Features); own.String() != c.own || len(h.Requests[array]) != c.levers || len(h.Requests[task]) != 0 {
			t.Errorf("%s: its own is %q, and %+v is known", name, own, h.Requests)
		}
		see(h, 60)
		if len(h.Requests) != 0 {
			t.Errorf("%s: %+v is known of a job that left", name, h.Requests)
		}
	}
}

// A record that was written to as such before is no other's for it.
func TestRecordOfTasksWrittenAnew(t *testing.T) {
	array, task := slurmplug.Plain(9), JobID{ID: 9, Task: 7}
	for shows, own := range map[string]string{"ssd&t4": "ssd", "ssd&a100": "ssd", "ssd": "ssd", "mine": "mine"} {
		h := NewHistory()
		record := Job{ID: array, Tasks: "7-8", TaskCount: 2, State: Pending, Eligible: at(3), Features: "ssd&a100"}
		see(h, 10, record)
		h.Asked(array, slurmplug.Features, slurmplug.Text("ssd"), slurmplug.Text("ssd&a100"), true, at(10))
		h.Asked(task, slurmplug.Features, slurmplug.Text("ssd"), slurmplug.Text("ssd&t4"), true, at(20))
		record.Features = shows
		see(h, 30, record)
		if r := h.Requests[array][slurmplug.Features]; h.Own(&record, slurmplug.Features).String() != own || r.Ours(slurmplug.Text(shows)) != (shows != own) {
			t.Errorf("%s: its own is %q, and %+v is known", shows, h.Own(&record, slurmplug.Features), r)
		}
	}
}

// So is its place in the order: without it reset would leave priod's value. What was written later into the record counts.
func TestPlaceOfWrittenTasks(t *testing.T) {
	array, task := slurmplug.Plain(9), JobID{ID: 9, Task: 7}
	part := Written{Lever: slurmplug.SiteFactor, Value: -500, At: at(20)}
	for name, c := range map[string]struct {
		record Written
		shows  Job
		value  int64
		wrote  bool
	}{
		"first": {Written{}, Job{SiteFactor: -500, SiteFactorKnown: true}, -500, true}, "never arrived": {Written{}, Job{SiteFactor: 3, SiteFactorKnown: true}, 0, false},
		"after the record": {Written{Lever: slurmplug.SiteFactor, Value: -100, At: at(10)}, Job{SiteFactor: -500, SiteFactorKnown: true}, -500, true},
		"not arrived":      {Written{Lever: slurmplug.SiteFactor, Value: -100, At: at(10)}, Job{SiteFactor: -100, SiteFactorKnown: true}, -100, true},
		"before it":        {Written{Lever: slurmplug.SiteFactor, Value: -900, At: at(30)}, Job{SiteFactor: -500, SiteFactorKnown: true}, -900, true},
		"site factor":      {Written{Lever: slurmplug.SiteFactor, Value: 5, At: at(30)}, Job{SiteFactor: 5, SiteFactorKnown: true}, 5, true},
	} {
		h := NewHistory()
		record := c.shows
		record.ID, record.Tasks, record.TaskCount, record.State, record.Eligible = array, "7-8", 2, Pending, at(3)
		see(h, 10, record)
		if h.Wrote(task, part, false); c.record.Lever != "" {
			h.Wrote(array, c.record, false)
		}
		see(h, 40, record)
		if w, wrote := h.Written[array]; wrote != c.wrote || w.Value != c.value || len(h.Written) > 1 {
			t.Errorf("%s: %+v is known", name, h.Written)
		}
	}
	h := NewHistory()
	see(h, 10, Job{ID: array, Tasks: "1-8", TaskCount: 8, State: Pending, Eligible: at(3)})
	h.Wrote(JobID{ID: 9, Task: 1}, Written{Lever: slurmplug.SiteFactor, Value: 5, At: at(10)}, false)
	see(h, 20, Job{ID: array, Tasks: "2-8", TaskCount: 7, State: Pending, Eligible: at(3), SiteFactor: 5, SiteFactorKnown: true}, Job{ID: JobID{ID: 9, Task: 1}, State: Pending})
	if _, wrote := h.Written[array]; wrote {
		t.Error("what was written for a task that was split off is known of what is left")
	}
}

// What was sent into a request is told from what its user wrote, also when an
// earlier value arrives late.
func TestRequested(t *testing.T) {
	h, id, at := NewHistory(), slurmplug.Plain(1), time.Unix(0, 0)
	ask := func(value string, sure bool) Requested {
		h.Asked(id, slurmplug.Features, slurmplug.Text("ssd"), slurmplug.Text(value), sure, at)
		return h.Requests[id][slurmplug.Features]
	}
	check := func(what string, r Requested, now string, ours, theirs bool) {
		t.Helper()
		if r.Ours(slurmplug.Text(now)) != ours || r.Theirs(slurmplug.Text(now)) != theirs {
			t.Errorf("%s, shown %q: ours %v, theirs %v; %+v", what, now, r.Ours(slurmplug.Text(now)), r.Theirs(slurmplug.Text(now)), r)
		}
	}
	r := ask("ssd&a100", false)
	check("sent", r, "ssd", false, false) // it did not arrive
	check("sent", r, "ssd&a100", true, false)
	check("sent", r, "mine", false, true)
	r = ask("ssd&a100", true)
	check("taken", r, "ssd", false, true) // the user took it back
	r = ask("ssd&v100", true)
	check("another", r, "ssd&a100", true, false)
	r = ask("ssd", false)
	check("taken back, perhaps", r, "ssd&v100", true, false)
	check("taken back, perhaps", r, "ssd", false, false)
	if ask("ssd", true); len(h.Requests) != 0 {
		t.Errorf("taken back: %+v", h.Requests)
	}
}

// What a job ran beyond its limit is the end of its last run: 90 minutes are over
// half an hour before the first run ends, an hour of which is within the day.
func TestUseBeyondTheLimit(t *testing.T) {
	now := time.Unix(10_000_000, 0)
	h := NewHistory()
	for _, hours := range [][2]time.Duration{{-25, -23}, {-10, -9}} {
		i := Stay{
			Job: slurmplug.Plain(1), Start: now.Add(hours[0] * time.Hour), End: now.Add(hours[1] * time.Hour), Closed: true, GPUs: 1, User: "ann", Class: TE,
		}
		h.recent[i.Run()] = &i
	}
	for range 50 {
		users, _, _ := h.TEUse(now, func(string, string) time.Duration { return 90 * time.Minute })
		if got := users["ann"].GPUSeconds; got != 1800 {
			t.Fatalf("%g GPU-seconds, want 1800", got)
		}
	}
}

// A user who writes what priod had written before is not taken for a slurmctld that
// came back with an older state, once that is saved.
func TestOlderValueOfTheUser(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	for after, ours := range map[time.Duration]bool{10 * time.Second: true, 20 * time.Second: false} {
		h := NewHistory()
		s := Snapshot{At: at.Add(after), Jobs: []Job{{ID: slurmplug.Plain(1), State: Pending, Features: "a100"}}}
		h.Asked(slurmplug.Plain(1), slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, at.Add(-time.Minute))
		h.Asked(slurmplug.Plain(1), slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, at)
		h.Observe(&s)
		r := h.Requests[slurmplug.Plain(1)][slurmplug.Features]
		if r.Ours(slurmplug.Text("v100")) != ours || !r.Ours(slurmplug.Text("a100")) || r.Theirs(slurmplug.Text("v100")) == ours {
			t.Errorf("after %s: %+v", after, r)
		}
		if next := r.Next(slurmplug.Text("t4"), true, s.At); !next.Ours(slurmplug.Text("a100")) {
			t.Errorf("after another write: %+v", next)
		}
	}
}

// A task that a write splits off its array has had what the array had: its own record
// remembers the earlier values, and one that has its user's own again inherits nothing.
func TestSplitTaskKeepsEarlierValues(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	h := NewHistory()
	array, split, own := slurmplug.Plain(7), JobID{ID: 7, Task: 0}, JobID{ID: 7, Task: 1}
	h.Asked(array, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, at)
	h.Asked(split, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, at.Add(time.Minute))
	h.Asked(own, slurmplug.Features, slurmplug.Value{}, slurmplug.Value{}, true, at.Add(time.Minute))
	s := &Snapshot{At: at.Add(2 * time.Minute), Jobs: []Job{
		{ID: split, State: Pending, Features: "v100"}, {ID: own, State: Pending}, {ID: array, State: Pending, Tasks: "2-3", TaskCount: 2, Features: "a100"},
	}}
	h.Observe(s)
	if r := h.Requests[split][slurmplug.Features]; r.Value.String() != "v100" || !slices.Contains(r.Older, slurmplug.Text("a100")) {
		t.Errorf("the task that was split off: %+v", r)
	}
	if r, known := h.Requests[own][slurmplug.Features]; known {
		t.Errorf("the task with its user's own: %+v", r)
	}
	if r := h.Requests[array][slurmplug.Features]; r.Value.String() != "a100" {
		t.Errorf("the rest: %+v", r)
	}
}

// A write to one task may not have arrived. Then the task is still of its array, and holds
// what was written into that before or later: no word of its user's.
func TestTaskOfUnknownOutcomeKeepsItsArrays(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	array, task := slurmplug.Plain(7), JobID{ID: 7, Task: 0}
	poll := func(h *History, at time.Time, jobs ...Job) { h.Observe(&Snapshot{At: at, Jobs: jobs}) }
	for _, later := range []bool{false, true} {
		for _, holds := range []int64{1000, 2000, 3000} {
			h := NewHistory()
			shows := func(j Job) Job {
				j.State, j.SiteFactor, j.SiteFactorKnown, j.Features = Pending, holds, true, map[int64]string{1000: "a100", 2000: "v100", 3000: "t4"}[holds]
				return j
			}
			poll(h, start, Job{ID: array, State: Pending, Tasks: "0-2", TaskCount: 3})
			h.Wrote(array, Written{Lever: slurmplug.SiteFactor, Value: 1000, At: start}, false)
			h.Asked(array, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
			h.Try(task, Written{Lever: slurmplug.SiteFactor, Value: 2000, At: start.Add(time.Minute)})
			h.Asked(task, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), false, start.Add(time.Minute))
			if later {
				h.Wrote(array, Written{Lever: slurmplug.SiteFactor, Value: 3000, At: start.Add(2 * time.Minute)}, false)
				h.Asked(array, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("t4"), true, start.Add(2*time.Minute))
			}
			poll(h, start.Add(3*time.Minute), shows(Job{ID: task}), Job{ID: array, State: Pending, Tasks: "1-2", TaskCount: 2})
			ours := later || holds != 3000
			if w := h.Written[task]; w.Sent(holds) != ours {
				t.Errorf("later %v, it holds %d: %+v", later, holds, w)
			}
			j := shows(Job{ID: task})
			if r, now := h.Requests[task][slurmplug.Features], slurmplug.Text(j.Features); r.Ours(now) != ours || r.Theirs(now) == ours {
				t.Errorf("later %v, it asks for %q: %+v", later, now, r)
			}
		}
	}
}

// A running job whose record cannot be read did not end, and what priod wrote into it stays known.
func TestUnreadJobDidNotLeave(t *testing.T) {
	h := NewHistory()
	id := slurmplug.Plain(1)
	h.Counted.Set(id, BE)
	see(h, 10, running(1, 2, 5))
	h.Written[id] = Written{Lever: slurmplug.SiteFactor, Value: 7}
	h.SetRequest(id, slurmplug.Features, Requested{Value: slurmplug.Text("a100"), Sure: true})
	unread := Job{ID: id, TaskCount: 1, State: Unread}
	if v, shown := unread.Request(slurmplug.Features); shown {
		t.Errorf("an unread job shows the constraint %q", v)
	}
	if c := see(h, 20, unread, Job{ID: slurmplug.Plain(2), State: Unread}); len(c) != 0 {
		t.Fatalf("%+v", c)
	}
	if h.Written[id].Value != 7 || len(h.Requests[id]) != 1 || h.ClassOf(&unread) != BE {
		t.Errorf("%+v %+v", h.Written, h.Requests)
	}
	if c := see(h, 30, running(1, 2, 5)); len(c) != 0 {
		t.Fatalf("%+v", c)
	}
	if c := see(h, 40); len(c) != 1 || !c[0].Closed || !c[0].End.Equal(at(30)) {
		t.Fatalf("%+v", c)
	}
}

// BenchmarkTEUse sums a day of a million TE jobs that are over, of 200 users.
func BenchmarkTEUse(b *testing.B) {
	h := NewHistory()
	const jobs, minute = 1_000_000, 60
	for i := range jobs {
		start := at(i / 20)
		h.Restore(Stay{Job: slurmplug.Plain(uint32(i + 1)), Start: start, End: start.Add(minute * time.Second), Closed: true, User: fmt.Sprint("u", i%200), GPUs: 1, Class: TE})
	}
	now := at(jobs/20 + minute)
	h.Observe(&Snapshot{At: now})
	for b.Loop() {
		if users, _, _ := h.TEUse(now, func(string, string) time.Duration { return 0 }); len(users) != 200 || users["u0"].GPUSeconds != jobs/200*minute {
			b.Fatal(len(users), users["u0"])
		}
	}
}

// A job whose owner changes the tag's class at each poll is charged for its run as what it was ranked when that began, in one stay.
func TestClassThatChangesEachPoll(t *testing.T) {
	h, tags := NewHistory(), [2]string{"prio:type=te&v=1", "prio:type=be&v=1"}
	seconds := 0
	poll := func(state State) []Stay {
		j := running(1, 2, 60)
		if j.State = state; state == Pending {
			j.Start = time.Time{}
		}
		j.TagText = tags[seconds%2]
		j.Tag = jobtag.Read(j.TagText).Tag
		s := &Snapshot{At: at(60 + seconds), Jobs: []Job{j}}
		seconds++
		h.KeepTags(s)
		stays := h.Observe(s)
		if class := map[string]Class{"te": TE, "be": BE}[s.Jobs[0].Tag.Type]; state == Pending || s.Jobs[0].Tag.Type != "" {
			h.Counted.Set(j.ID, class)
		}
		return stays
	}
	for range 3 {
		poll(Pending)
	}
	rows := 0
	for range 100 {
		rows += len(poll(Running))
	}
	if got, want := gpuSeconds(h, seconds+59), float64(2*(seconds-1)); rows != 1 || got != want {
		t.Errorf("%d rows, %g GPU-seconds, want %g", rows, got, want)
	}
}
