package evict

import (
	"cmp"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// advanceClaim takes one claim as far as it goes now.
func (n *transition) advanceClaim(c *Claim) {
	s, looked := n.Statuses[c.Job]
	if looked && s.User != "" && !cluster.SameUser(s.User, c.User) {
		s = plan.JobStatus{Gone: true}
	}
	switch {
	case c.Open():
		n.advanceOpenClaim(c, &s, looked)
	case c.Pin != "" && looked:
		n.unpin(c, &s)
	}
	n.tendReservation(c)
}

// claimKey is all of a claim that can change.
type claimKey struct {
	state             ClaimState
	reason, pin, resv string
	made, room, ended time.Time
}

func (c *Claim) key() claimKey {
	return claimKey{c.State, c.Reason, c.Pin, c.Resv, c.ResvAt, c.Room, c.Ended}
}

// reservationMargin is how long a reservation outlives the longest grace if it is not deleted.
const reservationMargin = 2 * time.Minute

// tendReservation keeps all jobs off the claim's nodes until all of the place is free.
// Then the reservation is deleted, and Slurm starts the job that ranks first.
func (n *transition) tendReservation(c *Claim) {
	switch {
	case c.Resv == "":
	case c.State != Planned:
		n.commands = append(n.commands, plan.Command{Kind: plan.Free, Job: c.Job, Claim: c.Number, Value: slurmplug.Text(c.Resv)})
	case c.ResvAt.IsZero() && !n.Paused:
		grace := time.Duration(0)
		for _, e := range n.j.evictionsOf(c.Number) {
			grace = max(grace, e.Grace)
		}
		n.commands = append(n.commands, plan.Command{
			Kind: plan.Reserve, Job: c.Job, Claim: c.Number, Value: slurmplug.Text(c.Resv), Nodes: slurmplug.CompactHosts(c.Nodes()), For: grace + reservationMargin,
		})
	}
}

// advanceOpenClaim starts, holds or releases a claim that keeps a place.
func (n *transition) advanceOpenClaim(c *Claim, s *plan.JobStatus, looked bool) {
	if looked && s.NodeList != "" && s.State != cluster.Pending { // a job cancelled before it started has a start time too
		c.State, c.Reason, c.Ended = Started, "", s.Start
		return
	}
	why, complete := "", false
	if looked {
		why = n.whyUnwanted(c, s)
	}
	if why == "" {
		why, complete = n.whetherFree(c)
	}
	if why != "" {
		n.release(c, s, why)
		return
	}
	if n.At.Before(c.Room) {
		c.Room = n.At // the clock was set back: the place is kept once more as long at most
	}
	switch {
	case c.State == Planned && complete:
		c.State, c.Room = Holding, n.At
	case c.State == Holding && n.At.After(c.Room.Add(n.Hold)):
		n.release(c, s, n.whyNotStarted(c, s))
		return
	}
	if looked && c.Pin != "" && s.ReqNodes == "" && s.State == cluster.Pending && !n.Paused {
		n.commands = append(n.commands, plan.Command{Kind: plan.Pin, Job: c.Job, SLUID: s.SLUID, Claim: c.Number, Value: slurmplug.Text(c.Pin)})
	}
}

// whyNotStarted says why the job of a claim did not start in time.
func (n *transition) whyNotStarted(c *Claim, s *plan.JobStatus) string {
	switch free := n.j.findFree(c); {
	case s.State == cluster.Pending && !s.WantsRoom() && slurmplug.WaitsFor(s.Reason) != slurmplug.ForNodes:
		return "the job waits for something else: " + s.Reason
	case !free:
		return "the place was not free long enough for the job to start"
	}
	return notStarted
}

// unsatisfied is the reason of a release that releasedUntil counts more than once.
const unsatisfied = "no node satisfies it (BadConstraints)"

// Reasons of releases that its owner can bring about: see givenUp.
const (
	leftQueue  = "the job left the queue"
	isHeld     = "the job is held"
	notTE      = "the job no longer counts as TE"
	otherNodes = "its owner asks for other nodes"
)

// whyUnwanted says why the waiting job no longer wants the claim's place; "": it still does.
func (n *transition) whyUnwanted(c *Claim, s *plan.JobStatus) string {
	switch {
	case s.Gone || s.Final != "":
		return leftQueue
	case s.Unsatisfied():
		return unsatisfied
	case s.Held():
		return isHeld
	case n.Waiting != nil && s.State == cluster.Pending && !n.stillWants(c):
		if c.Purpose != ForTrial {
			return "the job waits for something else now"
		}
		return notTE
	case c.Pin != "" && s.ReqNodes != "" && !plan.SameHosts(s.ReqNodes, c.Pin), s.State == cluster.Pending && !n.j.Allows(c, s):
		return otherNodes
	}
	return ""
}

// isUnwanted reports whether the waiting job no longer wants the claim's place.
func (n *transition) isUnwanted(c *Claim) bool {
	s, looked := n.Statuses[c.Job]
	return looked && s.State == cluster.Pending && n.whyUnwanted(c, &s) != ""
}

// whetherFree reports whether all victims have left the claim's place, or why it will not become free.
func (n *transition) whetherFree(c *Claim) (why string, complete bool) {
	for _, share := range c.Shares {
		if n.Unusable[share.Node] {
			return "node " + share.Node + " cannot be used", false
		}
	}
	complete = true
	leaves := func(e *Eviction) {
		e = n.current(e)
		complete = complete && n.hasLeft(e)
		why = cmp.Or(why, e.stays())
	}
	evictions := n.j.evictionsOf(c.Number)
	for i := range evictions {
		leaves(&evictions[i])
	}
	for _, number := range c.Awaits {
		if e := n.j.Eviction(number); e != nil {
			leaves(e)
		}
	}
	return why, complete && why == ""
}

// hasLeft reports whether a victim has left its nodes. One that has been put back into the queue may still complete there: a reservation
// that ended meanwhile would leave the nodes that are free to others. It has so long for that as the place is kept.
func (n *transition) hasLeft(e *Eviction) bool {
	s, looked := n.Statuses[e.Job]
	completes := looked && s.State == cluster.Completing && e.Open() && n.At.Before(e.LeftAt.Add(n.Hold))
	return !e.Leaving() && !completes
}

// stays says why a victim does not leave after all; "": it leaves, or has.
func (e *Eviction) stays() string {
	if e.State == CalledOff && e.How == "" {
		return "job " + e.Job.String() + " stays: " + e.Reason
	}
	return ""
}

// stillWants reports whether the waiting job is still of the kind that the claim is for.
func (n *transition) stillWants(c *Claim) bool {
	room, ranked := n.Waiting[c.Job]
	return ranked && (c.Purpose != ForTrial || room)
}

// isPinned reports whether the waiting job is pinned to its place, if it has to be: until then no victim gets its signal.
func (n *transition) isPinned(c *Claim) bool {
	if c.Pin == "" {
		return true
	}
	s, looked := n.Statuses[c.Job]
	return looked && s.ReqNodes != ""
}

// release gives up a claim's place.
func (n *transition) release(c *Claim, s *plan.JobStatus, why string) {
	c.State, c.Reason, c.Ended = Released, why, n.At
	if c.Pin != "" {
		n.unpin(c, s)
	}
}

// unpin takes the nodes out of the job's request again. Slurm changes them only before a run, so a job that runs keeps them until it is
// requeued or Slurm forgets it: one that has ended can come back, as a victim does that exits by itself.
func (n *transition) unpin(c *Claim, s *plan.JobStatus) {
	switch {
	case s.Gone:
		c.Pin = ""
	case s.State != cluster.Pending:
	case !plan.SameHosts(s.ReqNodes, c.Pin):
		c.Pin = ""
	default:
		n.commands = append(n.commands, plan.Command{Kind: plan.Unpin, Job: c.Job, SLUID: s.SLUID, Claim: c.Number})
	}
}

// applyResult takes over the result of a command, and reports whether the row changed.
func (c *Claim) applyResult(r *plan.Result, at time.Time) bool {
	switch {
	case r.Kind == plan.Unpin && r.Status == slurmplug.Applied:
		c.Pin = ""
	case r.Kind == plan.Reserve && r.Status == slurmplug.Applied:
		c.ResvAt = at
	case r.Kind == plan.Reserve && r.Status == slurmplug.Refused:
		c.Resv, c.Reason = "", "the place is kept by priority alone: "+r.Message
	case r.Kind == plan.Free && (r.Status == slurmplug.Applied || r.Status == slurmplug.Refused || r.Status == slurmplug.Raced):
		c.Resv = "" // it is deleted, or was not there
	case r.Kind == plan.Pin && r.Status == slurmplug.Refused:
		c.Pin, c.Reason = "", "the place is kept by priority alone: "+r.Message
	default:
		return false
	}
	c.Changed = at
	return true
}

// places returns the claim's place in the terms of placement, without nodes that no longer exist.
func (c *Claim) places(m *nodemap.Map) (shares []placement.Share) {
	for _, s := range c.Shares {
		if at, known := m.At(s.Node, s.GPUType); known {
			shares = append(shares, placement.Share{Node: at, Amount: placement.Amount{GPUs: int32(s.GPUs), CPUs: int32(s.CPUs), MemMB: s.MemMB, Others: m.Unnamed(s.Others)}})
		}
	}
	return shares
}

// claimsByJob returns the claims that keep a place, by job.
func (j *Journal) claimsByJob() map[cluster.JobID]*Claim {
	claims := map[cluster.JobID]*Claim{}
	live, _ := j.live()
	for _, x := range live {
		if x.Open() {
			claims[x.Job] = x
		}
	}
	return claims
}
