// Package daemon is wall time: the loop around cycle.Step, with polite
// intervals, reload, systemd's notifications and one line for each action.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/live"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// Store is what the daemon needs beside recording cycles.
type Store interface {
	cycle.Recorder
	// Load returns what earlier processes learned.
	Load(context.Context) (*cluster.History, error)
	// LoadEvictions returns what they left under way, and SaveEvictions makes
	// safe what a turn comes to.
	LoadEvictions(context.Context) (*evict.Journal, error)
	SaveEvictions(context.Context, *evict.Turn) error
	// LoadShares returns what they allocated, and Lessons what they learned of speeds.
	LoadShares(context.Context) (*allocate.Ledger, error)
	Lessons(context.Context) (store.Lessons, error)
	// SaveStays, StaysSince and SaveLessons are those of store.Store. They and Lessons may
	// be called beside the cycles.
	SaveStays(ctx context.Context, stays []speed.Stay, until time.Time) error
	StaysSince(ctx context.Context, since time.Time) ([]speed.Stay, error)
	SaveLessons(ctx context.Context, k *speed.Knowledge, runs int, at time.Time) error
	// Hold says why nothing may be written now, "" when it may.
	Hold() (string, error)
	// Pause lets the daemon stop its own writing until somebody resumes it.
	Pause(why string) error
	// Prune deletes what is older than the retention.
	Prune(context.Context, time.Time) error
	// Mended tells how often a file of the state was lost and made anew, and
	// what was the last.
	Mended() (times int, last string)
}

// Slurm is a cluster that also keeps account of the past.
type Slurm interface {
	plan.Slurm
	evict.Slurm
	size.Asker
	size.Measurer
	UseReader
	// Past returns the runs that accounting knows of a span of time.
	Past(ctx context.Context, since, until time.Time) ([]cluster.PastRun, error)
	// AccountShares are the parts of the cluster that accounts have in Slurm.
	AccountShares(context.Context) (map[string]float64, error)
	// Stays returns the ended runs of GPU jobs that it knows, with the steps in their
	// command lines. It may be called beside the other methods.
	Stays(ctx context.Context, since, until time.Time, steps *regexp.Regexp) ([]speed.Stay, error)
	// Places is for cycle.Steering.
	Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error)
	// Controllers, Answers and Identity are those of live.Cluster.
	Controllers(context.Context) ([]slurmplug.Controller, error)
	Answers(context.Context) error
	Identity(context.Context) (string, error)
	// Versions are those of slurmctld and of the commands on this host.
	Versions(context.Context) (slurmctld, commands string, err error)
}

// Daemon runs cycles until it is told to stop.
type Daemon struct {
	Config  *config.Config
	Reload  func() (*config.Config, error)
	Connect func(*config.Config) Slurm                // called at start and after each reload
	Claim   func(cluster, dir string) (*Claim, error) // NewClaim; nil: no other priod can be on this host
	Store   Store
	Log     hclog.Logger
	Version string
	Now     func() time.Time // the system's clock; nil: time.Now

	slurm   Slurm
	clock   clock
	filled  time.Time // up to when accounting was read
	asked   time.Time // when it was last tried
	history *cluster.History
	journal *evict.Journal
	ledger  *allocate.Ledger
	steered steer.Memory
	rounds  evict.Rounds
	vetoes  evict.Vetoes
	school  school
	sizes   size.Sizes
	memory  size.GiveBack
	parts   accountParts
	uses    uses
	table   *workload.Table // nil: it could not be read
	trouble string          // the last cycle's error, so that it is logged once
	failed  int             // cycles in a row with that error
	notes   []string        // the last cycle's, so that each is logged once
	cycles  int
	losses  int // of the state, as counted

	watching bool // evictions may be tended until the next cycle
	single   bool // there is no next cycle

	claim    *Claim
	squatter string    // who kept the claim away, so that it is logged once
	acting   bool      // with follow_controller: the last cycle could act
	looked   bool      // with follow_controller: the last cycle found that this one may act
	since    time.Time // with follow_controller: no other host's priod has acted since then, as far as this one saw
	standby  StandBy   // of the last cycle without an error, so that it is logged once
	rival    rival
	yielded  string // why the daemon gave way, when it could not pause itself
	unfit    string // why it does not write to this Slurm
	paused   string // the last cycle's hold

	postponed string // why the last cycle left writes to the next, so that it is logged once

	metrics  *metrics
	health   *health
	endpoint endpoint
	ears     ears
}

const (
	politeness = 10 // the next poll waits this many times as long as the last one took
	shortest   = 2 * time.Second
	patience   = time.Minute
	pruneEvery = time.Hour
	fillEvery  = 5 * time.Minute
	// fillOverlap reads a little twice, because slurmdbd hears of ends late.
	fillOverlap = 10 * time.Minute
)

// Once runs a single cycle and returns its result.
func (d *Daemon) Once(ctx context.Context) (cycle.Result, error) {
	if err := d.open(ctx); err != nil {
		return cycle.Result{}, err
	}
	defer func() { d.claim.Close() }()
	d.looked, d.single = true, true // there is no second look
	result, _, err := d.step(ctx)
	if errors.Is(err, store.ErrIDsInUseAgain) {
		// What the store forgot is not on disk: each later process would fail alike.
		result, _, err = d.step(ctx)
	}
	return result, err
}

// Run runs cycles until the context ends. A signal on hup asks for a reload. A
// cycle that fails is logged and tried again; only what no later cycle can
// mend is returned: a *TwinError for one.
func (d *Daemon) Run(ctx context.Context, hup <-chan os.Signal) error {
	if err := d.open(ctx); err != nil {
		return err
	}
	if err := d.endpoint.move(d.Config.Metrics.Listen, d.handler(), d.Log); err != nil {
		return err
	}
	defer d.endpoint.close()
	d.ears.listen(d.Config.WakeAddresses(), d.Config.Wake.PollsPerMinute, d.Log)
	defer d.ears.close()
	ctx, cancel := context.WithCancel(ctx)
	defer d.school.leave()
	defer cancel()
	defer func() { d.claim.Close() }()
	d.notify(daemon.SdNotifyReady)
	d.Log.Info("started", "interval", time.Duration(d.Config.Cycle.Interval), "lever", d.Config.Ranking.Lever, "config", d.Config.Path)
	defer d.notify(daemon.SdNotifyStopping)
	pruned, early := time.Time{}, false
	for {
		begun := time.Now()
		result, polled, err := d.step(ctx)
		d.ears.polled(begun, early, &result)
		if ctx.Err() != nil && err != nil {
			return nil
		}
		if errors.As(err, new(*TwinError)) {
			return err
		}
		pinged := standing(err) != "" || errors.Is(err, errNobody) || errors.Is(err, errUnasked)
		if err = d.report(&result, err); errors.Is(err, store.ErrTaken) {
			return err
		}
		failed := d.failed
		if pinged {
			failed = 0 // to look again loads nobody, and somebody has to take over
		}
		pause := interval(time.Duration(d.Config.Cycle.Interval), polled, failed)
		soonest := interval(shortest, polled, d.failed)
		if pinged {
			soonest = pause // nothing is ranked here
		}
		d.watching = err == nil && d.standby == ""
		if d.watching {
			d.learn(ctx)
		}
		d.health.cycle(time.Since(begun), pause, err)
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
	d.vetoes = evict.Vetoes{}
	d.health = newHealth()
	d.metrics = newMetrics(d.Version, d.health)
	if d.history, err = d.Store.Load(ctx); err != nil {
		return err
	}
	if d.journal, err = d.Store.LoadEvictions(ctx); err != nil {
		return err
	}
	if d.ledger, err = d.Store.LoadShares(ctx); err != nil {
		return err
	}
	if d.table, err = workload.Load(d.Config.Speeds.Workloads); err != nil {
		return err
	}
	l, err := d.Store.Lessons(ctx)
	d.school.begin(l, time.Duration(d.Config.Speeds.Every), d.clock.now())
	return err
}

// step runs one cycle and tells how long the poll took.
func (d *Daemon) step(ctx context.Context) (result cycle.Result, polled time.Duration, err error) {
	now := d.look()
	if err := d.claimCluster(ctx); err != nil {
		return result, 0, err
	}
	hold, err := d.Store.Hold() // also in stand-by: a spoiled state folder shows before a take-over
	defer d.mended()
	if err != nil {
		return result, 0, err
	}
	hold = cmp.Or(hold, d.yielded)
	d.metrics.hold(hold)
	d.health.hold(hold)
	if hold == "" && d.paused != "" {
		d.rival.reset() // whoever resumes priod has settled it
	}
	d.paused = hold
	if err := d.follow(ctx); err != nil {
		d.rival.reset()
		return result, 0, err
	}
	if err := d.fit(ctx); err != nil {
		return result, 0, fmt.Errorf("read Slurm: %w", err)
	}
	hold = cmp.Or(hold, d.unfit)
	d.metrics.hold(hold)
	d.health.hold(hold)
	d.fill(ctx, now)
	d.readAccounts(ctx)
	begun, current, took := time.Now(), "", map[string]time.Duration{}
	set := cycle.Settings{Order: order.Feature{Settings: d.Config.Decide()}, Hold: hold, Stage: func(next string) {
		now := time.Now()
		if current != "" {
			took[current] += now.Sub(begun)
		}
		if current == "observe" && next == "decide" {
			d.health.trusted()
		}
		begun, current = now, next
		d.notify(daemon.SdNotifyWatchdog)
	}}
	var slurm plan.Slurm = d.slurm
	if d.Config.Cycle.FollowController {
		slurm = follower{d.slurm, d}
	}
	d.rounds.Settings = d.Config.RoundSettings()
	set.Evictions = d.evictions()
	set.Allocation = allocate.Feature{Ledger: d.ledger, Settings: d.allocation()}
	set.Steering = steer.Feature{Settings: d.Config.Steer(), Memory: &d.steered, Slurm: d.slurm}
	set.Sizing = d.sizing(ctx, now)
	d.memory.Set(d.Config.GiveBack())
	set.Memory = size.MemoryFeature{GiveBack: &d.memory, Slurm: d.slurm}
	result, err = cycle.Step(ctx, slurm, d.Store, d.history, set)
	if err != nil && d.unfit != "" {
		err = fmt.Errorf("%s: %w", d.unfit, err) // it may be why the read failed
	}
	d.metrics.staged(took)
	if err != nil {
		d.acting, d.looked = false, false // another host may have acted by the next cycle
	} else {
		d.rivals(result.PeerValues, result.Snapshot.At)
	}
	return result, took["observe"], err
}

// fit finds out whether this Slurm is one that priod writes to, and says so once when
// it is not.
func (d *Daemon) fit(ctx context.Context) error {
	slurmctld, commands, err := d.slurm.Versions(ctx)
	if err != nil {
		return err
	}
	why := live.Unfit(slurmctld, commands, d.Config.Slurm.Untried)
	if why != d.unfit && why != "" {
		d.Log.Error("nothing is written to this Slurm", "why", why)
	}
	d.unfit = why
	return nil
}

// mended takes in what the store lost and made anew.
func (d *Daemon) mended() {
	times, last := d.Store.Mended()
	d.metrics.losses.Add(float64(times - d.losses))
	d.losses = times
	d.health.mended(last)
}

// look returns the time and notices when the system's clock was set.
func (d *Daemon) look() time.Time {
	now, step := d.clock.look()
	if step != 0 {
		d.metrics.steps.Inc()
		d.Log.Warn("the system's clock was set: times recorded until now may be wrong; accounting is read again, and for an hour nothing is deleted by its age", "by", step.Round(time.Second), "now", now)
		d.filled, d.asked = time.Time{}, time.Time{}
	}
	return now
}

// fill reads what accounting knows up to now since the last time: runs that no
// poll saw, exact ends, first eligible times. Without accounting priod goes on
// with what its polls see.
func (d *Daemon) fill(ctx context.Context, now time.Time) {
	if !d.asked.IsZero() && time.Since(d.asked) < fillEvery {
		return
	}
	d.asked = time.Now()
	since := now.Add(-cluster.UsePeriod)
	if last := d.filled.Add(-fillOverlap); last.After(since) {
		since = last
	}
	past, err := d.slurm.Past(ctx, since, now)
	count(d.metrics.accounting, err)
	if err != nil {
		d.Log.Warn("accounting cannot be read; TE budgets count what the polls see", "error", err)
		return
	}
	d.filled = now
	past = slices.DeleteFunc(past, func(p cluster.PastRun) bool {
		return p.End.After(now.Add(stepLimit)) // dated by a clock that was ahead
	})
	ranking := d.Config.Decide().Ranking
	for i := range past {
		past[i].Class = ranking.Class(past[i].TagType, past[i].QOS)
	}
	d.history.Fill(past)
}

// claimCluster keeps other priods of this host off the cluster. A stranger who
// holds the claim could else keep priod from its work, so he is only reported.
func (d *Daemon) claimCluster(ctx context.Context) error {
	if d.claim != nil || d.Claim == nil {
		return nil
	}
	name, err := d.slurm.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read Slurm: %w", err)
	}
	d.claim, err = d.Claim(name, d.Config.State.Dir)
	if errors.As(err, new(*SquatterError)) {
		if err.Error() != d.squatter {
			d.squatter = err.Error()
			d.Log.Warn(d.squatter)
		}
		return nil
	}
	return err
}

// report logs what a cycle did: a line for each write, one for a new trouble or
// stand-by. It returns the cycle's error, nil for a stand-by.
func (d *Daemon) report(r *cycle.Result, err error) error {
	d.cycles++
	standby := standing(err)
	if standby == takingOver && d.trouble != "" {
		standby, err = "", errors.New(d.trouble) // only a cycle that acts ends it
	}
	d.metrics.standby.Set(0)
	if standby != "" {
		d.metrics.standby.Set(1)
		err = nil
	}
	d.health.stand(standby)
	if err == nil && standby != d.standby {
		d.standby = standby
		if standby != "" {
			d.Log.Info("stand-by", "cycle", d.cycles, "why", string(standby))
		} else {
			d.Log.Info("the slurmctld of this host acts, and so does priod", "cycle", d.cycles)
		}
	}
	if errors.Is(err, store.ErrGaveWay) {
		d.Log.Info("gave way", "cycle", d.cycles, "why", err)
		err = nil
	}
	d.metrics.cycle(r, d.history, err)
	counts := d.logWrites(r.Outcomes) // also when the outcomes could not be recorded
	if err != nil {
		d.failed++
		if err.Error() != d.trouble {
			d.trouble, d.failed = err.Error(), 1
			d.Log.Error("cycle failed; nothing is written until one succeeds", "cycle", d.cycles, "error", err)
		}
		d.notify(fmt.Sprintf("STATUS=%d cycles in a row failed: %v", d.failed, err))
		return err
	}
	if standby != "" {
		d.trouble, d.failed = "", 0
		d.notify("STATUS=" + standby.Error())
		return nil
	}
	if d.trouble != "" {
		d.Log.Info("cycles succeed again", "cycle", d.cycles, "failed", d.failed)
		d.trouble, d.failed = "", 0
	}
	for _, n := range r.Plan.Notes {
		if !slices.Contains(d.notes, n) {
			d.Log.Info("note", "cycle", d.cycles, "text", n)
		}
	}
	d.notes = r.Plan.Notes
	d.notify(fmt.Sprintf("STATUS=cycle %d at %s: %d jobs, %d pending ranked, %d written",
		d.cycles, r.Snapshot.At.Format(time.TimeOnly), len(r.Snapshot.Jobs), len(r.Plan.Decisions), counts[slurmplug.Applied]))
	return nil
}

// logWrites logs a line for each write and counts them by what became of them.
func (d *Daemon) logWrites(outcomes []plan.Outcome) map[slurmplug.Status]int {
	counts, postponed := map[slurmplug.Status]int{}, ""
	for _, o := range outcomes {
		counts[o.Status]++
		line := []any{"cycle", d.cycles, "job", o.Job.String(), "lever", string(o.Lever), "before", o.Before, "after", o.After, "why", o.Reason}
		switch o.Status {
		case slurmplug.Applied:
			d.Log.Info("wrote", line...)
		case slurmplug.Raced, slurmplug.Postponed:
			if o.Status == slurmplug.Postponed && strings.HasPrefix(o.Message, slurmplug.NotSent) {
				postponed = cmp.Or(postponed, o.Message)
			}
			d.Log.Debug("not written", append(line, "status", string(o.Status), "message", o.Message)...)
		default:
			d.Log.Warn("not written", append(line, "status", string(o.Status), "message", o.Message)...)
		}
	}
	if postponed != "" && postponed != d.postponed {
		d.Log.Warn("writes wait for later cycles", "cycle", d.cycles, "writes", counts[slurmplug.Postponed], "why", postponed)
	}
	d.postponed = postponed
	return counts
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
		at := d.ears.next()
		if at.IsZero() {
			return
		}
		if at.Before(first) {
			at = first
		}
		if early = at.Before(end); early {
			timer.Reset(time.Until(at))
		}
	}
	listen()
	watch := time.NewTimer(time.Duration(d.Config.Preemption.Watch))
	defer watch.Stop()
	watchdog := time.NewTicker(30 * time.Second)
	defer watchdog.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, false
		case <-timer.C:
			return true, early
		case <-d.ears.heard:
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
		err = fmt.Errorf("%s is gone", d.Config.Path) // the defaults alone are nobody's wish
	case c.State.Dir != d.Config.State.Dir:
		err = errors.New("state.dir changes only with a restart")
	}
	var table *workload.Table
	if err == nil {
		table, err = workload.Load(c.Speeds.Workloads)
	}
	if err == nil {
		err = d.endpoint.move(c.Metrics.Listen, d.handler(), d.Log)
	}
	count(d.metrics.reloads, err)
	if err == nil {
		if c.Slurm.Conf != d.Config.Slurm.Conf {
			d.claim.Close()
			d.claim = nil // the next cycle claims that cluster
		}
		d.Config, d.slurm, d.table = c, d.Connect(c), table
		d.ears.listen(c.WakeAddresses(), c.Wake.PollsPerMinute, d.Log)
		d.Log.SetLevel(hclog.LevelFromString(c.Log.Level))
		d.Log.Info("configuration reloaded", "config", c.Path)
		return
	}
	d.Log.Error("the new configuration is not used; the old one stays", "error", err)
}

// notify tells systemd; without systemd it does nothing.
func (d *Daemon) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		d.Log.Debug("sd_notify", "error", err)
	}
}
