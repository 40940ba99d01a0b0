package simulate

import (
	"slurmprio/priod/policy/allocation"
	"slurmprio/priod/simulate/rounds"
	"slurmprio/priod/trace"
)

// Pairs is the work per second of two jobs of as many GPUs on the same GPUs, in
// the units of Input.Speed; 0: they do not run together. Workload, GPUs and
// whether there is a duration are all that speeds may depend on.
type Pairs func(a, b *trace.Job, gpuType string) (speedA, speedB float64)

// kind is all that a job's speeds depend on.
type kind struct {
	workload string
	gpus     int
	timed    bool
}

// sharer solves a policy with space sharing whenever the round engine asks.
func sharer(policy allocation.Policy, pairs Pairs, trouble func(now float64, err error, p *allocation.Problem)) rounds.Sharer {
	kinds := map[kind]int{}
	var first []*trace.Job // of each kind
	type question struct{ a, b, gpuType int }
	known := map[question][2]float64{}
	var isolated []memory // by place in the trace
	var last []rounds.Mix
	var warm allocation.Warm
	var problem allocation.Problem
	if policy.Name == "gandiva" {
		problem.Warm = &warm // its pairs stay together
	}
	problem.Together = func(a, b, t int) (float64, float64) {
		q := question{problem.Jobs[a].Kind, problem.Jobs[b].Kind, t}
		speed, ok := known[q]
		if !ok {
			speed[0], speed[1] = pairs(first[q.a], first[q.b], problem.Types[t].Name)
			known[q] = speed
		}
		return speed[0], speed[1]
	}
	return func(now float64, jobs []*rounds.Active, types []rounds.Type) (shares rounds.Shares, err error) {
		problem.Types, problem.Jobs = problem.Types[:0], problem.Jobs[:0]
		for _, t := range types {
			problem.Types = append(problem.Types, allocation.GPUType{Name: t.Name, GPUs: t.GPUs})
		}
		for _, a := range jobs {
			k := kind{a.Job.Workload, a.Job.GPUs, a.Job.Duration > 0}
			if _, ok := kinds[k]; !ok {
				kinds[k] = len(first)
				first = append(first, &a.Job)
			}
			for len(isolated) <= a.Index {
				isolated = append(isolated, memory{})
			}
			m := &isolated[a.Index]
			if m.rate > 0 {
				m.elapsed += (a.Done - m.done) / m.rate
			}
			m.done = a.Done
			shares.Kind = append(shares.Kind, kinds[k])
			problem.Jobs = append(problem.Jobs, allocation.Job{
				ID: a.Job.ID, Speed: a.Speed, GPUs: a.Job.GPUs, Weight: weight(a.Job.Weight), StepsLeft: a.Left(), Kind: kinds[k],
				Elapsed: now - a.Job.Submit, IsolatedElapsed: m.elapsed, Arrival: a.Job.Submit, Deadline: a.Job.Deadline - now, Entity: allocation.NoEntity,
			})
		}
		result, err := policy.Allocate(&problem)
		if allocation.Numeric(err) && trouble != nil {
			trouble(now, err, &problem)
			for _, a := range jobs {
				shares.Rate = append(shares.Rate, isolated[a.Index].promised)
			}
			shares.Mixes = last
			return shares, nil
		}
		if err != nil {
			return shares, err
		}
		for i, rate := range problem.IsolatedRates() {
			m := &isolated[jobs[i].Index]
			m.rate, m.promised = rate, result.Rate[i]
		}
		shares.Rate = result.Rate
		for _, m := range result.Mixes {
			x := rounds.Mix{A: shares.Kind[m.A[0]], B: rounds.Alone, Type: m.Type, Time: m.Time, Speed: m.Speed}
			if m.B != nil {
				x.B = shares.Kind[m.B[0]]
			}
			shares.Mixes = append(shares.Mixes, x)
		}
		last = shares.Mixes
		return shares, nil
	}
}
