package tests

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// misdated is the lab as a host sees it whose clock is wrong. Nothing can shift
// the clock of one process: Go reads it without libc, and a time namespace
// leaves the wall clock alone.
type misdated struct {
	*live.Cluster
	clock func() time.Time
}

func (c misdated) Observe(ctx context.Context) (cluster.Snapshot, error) {
	s, err := c.Cluster.Observe(ctx)
	s.At = c.clock().Round(0)
	return s, err
}

// clocked is a priod in this process, whose clock the test sets.
type clocked struct {
	*site
	ahead atomic.Int64 // ns that its clock is ahead of the system's
	log   lockedBuffer
	store *store.Store
	*daemon.Daemon
}

func (s *site) clocked(ahead time.Duration) *clocked {
	s.Helper()
	c := &clocked{site: s}
	c.ahead.Store(int64(ahead))
	load := func() (*config.Config, error) { return config.Load(s.config) }
	cfg, err := load()
	if err != nil {
		s.Fatal(err)
	}
	log := hclog.New(&hclog.LoggerOptions{Output: &c.log})
	if c.store, err = store.Open(context.Background(), cfg.State.Dir, store.Options{Retention: time.Duration(cfg.State.Retention), Logger: log}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		c.store.Close()
		if s.Failed() {
			s.Logf("priod's log:\n%s", &c.log)
		}
	})
	now := func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }
	c.Daemon = &daemon.Daemon{
		Config: cfg, Reload: load, Store: c.store, Log: log, Now: now,
		Connect: func(*config.Config) daemon.Slurm {
			exec := slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: s.lab.Conf()})
			return misdated{live.New(slurmplug.NewClient(exec, slurmplug.Options{WritesPerSecond: 500, MaxWait: time.Minute})), now}
		},
	}
	return c
}

// The clock goes hours and a year ahead and back, and hours behind, under the
// running daemon; then priod starts with a clock that is ten years behind its
// last record. Whenever it is right again, the order is that of a priod whose
// clock was never wrong, budgets count what was used, and nothing is lost.
func TestClockStepsUnderTheDaemon(t *testing.T) {
	s := newOwnSite(t, quick+"[te_budget.user]\ngpus = 0\ntime_limit = \"0s\"\ngpu_hours_per_day = 5\n")
	trainings := s.fill()
	big := s.submit("--prio-type=te", "--gres=gpu:4", "--time=60", "--wrap", "sleep 600")
	s.slurm("scancel", trainings[0])
	if err := s.lab.WaitJob(s.Context(), big, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	s.submit("--gres=gpu:t4:1", "--time=60", "--wrap", "sleep 600") // not on the node that becomes free: a cycle that sees it a year ahead puts all trials behind it
	trials := 0
	trial := func() string {
		id := s.submit("--prio-type=te", "--gres=gpu:4", "--time=5", "--wrap", "sleep 600")
		trials++
		s.eligible(trials + 1)
		return id
	}
	first := trial()

	c := s.clocked(0)
	ctx, cancel := context.WithCancel(context.Background())
	hup, done := make(chan os.Signal), make(chan error, 1)
	go func() { done <- c.Run(ctx, hup) }()
	t.Cleanup(func() {
		cancel()
		<-done
		done <- nil
	})
	tick := func() { // one whole cycle, and the begin of the next
		for range 2 {
			select {
			case hup <- syscall.SIGHUP:
			case <-time.After(5 * time.Minute):
				t.Fatal("no cycle ends any more")
			}
		}
	}
	tick()
	s.checkOrder()
	const hour, year = time.Hour, 365 * 24 * time.Hour
	steps := []time.Duration{10 * hour, 0, -10 * hour, 0, year, 0}
	for i, ahead := range steps {
		c.ahead.Store(int64(ahead))
		if ahead == year { // this run ends, as it seems, a year from now
			s.slurm("scancel", big)
			if err := s.lab.WaitJob(s.Context(), first, "RUNNING"); err != nil {
				t.Fatal(err)
			}
			trials--
		} else {
			trial()
		}
		tick()
		tick()
		if ahead <= 0 {
			s.checkOrder()
			if out := s.must("queue"); strings.Count(out, " over-budget") != 0 {
				t.Errorf("by %v: %s", ahead, out)
			}
		} else if out := s.must("queue"); ahead == 10*hour && strings.Count(out, " over-budget") != trials {
			t.Errorf("the budget does not count %v of four GPUs: nothing is tested\n%s", ahead, out)
		}
		if ahead == 0 {
			if out := s.must("run", "--dry-run"); !strings.Contains(out, "nothing to write") {
				t.Errorf("a priod with the right clock would write\n%s", out)
			}
		}
		if n := strings.Count(c.log.String(), "the system clock was set"); n != i+1 {
			t.Errorf("%d lines about %d steps", n, i+1)
		}
	}
	cancel()
	err := <-done
	done <- nil
	if log := c.log.String(); err != nil || strings.Contains(log, "cycle failed") || strings.Contains(log, "accounting cannot be read") {
		t.Errorf("%v\n%s", err, log)
	}
	before := s.levers()
	for _, ahead := range []time.Duration{-10 * year, 0} {
		if err := c.store.Close(); err != nil {
			t.Fatal(err)
		}
		c = s.clocked(ahead)
		r, err := c.Once(t.Context())
		if err != nil || len(r.Plan.Actions) != 0 || s.levers() != before {
			t.Errorf("started with a clock %v ahead: %v, %+v", ahead, err, r.Plan.Actions)
		}
	}
	if err := c.store.Close(); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.checkOrder()
	if after := s.levers(); after != before {
		t.Errorf("in the end\n%s\nit was\n%s", after, before)
	}
	if out := s.must("explain", big); !strings.Contains(out, big) {
		t.Errorf("what was known of %s is lost:\n%s", big, out)
	}
	if aside, _ := filepath.Glob(filepath.Join(s.dir, "state", "*.broken-*")); len(aside) != 0 {
		t.Errorf("set aside: %v", aside)
	}
	s.must("reset")
	for value := range strings.FieldsSeq(s.slurm("sprio", "--noheader", "--format=%S")) {
		if value != "0" {
			t.Fatalf("reset leaves a SiteFactor of %s\n%s", value, s.levers())
		}
	}
	if left := s.journalled(); len(left) != 0 {
		t.Errorf("the journal still holds %+v", left)
	}
}

// A TE job runs longer than TE jobs may, by a clock that says so: the next one has
// its place in the budget, and it comes back as a best-effort job.
func TestTrialOverruns(t *testing.T) {
	s := newOwnSite(t, quick+"[te_budget.user]\ngpus = 4\n")
	trainings := s.fill()
	long := s.submit("--prio-type=te", "--gres=gpu:4", "--time=60", "--wrap", "sleep 600")
	s.slurm("scancel", trainings[0])
	if err := s.lab.WaitJob(s.Context(), long, "RUNNING"); err != nil {
		t.Fatal(err)
	}
	next := s.submit("--prio-type=te", "--gres=gpu:4", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	c := s.clocked(0)
	says := func(job, text string) {
		t.Helper()
		if _, err := c.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out := s.must("explain", job); !strings.Contains(out, text) {
			t.Errorf("explain %s says\n%s", job, out)
		}
	}
	says(next, "over budget: 2 times the share of user")
	c.ahead.Store(int64(303 * time.Minute))
	says(next, "TE (trial-and-error), because its tag says type=te")
	says(long, "it has run for more than 5h0m0s, 5 times the time limit of TE jobs")
	s.slurm("scontrol", "requeue", long)
	s.wait("it to wait", func() bool {
		return strings.Contains(s.slurm("squeue", "--noheader", "--states=PENDING", "--format=%i"), long)
	})
	says(long, "BE (best-effort), because TE requested, but it has run longer")
}
