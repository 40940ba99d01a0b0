package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/evict"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/idle"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

func TestInterval(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		configured, polled time.Duration
		failed             int
		want               time.Duration
	}{
		{10 * s, 100 * time.Millisecond, 0, 10 * s},
		{10 * s, 2 * s, 0, 20 * s}, // polite to a slow controller
		{2 * s, 0, 1, 4 * s},
		{2 * s, 60 * s, 3, 16 * s},
		{2 * s, 60 * s, 99, 60 * s},
		{90 * s, 0, 5, 90 * s},
	} {
		if got := interval(c.configured, c.polled, c.failed); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// fake is a cluster and a store in one, with faults to order.
type fake struct {
	jobs    []cluster.Job
	err     error
	past    []cluster.PastStay
	pastErr error
	since   time.Time // of the last call of Past
	applied []plan.Action
	samples []store.Sample
	hold    string
	version string // of slurmctld and the commands; "" for one that priod writes to

	controllers           []slurmplug.Controller
	pingErr               error
	away                  error // what Answers returns
	pruned                int   // calls of Prune
	reads                 int   // calls of Observe and Past
	holdErr               error
	takeOverErr, watchErr error
	owner                 string
	plannedErr            error
	useReads              int // calls of Used

	stays   []cluster.PastStay // in accounting
	asked   int                // calls of Accounts
	spans   []time.Duration    // that were read of it
	kept    []cluster.PastStay // in the store
	lessons store.Lessons

	found    store.Findings
	starts   map[cluster.JobID]store.ExpectedStart
	promises []store.Promise

	statements   []guarantee.Taken
	statementErr error
	open         []guarantee.Return
}

func (f *fake) Observe(context.Context) (cluster.Snapshot, error) {
	f.reads++
	return cluster.Snapshot{At: time.Now(), Jobs: f.jobs}, f.err
}

func (f *fake) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	f.applied = append(f.applied, actions...)
	out := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		out[i] = plan.Outcome{Action: a, Status: slurmplug.Applied}
	}
	return out
}

func (f *fake) Past(_ context.Context, since, _ time.Time) ([]cluster.PastStay, error) {
	f.since = since
	f.reads++
	return f.past, f.pastErr
}
func (f *fake) Stays(_ context.Context, since, until time.Time, _ *regexp.Regexp) (stays []cluster.PastStay, err error) {
	f.spans = append(f.spans, until.Sub(since))
	for _, s := range f.stays {
		if s.End.After(since) && !s.End.After(until) {
			stays = append(stays, s)
		}
	}
	return stays, f.pastErr
}
func (f *fake) Accounts(context.Context) (cluster.Accounts, error) {
	f.asked++
	return cluster.Accounts{Parts: map[string]float64{"vision": 0.3}}, f.pastErr
}
func (f *fake) SaveStays(_ context.Context, stays []cluster.PastStay, until time.Time) error {
	f.kept, f.lessons.Read = append(f.kept, stays...), until
	return nil
}
func (f *fake) StaysSince(context.Context, time.Time) ([]cluster.PastStay, error) { return f.kept, nil }
func (f *fake) SaveLessons(_ context.Context, k *speed.Knowledge, runs int, at time.Time) error {
	f.lessons.Knowledge, f.lessons.Runs, f.lessons.At = k, runs, at
	return nil
}
func (f *fake) Lessons(context.Context) (store.Lessons, error)       { return f.lessons, nil }
func (f *fake) LoadShares(context.Context) (*allocate.Ledger, error) { return &allocate.Ledger{}, nil }

func (f *fake) Observed(context.Context, *cluster.Snapshot, func() []cluster.Stay) {}
func (f *fake) Planned(context.Context, plan.Seen) error                           { return f.plannedErr }
func (f *fake) Done(context.Context, []plan.Outcome) error                         { return nil }
func (f *fake) TakeOver(context.Context, string, string) (string, error) {
	return "", f.takeOverErr
}
func (f *fake) Watch() (string, error)                                 { return f.owner, f.watchErr }
func (f *fake) Load(context.Context) (*cluster.History, error)         { return cluster.NewHistory(), nil }
func (f *fake) Waits(context.Context) ([]*plan.Wait, time.Time, error) { return nil, time.Time{}, nil }

func (f *fake) LoadEvictions(context.Context) (*evict.Journal, error) {
	return evict.NewJournal(), nil
}
func (f *fake) SaveEvictions(context.Context, *evict.Changes) error { return nil }

func (f *fake) Ends(context.Context, map[cluster.JobID]plan.JobStatus, bool, map[cluster.JobID]plan.Mark) map[cluster.JobID]plan.End {
	return nil
}

func (f *fake) MostRestarts() int { return 0 }

func (f *fake) LoadFailures(context.Context) (*retry.Memory, error) { return retry.NewMemory(), nil }

func (f *fake) Spells(context.Context, time.Time) ([]idle.Spell, error) { return nil, nil }

func (f *fake) SaveSpells(context.Context, []*idle.Spell) error { return nil }

func (f *fake) Signs(context.Context, *cluster.Snapshot, []cluster.JobID) (map[cluster.JobID][]cluster.Sign, error) {
	return nil, nil
}

func (f *fake) SaveFailures(context.Context, *retry.Changes) error { return nil }
func (f *fake) Look(context.Context, []plan.Target) (map[cluster.JobID]plan.JobStatus, error) {
	return nil, nil
}
func (f *fake) Used(context.Context, time.Time, time.Time, func(string) string) (*live.Used, error) {
	f.useReads++
	return &live.Used{}, f.pastErr
}
func (f *fake) Ask(context.Context, []*cluster.Job) error             { return nil }
func (f *fake) Topology(context.Context) (cluster.Topology, error)    { return cluster.Topology{}, nil }
func (f *fake) AskSwitches(context.Context, []*cluster.Job) error     { return nil }
func (f *fake) AskNodeCounts(context.Context, []*cluster.Job) error   { return nil }
func (f *fake) Excluded(context.Context, plan.Target) (string, error) { return "", nil }
func (f *fake) AtOnce(context.Context, plan.Target) (int, error)      { return 0, nil }
func (f *fake) Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	return nil, nil
}
func (f *fake) KeepNodes(context.Context, string, time.Duration) error { return nil }
func (f *fake) Do(context.Context, []plan.Command) []plan.Result       { return nil }
func (f *fake) Hold() (string, error)                                  { return f.hold, f.holdErr }
func (f *fake) Pause(why string) error {
	f.hold = store.OwnPause(why).String()
	return nil
}

func (f *fake) Notify(context.Context, cluster.JobID, string) error { return nil }

func (f *fake) Controllers(context.Context) ([]slurmplug.Controller, error) {
	return f.controllers, f.pingErr
}
func (f *fake) Answers(context.Context) error { return f.away }
func (f *fake) Versions(context.Context) (string, string, error) {
	if f.version != "" {
		return f.version, f.version, nil
	}
	return "24.11.5", "24.11.5", nil
}

func (f *fake) Identity(context.Context) (string, error) { // no other process's either
	return fmt.Sprintf("%d %p", os.Getpid(), f), nil
}
func (f *fake) Checkpoint() error                      { return nil }
func (f *fake) Prune(context.Context, time.Time) error { f.pruned++; return nil }
func (f *fake) Mended() (int, string)                  { return 0, "" }

func (f *fake) Unrecorded() string { return "" }
func (f *fake) Cycle() int64       { return 0 }
func (f *fake) SaveFindings(_ context.Context, found *store.Findings) error {
	f.found = *found
	return nil
}
func (f *fake) Reserved(context.Context) ([]slurmplug.NodeReservation, error) { return nil, nil }

func (f *fake) SaveEnds(context.Context, time.Time, map[cluster.JobID]store.ExpectedEnd) error {
	return nil
}

func (f *fake) SaveSample(_ context.Context, x *store.Sample) error {
	f.samples = append(f.samples, *x)
	return nil
}

func (f *fake) SaveStatement(_ context.Context, t *guarantee.Taken) error {
	if f.statementErr == nil {
		f.statements = append(f.statements, *t)
	}
	return f.statementErr
}

func (f *fake) OpenReturns(context.Context) ([]guarantee.Return, error) { return f.open, nil }

func (f *fake) SaveStarts(_ context.Context, _ time.Time, starts map[cluster.JobID]store.ExpectedStart) error {
	f.starts = starts
	return nil
}

func (f *fake) PromisesSince(context.Context, time.Time) ([]store.Promise, error) {
	return f.promises, nil
}

func newDaemon(t *testing.T, f *fake) (*Daemon, *bytes.Buffer) {
	t.Helper()
	cfg, err := config.Load("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	return &Daemon{
		Config: cfg, Store: f, Log: hclog.New(&hclog.LoggerOptions{Output: log}),
		Connect: func(*config.Config) Slurm { return f },
	}, log
}

func trialJob() cluster.Job {
	j := cluster.Job{ID: slurmplug.Plain(1), TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, Priority: 10,
		GPUs: 1, TimeLimit: time.Minute, Eligible: time.Now().Add(-time.Minute)}
	j.Tag.Type = "te"
	return j
}

func TestOneTroubleIsOneLine(t *testing.T) {
	f := &fake{err: errors.New("slurmctld is away")}
	d, log := newDaemon(t, f)
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r, _, err := d.step(t.Context())
		d.report(&r, err)
	}
	if n := strings.Count(log.String(), "slurmctld is away"); n != 1 || d.last.failed != 5 {
		t.Errorf("%d lines, %d failures:\n%s", n, d.last.failed, log)
	}
	f.err, f.jobs = nil, []cluster.Job{trialJob()}
	r, _, err := d.step(t.Context())
	d.report(&r, err)
	if !strings.Contains(log.String(), "cycles succeed again") || !strings.Contains(log.String(), "job=1 lever=SiteFactor") || d.last.failed != 0 {
		t.Errorf("%s", log)
	}
}

func TestHoldWritesNothing(t *testing.T) {
	f := &fake{jobs: []cluster.Job{trialJob()}, hold: "paused by ann"}
	d, _ := newDaemon(t, f)
	r, err := d.Once(t.Context())
	if err != nil || len(f.applied) != 0 || len(r.Plan.Actions) != 1 || r.Hold != "paused by ann" {
		t.Fatalf("%v, %d applied, %+v", err, len(f.applied), r.Plan)
	}
}

// A Slurm that priod does not know is read and planned for, said once, and not written to.
func TestUnfitSlurmIsNotWrittenTo(t *testing.T) {
	for version, want := range map[string]string{"21.08.8": "older than", "27.05.1": "newer than", "26.05.9": ""} {
		f := &fake{jobs: []cluster.Job{trialJob()}, version: version}
		d, log := newDaemon(t, f)
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r, _, err := d.step(t.Context())
			if err != nil || !strings.Contains(r.Hold, want) || want != "" && len(r.Plan.Actions) != 1 {
				t.Fatalf("%s: %v, hold %q, %+v", version, err, r.Hold, r.Plan)
			}
		}
		if (len(f.applied) == 0) != (want != "") || want != "" && strings.Count(log.String(), want) != 1 {
			t.Errorf("%s: %d applied\n%s", version, len(f.applied), log)
		}
		d.Config.Slurm.Untried = true
		if _, _, err := d.step(t.Context()); err != nil || (len(f.applied) == 0) != (version == "21.08.8") {
			t.Errorf("%s, untried: %v, %d applied", version, err, len(f.applied))
		}
	}
}

// Accounting tells of TE use that no poll saw; without it priod goes on.
func TestAccountingCountsAgainstTheBudget(t *testing.T) {
	now := time.Now()
	f := &fake{jobs: []cluster.Job{trialJob()}, past: []cluster.PastStay{{Tag: jobtag.Read("prio:type=te&v=1"), Stay: cluster.Stay{
		Job: slurmplug.Plain(7), Start: now.Add(-2 * time.Hour), End: now.Add(-time.Hour), Closed: true, GPUs: 64, User: "ann",
	}}}}
	d, _ := newDaemon(t, f)
	hours := 12.0
	d.Config.TEBudget.User.GPUHoursPerDay = &hours
	r, err := d.Once(t.Context())
	if err != nil || r.Plan.Decisions[0].Why != "over-budget" {
		t.Fatalf("%v, %+v", err, r.Plan.Decisions)
	}
	f.past, f.pastErr = nil, errors.New("slurmdbd is away")
	d, log := newDaemon(t, f)
	if r, err = d.Once(t.Context()); err != nil || len(r.Outcomes) != 1 || !strings.Contains(log.String(), "slurmdbd is away") {
		t.Fatalf("%v, %+v\n%s", err, r.Plan.Decisions, log)
	}
}

// What accounting could not tell while it was away is asked for again.
func TestAccountingGapIsFilledLater(t *testing.T) {
	f := &fake{}
	d, _ := newDaemon(t, f)
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	hours := func(h time.Duration) time.Time { return time.Now().Add(-h * time.Hour) }
	d.learning.filled, d.learning.asked = hours(3), hours(3)
	f.pastErr = errors.New("slurmdbd is away")
	d.fill(t.Context(), time.Now())
	f.pastErr, d.learning.asked = nil, hours(1)
	d.fill(t.Context(), time.Now())
	if f.since.After(hours(3)) {
		t.Errorf("asked only since %v", f.since)
	}
	d.learning.asked = hours(1)
	if d.fill(t.Context(), time.Now()); f.since.Before(hours(1)) {
		t.Errorf("asked again since %v, though all is known", f.since)
	}
}

func TestReloadKeepsWhatWorks(t *testing.T) {
	f := &fake{}
	d, log := newDaemon(t, f)
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := d.Config
	d.Reload = func() (*config.Config, error) { return nil, errors.New("priod.toml: unknown key") }
	d.reload()
	moved := *old
	moved.State.Dir = "/elsewhere"
	d.Reload = func() (*config.Config, error) { return &moved, nil }
	d.reload()
	if d.Config != old || strings.Count(log.String(), "the old one stays") != 2 {
		t.Fatalf("%s", log)
	}
	better := *old
	better.Ranking.Order = "owed"
	d.Reload = func() (*config.Config, error) { return &better, nil }
	if d.reload(); d.Config != &better {
		t.Fatal("a good configuration is not used")
	}
}

// A daemon that is told to stop says that it did, between two cycles and in one that this ends.
func TestRunStopsWhenTold(t *testing.T) {
	for _, ended := range []error{nil, context.Canceled} {
		d, log := newDaemon(t, &fake{err: ended})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx, nil) }()
		cancel()
		if err := <-done; err != nil || !strings.Contains(log.String(), "stopped: cycles=") {
			t.Errorf("%v: %v, %s", ended, err, log)
		}
	}
}

// Another priod with a say ends this one before anything is read; a process
// without one is warned about once, and once more when it is another.
func TestAnotherPriodEndsItAnUntrustedHolderDoesNot(t *testing.T) {
	f := &fake{jobs: []cluster.Job{trialJob()}}
	d, _ := newDaemon(t, f)
	d.Lock = func(string, string) (*HostLock, error) {
		return nil, &OtherPriodError{PID: 7, User: "priod", Dir: "/srv/priod", Cluster: "lab"}
	}
	err := d.Run(t.Context(), nil)
	if !errors.As(err, new(*OtherPriodError)) || !strings.Contains(err.Error(), "process 7 of user priod, state folder /srv/priod") || f.reads != 0 || len(f.applied) != 0 {
		t.Errorf("%v, %d reads, %d writes", err, f.reads, len(f.applied))
	}
	d, log := newDaemon(t, f)
	pid := 8
	d.Lock = func(string, string) (*HostLock, error) { return nil, &UntrustedHolderError{PID: pid, User: "eve"} }
	for _, pid = range []int{8, 8, 9, 9} {
		turn(t, d)
	}
	if n := strings.Count(log.String(), "of user eve"); n != 2 || d.last.trouble != "" || len(f.applied) != 1 {
		t.Errorf("%d warnings, trouble %q, %d writes\n%s", n, d.last.trouble, len(f.applied), log)
	}
}

// A reload that names another slurm.conf may mean another cluster.
func TestReloadLocksTheOtherCluster(t *testing.T) {
	f := &fake{}
	d, _ := newDaemon(t, f)
	d.Lock = NewHostLock
	turn(t, d)
	if d.peers.lock == nil {
		t.Fatal("no lock")
	}
	same, moved := *d.Config, *d.Config
	d.Reload = func() (*config.Config, error) { return &same, nil }
	if d.reload(); d.peers.lock == nil {
		t.Error("a reload gives the cluster free")
	}
	moved.Slurm.Conf = "/etc/slurm/other.conf"
	d.Reload = func() (*config.Config, error) { return &moved, nil }
	if d.reload(); d.peers.lock != nil {
		t.Error("the old cluster stays locked")
	}
	turn(t, d)
	if d.peers.lock == nil {
		t.Fatal("the other cluster is not locked")
	}
	d.peers.lock.Close()
}

// A reset alongside the daemon is told in one line and is no failure.
func TestResetBesideTheDaemon(t *testing.T) {
	f := &fake{jobs: []cluster.Job{trialJob()}, plannedErr: fmt.Errorf("record the plan: %w, a reset took place", store.ErrGaveWay)}
	d, log := newDaemon(t, f)
	turn(t, d)
	if text := log.String(); strings.Contains(text, "cycle failed") || strings.Count(text, "a reset took place") != 1 || d.last.failed != 0 {
		t.Errorf("%d failed:\n%s", d.last.failed, text)
	}
	has(t, d, "priod_cycles_total{result=failed} 0")
	f.plannedErr = nil
	turn(t, d)
	if text := log.String(); strings.Contains(text, "succeed again") {
		t.Errorf("%s", text)
	}
}
