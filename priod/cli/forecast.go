package cli

import (
	"context"
	"fmt"
	"math"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/runtimes"
	"slurmprio/priod/workload/speed"
)

// forecaster expects starts by Slurm's queue as it is and the past runs in the state folder.
type forecaster struct {
	cfg      *config.Config
	table    *workload.Table
	site     *advise.Site
	model    *runtimes.Model
	forecast *advise.Forecast // nil: too few runs are known
}

// newForecaster learns from past runs, and reads the cluster where it was not read already.
func newForecaster(ctx context.Context, cfg *config.Config, r *store.Reader, site *advise.Site) (f *forecaster, err error) {
	if site == nil {
		view, err := live.New(newClient(cfg)).View(ctx)
		if err != nil {
			return nil, fmt.Errorf("the cluster cannot be read: %w", err)
		}
		site = siteOf(cfg, view)
	}
	f = &forecaster{cfg: cfg, site: site}
	if f.table, err = workload.Load(cfg.Speeds.Workloads); err != nil {
		return nil, err
	}
	now := f.site.Snapshot.At
	stays, err := r.LatestStays(ctx, "", daemon.PastRuns)
	if err != nil {
		return nil, err
	}
	promises, err := r.PromisesSince(ctx, now.Add(-daemon.ScoredFor))
	if err != nil {
		return nil, err
	}
	past := runtimes.Past(stays)
	if f.model = runtimes.Learn(append(past, runtimes.Going(f.site.Snapshot.Jobs)...), now); len(past) == 0 || !f.model.Calibrated() {
		return f, nil
	}
	f.forecast = &advise.Forecast{Runs: advise.ByPast(f.model, now), Draws: daemon.ExpectDraws, Seed: uint64(now.Unix()), Fit: daemon.FitOf(promises, now)}
	return f, nil
}

// expect is what is expected of a request of a user; nothing where not enough is known.
func (f *forecaster) expect(request *advise.Request, speeds []speed.Answer, user string) (o advise.Outlook, err error) {
	if f.forecast == nil {
		return o, nil
	}
	return f.forecast.Request(f.site, request, speeds, func(limit time.Duration) *runtimes.Distribution {
		return f.model.Predict(request.Kind(user, limit), f.site.Snapshot.At)
	})
}

// speeds are those of a request on the site's types.
func (f *forecaster) speeds(ctx context.Context, r *store.Reader, request *advise.Request, user string) ([]speed.Answer, error) {
	job := speed.Job{Tag: request.Tag, User: user, Name: request.Name, GPUs: request.GPUs}
	var learned *speed.Knowledge
	if f.cfg.Speeds.History > 0 {
		program := job.Program(f.table)
		lessons, err := r.Lessons(ctx, &program)
		if err != nil {
			return nil, err
		}
		learned = lessons.Knowledge
	}
	set := f.cfg.SpeedSettings()
	return set.For(&job, advise.Types(f.site), f.table, learned).Speeds, nil
}

// sooner reports whether one start is before another by more than it is off.
func sooner(a, b advise.Seconds) bool {
	return float64(a) < float64(b)-math.Max(60, float64(b)/10)
}
