package tests

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/tests/growth"
	"slurmprio/tests/usage"
)

// soakOptions are the size of a soak in virtual time.
type soakOptions struct {
	nodes, pending, minutes int           // of the cluster: see newSoakSlurm
	interval                time.Duration // from poll to poll
	judged                  time.Duration // virtual time after the warm-up
	leak                    func(*plan.Seen)
}

// soakWarmUp is the time after which nothing may grow any more: the store keeps
// two days at least, and prunes by the hour.
const soakWarmUp = 2*cluster.UsePeriod + 2*time.Hour

// The daemon's own pace.
const (
	soakPrune   = time.Hour
	soakFill    = 5 * time.Minute
	soakOverlap = 10 * time.Minute
)

// soak is priod's cycle, History and store on a soakSlurm.
type soak struct {
	testing.TB
	soakOptions
	slurm   *soakSlurm
	config  *config.Config
	dir     string
	store   *store.Store
	history *cluster.History
	table   growth.Table
	hour    soakHour
	cycles  int
	writes  int // most in one cycle
	outcome map[slurmplug.Status]int
}

// soakHour is what the cycles since the last sample cost.
type soakHour struct{ wall, cpu, mallocs, records []float64 }

func newSoak(tb testing.TB, o soakOptions) *soak {
	s := &soak{TB: tb, soakOptions: o, dir: tb.TempDir(), slurm: newSoakSlurm(1, o.nodes, o.pending, o.minutes), outcome: map[slurmplug.Status]int{}}
	file := filepath.Join(s.dir, "priod.toml")
	if err := os.WriteFile(file, []byte("[te_budget.user]\ngpus = 24\ngpu_hours_per_day = 200.0\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	var err error
	if s.config, err = config.Load(file); err != nil {
		tb.Fatal(err)
	}
	if s.store, err = store.Open(tb.Context(), filepath.Join(s.dir, "state"), store.Options{Retention: 2 * cluster.UsePeriod}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.store.Close() })
	if s.history, err = s.store.Load(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s
}

// Observed, Planned and Done are the store's, beside a leak if the test wants one.
func (s *soak) Observed(ctx context.Context, snap *cluster.Snapshot, stays func() []cluster.Stay) {
	s.store.Observed(ctx, snap, stays)
}

func (s *soak) Planned(ctx context.Context, seen plan.Seen) error {
	if s.leak != nil {
		s.leak(&seen)
	}
	return s.store.Planned(ctx, seen)
}

func (s *soak) Done(ctx context.Context, o []plan.Outcome) error { return s.store.Done(ctx, o) }

// run lets the daemon's cycles go on through the warm-up and the judged time.
func (s *soak) run() {
	s.Helper()
	begun := s.slurm.now
	var pruned, filled time.Time
	for s.slurm.now.Sub(begun) < soakWarmUp+s.judged {
		s.slurm.pass(s.interval)
		now := s.slurm.now
		if now.Sub(filled) >= soakFill {
			s.fill(filled, now)
			filled = now
		}
		s.cycle()
		if err := s.store.Checkpoint(); err != nil {
			s.Fatal(err)
		}
		if now.Sub(pruned) >= soakPrune {
			pruned = now
			if err := s.store.Prune(s.Context(), now); err != nil {
				s.Fatal(err)
			}
			if now.Sub(begun) > soakWarmUp {
				s.sample()
			}
			s.hour = soakHour{}
		}
	}
}

// fill is the daemon's reading of accounting.
func (s *soak) fill(last, now time.Time) {
	past := s.slurm.Past(last.Add(-soakOverlap), now)
	ranking := s.config.Decide().Ranking
	for i := range past {
		past[i].Class = ranking.Class(past[i].Tag.Type, past[i].QOS)
	}
	s.history.Fill(past)
}

func (s *soak) cycle() {
	s.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, begun := processorTime(s), time.Now()
	result, err := cycle.Step(s.Context(), s.slurm, s, s.history, cycle.Settings{Order: order.Feature{Settings: s.config.Decide()}})
	wall := time.Since(begun)
	cpu = processorTime(s) - cpu
	runtime.ReadMemStats(&after)
	if err != nil {
		s.Fatalf("%v: %v", s.slurm.now, err)
	}
	for _, o := range result.Outcomes {
		s.outcome[o.Status]++
	}
	s.cycles++
	s.writes = max(s.writes, len(result.Outcomes))
	h := &s.hour
	h.wall = append(h.wall, float64(wall))
	h.cpu = append(h.cpu, float64(cpu))
	h.mallocs = append(h.mallocs, float64(after.Mallocs-before.Mallocs))
	h.records = append(h.records, float64(len(result.Snapshot.Jobs)))
}

func processorTime(tb testing.TB) time.Duration {
	user, system := usage.CPU(tb)
	return user + system
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// sample takes down all that must not grow.
func (s *soak) sample() {
	s.Helper()
	t := &s.table
	t.Add(median(s.hour.records), growth.Quantity{Name: "records in the queue"})
	t.Add(float64(s.slurm.ended), growth.Quantity{Name: "runs ended so far"})
	t.Add(median(s.hour.wall), growth.Quantity{Name: "ns per cycle"})
	t.Add(median(s.hour.cpu), growth.Quantity{Name: "processor ns per cycle", Judged: true, Margin: 0.5, Slack: 5e6})
	t.Add(median(s.hour.mallocs), growth.Quantity{Name: "allocations per cycle", Judged: true, Margin: 0.1, Slack: 1000})
	state := filepath.Join(s.dir, "state")
	rows := usage.Rows(s, state)
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		t.Add(float64(rows[table]), growth.Quantity{Name: "rows of " + table, Judged: true, Margin: 0.05, Slack: 200})
	}
	t.Add(float64(usage.FileSize(filepath.Join(state, "priod.db"))), growth.Quantity{Name: "priod.db, bytes", Judged: true, Margin: 0.03, Slack: 1 << 17})
	// The store gives a -wal back to the disk beyond 16 MiB.
	t.Add(float64(usage.FileSize(filepath.Join(state, "priod.db-wal"))), growth.Quantity{Name: "priod.db-wal, bytes", Judged: true, Slack: 4 << 20, Most: 32 << 20})
	// The journal is compacted when it has doubled and has a thousand lines more.
	lines := 1024 + 3*slices.Max(s.hour.records) + float64(s.writes)
	t.Add(float64(usage.FileSize(filepath.Join(state, "journal.jsonl"))), growth.Quantity{Name: "journal.jsonl, bytes", Most: 250 * lines})
	held := growth.Holdings("Store", s.store) // its history is the cycle's
	for _, path := range slices.Sorted(maps.Keys(held)) {
		kind := growth.Quantity{Name: path, Judged: true, Margin: 0.1, Slack: 300}
		if path == "Store.told.undo.changes" {
			kind = growth.Quantity{Name: path, Most: lines}
		}
		t.Add(float64(held[path]), kind)
	}
	t.Add(float64(usage.Self(s).OpenFiles()), growth.Quantity{Name: "open files", Judged: true, Slack: 1})
	t.Add(float64(runtime.NumGoroutine()), growth.Quantity{Name: "goroutines", Judged: true, Slack: 1})
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go
	runtime.ReadMemStats(&m)
	t.Add(float64(m.HeapAlloc), growth.Quantity{Name: soakLive, Judged: true, Margin: 0.08, Slack: 1 << 16})
}

// soakLive is judged with a margin because Go's maps split as keys come and go:
// at as many entries they take up to a fifth more after some days, and no more.
const soakLive = "live heap, bytes"

// smallSoak fits into make test: polls are far apart, the time is no shorter.
var smallSoak = soakOptions{nodes: 40, pending: 200, minutes: 25, interval: 20 * time.Minute, judged: 24 * time.Hour}

// fullSoak is 24 hours at a poll every 30 seconds.
var fullSoak = soakOptions{nodes: 100, pending: 3000, minutes: 30, interval: 30 * time.Second, judged: 24 * time.Hour}

func TestSoakVirtual(t *testing.T) {
	o := smallSoak
	if long() {
		o = fullSoak
	}
	s := newSoak(t, o)
	s.run()
	t.Logf("%d cycles, %d runs ended, writes %v\n%s", s.cycles, s.slurm.ended, s.outcome, &s.table)
	for _, why := range s.table.Growth() {
		t.Error(why)
	}
	if s.outcome[slurmplug.Applied] == 0 || s.slurm.ended < 10*o.pending {
		t.Error("the queue does not turn over: nothing was tested")
	}
}

// One record too many for each job that ends is seen.
func TestSoakSeesALeak(t *testing.T) {
	o := smallSoak
	var kept []*cluster.Job
	o.leak = func(seen *plan.Seen) {
		for _, i := range seen.Stays {
			if i.Closed {
				kept = append(kept, &cluster.Job{ID: i.Job, User: i.User})
			}
		}
	}
	s := newSoak(t, o)
	s.run()
	if all := strings.Join(s.table.Growth(), "\n"); !strings.Contains(all, soakLive) {
		t.Errorf("%d records leaked; the judgement is %q\n%s", len(kept), all, &s.table)
	}
	runtime.KeepAlive(kept)
}

// BenchmarkSoak is a cycle at the beginning and at the end of 24 h in which
// the queue turns over many times, after two days that fill the database.
func BenchmarkSoak(b *testing.B) {
	for done := false; b.Loop(); done = true {
		if done {
			continue // one soak says it all
		}
		s := newSoak(b, fullSoak)
		s.run()
		b.Logf("%d cycles, %d runs ended\n%s", s.cycles, s.slurm.ended, &s.table)
		for _, q := range s.table.Quantities {
			switch q.Name {
			case "ns per cycle":
				b.ReportMetric(q.Values[0], "first_hour_ns/cycle")
				b.ReportMetric(q.Values[len(q.Values)-1], "last_hour_ns/cycle")
			case "processor ns per cycle":
				b.ReportMetric(q.Values[0], "first_hour_cpu_ns/cycle")
				b.ReportMetric(q.Values[len(q.Values)-1], "last_hour_cpu_ns/cycle")
			}
		}
		b.ReportMetric(0, "ns/op")
		for _, why := range s.table.Growth() {
			b.Error(why)
		}
	}
}
