package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/trace"
)

// replayed is an Input of so many jobs within days, on 120 GPUs of two types.
func replayed(t testing.TB, jobs int, days float64, load float64, set ...string) Input {
	t.Helper()
	c, err := config.Load("/dev/null", set...)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := trace.ParseNodes([]string{"6:a100:8:64:1000000", "9:v100:8:40:400000"})
	if err != nil {
		t.Fatal(err)
	}
	return Input{Cluster: nodes, Config: c, Jobs: trace.Each(week(jobs, days, load)), Speed: func(j *trace.Job, _ string) float64 { return 1 }}
}

func week(n int, days, load float64) []trace.Job {
	r := rand.New(rand.NewPCG(1, 2))
	jobs, work := make([]trace.Job, n), 0.0
	for i := range jobs {
		j := &jobs[i]
		j.ID, j.Submit = fmt.Sprint(500_001+i), float64(i)*days*86400/float64(n)
		j.User, j.Account = fmt.Sprintf("u%02d", r.IntN(40)), fmt.Sprintf("acc%d", r.IntN(6))
		j.GPUs, j.Class, j.Duration, j.Grace = []int{1, 1, 1, 2, 4, 8}[r.IntN(6)], cluster.BE, 3600*r.ExpFloat64(), 60
		if i%4 == 0 {
			j.Class, j.Duration = cluster.TE, 600*r.ExpFloat64()
		}
		work += j.Duration * float64(j.GPUs)
	}
	scale := load * 120 * days * 86400 / work
	for i := range jobs {
		jobs[i].Duration = jobs[i].Duration*scale + 10
		jobs[i].Limit = 1.5*jobs[i].Duration + 600
	}
	return jobs
}

// state is what is asked of a state folder.
type state struct {
	Queue    []store.Queued
	Nodes    any
	Holders  []store.Holder
	Waits    []*plan.Wait
	Open     []store.Eviction
	Samples  []store.Sample
	Promises []store.Promise
	Last     store.Cycle
}

func read(t testing.TB, dir string, at time.Time) (s state) {
	t.Helper()
	ctx := context.Background()
	r, err := store.OpenReaderAt(ctx, dir, at)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Queue, err = r.Queue(ctx)
	check(err)
	s.Nodes, err = r.Nodes(ctx)
	check(err)
	s.Holders, err = r.Holders(ctx)
	check(err)
	waits, err := r.OpenWaits(ctx)
	check(err)
	for _, w := range waits { // a virtual job keeps its time of submission over a requeue, and so one row for its waits
		if slices.ContainsFunc(s.Queue, func(q store.Queued) bool { return q.Job.ID == w.Job && q.Job.State == cluster.Pending.String() }) {
			s.Waits = append(s.Waits, w)
		}
	}
	all, err := r.Evictions(ctx, 100)
	check(err)
	for i := range all {
		if all[i].Ended.IsZero() {
			s.Open = append(s.Open, all[i])
		}
	}
	s.Samples, err = r.Samples(ctx, time.Time{})
	check(err)
	s.Promises, err = r.PromisesSince(ctx, time.Time{})
	check(err)
	s.Last, err = r.LastCycle(ctx)
	check(err)
	return s
}

// What is read of a moment is what was read then, but for causes of waits that were found out later, and claims that
// ended within the same second.
func TestMoment(t *testing.T) {
	spec := Spec{Order: "priod", Backfill: "easy", Overheads: Overheads{Requeue: 121, MTBF: 3_000_000, Repair: 7200}}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	in := replayed(t, 300, 1, 1.2, "profile=balanced", "locality.enabled=false", "sizing.enabled=false", "preemption.min_run=0s")
	in.Record = &Recording{Dir: t.TempDir()}
	seen, cycles := map[time.Time]state{}, 0
	in.Record.seen = func(r *cycle.Result) {
		_, again := seen[r.Snapshot.At] // a second cycle at the same time
		if cycles++; again || cycles%40 == 0 || len(r.Room) > 0 && cycles%2 == 0 {
			if err := errors.Join(in.Record.store.EndReplay(t.Context()), in.Record.store.Checkpoint()); err != nil { // else waits that go on have no rows yet
				t.Fatal(err)
			}
			seen[r.Snapshot.At] = read(t, in.Record.Dir, time.Time{})
		}
	}
	if _, err := Run(t.Context(), spec, in); err != nil {
		t.Fatal(err)
	}
	evictions, waiting := 0, 0
	for at, then := range seen {
		now := read(t, in.Record.Dir, at)
		evictions, waiting = evictions+len(then.Open), waiting+len(then.Waits)
		if diff := cmp.Diff(then, now, cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(store.Queued{}, "Moment", "Known", "Start"), cmpopts.IgnoreFields(store.Job{}, "Changed"), cmpopts.IgnoreFields(store.Holder{}, "End"),
			cmpopts.IgnoreFields(store.Cycle{}, "Until", "Polls"),
			cmpopts.IgnoreFields(plan.Wait{}, "Until", "Spans"), cmpopts.IgnoreFields(store.Eviction{}, "ClaimState", "ClaimEnded"), cmpopts.IgnoreFields(store.Promise{}, "Start")); diff != "" {
			t.Fatalf("%s: %s", at, diff)
		}
	}
	if len(seen) < 20 || evictions == 0 || waiting == 0 {
		t.Errorf("%d moments, %d evictions under way, %d waits", len(seen), evictions, waiting)
	}
	if _, err := os.Stat(filepath.Join(in.Record.Dir, "priod.db-wal")); err == nil {
		t.Error("the log of the database is left")
	}
}
