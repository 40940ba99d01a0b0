package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Samples come back as they were saved, those since a time, and go with their age.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(17, "te"))
	d.cycle()
	if x := must[Sample](t)(reader(t, dir).LastSample(ctx)); !x.At.IsZero() {
		t.Errorf("before the first one: %+v", x)
	}
	var want []Sample
	for i := range 3 {
		x := Sample{
			At: epoch.Add(time.Duration(i) * time.Minute), GPUs: 8, InUse: i, Stranded: 1, Running: 2, WaitingTE: 3, WaitingBE: 4, TookS: 0.25, Causes: map[plan.Cause]int{plan.Capacity: 4 + i},
			Slow: map[string]float64{"n1": 1.5}, Reservations: []slurmplug.NodeReservation{{Name: "maint", Nodes: "n[1-2]", Start: epoch.UTC(), End: epoch.Add(time.Hour).UTC()}},
		}
		if err := d.store.SaveSample(ctx, &x); err != nil {
			t.Fatal(err)
		}
		want = append(want, x)
	}
	if diff := cmp.Diff(want[1:], must[[]Sample](t)(reader(t, dir).Samples(ctx, want[1].At))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[2], must[Sample](t)(reader(t, dir).LastSample(ctx))); diff != "" {
		t.Error(diff)
	}
	d.store.opts.Retention = minRetention
	if err := d.store.Prune(ctx, epoch.Add(minRetention+90*time.Second)); err != nil {
		t.Fatal(err)
	}
	if left := must[[]Sample](t)(reader(t, dir).Samples(ctx, time.Time{})); len(left) != 1 || !left[0].At.Equal(want[2].At) {
		t.Errorf("%+v", left)
	}
}

// A running job has its expected end; it is written again where it has moved, and goes when the job is not expected to end any more.
func TestExpectedEnds(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(17, "te"), pending(18, "te"))
	for _, id := range []uint32{17, 18} {
		run(d.job(id), epoch)
		d.job(id).NodeList = "n1"
	}
	d.cycle()
	save := func(ends map[cluster.JobID]ExpectedEnd) {
		t.Helper()
		if err := d.store.SaveEnds(ctx, epoch, ends); err != nil {
			t.Fatal(err)
		}
	}
	of := func(id uint32) ExpectedEnd {
		t.Helper()
		for _, h := range must[[]Holder](t)(reader(t, dir).Holders(ctx)) {
			if h.Job == slurmplug.Plain(id) {
				if h.Class == "" {
					t.Errorf("job %d has no class", id)
				}
				return h.End
			}
		}
		t.Fatalf("job %d holds no node", id)
		return ExpectedEnd{}
	}
	end := ExpectedEnd{epoch.Add(time.Hour), epoch.Add(2 * time.Hour)}
	save(map[cluster.JobID]ExpectedEnd{slurmplug.Plain(17): end, slurmplug.Plain(99): end})
	if got := of(17); !got.Median.Equal(end.Median) || !got.P90.Equal(end.P90) || !of(18).Median.IsZero() {
		t.Errorf("%+v", got)
	}
	save(map[cluster.JobID]ExpectedEnd{slurmplug.Plain(17): {end.Median.Add(10 * time.Second), end.P90}}) // hardly moved
	if got := of(17); !got.Median.Equal(end.Median) {
		t.Errorf("%+v", got)
	}
	save(map[cluster.JobID]ExpectedEnd{slurmplug.Plain(18): end})
	if !of(17).Median.IsZero() || !of(18).P90.Equal(end.P90) {
		t.Errorf("%+v, %+v", of(17), of(18))
	}
}

// What a user delays is no wait, wherever waits are counted; nor does a run after the first one change when the job could first run.
func TestWaitsBeginWhenAJobCanRun(t *testing.T) {
	for name, c := range map[string]struct{ submit, eligible, since, start, want int64 }{
		"at once":                     {submit: 100, eligible: 100, since: 100, start: 160, want: 100},
		"begin time":                  {submit: 100, eligible: 700, since: 700, start: 730, want: 700},
		"no decision":                 {submit: 100, eligible: 700, start: 730, want: 700},
		"waits still":                 {submit: 100, eligible: 700, since: 700, want: 700},
		"requeued, and held":          {submit: 100, eligible: 9000, since: 700, start: 730, want: 700},
		"requeued, no decision":       {submit: 100, eligible: 9000, start: 730, want: 100},
		"its begin time was put off":  {submit: 100, eligible: 800, since: 100, start: 830, want: 100},
		"nothing known but its start": {start: 730},
	} {
		var want time.Time
		if c.want > 0 {
			want = instant(c.want)
		}
		if got := readyOf(c.submit, c.eligible, c.since, c.start); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"))
	begin := d.snapshot.At.Add(10 * time.Minute)
	d.job(1).Eligible, d.job(1).GPUs = begin, 1
	d.cycle()
	for d.snapshot.At.Before(begin.Add(time.Minute)) {
		d.cycle()
	}
	run(d.job(1), d.snapshot.At)
	started := d.job(1).Start
	d.cycle()
	r := reader(t, dir)
	jobs := must[[]JobTimes](t)(r.JobsSince(t.Context(), time.Time{}))
	starts := must[[]FirstStart](t)(r.FirstStarts(t.Context(), time.Time{}))
	if len(jobs) != 1 || !jobs[0].Ready.Equal(begin) || !jobs[0].Submit.Before(begin) || len(starts) != 1 || !starts[0].Ready.Equal(begin) || !starts[0].Start.Equal(started) {
		t.Errorf("%+v\n%+v, eligible %v", jobs, starts, begin)
	}
}
