package advise

import (
	"cmp"
	"math"
	"time"

	"slurmprio/priod/placement"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/workload/runtimes"
	"slurmprio/priod/workload/speed"
)

// Forecast is by what a start is expected: what past jobs ran.
type Forecast struct {
	Runs  forecast.RunTimes
	Draws int
	Fit   float64 // see FitP90
}

// Expected is when a job of a request would start and end on one GPU type, s from now; infinite when that is not known.
type Expected struct {
	GPUType  string  `json:"gpu_type"`
	Start    Seconds `json:"start_s"`     // half of the draws start it by then
	StartP90 Seconds `json:"start_p90_s"` // nine of ten, fitted
	Run      Seconds `json:"run_s"`       // half of the draws run no longer
	RunP90   Seconds `json:"run_p90_s"`
	End      Seconds `json:"end_s"` // half of the draws end it by then
}

// Outlook is what is expected of a request.
type Outlook struct {
	Types []Expected // on which it fits
	Any   *Expected  // on the first of them with room; nil: it fits on none
}

// Request is what is expected of a request. runs are how long such jobs run, on the types of the site in the proportion of their
// GPUs, given the time limit; nil: that. The error is that of Give.
func (f *Forecast) Request(site *Site, r *Request, speeds []speed.Answer, runs func(limit time.Duration) *runtimes.Distribution) (o Outlook, err error) {
	g, err := newGiver(site, r)
	if err != nil {
		return o, err
	}
	asks, run, known := g.asks(speeds), runs(g.Limit), forecast.Distributions(site.Snapshot, f.Runs)
	all := make([]sample, len(asks)+1) // the last one on any type
	for n := range f.Draws {
		d := forecast.Drawn{Draw: n, Of: known}
		g.plan(d, forecast.Effort/f.Draws)
		u, first := d.Uniform(r.Job), [2]float64{math.Inf(1), math.Inf(1)} // the same job everywhere
		for i, a := range asks {
			length := math.Inf(1)
			switch {
			case run != nil:
				length = run.Quantile(u).Seconds() * a.slower
			case g.Limit > 0:
				length = g.Limit.Seconds()
			}
			start, _, ok := g.schedule.Earliest(a.Request, max(length, forecast.Soon))
			if !ok {
				start = math.Inf(1)
			}
			all[i].add(start, length)
			if start < first[0] {
				first = [2]float64{start, length}
			}
		}
		all[len(asks)].add(first[0], first[1])
	}
	for i := range asks {
		o.Types = append(o.Types, all[i].expected(asks[i].gpuType, f.Fit))
	}
	if len(asks) > 0 {
		x := all[len(asks)].expected("", f.Fit)
		o.Any = &x
	}
	return o, nil
}

// sample are starts, runs and ends of one job in all draws, s.
type sample struct{ starts, runs, ends []float64 }

func (s *sample) add(start, run float64) {
	s.starts, s.runs, s.ends = append(s.starts, start), append(s.runs, run), append(s.ends, start+run)
}

func (s *sample) expected(gpuType string, fit float64) Expected {
	start, lateStart := forecast.HalfAndMost(s.starts)
	run, longRun := forecast.HalfAndMost(s.runs)
	end, _ := forecast.HalfAndMost(s.ends)
	return Expected{
		GPUType: gpuType, Start: Seconds(start), StartP90: Seconds(max(lateStart*fit, start)), Run: Seconds(run), RunP90: Seconds(longRun), End: Seconds(end),
	}
}

// Kind is what is known of how long such a job runs.
func (r *Request) Kind(user string, limit time.Duration) runtimes.Kind {
	return runtimes.Kind{User: user, Program: cmp.Or(r.Tag.Workload, r.Name), GPUs: r.GPUs, Limit: max(limit, 0)}
}

// typed is a request on one GPU type.
type typed struct {
	placement.Request
	gpuType string
	slower  float64 // than on the mean GPU on which it fits
}

// asks are the request on each type on which it fits.
func (g *giver) asks(speeds []speed.Answer) (asks []typed) {
	gpus, sum := 0.0, 0.0
	for _, s := range speeds {
		r, why := g.request(s)
		if why != "" {
			continue
		}
		n := 0.0
		for kind := range g.nodes.Kinds {
			if r.Types.Has(int32(kind)) {
				n += float64(gpusOf(g.nodes, kind))
			}
		}
		gpus, sum = gpus+n, sum+n/s.Speed
		asks = append(asks, typed{r, s.GPUType, 1 / s.Speed})
	}
	for i := range asks {
		asks[i].slower *= gpus / sum
	}
	return asks
}

// gpusOf counts the GPUs of the nodes of a kind that are up.
func gpusOf(nodes *nodemap.Map, kind int) (n int) {
	for node := range nodes.Names {
		if at := int32(node); nodes.Nodes.Type(at) == int32(kind) && !nodes.Nodes.Down(at) {
			n += int(nodes.Nodes.Size(at).GPUs)
		}
	}
	return n
}
