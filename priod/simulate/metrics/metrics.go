// Package metrics measures a run. JCT (job completion time) is end - submit; wait
// is the time from submit to end not spent running; slowdown is 1 + wait / run
// time; makespan is the last end - the first submit. Percentiles are by linear
// interpolation. Jobs without GPUs have figures of their own: their waits and those of jobs
// with GPUs have little to do with each other, and a mean over both says nothing of either.
package metrics

import (
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/trace"
)

// Outcome is what became of one job. Times are seconds from the trace's start.
type Outcome struct {
	Start       float64 // first start
	End         float64
	Ran         float64 // s on GPUs, all runs together
	Shared      float64 // s of Ran beside another job on the same GPUs
	Wasted      float64 // GPU-seconds that made no progress: lost work, grace, restarts
	Preemptions int32
	Trials      int32   // runs that came to an end by themselves
	Failures    int32   // of these, that failed
	Lost        float64 // s of Ran in trials that failed, but for what they saved
	Type        int32   // index of the last GPU type in the cluster's list; -1 when GPUs are only counted
	Nodes       string  // of the last run, separated by commas; "" while it runs, and where nodes are not distinguished
	Failed      bool    // so did its last trial
	Held        bool    // and priod put it back held
	Done        bool    // it ran to its end before the simulation stopped
}

// Job is what measuring needs to know of a trace's job.
type Job struct {
	ID     string
	Submit float64 // s from the trace's start
	GPUs   int32   // 0: it held CPUs and memory alone
	Class  cluster.Class
}

// JobOf returns the part of a trace's job that measuring needs.
func JobOf(j *trace.Job) Job {
	return Job{ID: j.ID, Submit: j.Submit, GPUs: int32(j.GPUs), Class: j.Class}
}

// Window is a range of jobs by order of arrival, both ends included.
type Window struct{ First, Last int }

// Wait is the time from submit to end that the job did not spend running, s.
func Wait(j *Job, o *Outcome) float64 { return max(o.End-j.Submit-o.Ran, 0) }

// Slowdown is 1 + wait / run time, of a job with GPUs. Time on GPUs that made no progress is no
// run time, so that lost work never makes a run look better. All of a job's counts when
// all of it was in vain.
func Slowdown(j *Job, o *Outcome) float64 {
	useful := o.Ran - o.Wasted/float64(j.GPUs) - o.Lost
	if !(useful > 1e-9*o.Ran) {
		useful = o.Ran
	}
	return (o.End - j.Submit - o.Ran + useful) / useful
}

// Figures are the figures of one run: of its jobs with GPUs, and apart from them of those
// without. Those of an empty group are nil: null in JSON.
type Figures struct {
	Jobs           int     `json:"jobs"`
	MeanJCT        float64 `json:"mean_jct_s"`
	P50JCT         float64 `json:"p50_jct_s"`
	P95JCT         float64 `json:"p95_jct_s"`
	P99JCT         float64 `json:"p99_jct_s"`
	MeanWait       float64 `json:"mean_wait_s"`
	P90Wait        float64 `json:"p90_wait_s"`
	P95Wait        float64 `json:"p95_wait_s"`
	MaxWait        float64 `json:"max_wait_s"`
	Makespan       float64 `json:"makespan_s"`
	GPUUtilisation float64 `json:"gpu_utilisation"` // of all GPUs, from the first submit to the last end, all jobs
	Preemptions    int     `json:"preemptions"`
	Wasted         float64 `json:"wasted_gpu_s"`

	Trials       int     `json:"trials"` // runs that came to an end by themselves
	FailedTrials int     `json:"failed_trials"`
	Lost         float64 `json:"failed_gpu_s"` // of failed trials
	FailedJobs   int     `json:"failed_jobs"`  // whose last trial failed
	HeldJobs     int     `json:"held_jobs"`    // of these, put back held for their users

	TESlowdownP50 *float64 `json:"te_slowdown_p50"`
	TESlowdownP95 *float64 `json:"te_slowdown_p95"`
	TESlowdownP99 *float64 `json:"te_slowdown_p99"`
	BESlowdownP50 *float64 `json:"be_slowdown_p50"`
	BESlowdownP95 *float64 `json:"be_slowdown_p95"`
	BESlowdownP99 *float64 `json:"be_slowdown_p99"`

	TEWaitP50 *float64 `json:"te_wait_p50_s"`
	TEWaitP95 *float64 `json:"te_wait_p95_s"`
	TEWaitP99 *float64 `json:"te_wait_p99_s"`

	MeanWaitGE8 *float64 `json:"mean_wait_ge8_s"` // jobs of 8 GPUs and more
	MeanWaitLT8 *float64 `json:"mean_wait_lt8_s"`

	*CPUOnly          // nil, and not in JSON: all jobs have GPUs
	Returns  *Returns `json:"returns,omitempty"` // nil: no GPUs are guaranteed
}

// Returns are how soon accounts had what is guaranteed to them, and what others gave up for it.
type Returns struct {
	Jobs        int     `json:"jobs"`  // that were entitled and waited
	P50         float64 `json:"p50_s"` // from being entitled to the start
	P95         float64 `json:"p95_s"`
	P99         float64 `json:"p99_s"`
	Worst       float64 `json:"worst_s"`
	AskedGPUs   float64 `json:"asked_gpus"`   // that were not free, for jobs for which others left
	EvictedGPUs float64 `json:"evicted_gpus"` // of the jobs that left
}

// CPUOnly are the figures of the jobs without GPUs.
type CPUOnly struct {
	Jobs       int     `json:"cpu_only_jobs"`
	MeanJCT    float64 `json:"cpu_only_mean_jct_s"`
	P50JCT     float64 `json:"cpu_only_p50_jct_s"`
	P95JCT     float64 `json:"cpu_only_p95_jct_s"`
	MeanWait   float64 `json:"cpu_only_mean_wait_s"`
	P90Wait    float64 `json:"cpu_only_p90_wait_s"`
	MaxWait    float64 `json:"cpu_only_max_wait_s"`
	FailedJobs int     `json:"cpu_only_failed_jobs"` // whose last trial failed
}

// cpuOnly measures jobs without GPUs by their completion times and waits, in any order.
func cpuOnly(jcts, waits []float64, failed int) *CPUOnly {
	if len(jcts) == 0 {
		return nil
	}
	slices.Sort(jcts)
	slices.Sort(waits)
	return &CPUOnly{
		Jobs: len(jcts), MeanJCT: mean(jcts), P50JCT: Percentile(jcts, 50), P95JCT: Percentile(jcts, 95),
		MeanWait: mean(waits), P90Wait: Percentile(waits, 90), MaxWait: waits[len(waits)-1], FailedJobs: failed,
	}
}

// Measure computes the figures of the jobs in a window, nil for all, that ran
// on so many GPUs. A job that is not done is an error.
func Measure(jobs []Job, outcomes []Outcome, window *Window, gpus int) (Figures, error) {
	w := Window{0, len(jobs) - 1}
	if window != nil {
		w = *window
	}
	if w.First < 0 || w.Last < w.First || w.Last >= len(jobs) {
		return Figures{}, fmt.Errorf("no jobs %d to %d in a run of %d", w.First, w.Last, len(jobs))
	}
	f, n := Figures{}, w.Last-w.First+1
	jcts, waits, trials := make([]float64, 0, n), make([]float64, 0, n), []float64(nil)
	slowdowns, bySize := map[cluster.Class][]float64{}, map[bool][]float64{}
	var otherJCTs, otherWaits []float64
	failed, first, last := 0, math.Inf(1), math.Inf(-1)
	for i := w.First; i <= w.Last; i++ {
		j, o := &jobs[i], &outcomes[i]
		if !o.Done {
			return Figures{}, fmt.Errorf("job %s is not done", j.ID)
		}
		wait := Wait(j, o)
		if j.GPUs == 0 {
			otherJCTs, otherWaits = append(otherJCTs, o.End-j.Submit), append(otherWaits, wait)
			if o.Failed {
				failed++
			}
			continue
		}
		jcts = append(jcts, o.End-j.Submit)
		waits = append(waits, wait)
		slowdowns[j.Class] = append(slowdowns[j.Class], Slowdown(j, o))
		if j.Class == cluster.TE {
			trials = append(trials, wait)
		}
		bySize[j.GPUs >= 8] = append(bySize[j.GPUs >= 8], wait)
		first, last = min(first, j.Submit), max(last, o.End)
		f.Preemptions += int(o.Preemptions)
		f.Wasted += o.Wasted
		f.Trials, f.FailedTrials, f.Lost = f.Trials+int(o.Trials), f.FailedTrials+int(o.Failures), f.Lost+o.Lost*float64(j.GPUs)
		if o.Failed {
			f.FailedJobs++
		}
		if o.Held {
			f.HeldJobs++
		}
	}
	f.CPUOnly = cpuOnly(otherJCTs, otherWaits, failed)
	if f.Jobs = len(jcts); f.Jobs == 0 {
		return f, nil
	}
	f.Makespan = last - first
	f.GPUUtilisation = utilisation(jobs, outcomes, gpus)
	f.MeanWaitGE8, f.MeanWaitLT8 = meanOf(bySize[true]), meanOf(bySize[false])

	slices.Sort(jcts)
	slices.Sort(waits)
	f.MeanJCT, f.P50JCT, f.P95JCT, f.P99JCT = mean(jcts), Percentile(jcts, 50), Percentile(jcts, 95), Percentile(jcts, 99)
	f.MeanWait, f.P90Wait, f.P95Wait, f.MaxWait = mean(waits), Percentile(waits, 90), Percentile(waits, 95), waits[f.Jobs-1]
	f.TESlowdownP50, f.TESlowdownP95, f.TESlowdownP99 = percentiles(slowdowns[cluster.TE])
	f.BESlowdownP50, f.BESlowdownP95, f.BESlowdownP99 = percentiles(slowdowns[cluster.BE])
	f.TEWaitP50, f.TEWaitP95, f.TEWaitP99 = percentiles(trials)
	return f, nil
}

// utilisation counts all jobs with GPUs, because those outside the window hold some too.
// Two that share GPUs hold half of them each.
func utilisation(jobs []Job, outcomes []Outcome, gpus int) float64 {
	used, first, last := 0.0, math.Inf(1), math.Inf(-1)
	for i := range outcomes {
		if jobs[i].GPUs == 0 {
			continue
		}
		used += (outcomes[i].Ran - outcomes[i].Shared/2) * float64(jobs[i].GPUs)
		first = min(first, jobs[i].Submit)
		if outcomes[i].Done {
			last = max(last, outcomes[i].End)
		}
	}
	if !(last > first) || gpus == 0 {
		return 0
	}
	return used / (float64(gpus) * (last - first))
}

func percentiles(s []float64) (p50, p95, p99 *float64) {
	if len(s) == 0 {
		return nil, nil, nil
	}
	slices.Sort(s)
	a, b, c := Percentile(s, 50), Percentile(s, 95), Percentile(s, 99)
	return &a, &b, &c
}

func meanOf(s []float64) *float64 {
	if len(s) == 0 {
		return nil
	}
	m := mean(s)
	return &m
}

func mean(s []float64) float64 {
	sum := 0.0
	for _, v := range s {
		sum += v
	}
	return sum / float64(len(s))
}

// Percentile interpolates linearly between the values of a sorted list (type 7
// of Hyndman and Fan 1996, which numpy uses).
func Percentile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Point is the state of the cluster at one time.
type Point struct {
	At     float64 `json:"at_s"`
	GPUs   int     `json:"gpus"`  // in use
	Queued int     `json:"queue"` // jobs with GPUs that wait
	Others int     `json:"queue_without_gpus,omitempty"`
}

// maxPoints bounds a series: enough for a plot as wide as a page.
const maxPoints = 4096

// Series keeps the last state of each of evenly spaced moments and doubles
// their distance when they become too many.
type Series struct {
	points []Point
	every  float64
}

func (s *Series) Add(p Point) {
	if n := len(s.points); n > 0 && (p.At == s.points[n-1].At || s.slot(p) == s.slot(s.points[n-1]) && n > 1) {
		s.points[n-1] = p
		return
	}
	s.points = append(s.points, p)
	if len(s.points) < maxPoints {
		return
	}
	s.every = max(2*s.every, 2*(p.At-s.points[0].At)/maxPoints)
	old := s.points
	s.points = s.points[:1]
	for _, q := range old[1:] {
		s.Add(q)
	}
}

func (s *Series) slot(p Point) int64 {
	if s.every == 0 {
		return -1 - int64(p.At*1e6)
	}
	return int64((p.At - s.points[0].At) / s.every)
}

// Points returns what the series kept.
func (s *Series) Points() []Point { return s.points }
