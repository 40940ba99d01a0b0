package preempt

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
)

// The policies with which FitGpp (Yabuuchi et al., OpML 2019) is compared.
const (
	LRTP   preemption.Policy = "lrtp"   // longest remaining time first, until the TE job fits (Chen et al., ATC 2017)
	Random preemption.Policy = "random" // any, until the TE job fits
)

// Fallback is what FitGpp does when no single victim makes room; the paper leaves it open.
type Fallback string

// The fallbacks.
const (
	FallNode    Fallback = "node-set" // the set on one node with the least sum of scores, as priod does
	FallNone    Fallback = "none"     // the TE job waits
	FallRandom  Fallback = "random"   // any of the cluster, until the TE job fits
	FallAnybody Fallback = "anybody"  // the same, also those evicted P times
)

// baseline is the cluster as it will be when all that was decided so far has happened.
type baseline struct {
	*preemption.Snapshot
	set    Settings
	room   []placement.Amount // by node: free, or being freed, and not claimed
	cost   []float64          // FitGpp's scores
	order  []int              // candidates that may leave
	chosen []bool
}

// decide chooses victims for each trial in order.
func decide(s *preemption.Snapshot, set Settings) []preemption.Verdict {
	if !set.cluster() {
		return preemption.Decide(s, set.Settings).Verdicts
	}
	b := &baseline{Snapshot: s, set: set, room: make([]placement.Amount, s.Nodes.Len()), chosen: make([]bool, len(s.Candidates))}
	for i := range b.room {
		b.room[i] = s.Nodes.FreeOn(int32(i))
	}
	verdicts := make([]preemption.Verdict, len(s.Claimants))
	for _, c := range s.Claims {
		verdicts[c.Of] = preemption.Verdict{Why: preemption.Claimed, Shares: c.Shares}
		b.add(c.Shares, -1)
	}
	for i := range s.Candidates {
		c := &s.Candidates[i]
		switch capped := set.MaxEvictions > 0 && c.Evicted >= set.MaxEvictions; {
		case c.Leaving:
			b.add(c.Shares, 1)
		case c.Stays == "" && c.Elapsed >= set.MinRun && (!capped || set.Policy == preemption.FitGpp && set.Fallback == FallAnybody):
			b.order = append(b.order, i)
		}
	}
	switch set.Policy {
	case preemption.FitGpp:
		b.cost = preemption.Scores(s, set.S)
		slices.SortStableFunc(b.order, func(i, k int) int { return cmp.Compare(b.cost[i], b.cost[k]) })
	case LRTP:
		slices.SortStableFunc(b.order, func(i, k int) int {
			return cmp.Compare(s.Candidates[k].Remaining, s.Candidates[i].Remaining)
		})
	}
	ledger := preemption.NewLedger(s, set.Limits)
	for i := range s.Claimants {
		if verdicts[i].Why == preemption.Claimed {
			continue
		}
		verdicts[i] = b.choose(&s.Claimants[i])
		if v := &verdicts[i]; v.Why == preemption.Evicts {
			if why := ledger.Refuses(s, &s.Claimants[i], v.Victims); why != "" {
				b.take(v, false)
				*v = preemption.Verdict{Why: why}
			}
		}
	}
	return verdicts
}

// add frees shares, or takes them with -1; CPUs and memory of a node also on its parts with other GPU types.
func (b *baseline) add(shares []placement.Share, sign int32) {
	for _, s := range shares {
		b.room[s.Node].GPUs += sign * s.GPUs
		for _, node := range append([]int32{s.Node}, b.Nodes.OtherParts(s.Node)...) {
			b.room[node].CPUs += sign * s.CPUs
			b.room[node].MemMB += int64(sign) * s.MemMB
		}
	}
}

// take gives a trial its place and makes the victims leave, or takes both back.
func (b *baseline) take(v *preemption.Verdict, holds bool) {
	sign := int32(1)
	if !holds {
		sign = -1
	}
	for _, c := range v.Victims {
		b.chosen[c] = holds
		b.add(b.Candidates[c].Shares, sign)
	}
	b.add(v.Shares, -sign)
}

// fits reports whether a trial on one node fits there, given so much more room.
func (b *baseline) fits(t *preemption.Claimant, node int32, more placement.Amount) (need placement.Amount, ok bool) {
	need = b.Nodes.Need(t.Request, t.Request.GPUs, node)
	has := b.room[node]
	return need, !b.Nodes.Down(node) && has.GPUs+more.GPUs >= need.GPUs && has.CPUs+more.CPUs >= need.CPUs && has.MemMB+more.MemMB >= need.MemMB
}

// choose is FitGpp's one victim with the least score that makes room, and victims over the whole cluster until the trial fits.
func (b *baseline) choose(t *preemption.Claimant) preemption.Verdict {
	if !b.onOneNode(t) {
		return preemption.Verdict{Why: preemption.Gang}
	}
	given := func(why preemption.Why, node int32, need placement.Amount, victims ...int) preemption.Verdict {
		v := preemption.Verdict{Why: why, Victims: victims, Shares: []placement.Share{{Node: node, Amount: need}}}
		slices.Sort(v.Victims)
		b.take(&v, true)
		return v
	}
	best := int32(-1)
	for i := range int32(len(b.room)) {
		if best >= 0 && b.room[i].GPUs >= b.room[best].GPUs || b.room[i].GPUs < t.Request.GPUs || !t.Request.Types.Has(b.Nodes.Type(i)) {
			continue
		}
		if _, ok := b.fits(t, i, placement.Amount{}); ok {
			best = i
		}
	}
	if best >= 0 {
		need, _ := b.fits(t, best, placement.Amount{})
		return given(preemption.Fits, best, need)
	}
	if b.set.Policy == preemption.FitGpp {
		for _, c := range b.order {
			if b.chosen[c] || b.set.MaxEvictions > 0 && b.Candidates[c].Evicted >= b.set.MaxEvictions {
				continue
			}
			for _, s := range b.Candidates[c].Shares {
				if !t.Request.Types.Has(b.Nodes.Type(s.Node)) || b.room[s.Node].GPUs+s.GPUs < t.Request.GPUs {
					continue
				}
				if need, ok := b.fits(t, s.Node, s.Amount); ok {
					return given(preemption.Evicts, s.Node, need, c)
				}
			}
		}
	}
	if b.set.Policy == preemption.FitGpp && b.set.Fallback == FallNone {
		return preemption.Verdict{Why: preemption.Impossible}
	}
	order := b.order
	if b.set.Policy != LRTP {
		order = slices.Clone(order)
		r := rand.New(rand.NewPCG(b.set.Seed, uint64(len(order))))
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	var so preemption.Verdict
	for _, c := range order {
		if b.chosen[c] || !t.Request.Types.Has(b.Nodes.Type(b.Candidates[c].Shares[0].Node)) {
			continue
		}
		b.take(&preemption.Verdict{Victims: []int{c}}, true)
		so.Victims = append(so.Victims, c)
		for _, s := range b.Candidates[c].Shares {
			if need, ok := b.fits(t, s.Node, placement.Amount{}); ok {
				b.take(&so, false)
				return given(preemption.Evicts, s.Node, need, so.Victims...)
			}
		}
	}
	b.take(&so, false)
	return preemption.Verdict{Why: preemption.Impossible}
}

// onOneNode reports whether a trial asks for one node, or fits the largest that it may have.
func (b *baseline) onOneNode(t *preemption.Claimant) bool {
	if t.Request.Nodes > 0 {
		return t.Request.Nodes == 1
	}
	largest := int32(math.MinInt32)
	for kind := range int32(placement.MaxTypes) {
		if t.Request.Types.Has(kind) {
			largest = max(largest, b.Nodes.Largest(kind))
		}
	}
	return t.Request.GPUs <= max(largest, 1)
}
