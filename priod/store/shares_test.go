package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// sharing is a daemon that allocates by max-min, on a100 and v100.
func sharing(t testing.TB, dir string, jobs ...cluster.Job) *daemon {
	d := newDaemon(t, dir, jobs...)
	for _, gpuType := range []string{"a100", "v100"} {
		d.snapshot.Nodes = append(d.snapshot.Nodes, cluster.Node{
			Name: gpuType, Usable: true, GPUType: gpuType, GPUs: 4, CPUs: 32, MemMB: 1 << 20, Partitions: []string{"gpu"},
		})
	}
	d.settings.Allocation.Settings = allocate.Settings{Policy: "max-min", Every: time.Hour}
	d.settings.Allocation.Ledger = must[*allocate.Ledger](t)(d.store.LoadShares(ctx))
	return d
}

func open(id uint32, a100, v100 float64) cluster.Job {
	j := pending(id, "be")
	j.GPUType, j.Tag.Speed = "", map[string]float64{"a100": a100, "v100": v100}
	return j
}

// stretch is one run of a job, in seconds of the test.
type stretch struct {
	from, to int
	gpuType  string
}

// However the time is split into polls, restarts and gaps that accounting fills,
// jobs have received and were promised the same.
func TestSharesDoNotDependOnPolls(t *testing.T) {
	const end, hour = 7000, 3600
	runs := map[uint32][]stretch{
		1: {{100, 700, "a100"}, {900, 905, "v100"}, {1000, 6000, "v100"}},
		2: {{50, 3000, "v100"}, {3600, 9000, "a100"}},
		3: {{4000, 5000, "a100"}},
		4: {},
	}
	second := func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }
	play := func(t *testing.T, r *rand.Rand) *plan.Shares {
		d := sharing(t, t.TempDir(), open(1, 1, 0.2), open(2, 1, 0.8), open(3, 1, 0.5), open(4, 1, 0.6))
		last := false
		for at := 0; ; at = min(end, at+1+r.IntN(900)) {
			if at > 0 && r.IntN(4) == 0 || at == end && !last {
				d.restart()
				d.settings.Allocation.Ledger = must[*allocate.Ledger](t)(d.store.LoadShares(ctx))
			}
			if at > 0 && r.IntN(3) == 0 || at == end { // accounting
				var past []cluster.PastStay
				for id, all := range runs {
					for n, s := range all {
						if s.to <= at {
							past = append(past, cluster.PastStay{Stay: cluster.Stay{
								Job: slurmplug.Plain(id), Start: second(s.from), End: second(s.to), Closed: true, GPUType: s.gpuType, GPUs: 2, User: "alice", Restarts: n,
							}})
						}
					}
				}
				d.history.Fill(past)
			}
			d.snapshot.At = second(at - 15)
			for id, all := range runs {
				j := d.job(id)
				j.State, j.Reason, j.Start, j.GPUType, j.NodeList, j.SiteFactorKnown = cluster.Pending, "Priority", time.Time{}, "", "", true
				for n, s := range all {
					if s.to <= at { // requeued
						j.Restarts, j.Submit, j.Eligible = n+1, second(s.to), second(s.to)
					} else if s.from <= at {
						run(j, second(s.from))
						j.GPUType = s.gpuType
					}
				}
			}
			d.cycle()
			if !last { // accounting mends the end of a run once a poll has seen it
				last = at == end
			} else {
				return d.settings.Allocation.Ledger.Allocate(&d.snapshot, d.history, d.settings.Allocation.Settings)
			}
		}
	}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			got := play(t, rand.New(rand.NewPCG(seed, 1)))
			for id := range runs {
				s := got.Jobs.Get(slurmplug.Plain(id))
				if s == nil || s.Time == nil {
					t.Fatalf("job %d: %+v", id, s)
				}
				for n, gpuType := range got.Types {
					received, lately, everybody := 0, 0, 0
					for other, all := range runs {
						for _, x := range all {
							if x.gpuType != gpuType {
								continue
							}
							to := min(x.to, end)
							now := max(to-max(x.from, hour), 0)
							everybody += now
							if other == id {
								received, lately = received+to-x.from, lately+now
							}
						}
					}
					if math.Abs(s.Seconds[n]-float64(received)) > 1e-6 || math.Abs(s.Owed[n]-(s.Time[n]*end-float64(received))) > 1e-6 {
						t.Errorf("job %d on %s: received %v, want %v; owed %v of %v", id, gpuType, s.Seconds[n], received, s.Owed[n], s.Time[n]*end)
					}
					if math.Abs(s.Received[n]*float64(everybody)-float64(lately)) > 1e-6 {
						t.Errorf("job %d on %s: fraction %v since the hour began, want %d of %d", id, gpuType, s.Received[n], lately, everybody)
					}
				}
			}
		})
	}
}

// What the allocation said is stored when it changes, and shown; a job that it
// counts no more has no share.
func TestShareOfAJob(t *testing.T) {
	d := sharing(t, t.TempDir(), open(1, 1, 0.2), open(2, 1, 0.8))
	d.cycle()
	story := must[Story](t)(reader(t, d.store.dir).Job(ctx, slurmplug.Plain(1), 5))
	s := story.Share
	if s == nil || len(s.Types) != 2 || s.Types[1].Speed != 0.2 || s.Types[1].Source != speed.Tag || s.Types[0].Time == nil || *s.Types[0].RunS != 720 || s.Priority < plan.Untouched*0.1 {
		t.Fatalf("%+v", s)
	}
	before := count(t, d.store, "SELECT max(cycle) FROM cycles")
	d.cycle()
	if n := count(t, d.store, "SELECT max(cycle) FROM cycles"); n != before {
		t.Error("time alone changes a share's row")
	}
	d.job(1).Dependency = true
	d.cycle()
	if n := count(t, d.store, "SELECT count(*) FROM shares"); n != 1 {
		t.Errorf("%d rows with one job left to count", n)
	}
	d.restart()
	d.settings.Allocation.Ledger, d.settings.Allocation.Settings = must[*allocate.Ledger](t)(d.store.LoadShares(ctx)), allocate.Settings{}
	d.cycle()
	if n := count(t, d.store, "SELECT count(*) FROM shares"); n != 0 {
		t.Errorf("%d rows with nothing allocated", n)
	}
	if types := must[[]string](t)(reader(t, d.store.dir).GPUTypes(ctx)); cmp.Diff(types, []string{"a100", "v100"}) != "" {
		t.Error(types)
	}
}

// What was learned answers from the store as it did from memory.
func TestLessons(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, Options{})
	if l := must[Lessons](t)(s.Lessons(ctx)); l.Knowledge != nil || !l.Read.IsZero() {
		t.Errorf("%+v", l)
	}
	var stays []cluster.PastStay
	for n := range uint32(500) {
		gpuType := []string{"a100", "v100"}[n%2]
		start := epoch.Add(time.Duration(n) * time.Minute)
		stays = append(stays, cluster.PastStay{
			RawID: n + 1, State: "COMPLETED", Name: fmt.Sprintf("job\x00%d", n/2%3),
			Stay:     cluster.Stay{Start: start, End: start.Add(time.Duration(60+60*(n%2)) * time.Second), GPUType: gpuType, GPUs: 1, User: "ann"},
			NodeList: fmt.Sprintf("n[1-%d]", n+2),
		})
	}
	until := epoch.Add(24 * time.Hour)
	for range 2 { // read twice, known once
		if err := s.SaveStays(ctx, stays, until); err != nil {
			t.Fatal(err)
		}
	}
	kept := must[[]cluster.PastStay](t)(s.StaysSince(ctx, epoch.Add(2*time.Hour)))
	seen := must[[]cluster.PastStay](t)(reader(t, dir).StaysSince(ctx, epoch.Add(2*time.Hour)))
	if d := cmp.Diff(kept, seen); d != "" || kept[0].NodeList != "n[1-121]" {
		t.Errorf("a reader sees other stays than %+v: %s", kept[0], d)
	}
	if len(kept) != 381 || count(t, s, "SELECT count(*) FROM stays") != 381 {
		t.Fatalf("%d stays are young enough", len(kept))
	}
	for user, want := range map[string]int{"": 100, "ann": 100, "bob": 0} {
		latest := must[[]cluster.PastStay](t)(reader(t, dir).LatestStays(ctx, user, 100))
		if len(latest) != want || want > 0 && latest[0].End.Before(latest[99].End) {
			t.Errorf("the last runs of %q: %d", user, len(latest))
		}
	}
	set := speed.Settings{}
	var h speed.History
	for _, r := range set.Completed(kept, time.Second, nil) {
		h.Add(r)
	}
	k := h.Learn()
	if err := s.SaveLessons(ctx, k, 381, until); err != nil {
		t.Fatal(err)
	}
	program := speed.Program{User: "ann", Name: "job\x001", GPUs: 1}
	for name, l := range map[string]Lessons{
		"all": must[Lessons](t)(s.Lessons(ctx)), "one": must[Lessons](t)(reader(t, dir).Lessons(ctx, &program)),
	} {
		if l.Runs != 381 || !l.At.Equal(until) || !l.Read.Equal(until) {
			t.Errorf("%s: %+v", name, l)
		}
		j := speed.Job{User: "ann", Name: program.Name, GPUs: 1}
		types := []string{"a100", "v100"}
		if d := cmp.Diff(set.For(&j, types, nil, k), set.For(&j, types, nil, l.Knowledge)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		j.Name = "never seen"
		if d := cmp.Diff(set.For(&j, types, nil, k), set.For(&j, types, nil, l.Knowledge)); name == "all" && d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if got := must[Lessons](t)(s.Lessons(ctx)).Knowledge; cmp.Diff(set.All(k, k.Types()), set.All(got, k.Types())) != "" {
		t.Error(cmp.Diff(set.All(k, k.Types()), set.All(got, k.Types())))
	}
}

// Of completed runs on the type that was given each is counted once: not twice for a job that left the queue and came
// back under its id, not one that ran elsewhere, failed, was never given a type or ended earlier.
func TestTypesGivenSince(t *testing.T) {
	d := sharing(t, t.TempDir(), open(1, 1, 0.2), open(2, 1, 0.8), open(3, 1, 0.5), open(4, 1, 0.5), open(5, 1, 0.5), open(6, 1, 0.5))
	d.cycle()
	back := *d.job(1)
	d.remove(1)
	d.cycle()
	d.snapshot.Jobs = append(d.snapshot.Jobs, back)
	d.cycle()
	exec(t, d.store, `UPDATE decisions SET choices = '{"gpu_type":{"why":"starts","gpu_type":"v100"}}' WHERE job IN (SELECT job FROM jobs WHERE raw_id != 4)`)
	if n := count(t, d.store, "SELECT count(*) FROM jobs WHERE raw_id = 1"); n != 2 {
		t.Fatalf("job 1 has %d rows", n)
	}
	var stays []cluster.PastStay
	for id := range uint32(6) {
		stays = append(stays, cluster.PastStay{
			RawID: id + 1, State: "COMPLETED", Name: "train",
			Stay: cluster.Stay{Start: epoch.Add(time.Hour), End: epoch.Add(2 * time.Hour), GPUType: "v100", GPUs: 2, User: "alice"},
		})
	}
	stays[1].GPUType, stays[2].State = "a100", "FAILED"
	stays[4].Start, stays[4].End = epoch, epoch.Add(time.Minute)
	stays[5].User = "bob" // the id was used again
	if err := d.store.SaveStays(ctx, stays, epoch.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	got := must[[]TypeGiven](t)(reader(t, d.store.dir).TypesGivenSince(ctx, epoch.Add(time.Hour)))
	if len(got) != 1 || got[0].GPUType != "v100" || len(got[0].Types) != 2 || got[0].User != "alice" || got[0].GPUs != 2 || !got[0].End.Equal(epoch.Add(2*time.Hour)) {
		t.Errorf("%+v, want the run of job 1", got)
	}
}
