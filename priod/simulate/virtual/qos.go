package virtual

import (
	"cmp"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
)

// SlurmQOS is Options.Evict as Slurm itself evicts with PreemptType=preempt/qos, PreemptMode=REQUEUE and
// SchedulerParameters=preempt_youngest_first: where a TE job has no place, BE jobs are taken out of the plan one after the
// other, the youngest first, until it has one, and those leave that hold a part of it (_run_now in select/cons_tres;
// slurm_find_preemptable_jobs). They queue as if new. Nothing is known of grace periods, lost work or GPU types.
func SlurmQOS(s *System) (told []Eviction) {
	trials := s.Trials()
	if len(trials) == 0 {
		return nil
	}
	soon, candidates := s.held(func(r *InSystem) bool { return r.Job.Class == cluster.BE })
	for _, t := range trials {
		place, fits := t.fit(soon)
		if fits {
			soon.Take(place)
			continue
		}
		var victims []int
		for i := 0; i < len(t.in) && len(victims) == 0; i++ {
			victims, place = youngest(soon, candidates, t.in[i])
		}
		for _, i := range victims {
			told = append(told, Eviction{Job: candidates[i].Index})
			soon.Release(candidates[i].Shares)
		}
		soon.Take(place)
		for k := len(victims) - 1; k >= 0; k-- {
			candidates = slices.Delete(candidates, victims[k], victims[k]+1)
		}
	}
	return told
}

// held is what is free once those have left that were told before, and the running jobs that may leave, the youngest first.
func (s *System) held(may func(*InSystem) bool) (soon *placement.Nodes, candidates []InSystem) {
	soon = s.Nodes().Clone()
	for r := range s.Running() {
		switch {
		case r.Leaving:
			soon.Release(r.Shares)
		case may(&r):
			candidates = append(candidates, r)
		}
	}
	slices.SortFunc(candidates, func(a, b InSystem) int {
		return cmp.Or(cmp.Compare(b.Start, a.Start), cmp.Compare(b.Index, a.Index))
	})
	return soon, candidates
}

// fit is a place for a waiting job, in the first of its partitions that has one.
func (w *InSystem) fit(nodes *placement.Nodes) (place []placement.Share, fits bool) {
	for i := 0; i < len(w.in) && !fits; i++ {
		place, fits = nodes.Fit(w.in[i], nil)
	}
	return place, fits
}

// youngest are the first candidates without which the request has a place, as far as they hold a part
// of it, rising; none: it has no place without all of them.
func youngest(nodes *placement.Nodes, candidates []InSystem, r placement.Request) (victims []int, place []placement.Share) {
	without := nodes.Clone()
	for i := range candidates {
		if !r.Types.Has(nodes.Type(candidates[i].Shares[0].Node)) {
			continue
		}
		without.Release(candidates[i].Shares)
		shares, fits := without.Fit(r, nil)
		if !fits {
			continue
		}
		place = slices.Clone(shares)
		for k := range candidates[:i+1] {
			if slices.ContainsFunc(candidates[k].Shares, func(s placement.Share) bool {
				return slices.ContainsFunc(place, func(p placement.Share) bool { return p.Node == s.Node })
			}) && r.Types.Has(nodes.Type(candidates[k].Shares[0].Node)) {
				victims = append(victims, k)
			}
		}
		return victims, place
	}
	return nil, nil
}
