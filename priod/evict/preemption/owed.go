package preemption

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// turns is the end of a round (Gavel, OSDI 2020, section 5): running jobs that have had more than their allocation promised them yield to
// claimants that are owed it, as far as that pays. On Gavel's own cluster a move is nearly free; on Slurm a job that leaves writes a
// checkpoint, waits in the queue and starts again, so most moves do not pay and are not made.
type turns struct {
	*Snapshot
	set     *Settings
	free    *placement.Nodes    // beside what is decided so far
	first   []placement.Request // Snapshot.First without those that fit
	may     []int               // candidates that may yield, the one that has had most first
	refused Why                 // the limit that refused a claimant; those after it, which count on its room, it refuses too
}

func newTurns(s *Snapshot, set *Settings, standing []Why) *turns {
	t := &turns{Snapshot: s, set: set, free: s.Nodes.Clone()}
	for i := range s.Candidates {
		switch c := &s.Candidates[i]; {
		case c.Leaving:
			t.free.Release(c.Shares)
		case standing[i] == Allowed:
			t.may = append(t.may, i)
		}
	}
	slices.SortStableFunc(t.may, func(a, b int) int { return cmp.Compare(s.Candidates[a].Owed, s.Candidates[b].Owed) })
	for _, claim := range s.Claims {
		t.free.Take(claim.Shares)
	}
	t.first = slices.DeleteFunc(slices.Clone(s.First), func(r placement.Request) bool { return take(t.free, r) != nil })
	return t
}

// take takes a place from what is free; nil where there is none.
func take(free *placement.Nodes, r placement.Request) []placement.Share {
	shares, fits := free.Fit(r, nil)
	if !fits {
		return nil
	}
	free.Take(shares)
	return slices.Clone(shares)
}

func (t *turns) choosePlace(c *Claimant) Verdict {
	if shares := take(t.free, c.Request); shares != nil || c.Start <= t.set.Round {
		return Verdict{Why: Soon, Shares: shares}
	}
	verdict := t.victimsFor(c)
	if verdict.Why != Evicts {
		return verdict
	}
	for _, i := range verdict.Victims {
		t.free.Release(t.Candidates[i].Shares)
		verdict.Cost += t.Candidates[i].Loss()
		verdict.Grace = max(verdict.Grace, t.Candidates[i].Grace)
	}
	t.may = slices.DeleteFunc(t.may, func(i int) bool { return slices.Contains(verdict.Victims, i) })
	verdict.Shares = take(t.free, c.Request)
	if t.refused != "" {
		return Verdict{Why: t.refused}
	}
	return verdict
}

func (t *turns) within(_ *Ledger, _ *Claimant, _ *Verdict, why Why) Verdict {
	t.refused = why
	return Verdict{Why: why}
}

// victimsFor finds the victims for a claimant that does not fit: the running jobs that have had most beyond their due,
// until it fits, without those that are not needed for that. It finds none where the move would not pay. No job yields to one
// that has as many GPU-seconds of work left, or more: the least work first has the least mean completion (Smith, Various
// optimizers for single-stage production, 1956), and no two jobs move to and fro.
func (t *turns) victimsFor(c *Claimant) Verdict {
	view := t.free.Clone()
	var victims []int
	why, fits := Impossible, false
	for _, i := range t.may {
		r := &t.Candidates[i]
		if !c.Request.Types.Has(t.Nodes.Type(r.Shares[0].Node)) {
			continue
		}
		if float64(r.gpus())*r.Remaining <= float64(c.Request.GPUs)*c.Left {
			why = NoGain
			continue
		}
		if c.Owed <= r.Owed {
			why = NotOwed
			break
		}
		victims = append(victims, i)
		view.Release(r.Shares)
		if _, fits = view.Fit(c.Request, nil); fits {
			break
		}
	}
	if !fits {
		return Verdict{Why: why}
	}
	for k := len(victims) - 2; k >= 0; k-- { // the last one made room
		shares := t.Candidates[victims[k]].Shares
		view.Take(shares)
		if _, still := view.Fit(c.Request, nil); still {
			victims = slices.Delete(victims, k, k+1)
			continue
		}
		view.Release(shares)
	}
	loss, least := 0.0, math.Inf(1)
	for _, i := range victims {
		least = min(least, c.Owed-t.Candidates[i].Owed)
		loss += t.Candidates[i].Loss()
	}
	// Until its turn is over, it is done, or it would have started anyway.
	if gain := float64(c.Request.GPUs) * min(least, c.Left, c.Start); gain < t.set.Pay*loss || least < t.set.Round {
		return Verdict{Why: NoGain}
	}
	for _, r := range t.first {
		take(view, r)
	}
	if _, fits = view.Fit(c.Request, nil); !fits {
		return Verdict{Why: Behind}
	}
	slices.Sort(victims)
	return Verdict{Why: Evicts, Victims: victims}
}
