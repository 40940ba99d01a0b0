package cli

import (
	"context"
	"encoding/json"
	"io"

	"slurmprio/priod/advise"
	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

// ownForecasts answers users who ask when jobs start.
type ownForecasts struct {
	cfg *config.Config
	view.Forecasts
}

// jobs are named ones of a user, or all of this user's that wait. Reading the cluster costs Slurm something: it is not read for jobs of
// others, nor where it is not needed.
func (o *ownForecasts) jobs(ctx context.Context, r *store.Reader, asker string, names []string, w io.Writer) (err error) {
	if len(names) > ownJobs {
		return usagef("%d jobs: want at most %d", len(names), ownJobs)
	}
	var views []*view.Expectation
	of := func(f *view.Forecaster) (err error) {
		views, err = view.Expectations(ctx, o.cfg, r, f, names, asker, true)
		return err
	}
	err = of(nil)
	switch {
	case err == nil && len(names) > 0:
		err = o.With(ctx, o.cfg, r, of)
	case err == nil && view.Unplanned(views):
		_ = o.With(ctx, o.cfg, r, func(f *view.Forecaster) error { f.Plan(views); return nil }) // else the stored ones have to do
	}
	if err != nil {
		return err
	}
	return report.JSON(w, views)
}

// requests are of jobs that are not submitted.
func (o *ownForecasts) requests(ctx context.Context, r *store.Reader, asker string, asked []byte, w io.Writer) error {
	var requests []*advise.Request
	if err := json.Unmarshal(asked, &requests); err != nil || len(requests) == 0 || len(requests) > ownJobs {
		return usagef("want 1 to %d requests", ownJobs)
	}
	for _, q := range requests {
		if err := q.Check(); err != nil {
			return usageError{err}
		}
	}
	return o.With(ctx, o.cfg, r, func(f *view.Forecaster) error {
		views, err := f.Requests(ctx, r, requests, asker)
		if err != nil {
			return err
		}
		return report.JSON(w, views)
	})
}
