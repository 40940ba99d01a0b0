// Package preempt is preemption as its papers have it, to compare priod with: LRTP, RAND
// and FitGpp are asked after each pass of the virtual Slurm, and the jobs chosen leave
// at once. FitGpp's choice of one victim, or of a set on one node, is evict/preemption's.
package preempt

import (
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/virtual"
)

// Settings are those of the choice, by a policy of evict/preemption or of this package.
type Settings struct {
	preemption.Settings
	Fallback Fallback // of FitGpp
	Seed     uint64   // of random choices
}

// cluster reports whether the choice is one over the whole cluster.
func (set *Settings) cluster() bool {
	return slices.Contains([]preemption.Policy{LRTP, Random}, set.Policy) || set.Policy == preemption.FitGpp && set.Fallback != FallNode
}

// Check refuses settings that mean nothing.
func (set *Settings) Check() error {
	fallbacks := []Fallback{FallNode, FallNone, FallRandom, FallAnybody}
	switch {
	case !slices.Contains([]preemption.Policy{LRTP, Random, preemption.FitGpp, preemption.LeastLoss}, set.Policy):
		return fmt.Errorf("no policy of preemption %q", set.Policy)
	case set.Policy == preemption.FitGpp && !slices.Contains(fallbacks, set.Fallback):
		return fmt.Errorf("FitGpp's fallback %q: want one of %v", set.Fallback, fallbacks)
	case !(set.MinRun >= 0 && set.MinGain >= 0 && set.Limits.GPUHoursPerDay >= 0 && set.Limits.UserGPUMinutesPerDay >= 0):
		return fmt.Errorf("times and limits of preemption are not negative")
	case slices.ContainsFunc([]float64{set.S, set.Rise, set.Each, set.Urgency, set.RunCost}, func(v float64) bool { return !(v >= 0) || math.IsInf(v, 1) }):
		return fmt.Errorf("weights of preemption are finite and not negative") // inf times 0 is no number
	case set.MaxEvictions < 0 || set.Limits.GraceGPUs < 0 || set.Limits.MaxPerHour < 0:
		return fmt.Errorf("limits of preemption are not negative")
	}
	return nil
}

// Costs are what leaving costs, s, as far as a job does not say.
type Costs struct{ Grace, Checkpoint, Restart float64 }

// evictor remembers between passes what the daemon keeps in its journal.
type evictor struct {
	set       Settings
	overheads Costs
	evicted   map[int]int // times, by job
	claims    map[int]preemption.Verdict
	past      []eviction // of the past day
}

type eviction struct{ at, gpuHours float64 }

// Evict is virtual.Options.Evict by these settings.
func Evict(set Settings, costs Costs) func(*virtual.System) []virtual.Eviction {
	e := &evictor{set: set, overheads: costs, evicted: map[int]int{}, claims: map[int]preemption.Verdict{}}
	return e.decide
}

func (e *evictor) decide(s *virtual.System) (told []virtual.Eviction) {
	trials := s.Trials()
	e.release(s, trials)
	if len(trials) == len(e.claims) {
		return nil // each has its room
	}
	running := slices.Collect(s.Running())
	snap := preemption.Snapshot{Nodes: s.Nodes()}
	var jobs []int
	for i := range running {
		if r := &running[i]; r.Job.Class == cluster.BE || r.Leaving {
			jobs = append(jobs, r.Index)
			snap.Candidates = append(snap.Candidates, e.candidate(s.Now(), r))
		}
	}
	for i, t := range trials {
		snap.Claimants = append(snap.Claimants, preemption.Claimant{Request: t.Request, Start: math.Inf(1)})
		if claim, ok := e.claims[t.Index]; ok {
			snap.Claims = append(snap.Claims, preemption.Claim{Of: i, Shares: claim.Shares})
		}
	}
	e.account(s.Now(), &snap)
	set := e.set
	set.Seed += uint64(len(e.past)) // another shuffle each time
	verdicts := decide(&snap, set)
	for i, v := range verdicts {
		if v.Why != preemption.Evicts {
			continue
		}
		e.claims[trials[i].Index] = v
		for _, c := range v.Victims {
			told = append(told, virtual.Eviction{Job: jobs[c], Restore: true})
			e.evicted[jobs[c]]++
			e.past = append(e.past, eviction{s.Now(), snap.Candidates[c].Loss() / 3600})
		}
	}
	return told
}

// release drops the claims of jobs that have started, and those whose room is
// neither free nor on its way any more.
func (e *evictor) release(s *virtual.System, trials []virtual.InSystem) {
	if len(e.claims) == 0 {
		return
	}
	waits := map[int]bool{}
	for _, t := range trials {
		waits[t.Index] = true
	}
	leaving := map[int32]bool{} // nodes
	for r := range s.Running() {
		for _, share := range r.Shares {
			leaving[share.Node] = leaving[share.Node] || r.Leaving
		}
	}
	for index, claim := range e.claims {
		coming := slices.ContainsFunc(claim.Shares, func(s placement.Share) bool { return leaving[s.Node] })
		if !waits[index] || !coming && !s.Nodes().Hold(claim.Shares) {
			delete(e.claims, index)
		}
	}
}

// candidate is a running job as the daemon will know it. How long it still runs
// is what nobody knows but LRTP's oracle.
func (e *evictor) candidate(now float64, r *virtual.InSystem) preemption.Candidate {
	c := preemption.Candidate{
		Shares: r.Shares, Leaving: r.Leaving, Evicted: e.evicted[r.Index], Elapsed: max(now-r.Start, 0),
		Remaining: r.End - now, Grace: r.Job.Grace, Restart: e.overheads.Restart,
	}
	if c.Grace == 0 {
		c.Grace = e.overheads.Grace
	}
	every := r.Job.Ckpt
	if every == 0 {
		every = e.overheads.Checkpoint
	}
	if every > 0 {
		worked := c.Elapsed
		if c.Evicted > 0 {
			worked = max(worked-c.Restart, 0)
		}
		c.Unsaved = math.Mod(worked, every)
	}
	return c
}

// account counts what the limits look at.
func (e *evictor) account(now float64, snap *preemption.Snapshot) {
	e.past = slices.DeleteFunc(e.past, func(v eviction) bool { return v.at <= now-86400 })
	for _, v := range e.past {
		snap.PastDay += v.gpuHours
		if v.at > now-3600 {
			snap.PastHour++
		}
	}
}
