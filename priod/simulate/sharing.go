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

// sharing solves a policy with pairs whenever the round engine asks.
type sharing struct {
	solver
	kinds map[kind]int
	first []*trace.Job // of each kind
	last  rounds.Shares
}

// sharer is a policy with space sharing; trouble is allocator's.
func sharer(policy allocation.Policy, pairs Pairs, trouble func(now float64, err error, p *allocation.Problem)) rounds.Sharer {
	s := &sharing{solver: solver{policy: policy, trouble: trouble}, kinds: map[kind]int{}}
	type question struct{ a, b, gpuType int }
	answers := map[question][2]float64{}
	s.problem.Together = func(a, b, t int) (float64, float64) {
		q := question{s.problem.Jobs[a].Kind, s.problem.Jobs[b].Kind, t}
		speed, ok := answers[q]
		if !ok {
			speed[0], speed[1] = pairs(s.first[q.a], s.first[q.b], s.problem.Types[t].Name)
			answers[q] = speed
		}
		return speed[0], speed[1]
	}
	return s.share
}

func (s *sharing) share(now float64, jobs []*rounds.Active, types []rounds.Type) (rounds.Shares, error) {
	s.pose(now, jobs, types)
	result, err := s.policy.Allocate(&s.problem)
	if allocation.Numeric(err) && s.trouble != nil {
		s.trouble(now, err, &s.problem)
		return s.again(jobs), nil
	}
	if err != nil {
		return rounds.Shares{}, err
	}
	s.last = rounds.Shares{Rate: result.Rate}
	for i, rate := range s.problem.IsolatedRates() {
		m := &s.known[jobs[i].Index]
		m.rate, m.promised, m.previous = rate, result.Rate[i], result.Time[i]
	}
	if s.last.Kind = s.byKind(); result.Mixes == nil {
		s.last.Kind = byJob(jobs)
		result.Mixes = s.mixes(result)
	}
	for _, m := range result.Mixes {
		x := rounds.Mix{A: s.last.Kind[m.A[0]], B: rounds.Alone, Type: m.Type, Time: m.Time, Speed: m.Speed}
		if m.B != nil {
			x.B = s.last.Kind[m.B[0]]
		}
		s.last.Mixes = append(s.last.Mixes, x)
	}
	return s.last, nil
}

// pose makes the problem.
func (s *sharing) pose(now float64, jobs []*rounds.Active, types []rounds.Type) {
	s.begin()
	for _, t := range types {
		s.gpuType(t.Name, t.GPUs)
	}
	for i, a := range jobs {
		k := kind{a.Job.Workload, a.Job.GPUs, a.Job.Duration > 0}
		if _, ok := s.kinds[k]; !ok {
			s.kinds[k] = len(s.first)
			s.first = append(s.first, &a.Job)
		}
		s.job(now, a.Index, &a.Job, a.Speed, a.Done, a.Left())
		s.problem.Jobs[i].Kind = s.kinds[k]
	}
}

// again is the last allocation, for the jobs that are there now.
func (s *sharing) again(jobs []*rounds.Active) rounds.Shares {
	s.last.Kind, s.last.Rate = s.byKind(), nil
	for _, a := range jobs {
		s.last.Rate = append(s.last.Rate, s.known[a.Index].promised)
	}
	return s.last
}

func (s *sharing) byKind() (kinds []int) {
	for i := range s.problem.Jobs {
		kinds = append(kinds, s.problem.Jobs[i].Kind)
	}
	return kinds
}

func byJob(jobs []*rounds.Active) (kinds []int) {
	for _, a := range jobs {
		kinds = append(kinds, a.Index)
	}
	return kinds
}

// mixes are the times of an allocation that was made job by job.
func (s *sharing) mixes(a *allocation.Allocation) (all []allocation.Mix) {
	for i, row := range a.Time {
		for t, x := range row {
			if x > 0 {
				all = append(all, allocation.Mix{A: []int{i}, Type: t, Time: x, Speed: [2]float64{s.problem.Jobs[i].Speed[t], 0}})
			}
		}
	}
	for _, p := range a.Pairs {
		for t, x := range p.Time {
			if x > 0 {
				m := allocation.Mix{A: []int{p.A}, B: []int{p.B}, Type: t, Time: x}
				if m.Speed[0], m.Speed[1] = s.problem.Together(p.A, p.B, t); m.Speed[0] > 0 && m.Speed[1] > 0 {
					all = append(all, m)
				}
			}
		}
	}
	return all
}
