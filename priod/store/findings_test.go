package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// What a check found replaces what the one before it found.
func TestFindings(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(17, "te"))
	d.cycle()
	if f := must[Findings](t)(reader(t, dir).Findings(ctx)); !f.At.IsZero() || len(f.Findings) != 0 {
		t.Errorf("before the first check: %+v", f)
	}
	want := Findings{At: epoch, Findings: []Finding{{"FAIL", "rights", "may not change \x1b[2J", "sacctmgr ..."}, {"WARN", "steps", "few", ""}, {"PASS", "version", "24.11", ""}}}
	for _, f := range []*Findings{{At: epoch.Add(-time.Hour), Findings: make([]Finding, 9)}, &want} {
		if err := d.store.SaveFindings(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	got := must[Findings](t)(reader(t, dir).Findings(ctx))
	if diff := cmp.Diff(want, got); diff != "" || got.Count("FAIL") != 1 {
		t.Error(diff)
	}
}

// A start is written when it is new or has moved by more than it is worth to write, and is
// told as long as the job waits.
func TestExpectedStarts(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(17, "te"), pending(18, "te"))
	d.cycle()
	changes := func() int64 { return count(t, d.store, "SELECT total_changes()") }
	save := func(at time.Duration, writes int64, starts ...time.Duration) {
		t.Helper()
		before, all := changes(), map[cluster.JobID]ExpectedStart{slurmplug.Plain(99): {At: epoch}}
		for i, s := range starts {
			all[slurmplug.Plain(uint32(17+i))] = ExpectedStart{At: epoch.Add(s)}
		}
		if err := d.store.SaveStarts(ctx, epoch.Add(at), all); err != nil {
			t.Fatal(err)
		}
		if n := changes() - before; n != writes {
			t.Errorf("at %s: %d rows written, want %d", at, n, writes)
		}
	}
	told := func(id uint32) (planned, start time.Duration) {
		t.Helper()
		page, _, err := reader(t, dir).Pending(ctx, "", 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		story := must[Story](t)(reader(t, dir).Job(ctx, slurmplug.Plain(id), 1))
		for i := range page {
			if page[i].Job.ID == slurmplug.Plain(id) && !cmp.Equal(page[i].Start, story.Start) {
				t.Errorf("the page says %+v, the story %+v", page[i].Start, story.Start)
			}
		}
		if story.Start == nil {
			return -1, -1
		}
		return story.Start.Planned.Sub(epoch), story.Start.At.Sub(epoch)
	}
	save(0, 2, time.Hour, 10*time.Hour)
	save(time.Minute, 0, time.Hour+5*time.Minute, 10*time.Hour-50*time.Minute) // within a tenth
	save(2*time.Minute, 1, time.Hour+8*time.Minute, 10*time.Hour)
	if planned, start := told(17); planned != 2*time.Minute || start != 68*time.Minute {
		t.Errorf("job 17: planned %s, start %s", planned, start)
	}
	if planned, start := told(18); planned != 0 || start != 10*time.Hour {
		t.Errorf("job 18: planned %s, start %s", planned, start)
	}
	save(2*time.Hour, 0, 2*time.Hour, 10*time.Hour)               // what was due an hour ago is due now
	save(2*time.Hour, 1, 2*time.Hour+2*time.Minute, 10*time.Hour) // and not in two minutes
	save(2*time.Hour, 1, 2*time.Hour+2*time.Minute)               // nobody knows of job 18 any more
	if _, start := told(18); start != -1 {
		t.Errorf("job 18 still starts at %s", start)
	}
	run(d.job(17), epoch)
	d.cycle()
	if _, start := told(17); start != -1 {
		t.Errorf("job 17 runs, and is to start at %s", start)
	}
	d.remove(18)
	d.cycle()
	if n := count(t, d.store, "SELECT count(*) FROM starts"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// What features chose comes back as data, is a new row when it changes, and costs none while
// it does not.
func TestChoices(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(17, "te"))
	d.cycle()
	end := 600.0
	for i, c := range []plan.Choices{
		{GPUType: &plan.GPUTypeChoice{Why: "waits", GPUType: "a100", EndS: &end}},
		{GPUType: &plan.GPUTypeChoice{Why: "waits", GPUType: "a100", EndS: &end}},
		{Budget: &plan.BudgetLimit{Of: "user", Name: "ann", Limit: "gpus", Allowed: 4, Asks: 2, Times: 6}, Refused: &plan.RefusedNodes{Nodes: "n[1-2]"}},
	} {
		decision := plan.Decision{Job: slurmplug.Plain(17), Class: cluster.TE, Ranked: true, Why: string(plan.TETag), Choices: c}
		d.snapshot.At = d.snapshot.At.Add(15 * time.Second)
		if err := d.store.Planned(ctx, plan.Seen{Snapshot: &d.snapshot, Plan: &plan.Plan{Decisions: []plan.Decision{decision}}}); err != nil {
			t.Fatal(err)
		}
		story := must[Story](t)(reader(t, dir).Job(ctx, slurmplug.Plain(17), 10))
		if diff := cmp.Diff(c, story.Decision.Choices); diff != "" {
			t.Error(diff)
		}
		if want := []int{2, 2, 3}[i]; len(story.Decisions) != want {
			t.Errorf("%d rows, want %d", len(story.Decisions), want)
		}
		d.restart()
	}
}

// The first promise of each job is kept, with when the job started.
func TestPromises(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(17, "te"), pending(18, "te"), pending(19, "te"))
	d.cycle()
	promise := func(after time.Duration) ExpectedStart {
		return ExpectedStart{At: epoch.Add(10 * after), Median: epoch.Add(after), P90: epoch.Add(3 * after), Raw: epoch.Add(2 * after)}
	}
	for _, after := range []time.Duration{time.Hour, 5 * time.Hour} {
		starts := map[cluster.JobID]ExpectedStart{slurmplug.Plain(17): promise(after), slurmplug.Plain(18): promise(after), slurmplug.Plain(19): {At: epoch.Add(after)}}
		if err := d.store.SaveStarts(ctx, epoch, starts); err != nil {
			t.Fatal(err)
		}
	}
	if s := must[Story](t)(reader(t, dir).Job(ctx, slurmplug.Plain(18), 1)).Start; s == nil || !s.Median.Equal(epoch.Add(5*time.Hour)) || !s.P90.Equal(epoch.Add(15*time.Hour)) {
		t.Errorf("%+v", s)
	}
	run(d.job(17), epoch.Add(-500*time.Millisecond)) // in the second in which it was said
	d.cycle()
	got := must[[]Promise](t)(reader(t, dir).PromisesSince(ctx, epoch.Add(-time.Hour)))
	if len(got) != 2 || got[0].Job != slurmplug.Plain(17) || got[0].Start.IsZero() || !got[0].Median.Equal(epoch.Add(time.Hour)) || !got[0].Raw.Equal(epoch.Add(2*time.Hour)) || !got[1].Start.IsZero() {
		t.Errorf("%+v", got)
	}
	if again := must[[]Promise](t)(d.store.PromisesSince(ctx, epoch.Add(-time.Hour))); cmp.Diff(got, again) != "" {
		t.Error(cmp.Diff(got, again))
	}
	d.remove(18)
	d.cycle()
	short := cluster.PastStay{RawID: 18, State: "COMPLETED", Stay: cluster.Stay{Start: epoch.Add(40 * time.Minute), End: epoch.Add(41 * time.Minute), GPUType: "a100", GPUs: 2, User: "alice"}}
	if err := d.store.SaveStays(ctx, []cluster.PastStay{short}, epoch.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := must[[]Promise](t)(reader(t, dir).PromisesSince(ctx, epoch)); len(got) != 2 || !got[1].Start.Equal(short.Start) || got[1].Left.IsZero() {
		t.Errorf("a run too short for a cycle to see: %+v", got)
	}
	if none := must[[]Promise](t)(reader(t, dir).PromisesSince(ctx, epoch.Add(time.Hour))); len(none) != 0 {
		t.Errorf("%+v", none)
	}
}

// The earliest and the latest median that was said of a job stay until it leaves, in the queue and in its story.
func TestExpectedStartsThatMove(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(17, "te"))
	d.cycle()
	for i, median := range []time.Duration{2 * time.Hour, 5 * time.Hour, time.Hour, 3 * time.Hour} {
		at := epoch.Add(time.Duration(i) * time.Minute)
		if err := d.store.SaveStarts(ctx, at, map[cluster.JobID]ExpectedStart{slurmplug.Plain(17): {At: epoch.Add(20 * time.Hour), Median: epoch.Add(median), P90: epoch.Add(median + time.Hour)}}); err != nil {
			t.Fatal(err)
		}
	}
	queue := must[[]Queued](t)(reader(t, dir).Queue(ctx))
	story := must[Story](t)(reader(t, dir).Job(ctx, slurmplug.Plain(17), 1))
	s := story.Start
	if s == nil || !s.Least.Equal(epoch.Add(time.Hour)) || !s.Most.Equal(epoch.Add(5*time.Hour)) || !s.Median.Equal(epoch.Add(3*time.Hour)) {
		t.Errorf("%+v", s)
	}
	if len(queue) != 1 || !cmp.Equal(queue[0].Start, s) {
		t.Errorf("the queue says %+v", queue)
	}
}
