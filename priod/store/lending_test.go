package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/guarantee"
	"slurmprio/slurmplug"
)

// What became of shares adds up by the hour, over restarts; waits that are open are those of the last time, and what has ended
// stays until its age.
func TestStatement(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(17, "te"))
	d.cycle()
	hour := epoch.Truncate(time.Hour).UTC()
	save := func(x guarantee.Taken) {
		t.Helper()
		if err := d.store.SaveStatement(ctx, &x); err != nil {
			t.Fatal(err)
		}
	}
	r := guarantee.Return{Job: slurmplug.Plain(17), Account: "physics", User: "alice", GPUs: 2.5, Tasks: 3, Since: epoch.UTC(), Promise: 2 * time.Minute, Why: "claimed"}
	other := r
	other.Job, other.Tasks = slurmplug.Plain(18), 1
	save(guarantee.Taken{
		Hours: []guarantee.Hour{{At: hour, Account: "physics", Accounts: []string{"optics", "physics"}, GPUs: 8, Sums: guarantee.Sums{Entitled: 480, Within: 200, Lent: 40, Wanted: 20, Borrowed: 10}}},
		Open:  []guarantee.Return{r, other},
	})
	d.restart()
	if diff := cmp.Diff([]guarantee.Return{r, other}, must[[]guarantee.Return](t)(d.store.OpenReturns(ctx))); diff != "" {
		t.Error(diff)
	}
	done := other
	done.Until, done.Started = epoch.Add(time.Minute).UTC(), true
	later := guarantee.Hour{At: hour, Account: "physics", Accounts: []string{"lasers", "physics"}, GPUs: 6, Sums: guarantee.Sums{Entitled: 360, Within: 100, Lent: 4, Wanted: 2, Borrowed: 1}}
	next := later
	next.At = hour.Add(time.Hour)
	save(guarantee.Taken{Hours: []guarantee.Hour{later, next}, Ended: []guarantee.Return{done}, Open: []guarantee.Return{r}})
	want := []guarantee.Hour{
		{At: hour, Account: "physics", Accounts: []string{"lasers", "optics", "physics"}, GPUs: 6, Sums: guarantee.Sums{Entitled: 840, Within: 300, Lent: 44, Wanted: 22, Borrowed: 11}}, next,
	}
	read := reader(t, dir)
	if diff := cmp.Diff(want, must[[]guarantee.Hour](t)(read.ShareHours(ctx, hour.Add(30*time.Minute)))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]guarantee.Return{r, done}, must[[]guarantee.Return](t)(read.Returns(ctx, hour))); diff != "" {
		t.Error(diff)
	}
	if left := must[[]guarantee.Return](t)(read.Returns(ctx, done.Until.Add(time.Second))); len(left) != 1 || left[0].Job != r.Job {
		t.Errorf("%+v", left)
	}
	d.store.opts.Retention = minRetention
	if err := d.store.Prune(ctx, hour.Add(minRetention+59*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if hours := must[[]guarantee.Hour](t)(reader(t, dir).ShareHours(ctx, time.Time{})); len(hours) != 1 || !hours[0].At.Equal(next.At) {
		t.Errorf("%+v", hours)
	}
	if left := must[[]guarantee.Return](t)(reader(t, dir).Returns(ctx, time.Time{})); len(left) != 1 || left[0].Job != r.Job {
		t.Errorf("%+v", left)
	}
}
