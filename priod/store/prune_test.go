package store

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/slurmplug"
)

// Old rows go, what holds stays, whatever its age.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"), pending(3, "te"))
	d.store.opts.Retention = 72 * time.Hour
	d.cycle()
	run(d.job(3), d.snapshot.At)
	d.cycle()
	d.remove(3)
	d.cycle()
	d.job(2).Tag.Type = "te" // its first decision is replaced
	d.cycle()
	d.cycle()
	old, recent := filepath.Join(dir, "priod.db.broken-x"), filepath.Join(dir, "priod.db.broken-y")
	for _, path := range []string{old, recent} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, epoch, epoch); err != nil {
		t.Fatal(err)
	}
	rows := func(table string) int64 { return count(t, d.store, "SELECT count(*) FROM "+table) }
	before := map[string]int64{}
	for _, table := range []string{"jobs", "intervals", "writes", "decisions", "cycles"} {
		before[table] = rows(table)
	}
	if err := d.store.Prune(ctx, d.snapshot.At.Add(71*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for table, n := range before {
		if rows(table) != n {
			t.Errorf("%s: %d rows, %d before, too early", table, rows(table), n)
		}
	}
	now := d.snapshot.At.Add(73 * time.Hour)
	if err := d.store.Prune(ctx, now); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int64{"jobs": 2, "intervals": 0, "writes": 0, "decisions": 2, "cycles": 1, "history": 2} {
		if n := rows(table); n != want {
			t.Errorf("%s: %d rows, want %d", table, n, want)
		}
	}
	if journal.Exists(old) || !journal.Exists(recent) {
		t.Error("files that were set aside")
	}
	d.snapshot.At = now
	d.cycle()
	known := d.history
	d.restart()
	if diff := diffHistory(known, d.history); diff != "" {
		t.Errorf("prune changed what priod knows:\n%s", diff)
	}
	start := count(t, d.store, "SELECT total_changes()")
	d.cycle()
	if n := count(t, d.store, "SELECT total_changes()") - start; n != 1 {
		t.Errorf("prune made the next cycle write %d rows", n)
	}
}

// A month of jobs that come and go leaves a database as large as a few days.
func TestSizeIsBounded(t *testing.T) {
	d := newDaemon(t, t.TempDir())
	d.store.opts.Retention = 3 * 24 * time.Hour
	exec(t, d.store, "PRAGMA synchronous = 0")
	sizes := map[int]int64{}
	for day := 1; day <= 30; day++ {
		for hour := range uint32(4) {
			d.snapshot.At = d.snapshot.At.Add(6 * time.Hour)
			var jobs []cluster.Job
			for i := range uint32(40) {
				j := pending(uint32(day)*1000+hour*100+i+1, []string{"te", "be"}[i%2])
				j.Submit, j.Eligible = d.snapshot.At, d.snapshot.At
				if i%4 == 0 {
					run(&j, d.snapshot.At)
				}
				jobs = append(jobs, j)
			}
			d.snapshot.Jobs = jobs
			d.cycle()
			d.cycle()
		}
		if err := d.store.Prune(ctx, d.snapshot.At); err != nil {
			t.Fatal(err)
		}
		sizes[day] = count(t, d.store, "PRAGMA page_count")
		if free := count(t, d.store, "PRAGMA freelist_count"); free != 0 {
			t.Fatalf("day %d: %d free pages are kept", day, free)
		}
	}
	if sizes[30] > sizes[5]*5/4 {
		t.Errorf("pages: %v", sizes)
	}
	if n := count(t, d.store, "SELECT count(*) FROM jobs"); n > 4*4*40+40 {
		t.Errorf("%d jobs", n)
	}
	// An empty queue gives nearly all of it back.
	d.snapshot.Jobs, d.snapshot.At = nil, d.snapshot.At.Add(10*24*time.Hour)
	d.cycle()
	if err := d.store.Prune(ctx, d.snapshot.At.Add(10*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, d.store, "PRAGMA page_count"); n > 60 {
		t.Errorf("%d pages for an empty queue, %d with jobs", n, sizes[30])
	}
}

// Cycles, prune and readers at once: the race detector watches.
func TestAtOnce(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"), pending(2, "be"))
	d.store.opts.Retention = time.Minute // two days, that is
	d.cycle()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, work := range []func() error{
		func() error { return d.store.Prune(ctx, epoch.Add(49*time.Hour)) },
		func() error { _, err := d.store.Hold(); return err },
		func() error {
			r, err := OpenReader(ctx, dir)
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = r.Queue(ctx)
			return err
		},
	} {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := work(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 60 {
		d.job(1).CPUs = i
		if i%3 == 0 {
			d.job(1).SiteFactor = 0
		}
		d.cycle()
	}
	close(stop)
	all.Wait()
	if w := d.history.Written[slurmplug.Plain(1)]; w.Value == 0 {
		t.Errorf("%+v", w)
	}
}

// Runs that only accounting tells of, long after the job left: the interval
// finds its job, or gets one.
func TestRunsFromAccounting(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"))
	d.cycle()
	run(d.job(1), d.snapshot.At)
	d.cycle()
	start := d.job(1).Start
	d.remove(1)
	d.cycle()
	past := func(id uint32, user string, start, end time.Time) cluster.PastStay {
		return cluster.PastStay{Stay: cluster.Stay{
			Job: slurmplug.Plain(id), Start: start, End: end, Closed: true, GPUType: "a100", GPUs: 2, User: user, Account: "physics",
		}}
	}
	exact := start.Add(13 * time.Second)
	d.history.Fill([]cluster.PastStay{
		past(1, "alice", start, exact),
		past(1, "bob", epoch.Add(-3*time.Hour), epoch.Add(-2*time.Hour)), // the id's former job
		past(7, "carol", epoch.Add(-2*time.Hour), epoch.Add(-time.Hour)),
	})
	d.cycle()
	r := reader(t, dir)
	story := must[Story](t)(r.Job(ctx, slurmplug.Plain(7), 5))
	if story.Job.User != "carol" || len(story.Stays) != 1 || story.Stays[0].GPUSeconds != 7200 || story.Job.Left.IsZero() {
		t.Errorf("%+v", story)
	}
	var ends []int64
	rows, err := d.store.db.Query("SELECT i.end_ms FROM intervals i JOIN jobs j ON j.job = i.job WHERE j.id = 1 AND j.user = 'alice'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var end int64
		if err := rows.Scan(&end); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if len(ends) != 1 || ends[0] != millis(exact) {
		t.Errorf("ends %v, want %d", ends, millis(exact))
	}
	if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE id = 1 AND user = 'bob'"); n != 1 {
		t.Errorf("%d rows for the id's former job", n)
	}
	rows.Close()
	known := d.history
	d.restart()
	if diff := diffHistory(known, d.history); diff != "" {
		t.Error(diff)
	}
	// An earlier run of a job that runs again.
	again := pending(9, "te")
	run(&again, d.snapshot.At)
	d.snapshot.Jobs = append(d.snapshot.Jobs, again)
	d.cycle()
	d.history.Fill([]cluster.PastStay{past(9, "alice", epoch.Add(-time.Hour), epoch)})
	d.cycle()
	d.job(9).State = cluster.Suspended
	d.cycle()
	known = d.history
	d.restart()
	if diff := diffHistory(known, d.history); diff != "" {
		t.Error(diff)
	}
}
