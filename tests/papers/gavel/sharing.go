package gavel

import (
	"slurmprio/priod/allocate"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/policies"
	"slurmprio/tests/papers/rounds"
)

// Pairs is the work per second of two jobs of as many GPUs on the same GPUs, in
// the units of Options.Speed; 0: they do not run together. Workload, GPUs and
// whether there is a duration are all that speeds may depend on.
type Pairs func(a, b *trace.Job, gpuType string) (speedA, speedB float64)

// kind is all that a job's speeds are taken to depend on.
type kind struct {
	workload string
	gpus     int
	timed    bool
	like     int // the reference program that it is taken for, where pairs are estimated
}

// sharing solves a policy with pairs whenever the round engine asks.
type sharing struct {
	solver
	pairs  Pairs
	trials *trials // nil: all pairs are known
	kinds  map[kind]int
	first  []*trace.Job // of each kind
	like   []int        // of each kind
	of     []int        // kind of each job, by place in the trace; -1: not seen yet
	speeds map[question][2]float64
	last   rounds.Shares
}

// question is two kinds and a type.
type question struct{ a, b, gpuType int }

// sharer is a policy with space sharing.
func sharer(policy policies.Policy, opt *Options) rounds.Sharer {
	s := &sharing{solver: solver{policy: policy, trouble: opt.Trouble}, pairs: opt.Pairs, kinds: map[kind]int{}, speeds: map[question][2]float64{}}
	if opt.Tried > 0 {
		s.trials = newTrials(opt)
	}
	s.problem.Together = func(a, b, t int) (float64, float64) {
		q := question{s.problem.Kinds[a], s.problem.Kinds[b], t}
		speed, ok := s.speeds[q]
		if !ok {
			name := s.problem.Types[t].Name
			if s.trials == nil {
				speed[0], speed[1] = s.pairs(s.first[q.a], s.first[q.b], name)
			} else {
				speed[0] = s.trials.estimate(s.first[q.a], s.like[q.a], s.like[q.b], name)
				speed[1] = s.trials.estimate(s.first[q.b], s.like[q.b], s.like[q.a], name)
			}
			s.speeds[q] = speed
		}
		return speed[0], speed[1]
	}
	return s
}

// Together is what they do, which from then on is known of their kinds.
func (s *sharing) Together(a, b *rounds.Active, gpuType int) (speedA, speedB float64) {
	speedA, speedB = s.pairs(&a.Job, &b.Job, s.problem.Types[gpuType].Name)
	x, y := s.of[a.Index], s.of[b.Index]
	s.speeds[question{x, y, gpuType}], s.speeds[question{y, x, gpuType}] = [2]float64{speedA, speedB}, [2]float64{speedB, speedA}
	return speedA, speedB
}

// Share solves the policy for the jobs that are there.
func (s *sharing) Share(now float64, jobs []*rounds.Active, types []rounds.Type) (rounds.Shares, error) {
	s.pose(now, jobs, types)
	result, err := s.policy.Allocate(&s.problem)
	if allocate.Numeric(err) && s.trouble != nil {
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
		x := rounds.Mix{A: s.last.Kind[m.A[0]], B: rounds.Alone, Type: m.Type, Time: m.Time}
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
	s.problem.Kinds = s.problem.Kinds[:0]
	for _, a := range jobs {
		s.job(now, a.Index, &a.Job, a.Speed, a.Done, a.Left())
		s.problem.Kinds = append(s.problem.Kinds, s.kind(a))
	}
}

// kind is a job's, which it keeps.
func (s *sharing) kind(a *rounds.Active) int {
	for len(s.of) <= a.Index {
		s.of = append(s.of, -1)
	}
	if s.of[a.Index] < 0 {
		k := kind{workload: a.Job.Workload, gpus: a.Job.GPUs, timed: a.Job.Duration > 0}
		if s.trials != nil {
			k.like = s.trials.like(&a.Job)
		}
		if _, ok := s.kinds[k]; !ok {
			s.kinds[k] = len(s.first)
			s.first, s.like = append(s.first, &a.Job), append(s.like, k.like)
		}
		s.of[a.Index] = s.kinds[k]
	}
	return s.of[a.Index]
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
		kinds = append(kinds, s.problem.Kinds[i])
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
func (s *sharing) mixes(a *policies.Allocation) (all []policies.Mix) {
	for i, row := range a.Time {
		for t, x := range row {
			if x > 0 {
				all = append(all, policies.Mix{A: []int{i}, Type: t, Time: x, Speed: [2]float64{s.problem.Jobs[i].Speed[t], 0}})
			}
		}
	}
	for _, p := range a.Pairs {
		for t, x := range p.Time {
			if x > 0 {
				m := policies.Mix{A: []int{p.A}, B: []int{p.B}, Type: t, Time: x}
				if m.Speed[0], m.Speed[1] = s.problem.Together(p.A, p.B, t); m.Speed[0] > 0 && m.Speed[1] > 0 {
					all = append(all, m)
				}
			}
		}
	}
	return all
}
