package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/stat"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/simulate/compare"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

const (
	valueTime    = 10 * time.Minute // that all replays may take
	valueReplays = 5
	valueOwners  = 5 // users that are kept of those who gained, and of those who lost
	fewValueJobs = 5 // of a user say nothing
)

// readValue is the last result, or a new one.
func readValue(c *cli.Context, cfg *config.Config, _ *store.Reader, _, _ time.Time) (paged, error) {
	read := func() (*store.Value, error) { return store.ReadValue(cfg.State.Dir) }
	if c.Bool("refresh") {
		read = func() (*store.Value, error) { return refreshValue(c, cfg) }
	}
	v, err := read()
	if err == nil && v == nil {
		err = errors.New("nothing was replayed yet: priod report value --refresh does it now, priod-value.timer each night")
	}
	return view.Value{Value: v}, err
}

// refreshValue replays the last jobs of accounting, and keeps what comes out.
func refreshValue(c *cli.Context, cfg *config.Config) (*store.Value, error) {
	runtime.GOMAXPROCS(1)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) // refused where it is nicer already
	ctx, cancel := context.WithTimeoutCause(c.Context, valueTime, fmt.Errorf("the replay was stopped after %s: ask for less by --since", report.Ago(valueTime)))
	defer cancel()
	r, err := store.OpenReader(ctx, cfg.State.Dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	last, _ := sinceOf(c, false)
	until := time.Now()
	args := []string{"--config=" + c.String("config"), "--from-slurm", "--since=" + c.String("since")}
	v, err := replayedValue(ctx, args, until.Add(-last), until, r)
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return v, store.SaveValue(cfg.State.Dir, v)
}

// replayedValue compares what happened with replays; args are those of simulate.
func replayedValue(ctx context.Context, args []string, since, until time.Time, r *store.Reader) (v *store.Value, err error) {
	began := time.Now()
	app := Within("simulate")
	app.Flags = append(simulateFlags(), &cli.StringFlag{Name: "config"})
	app.Action = func(c *cli.Context) error {
		all, err := comparison(ctx, c, nil)
		if err != nil {
			return err
		}
		if len(all.Runs) < 3 {
			return errors.New(all.note)
		}
		if len(all.Runs[0].completion) == 0 {
			return errors.New("accounting holds no finished GPU job of this time")
		}
		v = valueOf(all)
		if err := replayAgain(ctx, v, all, began); err != nil {
			return err
		}
		v.Made, v.Since, v.Until = until, since, until
		if r != nil {
			v.Paused, err = pausedValue(ctx, r, all, since)
		}
		return err
	}
	// What a replay cannot show is switched off.
	args = append([]string{app.Name, "--set=retry.output=false", "--set=retry.drain=false"}, args...)
	if err := app.RunContext(ctx, args); err != nil {
		return nil, err
	}
	v.TookS = time.Since(began).Seconds()
	return v, nil
}

// valueOf is what the runs of a comparison say. What both replays miss in the same way drops out of their ratio, by which what
// happened is divided.
func valueOf(all *compared) *store.Value {
	happened, without, with := &all.Runs[0], &all.Runs[1], &all.Runs[2]
	ratio := func(happened, without, with float64) store.ValueOf {
		if with == 0 {
			return store.ValueOf{With: happened, Without: happened + without}
		}
		return store.ValueOf{With: happened, Without: happened * without / with}
	}
	mean := func(of func(*comparedRun) []float64) store.ValueOf {
		return ratio(stat.Mean(of(happened), nil), stat.Mean(of(without), nil), stat.Mean(of(with), nil))
	}
	v := &store.Value{
		Jobs:       len(happened.completion),
		Completion: mean(func(r *comparedRun) []float64 { return r.completion }),
		Wait:       mean(func(r *comparedRun) []float64 { return r.wait }),
		Gained:     []store.ValueOwner{}, Lost: []store.ValueOwner{},
	}
	v.GPUHours = ratio(all.gpuHours(happened), all.gpuHours(without), all.gpuHours(with))
	if a, b, c := happened.Figures.TEWaitP95, without.Figures.TEWaitP95, with.Figures.TEWaitP95; a != nil && b != nil && c != nil {
		te := store.ValueOf{With: *a, Without: max(*b+*a-*c, 0)} // waits of trials are near 0 with priod: no ratio of these says anything
		v.TEWaitP95 = &te
	}
	simulated := stat.Mean(with.completion, nil)
	v.Off = simulated/v.Completion.With - 1
	owners := slices.DeleteFunc(slices.Clone(all.Users), func(g compare.Group) bool { return g.Jobs < fewValueJobs || g.Name == "" })
	for i := range owners {
		o := func(g *compare.Group) store.ValueOwner {
			return store.ValueOwner{User: g.Name, Jobs: g.Jobs, ValueOf: store.ValueOf{With: g.To, Without: g.From}}
		}
		if g := &owners[i]; g.Change < 0 && len(v.Gained) < valueOwners {
			v.Gained = append(v.Gained, o(g))
		}
		if g := &owners[len(owners)-1-i]; g.Change > 0 && len(v.Lost) < valueOwners {
			v.Lost = append(v.Lost, o(g))
		}
	}
	return v
}

// replayAgain replays the jobs with other seconds of submission, as often as half of the time allows: near saturation a schedule depends on seconds.
func replayAgain(ctx context.Context, v *store.Value, all *compared, began time.Time) error {
	alone, with := []float64{stat.Mean(all.Runs[1].completion, nil)}, []float64{stat.Mean(all.Runs[2].completion, nil)}
	each := time.Since(began)
	for draw := uint64(1); draw < valueReplays && time.Since(began)+each < valueTime/2; draw++ {
		a, w, err := all.again(ctx, draw)
		if err != nil {
			return err
		}
		alone, with = append(alone, a), append(with, w)
	}
	v.Replays, v.Low, v.High = len(alone), math.Inf(1), math.Inf(-1)
	for i := range alone {
		saved := 1 - with[i]/alone[i]
		v.Low, v.High = min(v.Low, saved), max(v.High, saved)
	}
	v.Completion.Without = v.Completion.With * stat.Mean(alone, nil) / stat.Mean(with, nil)
	return nil
}

// gpuHours are those that the jobs of a run held.
func (r *compared) gpuHours(run *comparedRun) (sum float64) {
	for i := range r.jobs {
		sum += float64(r.jobs[i].GPUs) * run.outcomes[i].Ran / 3600
	}
	return sum
}

// pausedValue is the replay without priod beside what happened, of the jobs that were submitted in the longest pause of the time; nil: it was
// short, or had no job.
func pausedValue(ctx context.Context, r *store.Reader, all *compared, since time.Time) (*store.ValueCheck, error) {
	from, to, err := r.HeldSpan(ctx, since)
	if err != nil || to.Sub(from) < view.LeastPause {
		return nil, err
	}
	v := &store.ValueCheck{Since: from, Until: to}
	for i := range all.jobs {
		j := &all.jobs[i]
		if at := all.origin.Add(time.Duration(j.Submit * float64(time.Second))); j.GPUs > 0 && !at.Before(from) && at.Before(to) {
			v.Jobs++
			v.Happened += metrics.Wait(j, &all.Runs[0].outcomes[i])
			v.Replayed += metrics.Wait(j, &all.Runs[1].outcomes[i])
		}
	}
	if v.Jobs == 0 {
		return nil, nil
	}
	v.Happened, v.Replayed = v.Happened/float64(v.Jobs), v.Replayed/float64(v.Jobs)
	return v, nil
}
