package simulate

import (
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/virtual"
)

// evictor asks priod's preemption after each pass of the virtual Slurm, and
// remembers between passes what the daemon keeps in its journal.
type evictor struct {
	set       preemption.Settings
	overheads Overheads
	evicted   map[int]int // times, by job
	claims    map[int]preemption.Verdict
	past      []eviction // of the past day
	future    *placement.Nodes
}

type eviction struct{ at, gpuHours float64 }

func newEvictor(spec Spec) *evictor {
	return &evictor{set: spec.Eviction, overheads: spec.Overheads, evicted: map[int]int{}, claims: map[int]preemption.Verdict{}}
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
		snap.Trials = append(snap.Trials, preemption.Trial{Request: t.Request, Start: math.Inf(1)})
		if claim, ok := e.claims[t.Index]; ok {
			snap.Claims = append(snap.Claims, preemption.Claim{Trial: i, Shares: claim.Shares})
		}
	}
	if e.set.Policy == preemption.LeastLoss {
		e.shadows(s, &snap, trials, running)
	}
	e.account(s.Now(), &snap)
	set := e.set
	set.Seed += uint64(len(e.past)) // another shuffle each time
	for i, v := range preemption.Decide(&snap, set).Verdicts {
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
		Shares: r.Shares, Consent: true, Leaving: r.Leaving, Evicted: e.evicted[r.Index], Elapsed: max(now-r.Start, 0),
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

// shadows finds when the trials would start without evictions, by the ends that
// the scheduler knows, each behind the room of those before it.
func (e *evictor) shadows(s *virtual.System, snap *preemption.Snapshot, trials, running []virtual.InSystem) {
	longest := 0.0
	for i := range snap.Candidates {
		longest = max(longest, snap.Candidates[i].Grace)
	}
	horizon := s.Now() + longest + e.set.MinGain // what starts later is no reason to wait
	slices.SortStableFunc(running, func(a, b virtual.InSystem) int {
		if a.End < b.End {
			return -1
		}
		return 1
	})
	if e.future == nil {
		e.future = s.Nodes().Clone()
	}
	var taken []placement.Share
	for _, c := range snap.Claims {
		taken = append(taken, c.Shares...)
	}
	for i := range snap.Trials {
		if _, claimed := e.claims[trials[i].Index]; claimed {
			continue
		}
		e.future.CopyFree(s.Nodes())
		e.future.Take(taken)
		at := e.future.Shadow(s.Now(), trials[i].Request, func(yield func(float64, []placement.Share) bool) {
			for _, r := range running {
				if r.End > horizon || !yield(r.End, r.Shares) {
					return
				}
			}
		})
		if !math.IsInf(at, 1) {
			snap.Trials[i].Start = at - s.Now()
			shares, _ := e.future.Fit(trials[i].Request, nil)
			taken = append(taken, shares...)
		}
	}
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
