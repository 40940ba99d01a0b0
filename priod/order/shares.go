package order

import (
	"cmp"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Jobs share a step, and keep Slurm's own order inside it, until the first is owed so many seconds more than
// another on its fastest type. Which limit holds depends on the values that they have now, so that little is
// written when what they are owed moves.
const (
	splitAt     = 300 // priod gave both the same value
	reorderAt   = 150 // priod has given them no values yet, or the wrong one is above
	keepApartAt = 60  // the right one is above
)

// maxShareSteps is the most steps that BE jobs get.
const maxShareSteps = 128

// shareSteps is how many of the band's lowest steps are for the order by shares.
func (d *decider) shareSteps() int64 {
	if d.set.Order != OwedOrder || d.set.Shares == nil {
		return 0
	}
	return min(maxShareSteps, int64(d.plan.Band.Capacity()/4))
}

// lowestAbove is the lowest value above the order by shares.
func (d *decider) lowestAbove() int64 { return d.plan.Band.Lo + d.shareSteps()*d.plan.Band.Step }

// shareJob is a BE job that the allocation counts.
type shareJob struct {
	verdict    int     // its index
	precedence float64 // s that it is owed, and its lead
	rises      float64 // by so much in a second while the job waits; see rise
	held       int64   // the value that it holds
	known      bool    // whether that is known
	wrote      bool    // priod wrote a value, even Slurm's own
}

// jobsByShare returns the BE jobs that the allocation counts, in the order of their
// precedence. floor stands for Slurm's own value.
func (d *decider) jobsByShare(verdicts []Verdict, floor int64) []shareJob {
	type key struct { // small, because all are moved about
		precedence, rises float64
		verdict           int
	}
	keys := make([]key, 0, len(verdicts))
	for i := range verdicts {
		v := &verdicts[i]
		j := &d.s.Jobs[v.Job]
		share := d.set.Shares.Of(j, v.Job)
		if !v.Ranked || v.Class != cluster.BE || v.Why == plan.Evicted || v.Why == plan.InShare || v.Why == plan.Round || share == nil || d.held[i].Foreign {
			continue
		}
		keys = append(keys, key{d.set.Lead.Owed(share.Owed, share.Run), rise(share), i})
	}
	slices.SortFunc(keys, func(a, b key) int {
		if c := cmp.Compare(b.precedence, a.precedence); c != 0 {
			return c
		}
		return cmp.Compare(a.verdict, b.verdict)
	})
	jobs := make([]shareJob, len(keys))
	for k, key := range keys {
		x := &d.held[key.verdict]
		p := shareJob{verdict: key.verdict, precedence: key.precedence, rises: key.rises, held: x.Value, known: x.Known, wrote: x.Wrote}
		if p.held == 0 {
			p.held = floor
		}
		jobs[k] = p
	}
	return jobs
}

// shareTiers groups jobs that share a step. It returns the values that each tier's jobs
// hold, and each job's tier.
func (d *decider) shareTiers(jobs []shareJob, floor int64) (tiers []plan.Tier, tierOf []int) {
	head := 0
	for i := range jobs {
		first, p := &jobs[head], &jobs[i]
		if i == 0 || first.precedence-p.precedence >= first.limit(p, floor) {
			tiers, head = append(tiers, nil), i
		}
		tierOf = append(tierOf, len(tiers)-1)
		if p.known {
			tiers[len(tiers)-1] = append(tiers[len(tiers)-1], p.held)
		}
	}
	return tiers, tierOf
}

// limit is what has to lie between a tier's first job and another for that to begin the
// next tier.
func (first *shareJob) limit(p *shareJob, floor int64) float64 {
	switch {
	case p.held < first.held:
		return keepApartAt
	case p.held == first.held && (p.held > floor || p.wrote && first.wrote):
		return splitAt
	}
	return reorderAt
}

// valueByShare gives the BE jobs that the allocation counts values in the order of
// their precedence. It returns the indices of their verdicts, first to last, and which
// verdicts these are. Jobs on the lowest step may keep Slurm's own value, which takes
// no write.
func (d *decider) valueByShare(verdicts []Verdict) (order []int, placed []bool) {
	n := d.shareSteps()
	if n == 0 {
		return nil, nil
	}
	b := d.plan.Band
	floor := b.Lo - b.Step // stands for 0, Slurm's own value
	jobs := d.jobsByShare(verdicts, floor)
	tiers, tierOf := d.shareTiers(jobs, floor)
	d.plan.Stands(d.tiersStand(jobs, tierOf, floor))
	// How many more changes with the time, and the note with each cycle would be a row of its own.
	if most := int(n+1) / 2; len(tiers) > most {
		d.plan.Note(plan.ShareSteps, 1, "the order by allocation needs more ranks than the %d that the band has for it: the rest share the lowest (priod check says how to widen it)", most)
		for _, t := range tiers[most:] {
			tiers[most-1] = append(tiers[most-1], t...)
		}
		tiers = tiers[:most]
	}
	values, renumbered := plan.Arrange(tiers, plan.Band{Lo: floor, Hi: floor + n*b.Step, Step: b.Step})
	d.plan.Renumbered += renumbered
	order, placed = make([]int, len(jobs)), make([]bool, len(verdicts))
	for i, p := range jobs {
		order[i], placed[p.verdict] = p.verdict, true
		if v := values[min(tierOf[i], len(tiers)-1)]; v != floor {
			d.plan.Decisions[p.verdict].Value = v
		}
	}
	return order, placed
}
