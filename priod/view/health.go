package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Health is the page of health.
type Health struct {
	Daemon *daemon.State  `json:"daemon"` // nil: served without the daemon
	Check  store.Findings `json:"check"`  // what fails first
	Cycles []store.Cycle  `json:"cycles"` // the latest first
	Times  []time.Time    `json:"times"`  // of took: its bins begin
	Took   Plot           `json:"took"`   // the longest cycle of each 15 minutes
}

const tookBin = 15 * time.Minute

// Figure draws how long cycles took.
func (v *Health) Figure() *report.Figure { return v.Took.figure(v.Times) }

// ErrOperators refuses what is for operators alone.
var ErrOperators = errors.New("this page is for the operators of web.operators")

func (v *Health) only(string) {} // ErrOperators

// Counts says how many findings there are of each level.
func (v *Health) Counts() string {
	return fmt.Sprintf("%d passed, %d warned, %d failed", v.Check.Count(string(live.Pass)), v.Check.Count(string(live.Warn)), v.Check.Count(string(live.Fail)))
}

func (a *Asked) health(ctx context.Context) (shown, error) {
	if a.User != "" {
		return nil, ErrOperators
	}
	v := &Health{Daemon: a.Health}
	var err error
	if v.Check, err = a.Store.Findings(ctx); err != nil {
		return nil, err
	}
	worst := []string{string(live.Fail), string(live.Warn), string(live.Pass)}
	slices.SortStableFunc(v.Check.Findings, func(a, b store.Finding) int {
		return cmp.Compare(slices.Index(worst, a.Level), slices.Index(worst, b.Level))
	})
	if v.Cycles, err = a.Store.Cycles(ctx, 20); err != nil {
		return nil, err
	}
	b := bins{from: a.Last.Until.Add(-24 * time.Hour).Truncate(tookBin), until: a.Last.Until, bin: tookBin}
	samples, err := a.Store.Samples(ctx, b.from)
	v.Times, v.Took = b.times(), Plot{Title: "The longest cycle", Unit: "s", Series: b.ofSamples(samples, measure{"cycle": func(x *store.Sample) float64 { return x.TookS }})}
	return v, err
}
