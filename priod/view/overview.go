package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Overview is the first page.
type Overview struct {
	Types     []*TypeUse       `json:"gpu_types"`
	Busy      Trend            `json:"gpus_in_use"`
	Stranded  Trend            `json:"gpus_stranded"`
	TEWait    Trend            `json:"te_wait_p95_s"`
	GPUs      int              `json:"gpus"`
	TEStarted int              `json:"te_started_of_the_day"`
	Value     *store.Value     `json:"value,omitempty"` // what priod brought; nil: priod-value.timer is off
	Attention []Attention      `json:"attention"`       // what needs attention
	Evictions []store.Eviction `json:"evictions_under_way"`
	First     []Job            `json:"first_of_the_queue"`
	Writes    []store.Write    `json:"last_writes"`
	Health    *daemon.State    `json:"health,omitempty"` // nil: served without the daemon
}

// Trend is a figure of now, or of the last day, with what it was before.
type Trend struct {
	Now    *float64 `json:"now"`    // null: not known
	Before *float64 `json:"before"` // mean of the last day; of te_wait_p95_s that of the last week
	Day    Series   `json:"day"`    // each half hour
}

// Attention is what needs attention, with the page that has more.
type Attention struct {
	Text string `json:"text"`
	Page string `json:"page"`
}

// Tile is one figure as it stands on the page.
type Tile struct {
	Name, Value, Trend string
	Spark              *report.Figure // nil: there is too little to draw
}

const (
	sparkBin   = 30 * time.Minute
	firstJobs  = 10
	lastWrites = 8
)

func (a *Asked) overview(ctx context.Context) (shown, error) {
	v, r := &Overview{Attention: []Attention{}, Health: a.Health}, a.Store
	all, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	v.Types = ByType(all)
	if err := a.trends(ctx, v); err != nil {
		return nil, err
	}
	if v.Evictions, err = openEvictions(ctx, r); err != nil {
		return nil, err
	}
	keys, _, err := a.waiting(ctx)
	if err != nil {
		return nil, err
	}
	keys, places := ownKeys(keys, a.User)
	first, err := r.PendingOf(ctx, keys[:min(len(keys), firstJobs)])
	if err != nil {
		return nil, err
	}
	v.First = jobsOf(first, places, roomFor(v.Evictions))
	if v.Writes, err = r.Writes(ctx, a.most(lastWrites)); err != nil {
		return nil, err
	}
	v.Value, _ = r.Value() // one that is spoiled is rebuilt by the next replay, and priod report value names it
	return v, v.attend(ctx, r, all)
}

// trends fill in the figures of now and of the last day.
func (a *Asked) trends(ctx context.Context, v *Overview) error {
	last := a.Last
	b := bins{from: last.Until.Add(-24 * time.Hour).Truncate(sparkBin), until: last.Until, bin: sparkBin}
	samples, err := a.Store.Samples(ctx, b.from)
	if err != nil {
		return err
	}
	busy, stranded := 0, 0
	for _, t := range v.Types {
		v.GPUs, busy, stranded = v.GPUs+t.GPUs, busy+t.InUse, stranded+t.Stranded
	}
	trend := func(now int, of func(x *store.Sample) float64) Trend {
		n := float64(now)
		t := Trend{Now: &n, Day: Series{Values: []*float64{}}}
		if s := b.ofSamples(samples, measure{"of the day": of}); len(s) > 0 {
			t.Day = s[0]
			sum := 0.0
			for i := range samples {
				sum += of(&samples[i])
			}
			sum /= float64(len(samples))
			t.Before = &sum
		}
		return t
	}
	v.Busy = trend(busy, func(x *store.Sample) float64 { return float64(x.InUse) })
	v.Stranded = trend(stranded, func(x *store.Sample) float64 { return float64(x.Stranded) })
	v.TEWait.Day.Values = []*float64{}
	starts, err := a.Kept.starts.get(a.Kept.Hold, func() ([]store.FirstStart, error) { return a.Store.FirstStarts(ctx, last.Until.Add(-week)) })
	if err != nil {
		return err
	}
	var today, before []float64
	for _, s := range starts {
		if s.Class != cluster.TE || s.Ready.IsZero() {
			continue
		}
		wait := max(s.Start.Sub(s.Ready).Seconds(), 0)
		before = append(before, wait)
		if s.Start.After(last.Until.Add(-24 * time.Hour)) {
			today = append(today, wait)
		}
	}
	if v.TEStarted = len(today); v.TEStarted > 0 {
		v.TEWait.Now, v.TEWait.Before = percentile(today, 95), percentile(before, 95)
	}
	return nil
}

// attend lists what needs attention.
func (v *Overview) attend(ctx context.Context, r *store.Reader, all []cluster.Node) error {
	add := func(page, format string, a ...any) {
		v.Attention = append(v.Attention, Attention{fmt.Sprintf(format, a...), page})
	}
	found, err := r.Findings(ctx)
	var failed []string
	for i := range found.Findings {
		if f := &found.Findings[i]; f.Level == string(live.Fail) && !slices.Contains(failed, f.Name) {
			failed = append(failed, f.Name)
			add("health", "priod check fails: %s", f.Name)
		}
	}
	if h := v.Health; h != nil && !h.Healthy {
		add("health", "the daemon is not healthy: %s", h.Reason)
	} else if h != nil && h.Blocked != "" {
		add("health", "the last cycle wrote nothing, or failed: %s", h.Blocked)
	}
	down, gpus := 0, 0
	for i := range all {
		if n := &all[i]; n.GPUs > 0 && !n.Usable {
			down, gpus = down+1, gpus+n.GPUs
		}
	}
	if down > 0 {
		add("map?colour=health", "down or drained: %s with %s", report.Count(down, "node"), report.Count(gpus, "GPU"))
	}
	last, failure := r.LastSample(ctx)
	for _, name := range slices.Sorted(maps.Keys(last.Slow)) {
		add("map?colour=health", "node %s is slow: jobs run %.1f times as long", name, last.Slow[name])
	}
	for i := range v.Evictions {
		if x := &v.Evictions[i]; r.Now().Sub(x.Recorded) > time.Hour {
			add("evictions", "the eviction of job %s has been under way for %s: %s", x.Victim, report.Ago(r.Now().Sub(x.Recorded)), x.State)
		}
	}
	spells, unread := r.OpenSpells(ctx)
	held := 0
	for _, x := range spells {
		held += x.GPUs
	}
	if held > 0 {
		add("map", "without work: %s with %s", report.Count(len(spells), "running job"), report.Count(held, "GPU"))
	}
	return cmp.Or(err, failure, unread)
}

// Tiles are the four figures.
func (v *Overview) Tiles() []Tile {
	part := func(n *float64) string { return fmt.Sprintf("%.0f\u00a0%%", 100**n/float64(max(v.GPUs, 1))) }
	tile := func(name string, t *Trend) Tile {
		x := Tile{Name: name, Value: fmt.Sprintf("%.0f of %d", *t.Now, v.GPUs), Trend: part(t.Now) + " now"}
		if t.Before != nil {
			x.Trend += ", mean of the last day " + part(t.Before)
		}
		values := 0
		f := &report.Figure{Title: name + " of the day", Spark: true, Curves: []report.Curve{{Name: name}}}
		for i, y := range t.Day.Values {
			if y != nil {
				values++
				f.Curves[0].X, f.Curves[0].Y = append(f.Curves[0].X, float64(i)), append(f.Curves[0].Y, *y)
			}
		}
		if values > 1 {
			x.Spark = f
		}
		return x
	}
	wait := Tile{Name: "TE wait, p95", Value: "none yet", Trend: "no TE job started in the last day"}
	if v.TEWait.Now != nil {
		wait.Value, wait.Trend = report.Seconds(*v.TEWait.Now), fmt.Sprintf("%s started in the last day; last week %s", report.Count(v.TEStarted, "TE job"), report.Seconds(*v.TEWait.Before))
	}
	value := Tile{Name: "What priod brought", Value: "not replayed yet", Trend: "priod-value.timer replays each week without priod"}
	if v.Value != nil {
		value.Value, value.Trend = ValueShort(v.Value), ValueDoubt(v.Value)
	}
	return []Tile{tile("GPUs in use", &v.Busy), tile("GPUs stranded", &v.Stranded), wait, value}
}

// Brought are the figures of the last replay; nil: nothing was replayed.
func (v *Overview) Brought() []Brought {
	if v.Value == nil {
		return nil
	}
	return broughtBy(v.Value)
}

func (v *Overview) only(user string) {
	v.Evictions, v.Health = ownEvictions(v.Evictions, user), nil
	v.First = slices.DeleteFunc(v.First, func(j Job) bool { return j.User != user })
	v.Writes = slices.DeleteFunc(v.Writes, func(w store.Write) bool { return w.User != user })
	v.Writes = v.Writes[:min(len(v.Writes), lastWrites)]
	v.Attention = slices.DeleteFunc(v.Attention, func(a Attention) bool { return a.Page == "health" || a.Page == "evictions" })
	if v.Value != nil {
		others := func(o store.ValueOwner) bool { return o.User != user }
		v.Value.Gained, v.Value.Lost = slices.DeleteFunc(v.Value.Gained, others), slices.DeleteFunc(v.Value.Lost, others)
	}
}
