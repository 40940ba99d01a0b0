// Package yield says, at the end of a round, which running jobs give their
// GPUs to pending ones: those that have had more than their allocation promised
// them to those that are owed (the rounds of Gavel, OSDI 2020, section 5), as far
// as that pays. On Gavel's own cluster a move is nearly free; on Slurm a job that
// leaves writes a checkpoint, waits in the queue and starts again, so most
// moves do not pay and are not made.
//
// It is pure: a snapshot and settings in, a decision with its reasons out.
package yield

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
)

// Settings of rounds.
type Settings struct {
	Round float64 // s between two decisions; a job runs at least so long before it yields
	// Pay is how many GPU-seconds the one that is owed has to gain for each that
	// the move loses.
	Pay    float64
	Lead   plan.Lead
	AtOnce int // jobs that yield at the end of one round; 0: no limit
}

// Defaults are the settings of a site that has measured nothing else.
var Defaults = Settings{Round: 1800, Pay: 20, Lead: plan.Lead{Most: 24 * 3600, Half: 10 * 3600}}

// Check refuses settings that mean nothing.
func (set *Settings) Check() error {
	number := func(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
	switch {
	case !(set.Round > 0) || math.IsInf(set.Round, 1):
		return fmt.Errorf("rounds of %v s: want a positive time", set.Round)
	case !number(set.Pay) || !number(set.Lead.Most) || !number(set.Lead.Half) || set.AtOnce < 0:
		return errors.New("weights and limits of rounds are numbers from 0")
	case set.Lead.Most > 0 && set.Lead.Half == 0:
		return errors.New("a lead wants the run time with which half of it is given")
	}
	return nil
}

// Snapshot is what is decided on. Times are in seconds from now.
type Snapshot struct {
	Nodes   *placement.Nodes // what is free now; it is not changed
	Running []Running
	Waiting []Waiting // in the order of the queue
	// First wait before all of Waiting and get no job to leave, in their order: they
	// take what is or becomes free and fits them.
	First []placement.Request
}

// Running is a job that holds GPUs of one type of nodes.
type Running struct {
	Shares  []placement.Share
	Consent bool // best effort, and its tag allows eviction
	Leaving bool // signalled earlier
	Owed    float64
	Elapsed float64 // since its start
	Left    float64 // until its end
	Cost    float64 // s of its GPUs that leaving and starting again lose
}

// Waiting is a pending job.
type Waiting struct {
	Request placement.Request // with the types of nodes that have the GPUs that it is steered to
	Owed    float64
	Start   float64 // when it starts there if none yields
	Run     float64 // how long it runs there
}

// Why says in one word what becomes of a job.
type Why string

// The words: first of those that wait, then of those that run.
const (
	Gets     Why = "gets"       // others yield to it
	Soon     Why = "soon"       // starts by itself within the round
	NotOwed  Why = "not-owed"   // no running job of its type has had so much more of its due
	NoGain   Why = "no-gain"    // what it would gain does not pay for the move
	NoneLeft Why = "no-victims" // those that may yield are too few or too small
	Limit    Why = "limit"      // Settings.AtOnce
	Behind   Why = "behind"     // those of Snapshot.First would take the place

	Yields    Why = "yields"
	Stays     Why = "stays"      // no job is owed enough
	NoConsent Why = "no-consent" // may not be evicted
	Leaving   Why = "leaving"
	Young     Why = "just-started" // within its first round
	Ending    Why = "nearly-done"  // ends before it would have paid to leave
)

// Decision has a word for each job.
type Decision struct {
	Waiting []Why
	Running []Why
	For     []int               // by running job: index into Snapshot.Waiting of the one that it yields to; -1
	Shares  [][]placement.Share // by waiting job: where it runs then; nil for those that do not get
}

// Decide goes through the waiting jobs, the one that is owed most first.
func Decide(s *Snapshot, set Settings) Decision {
	d := Decision{
		Waiting: make([]Why, len(s.Waiting)), Running: make([]Why, len(s.Running)), For: make([]int, len(s.Running)),
		Shares: make([][]placement.Share, len(s.Waiting)),
	}
	var may []int // yield, the one that has had most first
	for i := range s.Running {
		r := &s.Running[i]
		d.For[i], d.Running[i] = -1, r.standing(&set)
		if d.Running[i] == Stays {
			may = append(may, i)
		}
	}
	slices.SortStableFunc(may, func(a, b int) int { return cmp.Compare(s.Running[a].Owed, s.Running[b].Owed) })
	order := make([]int, len(s.Waiting))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Waiting[b].Owed, s.Waiting[a].Owed) })
	free, yielding := s.Nodes.Clone(), 0
	first := slices.DeleteFunc(slices.Clone(s.First), func(r placement.Request) bool { return placeIfFits(free, r) })
	for _, i := range order {
		w := &s.Waiting[i]
		if placeIfFits(free, w.Request) || w.Start <= set.Round {
			d.Waiting[i] = Soon
			continue
		}
		victims, why := victimsFor(s, &set, free, first, w, may)
		if why == Gets && set.AtOnce > 0 && yielding+len(victims) > set.AtOnce {
			why = Limit
		}
		d.Waiting[i] = why
		if why != Gets {
			continue
		}
		for _, v := range victims {
			d.Running[v], d.For[v] = Yields, i
			free.Release(s.Running[v].Shares)
			may = slices.DeleteFunc(may, func(x int) bool { return x == v })
		}
		yielding += len(victims)
		shares, _ := free.Fit(w.Request, nil)
		d.Shares[i] = slices.Clone(shares)
		free.Take(shares)
	}
	return d
}

func (r *Running) standing(set *Settings) Why {
	switch {
	case !r.Consent:
		return NoConsent
	case r.Leaving:
		return Leaving
	case r.Elapsed < set.Round:
		return Young
	case r.Left <= max(set.Round, set.Pay*r.Cost):
		return Ending
	}
	return Stays
}

// placeIfFits takes a job's place from what is free, if it fits.
func placeIfFits(free *placement.Nodes, r placement.Request) bool {
	shares, fits := free.Fit(r, nil)
	if fits {
		free.Take(shares)
	}
	return fits
}

// victimsFor finds the victims for one waiting job that does not fit: the running jobs
// that have had most beyond their due, until it fits, without those that are not needed
// for that. It returns none where the move would not pay.
func victimsFor(s *Snapshot, set *Settings, free *placement.Nodes, first []placement.Request, w *Waiting, list []int) ([]int, Why) {
	view := free.Clone()
	var victims []int
	why, fits := NoneLeft, false
	for _, v := range list {
		r := &s.Running[v]
		if !w.Request.Types.Has(s.Nodes.Type(r.Shares[0].Node)) {
			continue
		}
		if w.Owed <= r.Owed {
			why = NotOwed
			break
		}
		victims = append(victims, v)
		view.Release(r.Shares)
		if _, fits = view.Fit(w.Request, nil); fits {
			break
		}
	}
	if !fits {
		return nil, why
	}
	for k := len(victims) - 2; k >= 0; k-- { // the last one made room
		shares := s.Running[victims[k]].Shares
		view.Take(shares)
		if _, still := view.Fit(w.Request, nil); still {
			victims = slices.Delete(victims, k, k+1)
			continue
		}
		view.Release(shares)
	}
	gain, loss := 0.0, 0.0
	least := math.Inf(1)
	for _, v := range victims {
		r := &s.Running[v]
		least = min(least, w.Owed-r.Owed)
		loss += float64(gpus(r.Shares)) * r.Cost
	}
	// Until its turn is over, it is done, or it would have started anyway.
	gain = float64(w.Request.GPUs) * min(least, w.Run, w.Start)
	if gain < set.Pay*loss || least < set.Round {
		return nil, NoGain
	}
	for _, r := range first {
		placeIfFits(view, r)
	}
	if _, fits = view.Fit(w.Request, nil); !fits {
		return nil, Behind
	}
	return victims, Gets
}

func gpus(shares []placement.Share) (n int32) {
	for _, s := range shares {
		n += s.GPUs
	}
	return n
}
