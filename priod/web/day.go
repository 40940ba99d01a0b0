package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

const (
	dayLength = 24 * time.Hour
	dayBin    = 15 * time.Minute
)

// Series is one curve of a day: a value for each bin.
type Series struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

// Plot is one figure of the day.
type Plot struct {
	Title  string       `json:"title"`
	Unit   string       `json:"unit"`
	Series []Series     `json:"series"`
	Image  template.URL `json:"-"` // "" when there is nothing to draw
}

// Day is the page of the last day.
type Day struct {
	From  time.Time `json:"from"`
	BinS  float64   `json:"bin_s"`
	Plots []*Plot   `json:"plots"`
}

func day(ctx context.Context, r *store.Reader, _ url.Values) (any, error) {
	last, err := r.LastCycle(ctx)
	if err != nil {
		return nil, err
	}
	from := last.Until.Add(-dayLength).Truncate(dayBin)
	seen, err := r.Activity(ctx, from, dayBin)
	if err != nil {
		return nil, err
	}
	return dayOf(from, last.Until, &seen)
}

// dayOf sums up what happened between two times. It draws what there is.
func dayOf(from, until time.Time, seen *store.Activity) (*Day, error) {
	bins := int(until.Sub(from)/dayBin) + 1
	d := &Day{From: from, BinS: dayBin.Seconds(), Plots: []*Plot{
		{Title: "GPUs in use by type", Unit: "GPUs", Series: inUse(from, until, bins, seen.Stays)},
		{Title: "Median wait of jobs that started, by class", Unit: "minutes", Series: medianWaits(from, bins, seen.Starts)},
		{Title: "Values written", Unit: "writes", Series: counted("writes", from, bins, seen.Writes)},
		{Title: "Evictions", Unit: "evictions", Series: counted("evictions", from, bins, seen.Evictions)},
	}}
	times := make([]float64, bins)
	for i := range times {
		times[i] = float64(from.Add(time.Duration(i) * dayBin).Unix())
	}
	for _, p := range d.Plots {
		f := report.Figure{Title: p.Title, XLabel: "time (" + until.Local().Format("MST") + "), until " + until.Local().Format("2006-01-02 15:04"), YLabel: p.Unit, Steps: true, Times: true}
		for _, s := range p.Series {
			f.Curves = append(f.Curves, report.Curve{Name: s.Name, X: times, Y: s.Values})
		}
		if len(f.Curves) == 0 {
			continue
		}
		svg, err := f.SVG()
		if err != nil {
			return nil, err
		}
		p.Image = template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg)))
	}
	return d, nil
}

// inUse is the mean number of GPUs of each type that were in use in each bin.
func inUse(from, until time.Time, bins int, stays []cluster.Stay) []Series {
	types := map[string][]float64{}
	for i := range stays {
		s := &stays[i]
		name := cmp.Or(s.GPUType, "no type")
		if types[name] == nil {
			types[name] = make([]float64, bins)
		}
		start, end := cluster.Later(s.Start, from), cluster.Earlier(s.End, until)
		for start.Before(end) {
			bin := int(start.Sub(from) / dayBin)
			edge := cluster.Earlier(from.Add(time.Duration(bin+1)*dayBin), end)
			types[name][bin] += float64(s.GPUs) * edge.Sub(start).Seconds() / dayBin.Seconds()
			start = edge
		}
	}
	all := []Series{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		all = append(all, Series{name, types[name]})
	}
	return all
}

// medianWaits is, for each class, the median wait in minutes of the jobs that started in
// each bin; where none started, that of the bin before.
func medianWaits(from time.Time, bins int, starts []store.FirstStart) []Series {
	waits := map[cluster.Class][][]float64{}
	for _, s := range starts {
		bin := int(s.Start.Sub(from) / dayBin)
		if bin < 0 || bin >= bins || s.Submit.IsZero() {
			continue
		}
		if waits[s.Class] == nil {
			waits[s.Class] = make([][]float64, bins)
		}
		waits[s.Class][bin] = append(waits[s.Class][bin], max(0, s.Start.Sub(s.Submit).Minutes()))
	}
	all := []Series{}
	for _, class := range []cluster.Class{cluster.TE, cluster.BE} {
		if waits[class] == nil {
			continue
		}
		medians, last := make([]float64, bins), 0.0
		for i, w := range waits[class] {
			if len(w) > 0 {
				slices.Sort(w)
				last = w[len(w)/2]
			}
			medians[i] = last
		}
		all = append(all, Series{class.String(), medians})
	}
	return all
}

func counted(name string, from time.Time, bins int, counts []store.Count) []Series {
	values := make([]float64, bins)
	if len(counts) == 0 {
		return []Series{}
	}
	for _, c := range counts {
		if bin := int(c.From.Sub(from) / dayBin); bin >= 0 && bin < bins {
			values[bin] += float64(c.N)
		}
	}
	return []Series{{name, values}}
}
