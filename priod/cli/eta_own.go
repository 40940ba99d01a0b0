package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// ownForecasts answers users who ask when jobs start.
type ownForecasts struct {
	cfg *config.Config
	mu  sync.Mutex
	f   *forecaster
	at  time.Time // of f
}

// ownForecast is how long one reading of Slurm's queue answers all users.
const ownForecast = 30 * time.Second

// with calls do with a forecaster, one call at a time; without one where it is not needed: reading the cluster costs Slurm something.
func (o *ownForecasts) with(ctx context.Context, needed bool, do func(f *forecaster, r *store.Reader) error) (status int, err error) {
	r, err := store.OpenReader(ctx, o.cfg.State.Dir)
	if err != nil {
		return http.StatusServiceUnavailable, err
	}
	defer r.Close()
	if !needed {
		err = do(nil, r)
		return statusOf(err), err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.f == nil || time.Since(o.at) > ownForecast {
		if o.f, err = newForecaster(ctx, o.cfg, r, nil); err != nil {
			o.f = nil
			return http.StatusServiceUnavailable, err
		}
		o.at = time.Now()
	}
	err = do(o.f, r)
	return statusOf(err), err
}

// jobs are named ones of a user, or all of this user's that wait.
func (o *ownForecasts) jobs(ctx context.Context, asker string, names []string, w io.Writer) (status int, err error) {
	if len(names) > ownJobs {
		return http.StatusBadRequest, fmt.Errorf("%d jobs: want at most %d", len(names), ownJobs)
	}
	var views []*etaView
	of := func(f *forecaster, r *store.Reader) (err error) {
		views, err = etasOf(ctx, o.cfg, r, f, names, asker, true)
		return err
	}
	status, err = o.with(ctx, false, of)
	switch { // Slurm is not read for jobs of others
	case err == nil && len(names) > 0:
		status, err = o.with(ctx, true, of)
	case err == nil && unplanned(views):
		_, _ = o.with(ctx, true, func(f *forecaster, _ *store.Reader) error { f.plan(views); return nil }) // else the stored ones have to do
	}
	if err != nil {
		return status, err
	}
	return http.StatusInternalServerError, report.JSON(w, views)
}

// requests are of jobs that are not submitted.
func (o *ownForecasts) requests(ctx context.Context, asker string, asked []byte, w io.Writer) (status int, err error) {
	var requests []*advise.Request
	if err := json.Unmarshal(asked, &requests); err != nil || len(requests) == 0 || len(requests) > ownJobs {
		return http.StatusBadRequest, fmt.Errorf("want 1 to %d requests", ownJobs)
	}
	for _, r := range requests {
		if err := r.Check(); err != nil {
			return http.StatusBadRequest, err
		}
	}
	return o.with(ctx, true, func(f *forecaster, r *store.Reader) error {
		views, err := f.requests(ctx, r, requests, asker)
		if err != nil {
			return err
		}
		return report.JSON(w, views)
	})
}
