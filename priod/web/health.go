package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"time"

	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/store"
)

// HealthView is the page of health.
type HealthView struct {
	Daemon *daemon.State  `json:"daemon"` // nil: served without the daemon
	Check  store.Findings `json:"check"`  // what fails first
	Cycles []store.Cycle  `json:"cycles"` // the latest first
	Times  []time.Time    `json:"times"`  // of took: its bins begin
	Took   Plot           `json:"took"`   // the longest cycle of each 15 minutes
}

const tookBin = 15 * time.Minute

// Figure draws how long cycles took; "": not known.
func (v *HealthView) Figure() (template.HTML, error) {
	if len(v.Took.Series) == 0 {
		return "", nil
	}
	return v.Took.figure(v.Times)
}

// Counts says how many findings there are of each level.
func (v *HealthView) Counts() string {
	return fmt.Sprintf("%d passed, %d warned, %d failed", v.Check.Count(string(live.Pass)), v.Check.Count(string(live.Warn)), v.Check.Count(string(live.Fail)))
}

func (p *Pages) health(ctx context.Context, r *store.Reader, last *store.Cycle, _ url.Values) (shown, error) {
	if viewer(ctx) != "" {
		return nil, errOperators
	}
	v := &HealthView{}
	if p.Health != nil {
		state := p.Health()
		v.Daemon = &state
	}
	var err error
	if v.Check, err = r.Findings(ctx); err != nil {
		return nil, err
	}
	worst := []string{string(live.Fail), string(live.Warn), string(live.Pass)}
	slices.SortStableFunc(v.Check.Findings, func(a, b store.Finding) int {
		return cmp.Compare(slices.Index(worst, a.Level), slices.Index(worst, b.Level))
	})
	if v.Cycles, err = r.Cycles(ctx, 20); err != nil {
		return nil, err
	}
	b := bins{from: last.Until.Add(-24 * time.Hour).Truncate(tookBin), until: last.Until, bin: tookBin}
	samples, err := r.Samples(ctx, b.from)
	v.Times, v.Took = b.times(), Plot{"The longest cycle", "s", b.ofSamples(samples, map[string]func(x *store.Sample) float64{"cycle": func(x *store.Sample) float64 { return x.TookS }})}
	return v, err
}
