package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	leastPause   = 6 * time.Hour // that says something of the replay
	valueOwners  = 5             // users that are kept of those who gained, and of those who lost
	fewValueJobs = 5             // of a user say nothing
)

func reportValueCommand() *cli.Command {
	return &cli.Command{
		Name: "value", Usage: "what priod brought: what happened, against a replay of the same jobs without priod",
		Description: "Shows the last result. --refresh makes a new one: it reads accounting, replays the jobs of the last TIME without priod and with\n" +
			"it, on one core, nice, for at most ten minutes, and keeps the result in the state folder for this report, the first\n" +
			"page and a metric. Off by default; priod-value.timer does it each night:\n" +
			"    systemctl enable --now priod-value.timer",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "refresh", Usage: "replay the jobs, and keep what comes out"},
			&cli.StringFlag{Name: "since", Value: "7d", Usage: "the last `TIME`, with --refresh: 3d, 30d"},
			jsonFlag(),
		},
		Before: checked(noArgs, validSpan),
		Action: configured(func(c *cli.Context, cfg *config.Config) error {
			var v *store.Value
			var err error
			if c.Bool("refresh") {
				v, err = refreshValue(c, cfg)
			} else if v, err = store.ReadValue(cfg.State.Dir); err == nil && v == nil {
				err = errors.New("nothing was replayed yet: priod report value --refresh does it now, priod-value.timer each night")
			}
			if err != nil {
				return err
			}
			return answer(c, v, func(w io.Writer) { showValue(w, v) })
		}),
	}
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
	last, _ := span(c, "report", false)
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
		all, err := comparison(ctx, c)
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
	if err != nil || to.Sub(from) < leastPause {
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

// showValue says first what priod brought, then how sure that is, then to whom.
func showValue(w io.Writer, v *store.Value) {
	fmt.Fprintf(w, "From %s to %s, %s: %s.\n\n", report.Clock(v.Since), report.Clock(v.Until), report.Plural(v.Jobs, "GPU job", "GPU jobs"), view.ValueWords(v))
	saved := func(x store.ValueOf) string {
		if p := x.Saved(); !math.IsNaN(p) {
			return fmt.Sprintf("%+.0f %%", -math.Round(100*p)+0) // no minus before 0
		}
		return ""
	}
	rows := [][]any{
		{"mean completion", report.Seconds(v.Completion.With), report.Seconds(v.Completion.Without), saved(v.Completion)},
		{"mean wait", report.Seconds(v.Wait.With), report.Seconds(v.Wait.Without), saved(v.Wait)},
	}
	if x := v.TEWaitP95; x != nil {
		rows = append(rows, []any{"TE wait p95", report.Seconds(x.With), report.Seconds(x.Without), saved(*x)})
	}
	rows = append(rows, []any{"GPU-hours held", fmt.Sprintf("%.0f", v.GPUHours.With), fmt.Sprintf("%.0f", v.GPUHours.Without), saved(v.GPUHours)})
	report.Table(w, []string{"", "HAPPENED", "WITHOUT PRIOD", "CHANGE"}, rows)
	fmt.Fprintf(w, "\nThe replay with priod misses the mean completion that happened by %+.0f %%.\n", 100*v.Off)
	if p := v.Paused; p != nil {
		fmt.Fprintf(w, "While priod was paused (%s to %s, %s): mean wait %s, in the replay without priod %s.\n", report.Clock(p.Since), report.Clock(p.Until), report.Plural(p.Jobs, "job", "jobs"), report.Seconds(p.Happened), report.Seconds(p.Replayed))
	} else {
		fmt.Fprintf(w, "priod was not paused for %s on end: the replay without priod cannot be checked against what happened.\n", report.Ago(leastPause))
	}
	for _, t := range []struct {
		title string
		users []store.ValueOwner
	}{{"GAINED MOST", v.Gained}, {"LOST MOST", v.Lost}} {
		if len(t.users) == 0 {
			continue
		}
		fmt.Fprintln(w)
		tabulate(w, []string{t.title, "JOBS", "WITH", "WITHOUT PRIOD", "CHANGE"}, t.users, func(u *store.ValueOwner) []any {
			return []any{u.User, u.Jobs, report.Seconds(u.With), report.Seconds(u.Without), saved(u.ValueOf)}
		})
	}
	fmt.Fprintf(w, "\nUsers: mean completion in the two replays. Made at %s in %s.\n", report.Clock(v.Made), report.Ago(time.Duration(v.TookS*float64(time.Second))))
}
