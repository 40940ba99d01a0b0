package simulate

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/expect"
	"slurmprio/priod/plan"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/runtimes"
)

// WithoutPriod is why nothing is written in a replay of Slurm alone.
const WithoutPriod = "this is the replay without priod"

const (
	sampleEvery = time.Minute // as the daemon
	watchEvery  = time.Minute // where priod does not run; the daemon: cycle.interval
	expectEvery = time.Hour   // the daemon: a minute
	saidAfter   = 10 * time.Minute
	fitEvery    = 24 * time.Hour // the daemon: an hour
)

// Recording keeps a run in a state folder as the daemon keeps its life. Where priod does not run, it watches.
type Recording struct {
	Dir    string
	Origin time.Time                                // second 0 of the trace
	Number func(id string, place int) cluster.JobID // nil: jobs are numbered by their arrival
	First  time.Time                                // the first cycle
	Last   time.Time                                // the last

	store    *store.Store
	state    *cycle.State
	history  *cluster.History
	causes   func() map[plan.Cause]int
	unseen   []cluster.Stay                  // runs that no cycle saw
	told     []cluster.Stay                  // to the store, in this cycle
	sample   *store.Sample                   // the last
	expected time.Time                       // when starts were last expected
	said     map[cluster.JobID]bool          // for which jobs that wait
	fitted   time.Time                       // and when fit was found
	fit      float64                         // see expect.FitOf
	running  map[cluster.JobID]time.Duration // with their time limits
	model    *runtimes.Model
	seen     func(*cycle.Result) // tests: shown each cycle
	err      error               // of what a cycle does not wait for
}

// open makes the state folder.
func (r *Recording) open(ctx context.Context) (err error) {
	if r.store, err = store.Open(ctx, r.Dir, store.Options{Once: true, Replay: true}); err != nil {
		return err
	}
	r.state, r.running, r.model = cycle.NewState(), map[cluster.JobID]time.Duration{}, runtimes.NewModel()
	r.said = map[cluster.JobID]bool{}
	if r.history, err = r.store.Load(ctx); err != nil {
		return err
	}
	if r.state.Journal, err = r.store.LoadEvictions(ctx); err != nil {
		return err
	}
	r.state.Failures, err = r.store.LoadFailures(ctx)
	return err
}

// watch has the virtual Slurm recorded.
func (r *Recording) watch(opt *virtual.Options) {
	opt.Origin, opt.Number = r.Origin, r.Number
	d := &opt.Daemon
	d.Record, d.History = func(cycle.Slurm) virtual.Recorder { return recorder{r.store, r} }, r.history
	r.causes = d.Settings.Waits.Tracker.Causes
	d.Unseen = func(s cluster.Stay) { r.unseen = append(r.unseen, s) }
	seen := d.Seen
	d.Seen = func(c *cycle.Result) {
		r.see(c)
		if r.seen != nil {
			r.seen(c)
		}
		if seen != nil {
			seen(c)
		}
	}
}

// recorder is the store, whose failure ends the run.
type recorder struct {
	*store.Store
	of *Recording
}

// Observed is that of the store, with the runs of which accounting tells.
func (r recorder) Observed(ctx context.Context, s *cluster.Snapshot, stays func() []cluster.Stay) {
	r.of.told, r.of.unseen = r.of.unseen, nil
	told := r.of.told
	r.Store.Observed(ctx, s, func() []cluster.Stay { return slices.Concat(stays(), told) })
}

// Planned is that of the store.
func (r recorder) Planned(ctx context.Context, seen plan.Seen) error {
	seen.Stays = slices.Concat(seen.Stays, r.of.told)
	err := r.Store.Planned(ctx, seen)
	if trouble := r.Unrecorded(); err == nil && trouble != "" {
		err = errors.New(trouble)
	}
	if err == nil {
		err = r.of.err
	}
	r.of.learn(&seen)
	return err
}

// learn takes in runs that began or ended.
func (r *Recording) learn(seen *plan.Seen) {
	number := func(id cluster.JobID) uint64 { return uint64(id.ID)<<32 | uint64(uint32(id.Task)) }
	here := map[cluster.JobID]bool{}
	for i := range seen.Snapshot.Jobs {
		j := &seen.Snapshot.Jobs[i]
		if here[j.ID] = true; j.GPUs == 0 || j.State != cluster.Running || r.running[j.ID] != 0 {
			continue
		}
		k := runtimes.KindOf(j)
		r.running[j.ID] = cmp.Or(k.Limit, math.MaxInt64)
		r.model.Submit(number(j.ID), k, j.Start)
		r.model.Start(number(j.ID), j.Start)
	}
	for i := range seen.Stays {
		if x := &seen.Stays[i]; x.Closed && r.running[x.Job] != 0 {
			r.model.End(number(x.Job), x.End, here[x.Job] || x.End.Sub(x.Start) >= r.running[x.Job])
			delete(r.running, x.Job)
		}
	}
}

// see samples the cluster, and says when jobs are expected to start, as the daemon does beside its cycles.
func (r *Recording) see(c *cycle.Result) {
	at := c.Snapshot.At
	if r.First.IsZero() {
		r.First = at
	}
	hour := r.Last.Truncate(time.Hour) != at.Truncate(time.Hour)
	r.Last = at
	r.err = errors.Join(r.err, r.takeSamples(c), r.expect(c))
	if r.err == nil && hour {
		r.err = r.store.Checkpoint()
	}
}

// takeSamples takes one for each minute; cycles that were left out saw what the one before them saw.
func (r *Recording) takeSamples(c *cycle.Result) error {
	at := c.Snapshot.At
	if r.sample != nil {
		for at.Sub(r.sample.At) > 2*sampleEvery {
			r.sample.At = r.sample.At.Add(sampleEvery)
			if err := r.store.SaveSample(context.Background(), r.sample); err != nil {
				return err
			}
		}
		if at.Sub(r.sample.At) < sampleEvery {
			return nil
		}
	}
	r.sample = store.SampleOf(&c.Snapshot, r.history, r.causes())
	return r.store.SaveSample(context.Background(), r.sample)
}

func (r *Recording) expect(c *cycle.Result) error {
	at := c.Snapshot.At
	if at.Sub(r.expected) < expectEvery || !slices.ContainsFunc(c.Plan.Queue, func(q plan.Queued) bool { return r.unsaid(&c.Snapshot.Jobs[q.Job], at) }) {
		return nil
	}
	r.expected = at
	ctx := context.Background()
	if at.Sub(r.fitted) >= fitEvery {
		promises, err := r.store.PromisesSince(ctx, at.Add(-expect.ScoredFor))
		if err != nil {
			return err
		}
		r.fitted, r.fit = at, expect.FitOf(promises, at)
	}
	s, order := expect.Planned(c)
	starts, _ := expect.Of(s, order, r.model, r.fit) // of a moment no ends are shown
	if clear(r.said); r.model.Calibrated() {
		for _, j := range order {
			r.said[j.ID] = true
		}
	}
	return r.store.SaveStarts(ctx, at, starts)
}

// unsaid reports whether a job has waited for a while and it was not said when it starts. A moment shows what was said first.
func (r *Recording) unsaid(j *cluster.Job, at time.Time) bool {
	return j.GPUs > 0 && !r.said[j.ID] && at.Sub(j.Eligible) >= saidAfter
}

// close ends the recording of a run that ended with an error, nil for none; shares: what became of them, nil where there are none.
func (r *Recording) close(ctx context.Context, shares *cycle.Statement, failed error) error {
	if ctx = context.WithoutCancel(ctx); (failed == nil || errors.Is(failed, context.Canceled)) && r.err == nil {
		if shares != nil {
			r.err = r.store.SaveStatement(ctx, shares)
		}
		r.err = errors.Join(r.err, r.store.EndReplay(ctx))
	}
	return errors.Join(failed, r.err, r.store.Close())
}
