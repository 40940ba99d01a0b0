// Package compare says how two runs of the same jobs differ, and what really became of
// jobs whose trace knows it.
package compare

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// Difference is how much more the jobs of one run took than those of another, s.
type Difference struct {
	Jobs      int       `json:"jobs"`
	Mean      float64   `json:"mean_s"`
	Interval  *Interval `json:"interval_95"` // of the mean; nil: too few jobs
	Median    float64   `json:"median_s"`
	MeanAbs   float64   `json:"mean_absolute_s"`
	MedianAbs float64   `json:"median_absolute_s"`
	Less      int       `json:"less"` // jobs that took less
	More      int       `json:"more"`
}

// Interval is where a mean lies with 95 % confidence, s.
type Interval struct {
	Low  float64 `json:"low_s"`
	High float64 `json:"high_s"`
}

// Of the batches that doubt is estimated from. Few long ones serve better than many short
// ones: 10 to 30 (Schmeiser, Batch size effects in the analysis of simulation output, 1982).
const (
	mostBatches, leastBatches = 20, 10
	leastBatch                = 10 // jobs
)

// Paired compares two measures of the same jobs, in order of their arrival and with equal
// lengths, in seconds.
func Paired(from, to []float64) Difference {
	d := Difference{Jobs: len(from)}
	if d.Jobs == 0 {
		return d
	}
	changes, sizes := make([]float64, d.Jobs), make([]float64, d.Jobs)
	for i := range from {
		changes[i] = to[i] - from[i]
		sizes[i] = math.Abs(changes[i])
		switch {
		case changes[i] < 0:
			d.Less++
		case changes[i] > 0:
			d.More++
		}
	}
	d.Mean, d.MeanAbs = stat.Mean(changes, nil), stat.Mean(sizes, nil)
	d.Interval = interval(changes, d.Mean)
	slices.Sort(changes)
	slices.Sort(sizes)
	d.Median, d.MedianAbs = metrics.Percentile(changes, 50), metrics.Percentile(sizes, 50)
	return d
}

// interval is the confidence interval of a mean by batch means (A. Law, Simulation Modeling
// and Analysis, chapter 9): jobs that wait at one time wait for the same reasons, so that
// not jobs but means of batches of them, in order of arrival, count as independent.
func interval(changes []float64, mean float64) *Interval {
	n := min(mostBatches, len(changes)/leastBatch)
	if n < leastBatches {
		return nil
	}
	means := make([]float64, n)
	for k := range means {
		means[k] = stat.Mean(changes[k*len(changes)/n:(k+1)*len(changes)/n], nil)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
	half := t * stat.StdErr(stat.StdDev(means, nil), float64(n))
	return &Interval{Low: mean - half, High: mean + half}
}

// Group is what a difference means to the jobs of one user or account.
type Group struct {
	Name   string  `json:"name"` // "": the trace names none
	Jobs   int     `json:"jobs"`
	From   float64 `json:"from_s"` // mean of its jobs in the one run
	To     float64 `json:"to_s"`   // and in the other
	Change float64 `json:"change_s"`
}

// ByOwner gathers jobs by their owner; whose jobs take less now come first.
func ByOwner(owners []string, from, to []float64) []Group {
	at := map[string]int{}
	var all []Group
	for i, name := range owners {
		k, known := at[name]
		if !known {
			k, at[name] = len(all), len(all)
			all = append(all, Group{Name: name})
		}
		g := &all[k]
		g.Jobs++
		g.From += from[i]
		g.To += to[i]
	}
	for k := range all {
		g := &all[k]
		g.From /= float64(g.Jobs)
		g.To /= float64(g.Jobs)
		g.Change = g.To - g.From
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Change, b.Change), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Recorded is what really became of the jobs of a trace, as a simulation tells it, with the
// GPUs in use and the jobs that waited over time. A job that was requeued counts there as
// one run before its end. missing is how many jobs of the trace do not say it.
func Recorded(jobs []trace.Job) (outcomes []metrics.Outcome, series []metrics.Point, missing int) {
	type event struct {
		at                   float64
		gpus, queued, others int
	}
	var events []event
	outcomes = make([]metrics.Outcome, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		if j.End == 0 {
			missing++
			continue
		}
		outcomes[i] = metrics.Outcome{Start: j.Start, End: j.End, Ran: j.Ran, Type: -1, Done: true}
		waits := event{at: j.Submit, queued: 1}
		if j.GPUs == 0 {
			waits = event{at: j.Submit, others: 1}
		}
		events = append(events, waits, event{j.End - j.Ran, j.GPUs, -waits.queued, -waits.others}, event{at: j.End, gpus: -j.GPUs})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	var kept metrics.Series
	now := metrics.Point{}
	for _, e := range events {
		now.At, now.GPUs, now.Queued, now.Others = e.at, now.GPUs+e.gpus, now.Queued+e.queued, now.Others+e.others
		kept.Add(now)
	}
	return outcomes, kept.Points(), missing
}

// Means are the means over time of the GPUs in use, of the jobs with GPUs that wait and of
// those without, in so many equal parts of the time from 0 to until, s.
func Means(series []metrics.Point, until float64, parts int) (gpus, queued, others []float64) {
	gpus, queued, others = make([]float64, parts), make([]float64, parts), make([]float64, parts)
	each := until / float64(parts)
	for i, p := range series {
		end := until
		if i+1 < len(series) {
			end = min(series[i+1].At, until)
		}
		for k := int(p.At / each); k < parts && float64(k)*each < end; k++ {
			share := max(min(end, float64(k+1)*each)-max(p.At, float64(k)*each), 0) / each
			gpus[k] += share * float64(p.GPUs)
			queued[k] += share * float64(p.Queued)
			others[k] += share * float64(p.Others)
		}
	}
	return gpus, queued, others
}
