package scale

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/locality"
	"slurmprio/priod/nodespeed"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/tests/growth"
	"slurmprio/tests/usage"
)

// soakOptions are the size of a soak in virtual time.
type soakOptions struct {
	jobs     int           // that wait; there is a node for ten of them
	minutes  int           // mean run time of a job
	interval time.Duration // from poll to poll
	judged   time.Duration // virtual time after the warm-up
	heap     float64       // part by which the live heap may grow from the middle third to the last
	patient  bool          // nobody cancels a job
	leak     func(*plan.Seen)
}

const (
	// soakRetention is the least that a store may have.
	soakRetention = 2 * cluster.UsePeriod
	// soakWarmUp is the time after which nothing may grow any more: Prune comes by the hour.
	soakWarmUp = soakRetention + 2*time.Hour
	soakPrune  = time.Hour
	// While evictions are under way, the daemon tends them between two polls.
	soakTends = 20
	soakWatch = 10 * time.Second
)

// soak is priod with everything on, on a cluster that is alive.
type soak struct {
	*site
	soakOptions
	life    *life
	slow    locality.SlowNodes
	last    cycle.Result
	table   growth.Table
	mallocs []float64 // of each cycle since the last sample
	cycles  int
	written map[slurmplug.Lever]int
}

func newSoak(tb testing.TB, o soakOptions) *soak {
	s := &soak{site: newSite(tb, o.jobs), soakOptions: o, written: map[slurmplug.Lever]int{}}
	s.store.SetRetention(soakRetention)
	s.life = newLife(s.slurm, o.jobs, o.minutes)
	s.life.patient = o.patient
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
	begun := s.life.now
	pruned := begun
	for next := begun; s.life.now.Sub(begun) < soakWarmUp+s.judged; {
		next = next.Add(s.interval)
		s.life.pass(next.Sub(s.life.now))
		now := s.life.now
		if now.Sub(pruned) >= soakPrune {
			s.learn(pruned, now)
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
			s.mallocs = nil
		}
	}
}

// learn is the daemon's reading of accounting. The nodes that it finds slow change.
func (s *soak) learn(last, now time.Time) {
	s.Helper()
	past := s.life.Past(last, now)
	ranking := s.config.Decide().Ranking
	for i := range past {
		past[i].Class = ranking.Class(past[i].Tag.Type, past[i].QOS)
	}
	s.history.Fill(past)
	if err := s.store.SaveStays(s.Context(), past, now); err != nil {
		s.Fatal(err)
	}
	if _, err := s.store.StaysSince(s.Context(), now.Add(-soakRetention)); err != nil {
		s.Fatal(err)
	}
	at := int(now.Unix()/int64((6*time.Hour).Seconds())) % len(s.life.nodes)
	n, slower := &s.life.nodes[at], 2.0
	s.slow = locality.SlowNodes{Known: true, Nodes: []nodespeed.Node{{Name: n.Name, GPUType: n.GPUType, Factor: &slower, Low: &slower, High: &slower, Slow: true}}}
}

// cycle is one of the daemon, and its look at evictions until the next one.
func (s *soak) cycle() {
	s.Helper()
	s.life.at = nil
	s.life.print()
	set := s.config.Features(s.life, nil, s.state)
	set.Evictions.Recorder, set.Evictions.Now = s.store, func() time.Time { return s.life.now }
	set.Retries.Recorder = s.store
	set.Refusals.Slow = s.slow
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var err error
	if s.last, err = cycle.Step(s.Context(), s.life, s, s.history, set); err != nil {
		s.Fatalf("%v: %v", s.life.now, err)
	}
	runtime.ReadMemStats(&after)
	s.mallocs = append(s.mallocs, float64(after.Mallocs-before.Mallocs))
	s.cycles++
	for _, o := range s.last.Outcomes {
		s.written[o.Lever]++
	}
	for n := 0; n < soakTends && len(s.state.Journal.Urgent()) > 0 && time.Duration(n+2)*soakWatch < s.interval; n++ {
		s.life.tick(soakWatch)
		if err := set.Evictions.Tend(s.Context(), nil, nil, false); err != nil {
			s.Fatalf("%v: %v", s.life.now, err)
		}
	}
}

// sample takes down all that must not grow.
func (s *soak) sample() {
	s.Helper()
	t := &s.table
	slices.Sort(s.mallocs)
	t.Add(float64(len(s.last.Snapshot.Jobs)), growth.Quantity{Name: "records in the queue"})
	t.Add(float64(s.life.ended), growth.Quantity{Name: "runs ended so far"})
	t.Add(s.mallocs[len(s.mallocs)/2], growth.Quantity{Name: "allocations per cycle", Judged: true, Margin: 0.15, Slack: 1000})
	state := filepath.Join(s.dir, "state")
	rows := usage.Rows(s, state) // what two days leave differs by a tenth and more from one two days to the next
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		t.Add(float64(rows[table]), growth.Quantity{Name: "rows of " + table, Judged: true, Margin: 0.2, Slack: 100})
	}
	files, err := os.ReadDir(state)
	if err != nil {
		s.Fatal(err)
	}
	t.Add(float64(len(files)), growth.Quantity{Name: "files", Judged: true, Slack: 1})
	t.Add(float64(usage.FileSize(filepath.Join(state, "priod.db"))), growth.Quantity{Name: "priod.db, bytes", Judged: true, Margin: 0.1, Slack: 1 << 17})
	// The store gives a -wal back to the disk beyond 16 MiB.
	t.Add(float64(usage.FileSize(filepath.Join(state, "priod.db-wal"))), growth.Quantity{Name: "priod.db-wal, bytes", Judged: true, Slack: 4 << 20, Most: 32 << 20})
	// The journals are rewritten once they have a thousand lines and as many again as they
	// need, which are some per row.
	t.Add(float64(usage.FileSize(filepath.Join(state, "journal.jsonl"))), growth.Quantity{Name: "journal.jsonl, bytes", Most: 250*(1024+10*float64(s.jobs)) + 2000*(1024+3*float64(s.jobs))})
	held := growth.Holdings("Store", s.store) // its history is the cycle's
	maps.Copy(held, growth.Holdings("State", s.state))
	maps.Copy(held, growth.Holdings("Slurm", s.slurm.Cluster))
	for _, path := range slices.Sorted(maps.Keys(held)) {
		// A slice counts as its memory, which append makes a quarter and 192 larger from 256 on, twice as large below.
		kind := growth.Quantity{Name: path, Judged: true, Margin: 0.5, Slack: 192}
		switch path { // emptied when they are that large
		case "State.Sizes.curves":
			kind = growth.Quantity{Name: path, Most: 1 << 14}
		case "State.Sizes.packer.levels":
			kind = growth.Quantity{Name: path, Most: 1 << 12}
		}
		t.Add(float64(held[path]), kind)
	}
	t.Add(float64(usage.Self(s).OpenFiles()), growth.Quantity{Name: "open files", Judged: true, Slack: 1})
	t.Add(float64(runtime.NumGoroutine()), growth.Quantity{Name: "goroutines", Judged: true, Slack: 1})
	s.life.texts, s.last = nil, cycle.Result{}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go
	runtime.ReadMemStats(&m)
	t.Add(float64(m.HeapAlloc), growth.Quantity{Name: soakLive, Judged: true, Margin: s.heap, Slack: 1 << 16})
}

// soakLive has a margin because Go's maps split as keys come and go.
const soakLive = "live heap, bytes"

// check holds each decision of the last plan against the one that the store explains.
func (s *soak) check() (checked int) {
	s.Helper()
	r, err := store.OpenReader(s.Context(), filepath.Join(s.dir, "state"))
	if err != nil {
		s.Fatal(err)
	}
	defer r.Close()
	text := func(d plan.Decision) string {
		d.Own, d.Since = 0, d.Since.UTC().Truncate(time.Millisecond) // Slurm's own part moves with every poll
		d.Size, d.Locality = "", ""
		b, err := json.Marshal(d)
		if err != nil {
			s.Fatal(err)
		}
		return string(b)
	}
	for _, d := range s.last.Plan.Decisions {
		if c := d.Choices.GPUType; c != nil {
			d.Steer = cmp.Or(d.Steer, c.Words()) // made when the decision is read
		}
		story, err := r.Job(s.Context(), d.Job, 1)
		if err != nil || len(story.Decisions) == 0 {
			s.Errorf("job %s has no decision in the store: %v", d.Job, err)
			continue
		}
		stored := &story.Decisions[0]
		d.Detail = store.Detail(&d, stored.At)
		if got, want := text(stored.Decision), text(d); got != want {
			s.Errorf("job %s: the store says\n%s\nand the plan\n%s", d.Job, got, want)
		}
		checked++
	}
	return checked
}

// smallSoak fits into make test: polls are far apart, the time is no shorter.
var smallSoak = soakOptions{jobs: 300, minutes: 30, interval: 20 * time.Minute, judged: 36 * time.Hour, heap: 0.05}

// fullSoak is 72 hours at a poll every three minutes.
var fullSoak = soakOptions{jobs: 300, minutes: 40, interval: 3 * time.Minute, judged: 72 * time.Hour, heap: 0.08}

// With everything on, priod ends with the memory, files and rows that it had once its retention
// was full, and what is explained is what was decided.
func TestSoakEverything(t *testing.T) {
	o := smallSoak
	if os.Getenv("SLURMPRIO_LONG") == "1" {
		o = fullSoak
	}
	soakEverything(t, o)
}

// The same where nobody cancels jobs that cannot start, which wait for another cause again and
// again.
func TestSoakEverythingWithoutCancels(t *testing.T) {
	if os.Getenv("SLURMPRIO_LONG") != "1" {
		t.Skip("takes a minute; SLURMPRIO_LONG=1 runs it")
	}
	o := fullSoak
	o.patient = true
	soakEverything(t, o)
}

func soakEverything(t *testing.T, o soakOptions) {
	t.Helper()
	s := newSoak(t, o)
	s.run()
	s.life.pass(s.interval)
	s.cycle()
	checked := s.check()
	t.Logf("%d cycles, %d runs ended, %d of them failed, values written %v, commands %v, %d decisions checked\n%s", s.cycles, s.life.ended, s.life.failed, s.written, s.life.commands, checked, &s.table)
	for _, why := range s.table.Growth() {
		t.Error(why)
	}
	if s.life.ended < 10*o.jobs || checked < o.jobs/2 {
		t.Error("the queue does not turn over: nothing was tested")
	}
	for _, lever := range []slurmplug.Lever{slurmplug.SiteFactor, slurmplug.Features, slurmplug.Size, slurmplug.Switches, slurmplug.ExcNodeList} {
		if s.written[lever] == 0 {
			t.Errorf("%s was never written", lever)
		}
	}
	for _, kind := range []plan.CommandKind{plan.Signal, plan.Requeue, plan.Pin, plan.Exclude} {
		if s.life.commands[kind] == 0 {
			t.Errorf("nothing was sent to %s a job", kind)
		}
	}
}

// One record too many for each job that ends is seen. How growth is judged, tests/growth tests each time.
func TestSoakEverythingSeesALeak(t *testing.T) {
	if os.Getenv("SLURMPRIO_LONG") != "1" {
		t.Skip("a test of the test above: SLURMPRIO_LONG=1 runs it")
	}
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
