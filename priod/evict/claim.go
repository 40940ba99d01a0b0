package evict

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

func (n *transition) advanceClaim(c Claim) {
	s, looked := n.Sights[c.Job]
	if looked && s.User != "" && !cluster.SameUser(s.User, c.User) {
		s = Sight{Gone: true}
	}
	before := c.key()
	switch {
	case c.Open():
		n.advanceOpenClaim(&c, &s, looked)
	case c.Pin != "" && looked:
		n.unpin(&c, &s)
	}
	n.tendReservation(&c)
	if c.key() != before {
		c.Changed = n.At
		n.claims[c.Number] = c
	}
}

// claimKey is all of a claim that changes.
type claimKey struct {
	state             ClaimState
	reason, pin, resv string
	made, room, ended time.Time
}

func (c *Claim) key() claimKey {
	return claimKey{c.State, c.Reason, c.Pin, c.Resv, c.ResvAt, c.Room, c.Ended}
}

// margin is how long a reservation outlives the longest grace, should nobody
// delete it.
const reservationMargin = 2 * time.Minute

// reserve keeps others off the place as long as only parts of it are free.
func (n *transition) tendReservation(c *Claim) {
	switch {
	case c.Resv == "":
	case c.State != Planned:
		n.commands = append(n.commands, Command{Verb: Free, Job: c.Job, Claim: c.Number, Value: c.Resv})
	case c.ResvAt.IsZero() && !n.Paused:
		grace := time.Duration(0)
		for i := range n.j.Evictions {
			if e := &n.j.Evictions[i]; e.Claim == c.Number {
				grace = max(grace, e.Grace)
			}
		}
		n.commands = append(n.commands, Command{
			Verb: Reserve, Job: c.Job, Claim: c.Number, Value: c.Resv, Nodes: slurmplug.CompactHosts(c.Nodes()), For: grace + reservationMargin, User: c.User,
		})
	}
}

func (n *transition) advanceOpenClaim(c *Claim, s *Sight, looked bool) {
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
		c.Room = n.At // the clock was set back: kept for as long once more at most
	}
	switch {
	case c.State == Planned && complete:
		c.State, c.Room = Holding, n.At
	case c.State == Holding && n.At.After(c.Room.Add(n.Hold)):
		n.release(c, s, "the room was there, and the job did not start in time")
		return
	}
	if looked && c.Pin != "" && s.ReqNodes == "" && s.State == cluster.Pending && !n.Paused {
		n.commands = append(n.commands, Command{Verb: Pin, Job: c.Job, SLUID: s.SLUID, Claim: c.Number, Value: c.Pin})
	}
}

// unsatisfied is the reason of a release that tooSoon knows again.
const unsatisfied = "no node satisfies it (BadConstraints)"

// unwanted says why the job that waits does not want the claim's place any more;
// "" when it does.
func (n *transition) whyUnwanted(c *Claim, s *Sight) string {
	switch {
	case s.Gone || s.Final != "":
		return "the job left the queue"
	case s.Unsatisfied():
		return unsatisfied
	case s.Held():
		return "the job is held"
	case n.Waiting != nil && s.State == cluster.Pending && !n.stillWants(c):
		if c.Purpose == ForRound {
			return "the job waits for something else now"
		}
		return "the job does not count as TE any more"
	case c.Pin != "" && s.ReqNodes != "" && !sameHosts(s.ReqNodes, c.Pin):
		c.Pin = "" // which is not there to be taken out
		return "its owner asks for other nodes"
	case s.State == cluster.Pending && !n.j.Allows(c, s):
		return "its owner asks for other nodes"
	}
	return ""
}

// refuses tells whether the job that waits does not want the claim's place any more.
func (n *transition) isUnwanted(c *Claim) bool {
	s, looked := n.Sights[c.Job]
	claim := *c
	return looked && s.State == cluster.Pending && n.whyUnwanted(&claim, &s) != ""
}

// room tells whether all who are to leave the claim's place have left, or why it
// will not be free.
func (n *transition) whetherFree(c *Claim) (why string, complete bool) {
	for _, share := range c.Shares {
		if n.Unusable[share.Node] {
			return "node " + share.Node + " cannot be used", false
		}
	}
	complete = true
	for i := range n.j.Evictions {
		e := n.current(&n.j.Evictions[i])
		if e.Claim != c.Number {
			continue
		}
		if e.State == CalledOff && e.How == "" {
			return "job " + e.Job.String() + " stays: " + e.Reason, false
		}
		complete = complete && !e.Leaving()
	}
	return "", complete
}

// stillWants tells whether the waiting job still is what the claim is for.
func (n *transition) stillWants(c *Claim) bool {
	class, ranked := n.Waiting[c.Job]
	return ranked && (c.Purpose == ForRound || class == cluster.TE)
}

// isPinned tells whether the waiting job names its place, if it has to: until then
// nobody leaves for it.
func (n *transition) isPinned(c *Claim) bool {
	if c.Pin == "" {
		return true
	}
	s, looked := n.Sights[c.Job]
	return looked && s.ReqNodes != ""
}

// sameHosts tells whether two host lists name the same nodes: Slurm shows a list in an
// order of its own.
func sameHosts(a, b string) bool {
	x, err := slurmplug.ExpandHosts(a)
	y, err2 := slurmplug.ExpandHosts(b)
	if err != nil || err2 != nil {
		return a == b
	}
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func (n *transition) release(c *Claim, s *Sight, why string) {
	c.State, c.Reason, c.Ended = Released, why, n.At
	if c.Pin != "" {
		n.unpin(c, s)
	}
}

// unpin takes the nodes out of the job's request again. A job that runs keeps them
// until it is requeued or Slurm forgets it: Slurm changes them only before, and
// one that has ended can come back, as a victim does that exits by itself.
func (n *transition) unpin(c *Claim, s *Sight) {
	switch {
	case s.Gone:
		c.Pin = ""
	case s.State != cluster.Pending:
	case !sameHosts(s.ReqNodes, c.Pin):
		c.Pin = ""
	default:
		n.commands = append(n.commands, Command{Verb: Unpin, Job: c.Job, SLUID: s.SLUID, Claim: c.Number})
	}
}

func (c *Claim) applyResult(r *Result, at time.Time) bool {
	switch {
	case r.Verb == Unpin && r.Status == slurmplug.Applied:
		c.Pin = ""
	case r.Verb == Reserve && r.Status == slurmplug.Applied:
		c.ResvAt = at
	case r.Verb == Reserve && r.Status == slurmplug.Refused:
		c.Resv, c.Reason = "", "the place is held by priority alone: "+r.Message
	case r.Verb == Free && (r.Status == slurmplug.Applied || r.Status == slurmplug.Refused || r.Status == slurmplug.Raced):
		c.Resv = "" // deleted, or it was not there
	case r.Verb == Pin && r.Status == slurmplug.Refused:
		c.Pin, c.Reason = "", "the place is held by priority alone: "+r.Message
	default:
		return false
	}
	c.Changed = at
	return true
}
