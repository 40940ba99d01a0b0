package cli

import (
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/report"
	"slurmprio/priod/simulate/metrics"
)

// page shows a simulation with its plots.
func (s *Simulated) page() *report.Page {
	p := &report.Page{
		Title:  "priod simulate",
		Words:  slices.Concat([]string{s.Policy}, s.words(), s.leftOutWords()),
		Tables: []report.PageTable{{Title: "Figures", Header: []string{"figure", "value"}, Rows: figureRows([]comparedRun{{Figures: s.figures()}})}},
	}
	p.Plots = []report.Figure{
		{Title: "Job completion time", XLabel: "hours", YLabel: "share of jobs", LogX: true, Curves: s.cdfs(func(j *metrics.Job, o *metrics.Outcome) float64 {
			return (o.End - j.Submit) / 3600
		})},
		{Title: "Slowdown", XLabel: "1 + wait / run time", YLabel: "share of jobs", LogX: true, Curves: s.cdfs(metrics.Slowdown)},
	}
	if len(s.Series) > 1 {
		var hours, gpus, queue, others []float64
		for _, at := range s.Series {
			hours, gpus, queue, others = append(hours, at.At/3600), append(gpus, float64(at.GPUs)), append(queue, float64(at.Queued)), append(others, float64(at.Others))
		}
		waiting := []report.Curve{{Name: "waiting", X: hours, Y: queue}}
		if s.Figures.CPUOnly != nil {
			waiting = []report.Curve{{Name: "with GPUs", X: hours, Y: queue}, {Name: "without", X: hours, Y: others}}
		}
		p.Plots = append(p.Plots,
			report.Figure{Title: "GPUs in use", XLabel: "hours", YLabel: "GPUs", Steps: true, Curves: []report.Curve{{Name: "in use", X: hours, Y: gpus}}},
			report.Figure{Title: "Queue", XLabel: "hours", YLabel: "jobs", Steps: true, Curves: waiting})
	}
	return p
}

// cdfs are the distributions of a measure over all measured jobs with GPUs, and over TE
// and BE when there are both.
func (s *Simulated) cdfs(measure func(*metrics.Job, *metrics.Outcome) float64) []report.Curve {
	groups := map[string][]float64{}
	for i := range s.Jobs {
		if !s.Outcomes[i].Done || s.Jobs[i].GPUs == 0 {
			continue
		}
		v := measure(&s.Jobs[i], &s.Outcomes[i])
		groups["all"] = append(groups["all"], v)
		name := "BE"
		if s.Jobs[i].Class == cluster.TE {
			name = "TE"
		}
		groups[name] = append(groups[name], v)
	}
	names := []string{"all"}
	if len(groups["TE"]) > 0 && len(groups["BE"]) > 0 {
		names = []string{"all", "TE", "BE"}
	}
	var curves []report.Curve
	for _, name := range names {
		curves = append(curves, cdf(name, groups[name]))
	}
	return curves
}

// cdf is a distribution in at most a thousand points.
func cdf(name string, values []float64) report.Curve {
	slices.Sort(values)
	const most = 1000
	c := report.Curve{Name: name}
	n := len(values)
	for k := range min(n, most) {
		i := k * (n - 1) / max(1, min(n, most)-1)
		c.X, c.Y = append(c.X, values[i]), append(c.Y, float64(i+1)/float64(n))
	}
	return c
}
