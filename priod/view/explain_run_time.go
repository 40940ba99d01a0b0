package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/runtimes"
)

// runTimeView is how long a job is expected to run in all, from past runs.
type runTimeView struct {
	MedianS float64 `json:"median_s"` // half of such jobs run no longer
	LowS    float64 `json:"low_s"`    // one of ten runs no longer
	HighS   float64 `json:"high_s"`   // nine of ten run no longer
	Runs    int     `json:"runs"`     // of the group that it rests on first, at most the last 80
	Of      string  `json:"of"`       // that group
	Scored  int     `json:"scored"`   // past predictions that the interval was fitted to; 0: too few, or those said before did not hold
}

// Past runs that are read to expect one job's run time: of its user, and of all.
const (
	ownRuns = 2000
	allRuns = 4000
)

// RunTimes are learned from past runs once for all users, and once for each, and hold for a minute.
type RunTimes struct {
	mu      sync.Mutex
	all     []cluster.PastStay
	holders []store.Holder
	models  map[string]*runtimes.Model
	now     time.Time // as of which they were read
	made    time.Time
}

// model is what the user's runs and the last ones of all teach.
func (x *RunTimes) model(ctx context.Context, r *store.Reader, user string) (m *runtimes.Model, now time.Time, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Since(x.made) > time.Minute {
		if x.all, err = r.LatestStays(ctx, "", allRuns); err != nil {
			return nil, now, err
		}
		if x.holders, err = r.Holders(ctx); err != nil {
			return nil, now, err
		}
		x.models, x.now, x.made = map[string]*runtimes.Model{}, r.Now(), time.Now()
	}
	if x.models[user] == nil {
		own, err := r.LatestStays(ctx, user, ownRuns)
		if err != nil {
			return nil, now, err
		}
		x.models[user] = runtimes.Learn(pastRuns(slices.Concat(own, x.all), x.holders), x.now)
	}
	return x.models[user], x.now, nil
}

// fill says of a job how long it is expected to run; name is the job's.
func (x *RunTimes) fill(ctx context.Context, r *store.Reader, v *Explanation, name string) error {
	j := &v.Job
	running := len(v.Stays) > 0 && !v.Stays[0].Closed
	if j.GPUs == 0 || !running && !v.waits() {
		return nil
	}
	m, now, err := x.model(ctx, r, j.User)
	if err != nil {
		return err
	}
	d := m.Predict(runtimes.Kind{User: j.User, Program: cmp.Or(j.Said.Workload, name), GPUs: j.GPUs, Limit: max(time.Duration(j.TimeLimitS)*time.Second, 0)}, now)
	if d == nil {
		return nil
	}
	v.RunTime = &runTimeView{Runs: d.Runs, Of: d.Group, Scored: d.Scored}
	for p, to := range map[float64]*float64{0.1: &v.RunTime.LowS, 0.5: &v.RunTime.MedianS, 0.9: &v.RunTime.HighS} {
		run := d.Quantile(p)
		if running {
			run = d.Left(p, now.Sub(v.Stays[0].Start))
		}
		*to = run.Round(time.Second).Seconds()
	}
	return nil
}

// pastRuns are the runs of accounting and the unfinished ones.
func pastRuns(stays []cluster.PastStay, holders []store.Holder) []runtimes.Run {
	runs := runtimes.Past(stays)
	for i := range holders {
		if h := &holders[i]; h.GPUs > 0 {
			runs = append(runs, runtimes.Run{Kind: runtimes.Kind{User: h.User, Program: h.Tag.Workload, GPUs: h.GPUs, Limit: max(h.Limit, 0)}, Submit: h.Start, Start: h.Start})
		}
	}
	return runs
}

// showRunTime is one line: the median, an interval, and what both rest on.
func (v *Explanation) showRunTime(line liner) {
	t := v.RunTime
	if t == nil {
		return
	}
	text := fmt.Sprintf("%s expected, 80 %% of such jobs %s to %s; from %s of %s", report.Seconds(t.MedianS), report.Seconds(t.LowS), report.Seconds(t.HighS), report.Plural(t.Runs, "run", "runs"), t.Of)
	if t.Scored == 0 {
		text = fmt.Sprintf("about %s, with no interval yet: those said before have to hold first; from %s of %s", report.Seconds(t.MedianS), report.Plural(t.Runs, "run", "runs"), t.Of)
	}
	line("Run time", "%s", text)
}
