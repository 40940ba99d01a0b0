package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/waits"
	"slurmprio/slurmplug"
)

// watching is a daemon that finds out why jobs wait: job 17 for a limit, then for GPUs.
func watching(t *testing.T, dir string) (*daemon, *waits.Tracker) {
	t.Helper()
	j := cluster.Job{ID: slurmplug.Plain(17), State: cluster.Pending, Reason: "QOSMaxGRESPerUser", Priority: 1, GPUs: 4, TaskCount: 1, User: "alice", Account: "physics", Partition: "gpu", Submit: epoch}
	d := newDaemon(t, dir, j)
	d.snapshot.Nodes = []cluster.Node{{Name: "n1", Usable: true, GPUType: "a100", GPUs: 4, GPUsUsed: 2, CPUs: 8, MemMB: 64, Partitions: []string{"gpu"}}}
	d.settings.Waits = waits.Feature{Tracker: &waits.Tracker{}, Gap: 5 * time.Minute}
	return d, d.settings.Waits.Tracker
}

// causes are what the database says of job 17.
func causes(t *testing.T, d *daemon) (found []string) {
	t.Helper()
	all := must[[]*plan.Wait](t)(reader(t, d.store.dir).WaitsOf(ctx, slurmplug.Plain(17), time.Time{}, d.snapshot.At, 5))
	for _, w := range all {
		for i, s := range w.Spans {
			found = append(found, fmt.Sprintf("%s %s %v %s", s.Cause, s.What, w.Length(i), w.Ended))
		}
	}
	return found
}

// What jobs wait for outlives a restart and a time without priod; a database that is lost
// gets what waits of a cycle on.
func TestWaitsAreKept(t *testing.T) {
	d, _ := watching(t, t.TempDir())
	d.cycle()
	d.cycle()
	d.snapshot.Jobs[0].Reason = "Resources"
	d.cycle()
	if diff := cmp.Diff([]string{"limit QOSMaxGRESPerUser 45s ", "capacity  0s "}, causes(t, d)); diff != "" {
		t.Error(diff)
	}
	d.cycle()
	again := func() {
		d.restart()
		open, at, err := d.store.Waits(ctx)
		if err != nil || len(open) != 1 || !at.Equal(d.snapshot.At) {
			t.Fatalf("%d waits, the last look at %v, %v", len(open), at, err)
		}
		if spans := open[0].Spans; spans[0].Fits != nil || !cmp.Equal(spans[1].Fits, &plan.FitsNow{GPUs: 2}) {
			t.Errorf("it would fit with %+v", spans[1].Fits)
		}
		if diff := cmp.Diff(open, must[[]*plan.Wait](t)(reader(t, d.store.dir).OpenWaits(ctx))); diff != "" {
			t.Errorf("others read them differently: %s", diff)
		}
		d.settings.Waits.Tracker = &waits.Tracker{}
		d.settings.Waits.Tracker.Restore(open, at)
	}
	again()
	d.cycle()
	if diff := cmp.Diff([]string{"limit QOSMaxGRESPerUser 45s ", "capacity  30s "}, causes(t, d)); diff != "" {
		t.Error(diff)
	}
	again()
	d.snapshot.At = d.snapshot.At.Add(time.Hour)
	d.cycle()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(databasePath(d.store.dir) + suffix); err != nil && suffix == "" {
			t.Fatal(err)
		}
	}
	d.cycle()
	j := &d.snapshot.Jobs[0]
	j.State, j.Start, j.NodeList, j.Reason = cluster.Running, d.snapshot.At.Add(5*time.Second), "n1", "None"
	d.cycle()
	d.cycle()
	if diff := cmp.Diff([]string{"limit QOSMaxGRESPerUser 45s started", "capacity  30s started", "not-observed  1h0m15s started", "capacity  20s started"}, causes(t, d)); diff != "" {
		t.Error(diff)
	}
	waited, waiters, err := reader(t, d.store.dir).WaitsSince(ctx, epoch, d.snapshot.At)
	if err != nil {
		t.Fatal(err)
	}
	alice := Waiters{User: "alice", Account: "physics", Partition: "gpu", GPUs: 4}
	want := []Waited{
		{Waiters: alice, Cause: plan.Capacity, Wait: 50 * time.Second}, {Waiters: alice, Cause: plan.AtLimit, What: "QOSMaxGRESPerUser", Wait: 45 * time.Second},
		{Waiters: alice, Cause: plan.NotObserved, Wait: time.Hour + 15*time.Second},
	}
	if diff := cmp.Diff(want, waited, cmpopts.SortSlices(func(a, b Waited) bool { return a.Cause < b.Cause })); diff != "" {
		t.Error(diff)
	}
	alice.Jobs, alice.Started = 1, 1
	if diff := cmp.Diff([]Waiters{alice}, waiters); diff != "" {
		t.Error(diff)
	}
	runs := must[[]WaitedRun](t)(reader(t, d.store.dir).RunsSince(ctx, epoch))
	if len(runs) != 1 || runs[0].GPUs != 4 || runs[0].Pool != "a100 in gpu" || runs[0].PoolGPUs != 4 || !runs[0].Since.Equal(epoch.Add(time.Hour+90*time.Second)) {
		t.Errorf("%+v", runs)
	}
	if err := d.store.Prune(ctx, d.snapshot.At); err != nil || count(t, d.store, "SELECT count(*) FROM waits") != 1 {
		t.Error(err)
	}
	d.store.opts.Retention = time.Hour
	if err := d.store.Prune(ctx, d.snapshot.At.Add(72*time.Hour)); err != nil || count(t, d.store, "SELECT count(*) FROM waits") != 0 {
		t.Error("what is older than the retention stays: ", err)
	}
}

// The parts of a wait as of a moment are what SQLite's own functions make of the text, whatever its words say.
func TestSpansAtAMoment(t *testing.T) {
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rapid.Check(t, func(t *rapid.T) {
		w := &plan.Wait{Ended: rapid.SampledFrom([]plan.WaitEnd{plan.StillWaits, plan.Started}).Draw(t, "ended")}
		at := int64(1000)
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			at += rapid.Int64Range(1, 50).Draw(t, "ms")
			x := plan.WaitSpan{From: instant(at), Cause: plan.Capacity, What: rapid.SampledFrom([]string{"", "gpu", `a]},[1,2,"`, "\\", `"`}).Draw(t, "what"), Words: rapid.String().Draw(t, "words")}
			if rapid.Bool().Draw(t, "fits") {
				x.Fits = &plan.FitsNow{GPUs: 1}
			}
			w.Spans = append(w.Spans, x)
		}
		w.Until = instant(at + 20)
		text, moment := string(appendSpans(nil, w)), rapid.Int64Range(990, 1300).Draw(t, "at")
		var want string
		if err := db.QueryRow(`SELECT coalesce(json_group_array(json_array(s.value ->> 0, iif(s.value ->> 1 > ?2, 0, s.value ->> 1), s.value ->> 2, s.value ->> 3, s.value ->> 4, json(s.value -> 5))), '[]')
			FROM json_each(?1) AS s WHERE s.value ->> 0 <= ?2`, text, moment).Scan(&want); err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := errors.Join(json.Unmarshal([]byte(spansAt(text, moment)), &a), json.Unmarshal([]byte(want), &b)); err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%s at %d: %s, want %s (%v)", text, moment, spansAt(text, moment), want, err)
		}
	})
}

// The waits of a replay get their rows when they end, those without an end with the replay's: each change made them longer.
func TestWaitsOfAReplayAreWrittenOnce(t *testing.T) {
	d, _ := watching(t, t.TempDir())
	d.store.opts.Replay = true
	rows := func() (n int64) {
		if err := d.store.Checkpoint(); err != nil { // a replay's transactions go on over cycles
			t.Fatal(err)
		}
		return count(t, d.store, "SELECT count(*) FROM waits")
	}
	d.cycle()
	d.job(17).Reason = "Resources"
	d.cycle()
	if rows() != 0 {
		t.Errorf("%d rows of waits that go on", rows())
	}
	if err := d.store.EndReplay(ctx); err != nil || rows() != 1 || len(causes(t, d)) != 2 {
		t.Errorf("%v, %d rows, %q", err, rows(), causes(t, d))
	}
	run(d.job(17), d.snapshot.At.Add(time.Second))
	d.cycle()
	n, got := rows(), causes(t, d)
	if n != 1 || len(got) != 2 || !strings.HasSuffix(got[1], "started") {
		t.Errorf("%d rows, %q", n, got)
	}
}
