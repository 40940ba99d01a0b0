package order

import (
	"cmp"
	"fmt"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Jobs share a step, and keep Slurm's own order inside it, until the priority of the
// first is so many times that of another (in order owed: until it is owed (limit - 1) x
// owedUnit seconds more). Which limit holds depends on the values that they have now,
// so that little is written when priorities move.
const (
	splitAt     = 1.5  // both hold the same value, above Slurm's own
	reorderAt   = 1.25 // both hold Slurm's own value, or the wrong one is above
	keepApartAt = 1.1  // the right one is above
)

// owedUnit is the seconds owed that count in order owed as a factor of 2 of the
// priority does in order gavel.
const owedUnit = 600

// byShares tells whether an order goes by what the allocation gives.
func (o Order) byShares() bool { return o == GavelOrder || o == OwedOrder }

// precedence is the number by which BE jobs are ordered, the largest first.
func (d *decider) precedence(share *plan.Share) float64 {
	if d.set.Order == OwedOrder {
		return d.set.Lead.Owed(share.Owed, share.Run)
	}
	return share.Priority
}

// separates tells whether one job's precedence lies above another's by at least a
// limit.
func (o Order) separates(first, other, limit float64) bool {
	if o == OwedOrder {
		return first-other >= (limit-1)*owedUnit
	}
	return first >= limit*other && first > other
}

// maxShareSteps is the most steps that BE jobs get: twice as many as jobs need that
// were all allocated and received something, and whose priorities differ by a factor of
// a million.
const maxShareSteps = 128

// shareSteps is how many of the band's lowest steps are for the order by shares.
func (d *decider) shareSteps() int64 {
	if !d.set.Order.byShares() || d.set.Shares == nil {
		return 0
	}
	return min(maxShareSteps, int64(d.plan.Band.Capacity()/4))
}

// lowestAbove is the lowest value above the order by shares.
func (d *decider) lowestAbove() int64 { return d.plan.Band.Lo + d.shareSteps()*d.plan.Band.Step }

// valueByShare gives the BE jobs that the allocation counts values in the order of
// their precedence. It returns the indices of their verdicts, first to last, and which
// verdicts these are. Jobs on the lowest step may keep Slurm's own value, which takes
// no write.
func (d *decider) valueByShare(verdicts []Verdict) (order []int, placed []bool) {
	n := d.shareSteps()
	if n == 0 {
		return nil, nil
	}
	type job struct {
		at       int
		priority float64
		held     int64
		known    bool
		wrote    bool // priod wrote a value, even Slurm's own
	}
	b := d.plan.Band
	floor := b.Lo - b.Step // stands for 0, Slurm's own value
	var jobs []job
	for i := range verdicts {
		v := &verdicts[i]
		j := &d.s.Jobs[v.Job]
		share := d.set.Shares.Jobs[j.ID]
		if !v.Ranked || v.Class != cluster.BE || v.Why == plan.Evicted || v.Why == plan.Round || share == nil || d.isForeign(j) {
			continue
		}
		p := job{at: i, priority: d.precedence(share)}
		if p.held, p.known = d.lever.now(j, d.h); p.held == 0 {
			p.held = floor
		}
		_, p.wrote = d.h.Written[j.ID]
		jobs = append(jobs, p)
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.priority, a.priority) })
	var tiers []plan.Tier
	var tierOf []int // of each job
	head := 0
	for i, p := range jobs {
		first := jobs[head]
		limit := reorderAt
		switch {
		case p.held < first.held:
			limit = keepApartAt
		case p.held == first.held && (p.held > floor || p.wrote && first.wrote):
			limit = splitAt
		}
		if i == 0 || d.set.Order.separates(first.priority, p.priority, limit) {
			tiers, head = append(tiers, nil), i
		}
		tierOf = append(tierOf, len(tiers)-1)
		if p.known {
			tiers[len(tiers)-1] = append(tiers[len(tiers)-1], p.held)
		}
	}
	if most := int(n+1) / 2; len(tiers) > most {
		d.plan.Notes = append(d.plan.Notes, fmt.Sprintf("the order by allocation has %d steps and the band holds %d for it: those behind share the lowest (priod check says how to widen it)", len(tiers), most))
		for _, t := range tiers[most:] {
			tiers[most-1] = append(tiers[most-1], t...)
		}
		tiers = tiers[:most]
	}
	values, renumbered := plan.Arrange(tiers, plan.Band{Lo: floor, Hi: floor + n*b.Step, Step: b.Step})
	d.plan.Renumbered += renumbered
	order, placed = make([]int, len(jobs)), make([]bool, len(verdicts))
	for i, p := range jobs {
		order[i], placed[p.at] = p.at, true
		if v := values[min(tierOf[i], len(tiers)-1)]; v != floor {
			d.plan.Decisions[p.at].Value = v
		}
	}
	return order, placed
}
