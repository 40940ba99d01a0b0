// Package preemption is the search for room: which running best-effort (BE) jobs leave for which waiting job, the
// claimant. A trial-and-error (TE) job and a gang get the set of jobs that loses the least GPU time, or a TE job what
// FitGpp chooses (Yabuuchi et al., OpML 2019); a job that is owed GPUs at the end of a round, those of the jobs that
// have had most.
//
// It is pure: a snapshot and settings in, a decision with its reasons out. What was
// decided before comes back in as claims and as jobs that are leaving, so that no
// claimant costs two evictions, and no two get the same place.
//
// Files: preemption.go has what goes in and out, and the loop over the claimants;
// ledger.go the limits; choose.go least loss and FitGpp; view.go the cluster as it will
// be; sets.go the search for the cheapest set of victims on one node; owed.go the end of
// a round.
package preemption

import (
	"slices"

	"slurmprio/priod/placement"
)

// Policy is how victims are chosen.
type Policy string

// The policies.
const (
	FitGpp    Policy = "fitgpp"     // the one with the least score whose leaving makes the claimant fit
	LeastLoss Policy = "least-loss" // the set whose leaving loses the least GPU time
	MostHad   Policy = "most-had"   // those that have had most beyond what they are owed, until the claimant fits
)

// Settings are the policy and its limits. Times are in seconds.
type Settings struct {
	Policy Policy
	S      float64 // FitGpp's weight of the grace period against the size

	MaxEvictions int     // of one job in its life: FitGpp's P; 0: no limit
	MinRun       float64 // a job runs so long after each start before it may be evicted

	// Of LeastLoss.
	Rise    float64 // a job evicted n times costs 1 + n x Rise times its loss
	Long    float64 // a job of a shorter time limit, s, costs as many times its loss as that is shorter: the same delay is more of its time; 0: none does
	Each    float64 // each eviction costs so many GPU-seconds beside the work that it loses
	Young   float64 // a job costs so many seconds, less those that it has run, more than its loss
	Urgency float64 // a second of waiting of one GPU of the TE job is worth so many GPU-seconds lost; 0: any loss, and none for less wait
	RunCost float64 // a second of one GPU of the TE job's run on a GPU type is worth so many GPU-seconds lost; 0: all types are alike to it
	MinGain float64 // the TE job must start so much sooner than without: shadow times move

	// Of LeastLoss, for claimants that are Due.
	Spare float64 // each GPU of the victims costs so many GPU-seconds more: more than are asked for are not taken for less loss
	Left  float64 // each GPU of a node that is left for others to have costs so much of that: large jobs want whole nodes

	// Of MostHad.
	Round float64 // from one end to the next; a job runs at least so long before it yields
	Pay   float64 // the claimant has to gain so many GPU-seconds for each that the move loses

	Limits Limits
}

// Snapshot is what the policy decides on.
type Snapshot struct {
	Nodes      *placement.Nodes    // what is free now; it is not changed
	Candidates []Candidate         // the running BE jobs
	Claimants  []Claimant          // the waiting jobs, in order of priority
	Claims     []Claim             // of earlier decisions, still waiting for their room
	First      []placement.Request // of MostHad: they wait before all claimants and get no job to leave, in their order
	PastHour   int                 // evictions
	PastDay    float64             // GPU-hours lost by evictions
	PastOwner  map[string]float64  // of these, for the claimants of each owner
}

// Candidate is a running BE job. Times are in seconds.
type Candidate struct {
	Shares    []placement.Share // on several nodes for a gang, which leaves as a whole
	Stays     Why               // why it leaves for no claimant; "": it may leave
	Leaving   bool              // evicted: in its grace period, or about to be told
	Borrows   bool              // it holds GPUs that are guaranteed to others: Settings.MaxEvictions does not count
	Idle      bool              // it holds its GPUs and does not work: it leaves first
	Evicted   int               // times, in its life
	Elapsed   float64           // since its start
	Remaining float64           // until its end, as expected
	Grace     float64           // that it takes to leave, as learned
	Unsaved   float64           // work since its last checkpoint, 0 when it saves its state within its grace
	Restart   float64           // what starting again costs
	Owed      float64           // to the job, by its allocation
}

// Claimant is a waiting job that asks for room; the zero value asks for none. Times are in seconds.
type Claimant struct {
	Request placement.Request
	// Alike are the sets of types of which a place on several nodes is made, each of one GPU type and partition; none:
	// nodes of all types go together.
	Alike []placement.Types
	// Price is how many times the share of its user or account its start uses, at least 1: a second of its wait is worth so
	// much less, and no more than an hour of a wait counts from 1 on. 0 is 1.
	Price float64
	// Due has any loss pay, whatever its Price, and whatever was lost within a day: the GPUs are guaranteed to its account.
	Due    bool
	Waited float64 // of one that is Due, since when
	Likely float64 // it waits for a start that is likely sooner, though none is known: view.orLikely; 0: it does not
	Limit  float64 // it holds its place at most so long
	// Spreads: it may lie on any number of nodes. Where no node has room for all of it, room is made in parts.
	Spreads bool
	Owner   string // whose part of Limits.UserGPUMinutesPerDay counts; "": none
	// Start is when it would start without evictions, s from now; infinite: not known to come.
	Start float64
	// Run is how long the claimant would run on each kind of node, infinite where it cannot run; nil: unknown,
	// assumed equal. StartsOn is the kind on which it would start at Start.
	Run      []float64
	StartsOn int32

	Owed float64 // of MostHad: to the job, by its allocation
	Left float64 // of MostHad: how long it runs where it waits
}

// Claim is room that belongs to a waiting job: the candidates on it are leaving.
type Claim struct {
	Of     int // index into Snapshot.Claimants; below 0: of none of them
	Shares []placement.Share
	Ready  float64 // when its victims have left, s from now, as expected
}

// Why says in one word what became of a claimant, or why a candidate stays.
type Why string

// The words. The first two groups are about claimants, the last about candidates.
const (
	Evicts     Why = "evicts"          // the victims make room
	Claimed    Why = "claimed"         // has room that is being made
	Fits       Why = "fits"            // in what is free or being freed
	Anyway     Why = "starts-anyway"   // before any victim would have left
	Impossible Why = "no-victims"      // no allowed set of victims makes room
	CannotRun  Why = "cannot-run"      // it runs on no kind of node that it may have: Claimant.Run
	Gang       Why = "gang"            // over several nodes: only LeastLoss makes room for those
	GraceGPUs  Why = "limit-grace"     // Limits.GraceGPUs
	PerHour    Why = "limit-per-hour"  // Limits.MaxPerHour
	PerDay     Why = "limit-per-day"   // Limits.GPUHoursPerDay
	PerOwner   Why = "limit-per-owner" // Limits.UserGPUMinutesPerDay

	Soon    Why = "soon"     // of MostHad: it starts by itself within the round
	NotOwed Why = "not-owed" // no running job of its type has had so much more of its due
	NoGain  Why = "no-gain"  // what it would gain does not pay for the move
	Behind  Why = "behind"   // those of Snapshot.First would take the place

	Allowed   Why = "allowed" // may be evicted
	Victim    Why = "victim"
	NoConsent Why = "no-consent"
	IsLeaving Why = "leaving"
	Capped    Why = "evicted-often" // Settings.MaxEvictions
	Young     Why = "just-started"  // Settings.MinRun or Round
	Ending    Why = "nearly-done"   // it ends before it would have paid to leave
	WrongType Why = "other-gpu-type"
	Late      Why = "too-late" // the TE job starts anyway before this job would have left
	NoRoom    Why = "no-room"  // all of its node's candidates together do not make room
	Dearer    Why = "dearer"   // others cost less
)

// Verdict is what is decided for one claimant.
type Verdict struct {
	Why     Why
	Victims []int             // indices into Snapshot.Candidates, rising
	Shares  []placement.Share // where it will start; nil when it has to wait
	Cost    float64           // GPU-seconds; of FitGpp: the sum of scores
	Grace   float64           // s until the last victim has left
}

// Decision has a verdict for each claimant and a standing for each candidate.
type Decision struct {
	Verdicts []Verdict
	Standing []Why // Allowed, or why it may leave for no claimant at all
}

// search is a policy at work on a snapshot.
type search interface {
	// choosePlace chooses the victims for a claimant and gives it their room.
	choosePlace(*Claimant) Verdict
	// within chooses again for a claimant whose victims a limit refuses: a set within that limit, or none.
	within(*Ledger, *Claimant, *Verdict, Why) Verdict
}

// Decide chooses the victims for each claimant in order.
func Decide(s *Snapshot, set Settings) Decision {
	d := Decision{Verdicts: make([]Verdict, len(s.Claimants)), Standing: make([]Why, len(s.Candidates))}
	for i := range s.Candidates {
		d.Standing[i] = standing(&s.Candidates[i], &set)
	}
	var by search
	if set.Policy == MostHad {
		by = newTurns(s, &set, d.Standing)
	} else {
		by = newView(s, &set, d.Standing)
	}
	for _, c := range s.Claims {
		if c.Of >= 0 {
			d.Verdicts[c.Of] = Verdict{Why: Claimed, Shares: c.Shares}
		}
	}
	ledger := NewLedger(s, set.Limits)
	for i := range s.Claimants {
		verdict, t := &d.Verdicts[i], &s.Claimants[i]
		if verdict.Why == Claimed || t.Request.GPUs == 0 {
			continue
		}
		*verdict = by.choosePlace(t)
		if verdict.Why != Evicts {
			continue
		}
		if why := ledger.Refuses(s, t, verdict.Victims); why != "" {
			*verdict = by.within(ledger, t, verdict, why)
		}
	}
	return d
}

func standing(c *Candidate, set *Settings) Why {
	switch {
	case c.Stays != "":
		return c.Stays
	case c.Leaving:
		return IsLeaving
	case set.MaxEvictions > 0 && c.Evicted >= set.MaxEvictions && !c.Borrows:
		return Capped
	case c.Elapsed < set.MinRun, set.Policy == MostHad && c.Elapsed < set.Round:
		return Young
	case set.Policy == MostHad && c.Remaining <= max(set.Round, set.Pay*c.away()):
		return Ending
	}
	return Allowed
}

// Loss is the GPU-seconds that evicting the job loses; at least one second of each GPU, so that no job is evicted for nothing.
func (c *Candidate) Loss() float64 { return float64(c.gpus()) * c.away() }

// away is what each of its GPUs loses, s.
func (c *Candidate) away() float64 { return max(c.Unsaved+c.Grace+c.Restart, 1) }

func (c *Candidate) gpus() (n int32) {
	for _, s := range c.Shares {
		n += s.GPUs
	}
	return n
}

// Refusals says of each candidate why it does not leave for one claimant. The decision keeps only what holds for all claimants; the rest
// follows from the snapshot and the verdict.
func (d *Decision) Refusals(s *Snapshot, set Settings, claimant int) []Why {
	t, verdict := &s.Claimants[claimant], &d.Verdicts[claimant]
	v := newView(s, &set, d.Standing)
	gpus := pieces(s.Nodes, t.Request)
	smallest := gpus[len(gpus)-1]
	all := slices.Clone(d.Standing)
	for i, why := range all {
		c := &s.Candidates[i]
		helps := slices.ContainsFunc(c.Shares, func(share placement.Share) bool {
			p := &v.places[share.Node]
			return p.room.Plus(p.most).Holds(v.Nodes.Need(t.Request, smallest, share.Node))
		})
		switch {
		case slices.Contains(verdict.Victims, i):
			all[i] = Victim
		case why != Allowed:
		case !t.Request.Types.Has(s.Nodes.Type(c.Shares[0].Node)):
			all[i] = WrongType
		case set.Policy == LeastLoss && set.late(c, t):
			all[i] = Late
		case !helps:
			all[i] = NoRoom
		default:
			all[i] = Dearer
		}
	}
	return all
}

// late reports whether the claimant would start anyway before the candidate has left.
func (set *Settings) late(c *Candidate, t *Claimant) bool { return c.Grace+set.MinGain >= t.Start }
