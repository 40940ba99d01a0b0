package traces

import (
	"errors"
	"math"

	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

// GavelParams are the parameters of GenerateGavel.
type GavelParams struct {
	Seed         uint64
	Jobs         int
	JobsPerHour  float64 // Poisson; +Inf: all at once
	MultiGPU     bool    // 1, 2, 4 and 8 GPUs instead of 1
	HighPriority float64 // share of jobs with weight 5
	SLO          bool    // deadlines of 1.2, 2 or 10 times the run time on a V100
	Workloads    *workload.Table
}

// GenerateGavel makes the continuous and static traces of Gavel (OSDI'20;
// scheduler/utils.py): one of its 26 job types, drawn evenly among those that
// run on so many GPUs; steps for a run time on V100s of 10^1.5 to 10^3 minutes
// (80 %) or 10^3 to 10^4 (20 %); sizes 1, 2, 4, 8 as 70:10:15:5; Poisson
// arrivals, the first at 0; weight 5 for 20 % of jobs where priorities are
// studied; deadlines 1.2, 2 or 10 times the run time, evenly. All of these are
// the authors'. Ours: whole steps, and milliseconds.
func GenerateGavel(p GavelParams) ([]trace.Job, error) {
	if err := errors.Join(checkJobs(p.Jobs), checkRate(p.JobsPerHour)); err != nil {
		return nil, err
	}
	if !(p.HighPriority >= 0 && p.HighPriority <= 1) {
		return nil, errors.New("share of jobs with a high priority: want 0 to 1")
	}
	var templates []workload.ID
	for i, w := range p.Workloads.All() {
		if _, ok := p.Workloads.Speed(workload.ID(i), 1, gavelReference); ok && w.Source == SourceGavel {
			templates = append(templates, workload.ID(i))
		}
	}
	if len(templates) == 0 {
		return nil, errors.New("no workloads with source = \"gavel\" and a speed on one v100")
	}
	r, arrivals, deadlines := newRand(p.Seed, streamJobs), newRand(p.Seed, streamArrivals), newRand(p.Seed, streamDeadlines)
	factors := [...]float64{1.2, 2, 10}
	jobs := make([]trace.Job, p.Jobs)
	at := 0.0
	for i := range jobs {
		j := generated(i, at)
		at += exponential(arrivals, 3600/p.JobsPerHour)
		if j.GPUs = gangs(r); !p.MultiGPU {
			j.GPUs = 1 // drawn all the same: both traces of a seed have the same run times
		}
		duration := longTailed(r)
		id, speed, err := drawTemplate(p.Workloads, templates, j.GPUs, func() int { return r.IntN(len(templates)) })
		if err != nil {
			return nil, err
		}
		if p.HighPriority > 0 && r.Float64() < p.HighPriority {
			j.Weight = 5
		}
		j.Workload, j.Steps = p.Workloads.Get(id).Name, max(math.Round(duration*speed), 1)
		if p.SLO {
			j.Deadline = j.Submit + math.Round(factors[deadlines.IntN(len(factors))]*duration)
		}
		jobs[i] = j
	}
	return jobs, nil
}

// drawTemplate draws until a job type runs on so many GPUs.
func drawTemplate(t *workload.Table, templates []workload.ID, gpus int, draw func() int) (workload.ID, float64, error) {
	const tries = 10_000
	for range tries {
		id := templates[draw()]
		if speed, ok := t.Speed(id, gpus, gavelReference); ok {
			return id, speed, nil
		}
	}
	return 0, 0, errors.New("no workload with source = \"gavel\" runs on the GPUs that were drawn")
}
