package gavel

import (
	"slurmprio/priod/allocate"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/policies"
	"slurmprio/tests/papers/published"
	"slurmprio/tests/papers/rounds"
)

// solver solves a policy again and again while jobs come and go. It remembers
// the prices of the last solution, and for each job its times in it and what
// the isolated reference would have taken for its steps so far (finish-time
// fairness). Where the optimiser fails, trouble gets the problem, and the jobs
// keep the times that they had; without trouble the run ends there.
type solver struct {
	policy    policies.Policy
	published bool // answer as the published code does
	trouble   Trouble
	warm      allocate.Warm
	drawn     policies.Drawn
	known     []memory // by place in the trace
	problem   policies.Problem
}

// memory is what is known of a job from one allocation to the next.
type memory struct {
	elapsed, done, rate float64   // in isolation: s, steps, steps/s when last seen
	promised            float64   // steps/s, where jobs may run in pairs
	previous            []float64 // its times
}

// begin starts a problem on these types.
func (s *solver) begin() {
	s.problem.Warm, s.problem.Drawn = &s.warm, &s.drawn
	s.problem.Types, s.problem.Jobs = s.problem.Types[:0], s.problem.Jobs[:0]
	s.problem.Deadlines, s.problem.Previous = s.problem.Deadlines[:0], s.problem.Previous[:0]
}

func (s *solver) gpuType(name string, gpus int) {
	s.problem.Types = append(s.problem.Types, allocate.GPUType{Name: name, GPUs: gpus})
}

// job adds a job by its place in the trace.
func (s *solver) job(now float64, index int, job *trace.Job, speed []float64, done, left float64) {
	for len(s.known) <= index {
		s.known = append(s.known, memory{})
	}
	m := &s.known[index]
	if m.rate > 0 {
		m.elapsed += (done - m.done) / m.rate
	}
	m.done = done
	s.problem.Jobs = append(s.problem.Jobs, allocate.ProblemJob{
		ID: job.ID, Speed: speed, GPUs: job.GPUs, Weight: weight(job.Weight), StepsLeft: left,
		Elapsed: now - job.Submit, IsolatedElapsed: m.elapsed, Arrival: job.Submit, Entity: allocate.NoEntity,
	})
	s.problem.Deadlines, s.problem.Previous = append(s.problem.Deadlines, job.Deadline-now), append(s.problem.Previous, m.previous)
}

// solve returns one row of times for each job, by type, nil for one that has
// none yet; index gives the places of the jobs in the trace.
func (s *solver) solve(now float64, index func(i int) int) (times [][]float64, err error) {
	times, err = s.times()
	if allocate.Numeric(err) && s.trouble != nil {
		s.trouble(now, err, &s.problem)
		times = nil
		for i := range s.problem.Jobs {
			times = append(times, s.known[index(i)].previous)
		}
		return times, nil
	}
	if err != nil {
		return nil, err
	}
	if s.policy.Name == "finish-time-fairness" {
		for i, rate := range s.problem.IsolatedRates() {
			s.known[index(i)].rate = rate
		}
	}
	for i, row := range times {
		s.known[index(i)].previous = row
	}
	return times, nil
}

func (s *solver) times() ([][]float64, error) {
	if s.published {
		return published.Allocate(s.policy.Name, &s.problem.Problem)
	}
	a, err := s.policy.Allocate(&s.problem)
	if err != nil {
		return nil, err
	}
	return a.Time, nil
}

// allocator solves a policy whenever the round engine asks; in the published
// rounds it answers as the published code does.
func allocator(policy policies.Policy, asPublished bool, trouble Trouble) rounds.Allocator {
	s := &solver{policy: policy, published: asPublished && published.Has(policy), trouble: trouble}
	var names []string
	return func(now float64, jobs []*rounds.Active, types []rounds.Type, x []float64) error {
		s.begin()
		names = names[:0]
		for _, t := range types {
			s.gpuType(t.Name, t.GPUs)
			names = append(names, t.Name)
		}
		for _, a := range jobs {
			speed := a.Estimate
			if s.published && policy.Agnostic {
				var err error
				if speed, err = published.Blind(policy.Name, names, a.Speed); err != nil {
					return err
				}
			}
			s.job(now, a.Index, &a.Job, speed, a.Done, a.Left())
		}
		time, err := s.solve(now, func(i int) int { return jobs[i].Index })
		for i, row := range time {
			copy(x[i*len(types):], row)
		}
		return err
	}
}

// weight is 1 for a job that nothing gives one.
func weight(w float64) float64 {
	if w > 0 {
		return w
	}
	return 1
}
