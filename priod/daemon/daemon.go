// Package daemon is wall time: the loop around cycle.Step, with polite
// intervals, reload, systemd's notifications and one line for each action.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/idle"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// Store is what the daemon needs beside recording cycles.
type Store interface {
	cycle.Recorder
	// Cycle is the number of the last cycle that was recorded.
	Cycle() int64
	// TakeOver and Watch are those of store.Store: of a folder that several hosts share.
	TakeOver(ctx context.Context, host, cluster string) (from string, err error)
	Watch() (owner string, err error)
	// Load returns what earlier processes learned.
	Load(context.Context) (*cluster.History, error)
	// LoadEvictions returns what they left under way, and SaveEvictions makes
	// safe what a turn comes to.
	LoadEvictions(context.Context) (*evict.Journal, error)
	SaveEvictions(context.Context, *evict.Changes) error
	// Waits are those of jobs that still waited in the last cycle, and its time.
	Waits(context.Context) ([]*plan.Wait, time.Time, error)
	// LoadFailures and SaveFailures are the same for jobs that failed.
	LoadFailures(context.Context) (*retry.Memory, error)
	SaveFailures(context.Context, *retry.Changes) error
	// Spells are those without work that last or taught something, SaveSpells those of store.Store.
	Spells(context.Context, time.Time) ([]idle.Spell, error)
	SaveSpells(context.Context, []*idle.Spell) error
	// LoadShares returns what they allocated, and Lessons what they learned of speeds.
	LoadShares(context.Context) (*allocate.Ledger, error)
	Lessons(context.Context) (store.Lessons, error)
	// SaveStays, StaysSince and SaveLessons are those of store.Store. They and Lessons may
	// be called alongside the cycles.
	SaveStays(ctx context.Context, stays []cluster.PastStay, until time.Time) error
	StaysSince(ctx context.Context, since time.Time) ([]cluster.PastStay, error)
	SaveLessons(ctx context.Context, k *speed.Knowledge, runs int, at time.Time) error
	// Hold says why nothing may be written now, "" when it may.
	Hold() (string, error)
	// SaveFindings, SaveStarts, SaveEnds and SaveSample are those of store.Store. All may be called
	// alongside the cycles.
	SaveFindings(context.Context, *store.Findings) error
	SaveStarts(ctx context.Context, at time.Time, starts map[cluster.JobID]store.ExpectedStart) error
	SaveEnds(ctx context.Context, at time.Time, ends map[cluster.JobID]store.ExpectedEnd) error
	SaveSample(ctx context.Context, x *store.Sample) error
	// SaveStatement may be called so, too; OpenReturns is that of store.Store.
	SaveStatement(context.Context, *guarantee.Taken) error
	OpenReturns(context.Context) ([]guarantee.Return, error)
	PromisesSince(ctx context.Context, since time.Time) ([]store.Promise, error)
	// Pause lets the daemon stop its own writing until an operator resumes it.
	Pause(why string) error
	// Checkpoint moves what a cycle wrote to where it stays.
	Checkpoint() error
	// Prune deletes what is older than the retention.
	Prune(context.Context, time.Time) error
	// Mended returns how often a file of the state was lost and rebuilt, and
	// what was the last.
	Mended() (times int, last string)
	// Unrecorded is why history is not recorded, "" when it is.
	Unrecorded() string
}

// Slurm is a cluster that also keeps account of the past.
type Slurm interface {
	cycle.Slurm
	UseReader
	// Past returns the runs that accounting has of a span of time.
	Past(ctx context.Context, since, until time.Time) ([]cluster.PastStay, error)
	// Accounts are those of Slurm's associations.
	Accounts(context.Context) (cluster.Accounts, error)
	// Stays returns the ended runs of GPU jobs that it knows, with the steps in their
	// command lines. It may be called concurrently with the other methods.
	Stays(ctx context.Context, since, until time.Time, steps *regexp.Regexp) ([]cluster.PastStay, error)
	// Notify writes a line into a running job's output, where this account may.
	Notify(ctx context.Context, job cluster.JobID, text string) error
	// Controllers, Answers and Identity are those of live.Cluster.
	Controllers(context.Context) ([]slurmplug.Controller, error)
	Answers(context.Context) error
	Identity(context.Context) (string, error)
	// Reserved are all of Slurm's reservations, those to come too.
	Reserved(context.Context) ([]slurmplug.NodeReservation, error)
	// Versions are those of slurmctld and of the commands on this host.
	Versions(context.Context) (slurmctld, commands string, err error)
}

// Daemon runs cycles until it is stopped.
type Daemon struct {
	Config  *config.Config
	Reload  func() (*config.Config, error)
	Connect func(*config.Config) Slurm                   // called at start and after each reload
	Lock    func(cluster, dir string) (*HostLock, error) // NewHostLock; nil: no other priod can be on this host
	Store   Store
	Log     hclog.Logger
	Version string
	// Pages makes what web.listen serves, OwnJobs what answers users about their own jobs, see Asker: called at start and
	// after each reload. nil: nothing is served.
	Pages   func(c *config.Config, health func() State) http.Handler
	OwnJobs func(*config.Config) http.Handler
	Check   func(context.Context, *config.Config) []store.Finding // what priod check finds; nil: none
	Now     func() time.Time                                      // the system's clock; nil: time.Now

	slurm  Slurm
	clock  clock
	table  *workload.Table // nil: it could not be read
	cycle  int64           // the number of the one under way, or of the last, as the store has it
	cycles int             // of this process, with those that fail or stand by

	history      *cluster.History
	state        *cycle.State // of the features
	learning     learning
	checks       checks
	expecting    expecting
	sampling     sampling
	stating      stating
	last         lastCycle
	trying       trying
	availability availability
	peers        peers

	watching bool // evictions may be tended until the next cycle
	single   bool // there is no next cycle

	metrics  *metrics
	health   *health
	endpoint endpoint // of metrics
	pages    endpoint
	ownJobs  endpoint
	wakes    wakeListener
}

// lastCycle is what the last cycle came to, so that what persists is logged once.
type lastCycle struct {
	trouble   string // its error
	err       error  // the same
	failed    int    // cycles in a row with that error
	notes     []plan.Note
	hold      string // why it wrote nothing
	unfit     string // why priod does not write to this Slurm
	postponed string // why it left writes to the next
	losses    int    // of the state, as counted
}

const (
	politeness = 10 // the next poll waits this many times as long as the last one took
	shortest   = 2 * time.Second
	patience   = time.Minute
	pruneEvery = time.Hour
)

// Once runs a single cycle and returns its result.
func (d *Daemon) Once(ctx context.Context) (cycle.Result, error) {
	if err := d.open(ctx); err != nil {
		return cycle.Result{}, err
	}
	defer func() { d.peers.lock.Close() }()
	d.availability.looked, d.single = true, true // there is no second look
	result, _, err := d.step(ctx)
	return result, err
}

// Run runs cycles until the context ends. A signal on hup asks for a reload. A
// cycle that fails is logged and tried again; only what no later cycle can
// mend is returned: a *OtherPriodError for one.
func (d *Daemon) Run(ctx context.Context, hup <-chan os.Signal) error {
	if err := d.open(ctx); err != nil {
		return err
	}
	defer d.endpoint.close()
	defer d.pages.close()
	defer d.ownJobs.close()
	if err := d.serve(d.Config); err != nil {
		return err
	}
	d.wakes.listen(d.Config.WakeAddresses(), d.Config.Constants.Polls, d.Log)
	defer d.wakes.close()
	ctx, cancel := context.WithCancel(ctx)
	defer d.finish(ctx)
	defer cancel()
	defer func() { d.peers.lock.Close() }()
	d.notify(daemon.SdNotifyReady)
	d.Log.Info("started", "interval", time.Duration(d.Config.Cycle.Interval), "config", d.Config.Path)
	defer d.notify(daemon.SdNotifyStopping)
	pruned, early := time.Time{}, false
	for {
		begun := time.Now()
		result, polled, err := d.step(ctx)
		d.wakes.polled(begun, early, &result)
		if ctx.Err() != nil && err != nil {
			d.Log.Info("stopped", "cycles", d.cycles)
			return nil
		}
		if errors.As(err, new(*OtherPriodError)) {
			return err
		}
		pinged := standing(err) != "" || errors.Is(err, errNoController) || errors.Is(err, errUnasked)
		if err = d.report(&result, err); errors.Is(err, store.ErrTaken) {
			return err
		}
		failed := d.last.failed
		if pinged {
			failed = 0 // to look again costs little, and one host has to take over
		}
		pause := interval(time.Duration(d.Config.Cycle.Interval), polled, failed)
		soonest := interval(shortest, polled, d.last.failed)
		if pinged {
			soonest = pause // nothing is ranked here
		}
		d.watching = err == nil && d.availability.standby == ""
		if d.watching {
			d.learn(ctx)
			d.check(ctx)
			d.expect(ctx, &result)
			d.sample(ctx, &result, time.Since(begun))
			d.account(ctx)
		}
		took := time.Since(begun)
		d.health.cycle(took, pause, err)
		d.metrics.trouble.disk(d.Config.State.Dir, d.Config.State.Shared)
		if err == nil {
			d.metrics.trouble.period.Set((took + pause).Seconds())
			d.metrics.trouble.interval.Set(time.Duration(d.Config.Cycle.Interval).Seconds())
		}
		if err := d.Store.Checkpoint(); err != nil {
			d.Log.Debug("what was written stays in the log of the database", "error", err) // a cycle that cannot write says so
		}
		if now := time.Now(); now.Sub(pruned) >= pruneEvery && d.clock.isSteady() {
			pruned = now
			if err := d.Store.Prune(ctx, now); err != nil {
				d.Log.Warn("old records are not deleted", "error", err)
			}
		}
		var on bool
		if on, early = d.wait(ctx, pause, soonest, hup); !on {
			d.Log.Info("stopped", "cycles", d.cycles)
			return nil
		}
		if early {
			d.metrics.early.Inc()
		}
	}
}

// finish waits for what is done alongside the cycles, once these have ended.
func (d *Daemon) finish(ctx context.Context) {
	d.lastStatement(ctx)
	d.sampling.finish()
	d.expecting.finish()
	d.checks.finish()
	d.learning.speeds.finish()
}

// interval is the time from the end of one cycle to the next poll: never less
// than ten times what the last poll took. After failed cycles in a row it
// doubles each time, up to a minute: what a poll took that timed out says
// nothing of the load that the next one means.
func interval(configured, polled time.Duration, failed int) time.Duration {
	if failed == 0 {
		return max(configured, politeness*polled)
	}
	return max(configured, min(configured<<min(failed, 10), patience))
}

func (d *Daemon) open(ctx context.Context) (err error) {
	d.slurm = d.Connect(d.Config)
	d.clock = clock{now: d.Now}
	if d.clock.now == nil {
		d.clock.now = time.Now
	}
	d.state = cycle.NewState()
	d.health = &health{begun: time.Now(), said: State{Dir: d.Config.State.Dir}}
	d.metrics = newMetrics(d.Version, d.health, d.Config.State.Dir)
	if d.table, err = workload.Load(d.Config.Speeds.Workloads); err != nil {
		return err
	}
	l, err := d.Store.Lessons(ctx)
	if err != nil {
		return err
	}
	d.learning.speeds.resume(l, d.Config.Constants.LearnEvery, d.Config.Locality.SlowNodes, d.clock.now())
	d.history = cluster.NewHistory()
	if d.Config.State.Shared != "" {
		return nil // what other hosts write there counts: it is read when this one takes over
	}
	return d.load(ctx)
}

// load reads what earlier processes knew, on this host or on another one.
func (d *Daemon) load(ctx context.Context) (err error) {
	d.state = cycle.NewState()
	d.learning.filled, d.learning.asked = time.Time{}, time.Time{}
	if d.history, err = d.Store.Load(ctx); err != nil {
		return err
	}
	if d.state.Journal, err = d.Store.LoadEvictions(ctx); err != nil {
		return err
	}
	if d.state.Failures, err = d.Store.LoadFailures(ctx); err != nil {
		return err
	}
	if d.state.Ledger, err = d.Store.LoadShares(ctx); err != nil {
		return err
	}
	open, at, err := d.Store.Waits(ctx)
	if err != nil {
		return err
	}
	d.state.Waits.Restore(open, at)
	d.state.Rounds.Restore(at)
	if err := d.resumeIdle(ctx, at); err != nil {
		return err
	}
	if err := d.resumeStatement(ctx, at); err != nil {
		return err
	}
	d.trying.begun, d.trying.last = true, at
	d.availability.loaded = true
	return nil
}

// step runs one cycle and returns how long the poll took.
func (d *Daemon) step(ctx context.Context) (result cycle.Result, polled time.Duration, err error) {
	now := d.readClock()
	d.cycle = d.Store.Cycle() + 1
	if err := d.lockCluster(ctx); err != nil {
		return result, 0, err
	}
	hold, err := d.Store.Hold() // also on standby: a spoiled state folder shows before a take-over
	defer d.mended()
	if err != nil {
		return result, 0, err
	}
	hold = cmp.Or(hold, d.peers.yielded)
	d.held(hold)
	switch {
	case hold == "" && d.last.hold != "":
		d.Log.Info("the pause is over", "cycle", d.cycle)
		d.peers.rival.reset() // the operator who resumes priod has settled it
	case hold != d.last.hold:
		d.Log.Info("nothing is written", "cycle", d.cycle, "why", hold)
	}
	d.last.hold = hold
	if err := d.availability.follow(ctx, d.slurm, d.Config); err != nil {
		if standing(err) != "" {
			*d.state.Rounds = evict.Rounds{}
		}
		d.peers.rival.reset()
		d.leave(err)
		return result, 0, err
	}
	if err := d.takeOver(ctx); err != nil {
		return result, 0, err
	}
	d.cycle = d.Store.Cycle() + 1
	if err := d.fit(ctx); err != nil {
		return result, 0, fmt.Errorf("read Slurm: %w", err)
	}
	hold = cmp.Or(hold, d.last.unfit)
	d.health.note(func(h *health) { h.said.Hold = hold })
	d.fill(ctx, now)
	d.readAccounts(ctx)
	begun, current, took := time.Now(), "", map[string]time.Duration{}
	d.readUse(ctx, now)
	set := d.features()
	set.Off, set.Trial = d.trial(now, hold)
	set.Hold, set.Stage = hold, func(next string) {
		now := time.Now()
		if current != "" {
			took[current] += now.Sub(begun)
		}
		if current == "observe" && next == "decide" {
			d.health.note(func(h *health) { h.read = time.Now() })
		}
		begun, current = now, next
		d.notify(daemon.SdNotifyWatchdog)
	}
	var slurm plan.Slurm = d.slurm
	if d.Config.Cycle.FollowController {
		slurm = follower{d.slurm, d}
	}
	result, err = cycle.Step(ctx, slurm, d.Store, d.history, set)
	if err != nil && d.last.unfit != "" {
		err = fmt.Errorf("%s: %w", d.last.unfit, err) // it may be why the read failed
	}
	d.metrics.staged(took)
	if err != nil {
		d.availability.acting, d.availability.looked = false, false // another host may have acted by the next cycle
		switch {
		case errors.Is(err, store.ErrTakenOver):
			d.availability.yield()
		case errors.Is(err, store.ErrUnowned):
			d.availability.loaded = false
		}
	} else {
		d.rivals(result.PeerValues, result.Snapshot.At)
		d.tried(&result)
	}
	return result, took["observe"], err
}

// features are those of a cycle, with what the daemon knows besides its configuration.
func (d *Daemon) features() cycle.Settings {
	d.state.Uses = d.usesKnown()
	set := d.Config.Features(d.slurm, d.table, d.state)
	set.Allocation.Settings, set.Evictions = d.allocation(), d.evictions()
	set.Headroom.OnChange = func(nodes string) { d.Log.Info("nodes kept for TE jobs", "cycle", d.cycle, "nodes", nodes) }
	set.Refusals.Slow = d.learning.speeds.slow
	set.Guarantee.Settings.Parents = d.learning.accounts.of.Parents
	set.Retries.Recorder, set.Retries.OnChange, set.Retries.OnDrain = d.Store, d.failed, d.drained
	set.Idle.Recorder, set.Idle.OnChange = d.Store, d.idled
	return set
}

// fit finds out whether this Slurm is one that priod writes to, and says so once when
// it is not.
func (d *Daemon) fit(ctx context.Context) error {
	slurmctld, commands, err := d.slurm.Versions(ctx)
	if err != nil {
		return err
	}
	why := live.Unfit(slurmctld, commands, d.Config.Slurm.Untried)
	if why != d.last.unfit && why != "" {
		d.Log.Error("nothing is written to this Slurm", "why", why)
	}
	d.last.unfit = why
	return nil
}

// mended takes in what the store lost and rebuilt, and what it cannot record.
func (d *Daemon) mended() {
	times, last := d.Store.Mended()
	d.metrics.losses.Add(float64(times - d.last.losses))
	d.last.losses = times
	unrecorded := d.Store.Unrecorded()
	d.health.note(func(h *health) { h.said.Loss, h.said.Unrecorded = last, unrecorded })
}

// held takes in the pause in force, "" when there is none.
func (d *Daemon) held(pause string) {
	d.metrics.paused.Set(0)
	if pause != "" {
		d.metrics.paused.Set(1)
	}
	d.health.note(func(h *health) { h.said.Hold = pause })
}

// readClock returns the time and notices when the system clock was set.
func (d *Daemon) readClock() time.Time {
	now, step := d.clock.read()
	if step != 0 {
		d.metrics.steps.Inc()
		d.Log.Warn("the system clock was set: recorded times may be wrong; accounting is read again, and nothing is deleted by age for an hour", "by", step.Round(time.Second), "now", now)
		d.learning.filled, d.learning.asked = time.Time{}, time.Time{}
	}
	return now
}

// wait sleeps until the next cycle, reloading when asked to. Calls bring it
// forward, but not before soonest, and then it is early. on is false when the
// daemon is to stop.
func (d *Daemon) wait(ctx context.Context, interval, soonest time.Duration, hup <-chan os.Signal) (on, early bool) {
	now := time.Now()
	end, first := now.Add(interval), now.Add(soonest)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	listen := func() {
		at := d.wakes.next()
		if at.IsZero() {
			return
		}
		at = cluster.Later(at, first)
		if early = at.Before(end); early {
			timer.Reset(time.Until(at))
		}
	}
	listen()
	watch := time.NewTimer(d.Config.Constants.Watch)
	defer watch.Stop()
	watchdog := time.NewTicker(30 * time.Second)
	defer watchdog.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, false
		case <-timer.C:
			return true, early
		case <-d.wakes.called:
			listen()
		case <-watch.C:
			if pause, more := d.tend(ctx); more {
				watch.Reset(pause)
			}
		case <-watchdog.C:
			d.notify(daemon.SdNotifyWatchdog)
		case <-hup:
			d.reload()
			return true, false
		}
	}
}

// reload takes over a good new configuration and keeps the old one otherwise.
func (d *Daemon) reload() {
	d.notify(daemon.SdNotifyReloading)
	defer d.notify(daemon.SdNotifyReady)
	c, err := d.Reload()
	switch {
	case err != nil:
	case c.Path != d.Config.Path:
		err = fmt.Errorf("%s is gone", d.Config.Path) // the defaults alone are no configuration of a site
	case c.State.Dir != d.Config.State.Dir || c.State.Shared != d.Config.State.Shared:
		err = errors.New("state.dir and state.shared change only with a restart")
	}
	var table *workload.Table
	if err == nil {
		table, err = workload.Load(c.Speeds.Workloads)
	}
	if err == nil {
		err = d.serve(c)
	}
	count(d.metrics.reloads, err)
	d.metrics.trouble.refused.Set(0)
	if err == nil {
		if c.Slurm.Conf != d.Config.Slurm.Conf {
			d.peers.lock.Close()
			d.peers.lock = nil // the next cycle locks that cluster
		}
		d.Config, d.slurm, d.table = c, d.Connect(c), table
		d.trying.reloaded = true
		d.checks.next = time.Time{}
		d.wakes.listen(c.WakeAddresses(), c.Constants.Polls, d.Log)
		d.Log.SetLevel(hclog.LevelFromString(c.Log.Level))
		d.Log.Info("configuration reloaded", "config", c.Path)
		return
	}
	d.metrics.trouble.refused.Set(1)
	d.Log.Error("the new configuration is not used; the old one stays", "error", err)
}

// notify tells systemd; without systemd it does nothing.
func (d *Daemon) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		d.Log.Debug("sd_notify", "error", err)
	}
}
