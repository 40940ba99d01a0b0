package simulate

import (
	"slurmprio/priod/policy/allocation"
	"slurmprio/priod/simulate/rounds"
)

// allocator solves a policy whenever the round engine asks. It remembers the
// prices of the last solution, and for each job its times in it and what the
// isolated reference would have taken for its steps so far (finish-time
// fairness).
func allocator(policy allocation.Policy) rounds.Allocator {
	var warm allocation.Warm
	var known []memory // by place in the trace
	problem := allocation.Problem{Warm: &warm}
	keeps := policy.Name == "finish-time-fairness"
	return func(now float64, jobs []*rounds.Active, types []rounds.Type, x []float64) error {
		problem.Types, problem.Jobs = problem.Types[:0], problem.Jobs[:0]
		for _, t := range types {
			problem.Types = append(problem.Types, allocation.GPUType{Name: t.Name, GPUs: t.GPUs})
		}
		for _, a := range jobs {
			j := allocation.Job{
				ID: a.Job.ID, Speed: a.Estimate, GPUs: a.Job.GPUs, Weight: weight(a.Job.Weight), StepsLeft: a.Left(),
				Elapsed: now - a.Job.Submit, Arrival: a.Job.Submit, Deadline: a.Job.Deadline - now, Entity: allocation.NoEntity,
			}
			for len(known) <= a.Index {
				known = append(known, memory{})
			}
			s := &known[a.Index]
			if s.rate > 0 {
				s.elapsed += (a.Done - s.done) / s.rate
			}
			s.done, j.IsolatedElapsed, j.Previous = a.Done, s.elapsed, s.previous
			problem.Jobs = append(problem.Jobs, j)
		}
		result, err := policy.Allocate(&problem)
		if err != nil {
			return err
		}
		if keeps {
			for i, rate := range problem.IsolatedRates() {
				known[jobs[i].Index].rate = rate
			}
		}
		for i, row := range result.Time {
			copy(x[i*len(types):], row)
			known[jobs[i].Index].previous = row
		}
		return nil
	}
}

// memory is what is known of a job from one allocation to the next.
type memory struct {
	elapsed, done, rate float64   // in isolation: s, steps, steps/s when last seen
	previous            []float64 // its times
}

// weight is 1 for a job that nothing gives one.
func weight(w float64) float64 {
	if w > 0 {
		return w
	}
	return 1
}
