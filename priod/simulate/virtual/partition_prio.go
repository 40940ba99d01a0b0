package virtual

import (
	"cmp"
	"slices"

	"slurmprio/priod/placement"
)

// SlurmPartitions is Options.Evict as Slurm itself evicts with PreemptType=preempt/partition_prio, PreemptMode=REQUEUE and
// SchedulerParameters=preempt_youngest_first: for a job that has no place in a partition, jobs that run in partitions of a
// lower PriorityTier leave the nodes of that partition, the youngest first (https://slurm.schedmd.com/preempt.html). Until
// they have left, the backfill scheduler keeps these nodes for it. Nothing is known of lost work.
func SlurmPartitions(s *System) (told []Eviction) {
	e := s.e
	soon, candidates := s.held(func(r *InSystem) bool { return true })
	if len(candidates) == 0 {
		return nil
	}
	var all []*job
	rooms := map[*queuePart]*ownRoom{}
	for _, c := range e.queue.active {
		may := func(p *queuePart) bool {
			if rooms[p] == nil {
				rooms[p] = e.ownRoom(p, soon, candidates)
			}
			return rooms[p].guests > 0 && rooms[p].guests+rooms[p].free >= c.request.GPUs
		}
		if slices.ContainsFunc(c.line.parts, may) {
			for j := range c.waiting.all {
				all = append(all, j)
			}
		}
	}
	slices.SortFunc(all, func(a, b *job) int {
		if a.order().less(b.order()) {
			return -1
		}
		return 1
	})
	vain := map[*class]bool{} // what finds no place finds none later in the pass: starts only take away
	for _, j := range all {
		if vain[j.class] || e.now < j.roomAt {
			continue
		}
		w := e.waits(j)
		place, fits := w.fit(soon)
		if fits {
			soon.Take(place)
			continue
		}
		var victims []int
		var leave []InSystem
		for i := 0; i < len(w.in) && len(victims) == 0; i++ {
			p := j.line.parts[i]
			leave = slices.DeleteFunc(slices.Clone(candidates), func(r InSystem) bool { return !e.yields(&r, p) })
			victims, place = youngest(soon, leave, w.in[i])
		}
		vain[j.class] = len(victims) == 0
		for _, i := range victims {
			told = append(told, Eviction{Job: leave[i].Index})
			j.roomAt = max(j.roomAt, e.now+cmp.Or(leave[i].Job.Grace, e.opt.Grace)+e.opt.Epilog)
			candidates = slices.DeleteFunc(candidates, func(r InSystem) bool { return r.Index == leave[i].Index })
		}
		if len(victims) > 0 {
			var nodes []int32
			for _, x := range place {
				soon.SetDown(x.Node, true)
				nodes = append(nodes, x.Node)
			}
			e.reserveNodes("preempted for "+j.ID, nodes, j.roomAt-e.now)
		}
	}
	return told
}

// ownRoom is what jobs of a partition may come to have, GPUs.
type ownRoom struct{ free, guests int32 }

func (e *engine) ownRoom(p *queuePart, soon *placement.Nodes, candidates []InSystem) *ownRoom {
	r := &ownRoom{}
	for n := range int32(soon.Len()) {
		if e.lies(n, p) {
			r.free += soon.FreeOn(n).GPUs
		}
	}
	for i := range candidates {
		if e.yields(&candidates[i], p) {
			for _, s := range candidates[i].Shares {
				r.guests += s.GPUs
			}
		}
	}
	return r
}

// yields reports whether a running job leaves for one of a partition: where both have nodes, and its own partition has a
// lower tier.
func (e *engine) yields(r *InSystem, p *queuePart) bool {
	return r.tier < p.Tier && slices.ContainsFunc(r.Shares, func(s placement.Share) bool { return e.lies(s.Node, p) })
}

// lies reports whether a node is in a partition.
func (e *engine) lies(node int32, p *queuePart) bool {
	return p.kinds.Has(e.nodes.Type(node)) && !slices.Contains(p.off, node)
}
