package simulate

import (
	"slurmprio/priod/policy/allocation"
	"slurmprio/priod/simulate/published"
	"slurmprio/priod/simulate/rounds"
)

// allocator solves a policy whenever the round engine asks. It remembers the
// prices of the last solution, and for each job its times in it and what the
// isolated reference would have taken for its steps so far (finish-time
// fairness). In the published rounds it answers as the published code does. Where
// the optimiser fails, trouble gets the problem, and the jobs keep the times that
// they had; without trouble the run ends there.
func allocator(policy allocation.Policy, asPublished bool, trouble func(now float64, err error, p *allocation.Problem)) rounds.Allocator {
	asPublished = asPublished && published.Has(policy)
	var warm allocation.Warm
	var known []memory // by place in the trace
	problem := allocation.Problem{Warm: &warm}
	keeps := policy.Name == "finish-time-fairness"
	var names []string
	return func(now float64, jobs []*rounds.Active, types []rounds.Type, x []float64) error {
		problem.Types, problem.Jobs, names = problem.Types[:0], problem.Jobs[:0], names[:0]
		for _, t := range types {
			names = append(names, t.Name)
			problem.Types = append(problem.Types, allocation.GPUType{Name: t.Name, GPUs: t.GPUs})
		}
		for _, a := range jobs {
			j := allocation.Job{
				ID: a.Job.ID, Speed: a.Estimate, GPUs: a.Job.GPUs, Weight: weight(a.Job.Weight), StepsLeft: a.Left(),
				Elapsed: now - a.Job.Submit, Arrival: a.Job.Submit, Deadline: a.Job.Deadline - now, Entity: allocation.NoEntity,
			}
			if asPublished && policy.Agnostic {
				var err error
				if j.Speed, err = published.Blind(policy.Name, names, a.Speed); err != nil {
					return err
				}
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
		time, err := solve(policy, asPublished, &problem)
		if allocation.Numeric(err) && trouble != nil {
			trouble(now, err, &problem)
			for i, a := range jobs {
				copy(x[i*len(types):], known[a.Index].previous)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if keeps {
			for i, rate := range problem.IsolatedRates() {
				known[jobs[i].Index].rate = rate
			}
		}
		for i, row := range time {
			copy(x[i*len(types):], row)
			known[jobs[i].Index].previous = row
		}
		return nil
	}
}

func solve(policy allocation.Policy, asPublished bool, p *allocation.Problem) ([][]float64, error) {
	if asPublished {
		return published.Allocate(policy.Name, p)
	}
	a, err := policy.Allocate(p)
	if err != nil {
		return nil, err
	}
	return a.Time, nil
}

// memory is what is known of a job from one allocation to the next.
type memory struct {
	elapsed, done, rate float64   // in isolation: s, steps, steps/s when last seen
	previous            []float64 // its times
	promised            float64   // its steps/s, with space sharing
}

// weight is 1 for a job that nothing gives one.
func weight(w float64) float64 {
	if w > 0 {
		return w
	}
	return 1
}
