package view

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
)

const week = 7 * 24 * time.Hour

// spans of time that are drawn, with the length of their bins.
var spans = map[string]struct{ length, bin time.Duration }{
	"hour": {time.Hour, time.Minute}, "day": {24 * time.Hour, 15 * time.Minute}, "week": {week, time.Hour}, "month": {30 * 24 * time.Hour, 6 * time.Hour},
}

// Bin is the length of the bins of a span; "": of a day.
func Bin(span string) time.Duration { return spans[cmp.Or(span, "day")].bin }

// Series is one curve: a value for each bin; null: there is none.
type Series struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"`
}

// Plot is one figure over time.
type Plot struct {
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Series []Series `json:"series"`

	Stacked bool `json:"stacked,omitempty"` // the series add up to all, the first at the bottom
}

// OverTime is what happened over an hour, a day, a week or a month.
type OverTime struct {
	Span  string      `json:"span"`
	Times []time.Time `json:"times"` // the bins of all plots begin
	Plots []Plot      `json:"plots"`
}

func (a *Asked) series(ctx context.Context) (shown, error) {
	name := cmp.Or(a.Values.Get("span"), "day")
	s, known := spans[name]
	if !known {
		return nil, wrongf("span=%.20q: want hour, day, week or month", name)
	}
	b := bins{from: a.Last.Until.Add(-s.length).Truncate(s.bin), until: a.Last.Until, bin: s.bin}
	seen, err := a.Store.Activity(ctx, b.from, b.bin)
	samples, err2 := a.Store.Samples(ctx, b.from)
	gone, err3 := a.Store.EvictionsSince(ctx, b.from)
	failed, err4 := a.Store.FailuresSince(ctx, b.from)
	if err := cmp.Or(err, err2, err3, err4); err != nil {
		return nil, err
	}
	v := &OverTime{Span: name, Times: b.times()}
	v.Plots = []Plot{
		{"Where the cluster's GPUs were", "GPUs", b.hours(samples, gone), true},
		{"GPUs in use by type", "GPUs", b.inUse(seen.Stays, func(s *cluster.Stay) string { return cmp.Or(s.GPUType, "no type") }), false},
		{"GPUs in use by class", "GPUs", b.inUse(seen.Stays, func(s *cluster.Stay) string { return s.Class.String() }), false},
		{"GPUs of the cluster, in use and stranded", "GPUs", b.ofSamples(samples, measure{
			"all": func(x *store.Sample) float64 { return float64(x.GPUs) }, "in use": func(x *store.Sample) float64 { return float64(x.InUse) }, "stranded": func(x *store.Sample) float64 { return float64(x.Stranded) },
		}), false},
		{"GPUs that waiting jobs ask for, by cause", "GPUs", b.causes(samples), false},
		{"Waiting jobs by class", "jobs", b.ofSamples(samples, measure{
			"te": func(x *store.Sample) float64 { return float64(x.WaitingTE) }, "be": func(x *store.Sample) float64 { return float64(x.WaitingBE) },
		}), false},
		{"Waits of jobs that started", "minutes", b.waits(seen.Starts), false},
		{"Evictions, and the work that they cost", "evictions, GPU-hours", b.evictions(gone), false},
		{"Failures by class", "runs", b.failures(&failed), false},
		{"Values written", "writes", b.counts("writes", seen.Writes), false},
		{"The longest cycle", "s", b.ofSamples(samples, measure{"cycle": func(x *store.Sample) float64 { return x.TookS }}), false},
	}
	return v, nil
}

// Spans are those that can be asked for.
func (v *OverTime) Spans() []string { return []string{"hour", "day", "week", "month"} }

// Figures draw the plots.
func (v *OverTime) Figures() (all []*report.Figure) {
	for i := range v.Plots {
		all = append(all, v.Plots[i].figure(v.Times))
	}
	return all
}

func (v *OverTime) only(string) {} // sums over all

func (p *Plot) figure(times []time.Time) *report.Figure {
	zone, _ := times[0].Local().Zone()
	f := &report.Figure{Title: p.Title, YLabel: p.Unit, XLabel: "time (" + zone + ")", Times: true, Steps: true, Stacked: p.Stacked}
	f.Range = &[2]float64{float64(times[0].Unix()), float64(times[len(times)-1].Add(times[1].Sub(times[0])).Unix())}
	for _, s := range p.Series {
		c := report.Curve{Name: s.Name}
		for i, v := range s.Values {
			y := math.NaN()
			if v != nil {
				y = *v
			}
			c.X, c.Y = append(c.X, float64(times[i].Unix())), append(c.Y, y)
		}
		f.Curves = append(f.Curves, c)
	}
	return f
}

// bins divide a span of time.
type bins struct {
	from, until time.Time
	bin         time.Duration
}

func (b *bins) count() int { return int((b.until.Sub(b.from) + b.bin - 1) / b.bin) }

// times are those at which the bins begin.
func (b *bins) times() []time.Time {
	all := make([]time.Time, b.count())
	for i := range all {
		all[i] = b.from.Add(time.Duration(i) * b.bin)
	}
	return all
}

// at is the bin of a time; ok is false outside.
func (b *bins) at(t time.Time) (bin int, ok bool) {
	bin = int(t.Sub(b.from) / b.bin)
	return min(bin, b.count()-1), !t.Before(b.from) && !t.After(b.until)
}

// sums are values of all bins by name; those that nothing is added to are 0.
type sums map[string][]float64

func (s sums) add(name string, bins, bin int, v float64) {
	if s[name] == nil {
		s[name] = make([]float64, bins)
	}
	s[name][bin] += v
}

func (s sums) series() []Series {
	all := []Series{}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, seriesOf(name, s[name]))
	}
	return all
}

// seriesOf takes NaN for a bin without a value.
func seriesOf(name string, values []float64) Series {
	s := Series{name, make([]*float64, len(values))}
	for i, v := range values {
		if !math.IsNaN(v) {
			s.Values[i] = &values[i]
		}
	}
	return s
}

// inUse is the mean number of GPUs of each name that were in use in each bin.
func (b *bins) inUse(stays []cluster.Stay, name func(*cluster.Stay) string) []Series {
	all := sums{}
	for i := range stays {
		s := &stays[i]
		start, end := cluster.Later(s.Start, b.from), cluster.Earlier(s.End, b.until)
		for start.Before(end) {
			bin := int(start.Sub(b.from) / b.bin)
			begins, ends := b.from.Add(time.Duration(bin)*b.bin), cluster.Earlier(b.from.Add(time.Duration(bin+1)*b.bin), b.until)
			edge := cluster.Earlier(ends, end)
			all.add(name(s), b.count(), bin, float64(s.GPUs)*edge.Sub(start).Seconds()/ends.Sub(begins).Seconds())
			start = edge
		}
	}
	return all.series()
}

// waits are, for each class, the median and the 95th percentile of the waits in minutes of the jobs that started in each bin.
func (b *bins) waits(starts []store.FirstStart) []Series {
	waits := map[cluster.Class][][]float64{}
	for _, s := range starts {
		bin, ok := b.at(s.Start)
		if !ok || s.Ready.IsZero() {
			continue
		}
		if waits[s.Class] == nil {
			waits[s.Class] = make([][]float64, b.count())
		}
		waits[s.Class][bin] = append(waits[s.Class][bin], max(0, s.Start.Sub(s.Ready).Minutes()))
	}
	all := []Series{}
	for _, class := range []cluster.Class{cluster.TE, cluster.BE} {
		if waits[class] == nil {
			continue
		}
		half, most := Series{class.String() + " median", make([]*float64, b.count())}, Series{class.String() + " p95", make([]*float64, b.count())}
		for i, w := range waits[class] {
			half.Values[i], most.Values[i] = percentile(w, 50), percentile(w, 95)
		}
		all = append(all, half, most)
	}
	return all
}

// evictions are how many were recorded in each bin, and the GPU-hours that they cost.
func (b *bins) evictions(gone []store.Eviction) []Series {
	counts, paid := make([]float64, b.count()), make([]float64, b.count())
	for i := range gone {
		bin, ok := b.at(gone[i].Recorded)
		if !ok {
			continue
		}
		counts[bin]++
		if gone[i].Paid != nil {
			paid[bin] += *gone[i].Paid / 3600
		}
	}
	return []Series{seriesOf("evictions", counts), seriesOf("lost GPU-hours", paid)}
}

func (b *bins) failures(failed *retry.Changes) []Series {
	all := sums{}
	for i := range failed.Failures {
		if bin, ok := b.at(failed.Failures[i].End); ok {
			all.add(string(failed.Failures[i].Class), b.count(), bin, 1)
		}
	}
	return all.series()
}

func (b *bins) counts(name string, counts []store.Count) []Series {
	all := sums{}
	for _, c := range counts {
		if bin, ok := b.at(c.From); ok {
			all.add(name, b.count(), bin, float64(c.N))
		}
	}
	return all.series()
}

// measure are curves by name, of samples.
type measure map[string]func(x *store.Sample) float64

// ofSamples are means over the samples of each bin.
func (b *bins) ofSamples(samples []store.Sample, of measure) []Series {
	return b.means(samples, func(x *store.Sample, add func(name string, v float64)) {
		for name, value := range of {
			add(name, value(x))
		}
	})
}

// causes are the GPUs that jobs waited for, by cause: means over the samples of each bin.
func (b *bins) causes(samples []store.Sample) []Series {
	return b.means(samples, func(x *store.Sample, add func(name string, v float64)) {
		for cause, gpus := range x.Causes {
			add(CauseWords(string(cause)), float64(gpus))
		}
	})
}

// means are what add is told of each sample over how many samples there are of a bin.
func (b *bins) means(samples []store.Sample, each func(x *store.Sample, add func(name string, v float64))) []Series {
	all, n := sums{}, make([]float64, b.count())
	for i := range samples {
		bin, ok := b.at(samples[i].At)
		if !ok {
			continue
		}
		n[bin]++
		each(&samples[i], func(name string, v float64) { all.add(name, b.count(), bin, v) })
	}
	// a bin without any has no value
	for _, values := range all {
		for i := range values {
			values[i] /= n[i]
		}
	}
	return all.series()
}
