// Package preemption says which best-effort (BE) jobs leave for which waiting
// trial-and-error (TE) job: by FitGpp (Yabuuchi et al., OpML 2019) or by LeastLoss,
// which evicts the set of jobs that loses the least GPU time.
//
// It is pure: a snapshot and settings in, a decision with its reasons out. What was
// decided before comes back in as claims and as jobs that are leaving, so that no TE
// job costs two evictions, and no two TE jobs get the same place.
//
// Files: preemption.go has what goes in and out, and the limits; choose.go the
// policies; view.go the cluster as it will be; sets.go the search for the cheapest set
// of victims on one node.
package preemption

import (
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// Policy is how victims are chosen.
type Policy string

// The policies.
const (
	FitGpp    Policy = "fitgpp"     // the one with the least score whose leaving makes the TE job fit
	LeastLoss Policy = "least-loss" // the set whose leaving loses the least GPU time
)

// Fallback is what FitGpp does when no single victim makes room; the paper
// leaves it open.
type Fallback string

// The fallbacks.
const (
	FallNode Fallback = "node-set" // the set on one node with the least sum of scores
	FallNone Fallback = "none"     // the TE job waits
)

// Settings are the policy and its limits. Times are in seconds.
type Settings struct {
	Policy   Policy
	S        float64  // FitGpp's weight of the grace period against the size
	Fallback Fallback // of FitGpp

	MaxEvictions int     // of one job in its life: FitGpp's P; 0: no limit
	MinRun       float64 // a job runs so long after each start before it may be evicted

	// Of LeastLoss.
	Rise    float64 // a job evicted n times costs 1 + n x Rise times its loss
	Each    float64 // each eviction costs so many GPU-seconds beside the work that it loses
	Young   float64 // a job costs so many seconds, less those that it has run, more than its loss
	Urgency float64 // a second of waiting of one GPU of the TE job is worth so many GPU-seconds lost; 0: any loss, and none for less wait
	RunCost float64 // a second of one GPU of the TE job's run on a GPU type is worth so many GPU-seconds lost; 0: all types are alike to it
	MinGain float64 // the TE job must start so much sooner than without: shadow times move

	Limits Limits
}

// Limits stand between a bug and the cluster; a zero field limits nothing.
type Limits struct {
	MaxAtOnce            int     // victims in their grace period
	GraceGPUs            int     // that victims hold in their grace period; a set passes alone, however large
	MaxPerCycle          int     // signals of one cycle; a larger set of victims is told over several
	MaxPerHour           int     // evictions of the past hour
	GPUHoursPerDay       float64 // GPU-hours lost in the past day
	UserGPUMinutesPerDay float64 // lost for the TE jobs of one owner in the past day: then no more for them
}

// Snapshot is what the policy decides on.
type Snapshot struct {
	Nodes      *placement.Nodes // what is free now; it is not changed
	Candidates []Candidate      // the running BE jobs
	Trials     []Trial          // the waiting TE jobs, in order
	Claims     []Claim          // of earlier decisions, still waiting for their room
	PastHour   int              // evictions
	PastDay    float64          // GPU-hours lost by evictions
	PastOwner  []float64        // of these, for the TE jobs of each owner
}

// Candidate is a running BE job. Times are in seconds.
type Candidate struct {
	Shares    []placement.Share // on several nodes for a gang, which leaves as a whole
	Consent   bool
	Leaving   bool    // evicted: in its grace period, or about to be told
	Untold    bool    // Leaving, and its signal is still to be sent
	Evicted   int     // times, in its life
	Elapsed   float64 // since its start
	Remaining float64 // until its end, as expected
	Grace     float64 // that it takes to leave, as learned
	Unsaved   float64 // work since its last checkpoint, 0 when it saves its state within its grace
	Restart   float64 // what starting again costs
}

// Trial is a waiting TE job.
type Trial struct {
	Request placement.Request
	// Alike are the sets of types of which a place on several nodes is made, each of one GPU type and partition; none:
	// nodes of all types go together.
	Alike []placement.Types
	// Price is how many times the share of its user or account its start uses, at least 1: a second of its wait is worth so
	// much less, and no more than an hour of a wait counts from 1 on. 0 is 1.
	Price float64
	// Due has any loss pay: the GPUs are guaranteed to its account. Price does not count.
	Due   bool
	Owner int // index into Snapshot.PastOwner, when Limits.UserGPUMinutesPerDay is set
	// Start is the time, s from now, at which it would start without evictions
	// (placement.Nodes.Shadow); infinite when that is not known to come.
	Start float64
	// Run is how long the trial would run on each kind of node, s, infinite where it cannot run; nil: unknown,
	// assumed equal. StartsOn
	// is the kind on which it would start at Start.
	Run      []float64
	StartsOn int32
}

// Claim is room that belongs to a TE job: the candidates on it are leaving.
type Claim struct {
	Trial  int // index into Snapshot.Trials
	Shares []placement.Share
}

// Why says in one word what became of a TE job, or why a candidate stays.
type Why string

// The words. The first group is about TE jobs, the second about candidates.
const (
	Evicts     Why = "evicts"          // the victims make room
	Claimed    Why = "claimed"         // has room that is being made
	Fits       Why = "fits"            // in what is free or being freed
	Anyway     Why = "starts-anyway"   // before any victim would have left
	Impossible Why = "no-victims"      // no allowed set of victims makes room
	CannotRun  Why = "cannot-run"      // it runs on no kind of node that it may have: Trial.Run
	Gang       Why = "gang"            // over several nodes: only LeastLoss makes room for those
	AtOnce     Why = "limit-at-once"   // Limits.MaxAtOnce
	GraceGPUs  Why = "limit-grace"     // Limits.GraceGPUs
	PerCycle   Why = "limit-per-cycle" // Limits.MaxPerCycle
	PerHour    Why = "limit-per-hour"  // Limits.MaxPerHour
	PerDay     Why = "limit-per-day"   // Limits.GPUHoursPerDay
	PerOwner   Why = "limit-per-owner" // Limits.UserGPUMinutesPerDay

	Allowed   Why = "allowed" // may be evicted
	Victim    Why = "victim"
	NoConsent Why = "no-consent"
	IsLeaving Why = "leaving"
	Capped    Why = "evicted-often" // Settings.MaxEvictions
	Young     Why = "just-started"  // Settings.MinRun
	WrongType Why = "other-gpu-type"
	Late      Why = "too-late" // the TE job starts anyway before this job would have left
	NoRoom    Why = "no-room"  // all of its node's candidates together do not make room
	Dearer    Why = "dearer"   // others cost less
)

// Verdict is what is decided for one TE job.
type Verdict struct {
	Why     Why
	Victims []int             // indices into Snapshot.Candidates, rising
	Shares  []placement.Share // where it will start; nil when it has to wait
	Cost    float64           // of LeastLoss: GPU-seconds; of FitGpp: the sum of scores
	Grace   float64           // s until the last victim has left
}

// Decision has a verdict for each trial and a standing for each candidate.
type Decision struct {
	Verdicts []Verdict
	Standing []Why // Allowed, or why no TE job at all may evict it
}

// Decide chooses the victims for each trial in order.
func Decide(s *Snapshot, set Settings) Decision {
	d := Decision{Verdicts: make([]Verdict, len(s.Trials)), Standing: make([]Why, len(s.Candidates))}
	for i := range s.Candidates {
		d.Standing[i] = standing(&s.Candidates[i], &set)
	}
	v := newView(s, &set, d.Standing)
	for _, c := range s.Claims {
		d.Verdicts[c.Trial] = Verdict{Why: Claimed, Shares: c.Shares}
	}
	gate := NewGate(s, set.Limits).Staged(s)
	var vain []*Trial // for which there was no place since the last place was given
	for i := range s.Trials {
		verdict, t := &d.Verdicts[i], &s.Trials[i]
		if verdict.Why == Claimed {
			continue
		}
		if slices.ContainsFunc(vain, t.alike) {
			verdict.Why = Impossible
			continue
		}
		switch *verdict = v.choosePlace(t); {
		case verdict.Why == Impossible && len(vain) < maxVain:
			vain = append(vain, t)
		case len(verdict.Shares) > 0:
			vain = nil
		}
		if verdict.Why != Evicts {
			continue
		}
		if why := gate.Refuses(s, s.Trials[i].Owner, verdict.Victims); why != "" {
			v.apply(verdict, false)
			*verdict = v.within(&gate, s, i, why)
		}
	}
	return d
}

// maxVain is how many different trials without a place are remembered.
const maxVain = 16

// alike reports whether there is no place for a trial if there is none for another.
func (t *Trial) alike(o *Trial) bool {
	return t.Request == o.Request && t.Price == o.Price && t.Due == o.Due && t.Start == o.Start && slices.Equal(t.Run, o.Run) && slices.Equal(t.Alike, o.Alike)
}

// within chooses again for a trial whose best set of victims a limit refuses: a set within that
// limit, or none. A limit that lets the set pass in the next cycle, or once others have left,
// leaves the trial waiting for that.
func (v *view) within(gate *Gate, s *Snapshot, trial int, why Why) Verdict {
	v.most, v.thrifty = gate.most(why), why == PerDay
	if why == GraceGPUs {
		v.mostGPUs = int32(max(gate.Limits.GraceGPUs-gate.graceGPUs, 0))
	}
	defer func() { v.most, v.mostGPUs, v.thrifty = 0, 0, false }()
	if v.most > 0 || v.mostGPUs > 0 || v.thrifty {
		other := v.choosePlace(&s.Trials[trial])
		if other.Why == Evicts && gate.Refuses(s, s.Trials[trial].Owner, other.Victims) == "" {
			return other
		}
		v.apply(&other, false)
	}
	return Verdict{Why: why}
}

func standing(c *Candidate, set *Settings) Why {
	switch {
	case !c.Consent:
		return NoConsent
	case c.Leaving:
		return IsLeaving
	case set.MaxEvictions > 0 && c.Evicted >= set.MaxEvictions:
		return Capped
	case c.Elapsed < set.MinRun:
		return Young
	}
	return Allowed
}

// Loss is the GPU-seconds that evicting the job loses; at least one second of each GPU,
// so that no job is evicted for nothing.
func (c *Candidate) Loss() float64 {
	return float64(c.gpus()) * max(c.Unsaved+c.Grace+c.Restart, 1)
}

func (c *Candidate) gpus() (n int32) {
	for _, s := range c.Shares {
		n += s.GPUs
	}
	return n
}

// Gate counts what the limits still allow in one decision.
type Gate struct {
	Limits
	atOnce, perCycle, perHour int
	graceGPUs                 int // that those of atOnce hold
	perDay                    float64
	perOwner                  []float64
	staged                    bool
}

// Staged lets one set of victims that is larger than a cycle's share through where nothing else
// is to be told in this cycle: its signals are sent over several cycles, and until the last one
// they fill the share of each.
func (g Gate) Staged(s *Snapshot) Gate {
	g.staged = true
	for i := range s.Candidates {
		if s.Candidates[i].Untold {
			g.perCycle++
		}
	}
	return g
}

// NewGate counts the candidates that are leaving, and the evictions of the past.
func NewGate(s *Snapshot, l Limits) Gate {
	g := Gate{Limits: l, perHour: s.PastHour, perDay: s.PastDay, perOwner: slices.Clone(s.PastOwner)}
	for i := range s.Candidates {
		if s.Candidates[i].Leaving {
			g.atOnce++
			g.graceGPUs += int(s.Candidates[i].gpus())
		}
	}
	return g
}

// most is how many victims a set within the limits may have, where a limit on these refuses one;
// 0 where another set is no better. The share of the victims in their grace period comes again:
// there the whole limit counts.
func (g *Gate) most(why Why) int {
	if why != AtOnce && why != PerHour {
		return 0
	}
	most := math.MaxInt
	for _, l := range [][2]int{{g.MaxAtOnce, 0}, {g.MaxPerHour, g.perHour}} {
		if l[0] > 0 {
			most = min(most, l[0]-l[1])
		}
	}
	return max(most, 0)
}

// NoOwner is an owner without a limit.
const NoOwner = -1

// Refuses returns the limit that the victims would exceed, or counts them.
func (g *Gate) Refuses(s *Snapshot, owner int, victims []int) Why {
	n, gpus, lost := len(victims), 0, 0.0
	for _, i := range victims {
		lost += s.Candidates[i].Loss() / 3600
		gpus += int(s.Candidates[i].gpus())
	}
	switch {
	case g.MaxAtOnce > 0 && g.atOnce+n > g.MaxAtOnce:
		return AtOnce
	case g.Limits.GraceGPUs > 0 && g.graceGPUs > 0 && g.graceGPUs+gpus > g.Limits.GraceGPUs:
		return GraceGPUs
	case g.MaxPerCycle > 0 && g.perCycle+n > g.MaxPerCycle && (!g.staged || g.perCycle > 0):
		return PerCycle
	case g.MaxPerHour > 0 && g.perHour+n > g.MaxPerHour:
		return PerHour
	case g.GPUHoursPerDay > 0 && g.perDay+lost > g.GPUHoursPerDay:
		return PerDay
	case g.UserGPUMinutesPerDay > 0 && owner != NoOwner && 60*g.perOwner[owner] >= g.UserGPUMinutesPerDay:
		return PerOwner
	}
	if g.UserGPUMinutesPerDay > 0 && owner != NoOwner {
		g.perOwner[owner] += lost
	}
	g.graceGPUs += gpus
	g.atOnce, g.perCycle, g.perHour, g.perDay = g.atOnce+n, g.perCycle+n, g.perHour+n, g.perDay+lost
	return ""
}

// Refusals says of each candidate why it does not leave for one trial. The decision
// keeps only what holds for all trials; the rest follows from the snapshot and the
// verdict.
func (d *Decision) Refusals(s *Snapshot, set Settings, trial int) []Why {
	t, verdict := &s.Trials[trial], &d.Verdicts[trial]
	v := newView(s, &set, d.Standing)
	gpus := pieces(s.Nodes, t.Request)
	smallest := gpus[len(gpus)-1]
	all := slices.Clone(d.Standing)
	for i, why := range all {
		c := &s.Candidates[i]
		helps := slices.ContainsFunc(c.Shares, func(share placement.Share) bool {
			p := &v.places[share.Node]
			return p.room.plus(p.most).holds(v.need(t.Request, smallest, share.Node))
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

// late reports whether the trial would start anyway before the candidate has left.
func (set *Settings) late(c *Candidate, t *Trial) bool { return c.Grace+set.MinGain >= t.Start }

// Check refuses settings that mean nothing.
func (set *Settings) Check() error {
	switch {
	case !slices.Contains([]Policy{FitGpp, LeastLoss}, set.Policy):
		return fmt.Errorf("no policy of preemption %q", set.Policy)
	case set.Policy == FitGpp && set.Fallback != FallNode && set.Fallback != FallNone:
		return fmt.Errorf("FitGpp's fallback %q: want %s or %s", set.Fallback, FallNode, FallNone)
	case !(set.MinRun >= 0 && set.MinGain >= 0 && set.Limits.GPUHoursPerDay >= 0 && set.Limits.UserGPUMinutesPerDay >= 0):
		return fmt.Errorf("times and limits of preemption are not negative")
	case slices.ContainsFunc([]float64{set.S, set.Rise, set.Each, set.Urgency, set.RunCost}, func(v float64) bool { return !(v >= 0) || math.IsInf(v, 1) }):
		return fmt.Errorf("weights of preemption are finite and not negative") // inf times 0 is no number
	case set.MaxEvictions < 0 || set.Limits.MaxAtOnce < 0 || set.Limits.GraceGPUs < 0 || set.Limits.MaxPerCycle < 0 || set.Limits.MaxPerHour < 0:
		return fmt.Errorf("limits of preemption are not negative")
	}
	return nil
}
