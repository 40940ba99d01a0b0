package simulate

import (
	"slurmprio/priod/policy/allocation"
	"slurmprio/priod/simulate/rounds"
)

// allocator solves a policy whenever the round engine asks. It remembers the
// prices of the last solution, and for each job what the isolated reference
// would have taken for the steps so far (finish-time fairness).
func allocator(policy allocation.Policy) rounds.Allocator {
	var warm allocation.Warm
	var alone []isolation // by place in the trace
	problem := allocation.Problem{Warm: &warm}
	keeps := policy.Name == "finish-time-fairness"
	return func(now float64, jobs []*rounds.Active, types []rounds.Type, x []float64) error {
		problem.Types, problem.Jobs = problem.Types[:0], problem.Jobs[:0]
		for _, t := range types {
			problem.Types = append(problem.Types, allocation.GPUType{Name: t.Name, GPUs: t.GPUs})
		}
		for _, a := range jobs {
			j := allocation.Job{
				ID: a.Job.ID, Speed: a.Speed, GPUs: a.Job.GPUs, Weight: max(a.Job.Weight, 1e-9), StepsLeft: a.Left(),
				Elapsed: now - a.Job.Submit, Arrival: a.Job.Submit, Deadline: a.Job.Deadline - now, Entity: allocation.NoEntity,
			}
			if keeps {
				for len(alone) <= a.Index {
					alone = append(alone, isolation{})
				}
				s := &alone[a.Index]
				if s.rate > 0 {
					s.elapsed += (a.Done - s.done) / s.rate
				}
				s.done, j.IsolatedElapsed = a.Done, s.elapsed
			}
			problem.Jobs = append(problem.Jobs, j)
		}
		result, err := policy.Allocate(&problem)
		if err != nil {
			return err
		}
		if keeps {
			for i, rate := range problem.IsolatedRates() {
				alone[jobs[i].Index].rate = rate
			}
		}
		for i, row := range result.Time {
			copy(x[i*len(types):], row)
		}
		return nil
	}
}

type isolation struct{ elapsed, done, rate float64 } // s, steps, steps/s when last seen
