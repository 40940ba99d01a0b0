package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/expect"
	"slurmprio/priod/live"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/runtimes"
	"slurmprio/priod/workload/speed"
)

// Forecaster expects starts by Slurm's queue as it is and the past runs in the state folder.
type Forecaster struct {
	cfg      *config.Config
	table    *workload.Table
	site     *advise.Site
	model    *runtimes.Model
	forecast *advise.Forecast // nil: too few runs are known
}

// NewForecaster learns from past runs, and reads the cluster where it was not read already.
func NewForecaster(ctx context.Context, cfg *config.Config, r *store.Reader, site *advise.Site) (f *Forecaster, err error) {
	if site == nil {
		view, err := live.New(cfg.Client(0)).View(ctx)
		if err != nil {
			return nil, fmt.Errorf("the cluster cannot be read: %w", err)
		}
		site = SiteOf(cfg, view)
	}
	f = &Forecaster{cfg: cfg, site: site}
	if f.table, err = workload.Load(cfg.Speeds.Workloads); err != nil {
		return nil, err
	}
	now := f.site.Snapshot.At
	stays, err := r.LatestStays(ctx, "", expect.PastRuns)
	if err != nil {
		return nil, err
	}
	promises, err := r.PromisesSince(ctx, now.Add(-expect.ScoredFor))
	if err != nil {
		return nil, err
	}
	past := runtimes.Past(stays)
	if f.model = runtimes.Learn(append(past, runtimes.Going(f.site.Snapshot.Jobs)...), now); len(past) == 0 || !f.model.Calibrated() {
		return f, nil
	}
	f.forecast = &advise.Forecast{Runs: forecast.ByPast(f.model, now), Draws: expect.Draws, Fit: expect.FitOf(promises, now)}
	return f, nil
}

// expect is what is expected of a request of a user; nothing where not enough is known.
func (f *Forecaster) expect(request *advise.Request, speeds []speed.Answer, user string) (o advise.Outlook, err error) {
	if f.forecast == nil {
		return o, nil
	}
	return f.forecast.Request(f.site, request, speeds, func(limit time.Duration) *runtimes.Distribution {
		return f.model.Predict(request.Kind(user, limit), f.site.Snapshot.At)
	})
}

// speeds are those of a request on the site's types.
func (f *Forecaster) speeds(ctx context.Context, r *store.Reader, request *advise.Request, user string) ([]speed.Answer, error) {
	job := speed.Job{Tag: request.Tag, User: user, Name: request.Name, GPUs: request.GPUs}
	learned, err := Learned(ctx, f.cfg, r, f.table, &job)
	set := f.cfg.SpeedSettings()
	return set.For(&job, advise.Types(f.site), f.table, learned).Speeds, err
}

// Learned is what past runs teach of a job's program; nil: nothing, or there is no state folder to read.
func Learned(ctx context.Context, cfg *config.Config, r *store.Reader, table *workload.Table, job *speed.Job) (*speed.Knowledge, error) {
	if r == nil || cfg.Speeds.History <= 0 {
		return nil, nil
	}
	program := job.Program(table)
	lessons, err := r.Lessons(ctx, &program)
	return lessons.Knowledge, err
}

// sooner reports whether one start is before another by more than it is off.
func sooner(a, b advise.Seconds) bool {
	return float64(a) < float64(b)-math.Max(60, float64(b)/10)
}

// SiteOf is the cluster that a view shows.
func SiteOf(cfg *config.Config, view *live.View) *advise.Site {
	rules := cfg.ConsentRules()
	rules.Apply(&view.Snapshot, cluster.NewHistory())
	site := &advise.Site{Snapshot: &view.Snapshot, Partitions: view.Partitions, Memory: view.Config.ConsumesMemory()}
	site.Defaults.PerCPU, site.Defaults.PerNode = view.Config.DefaultMemory()
	if cfg.Path != "" { // else priod does not run here
		set := cfg.Decide().Ranking
		site.Ranking = &set
	}
	return site
}

// GPUName is a type as tables name it.
func GPUName(t string) string { return cmp.Or(report.Safe(t), "(no type)") }

// Forecasts are made of one reading of Slurm's queue for all who ask within half a minute.
type Forecasts struct {
	mu sync.Mutex
	f  *Forecaster
	at time.Time // of f
}

const forecastHolds = 30 * time.Second

// With calls do with a forecaster, one call at a time.
func (o *Forecasts) With(ctx context.Context, cfg *config.Config, r *store.Reader, do func(f *Forecaster) error) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.f == nil || time.Since(o.at) > forecastHolds {
		if o.f, err = NewForecaster(ctx, cfg, r, nil); err != nil {
			o.f = nil
			return err
		}
		o.at = time.Now()
	}
	return do(o.f)
}

// alternatives are what a waiting job could expect that asked for something else.
func (o *Forecasts) alternatives(ctx context.Context, cfg *config.Config, r *store.Reader, name string) (all []Alternative, err error) {
	err = o.With(ctx, cfg, r, func(f *Forecaster) error {
		views, err := Expectations(ctx, cfg, r, f, []string{name}, "", false)
		if err == nil {
			all = views[0].Alternatives
		}
		return err
	})
	return all, err
}
