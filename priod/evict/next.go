package evict

import (
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

const (
	// maxTries is how often a signal that Slurm refuses is sent, and a begin time.
	maxTries = 3
	// maxRepeats is how often a requeue is sent.
	maxRepeats = 60
	// delay keeps a requeued victim out of the room that others still make. What Slurm
	// itself gives it may be less, down to a second: AuthInfo=cred_expire, 120 s by
	// default, or since 25.11 SchedulerParameters=requeue_delay (slurmctld/job_mgr.c,
	// batch_requeue_fini).
	delay = 2 * time.Minute
	// soon is when a victim may start again: one that starts on the same node within
	// the second in which it ended is lost (Slurm 22.05.8: "Job credential revoked").
	soon = "now+2"
	// delayAhead is how long before its begin time a victim is delayed again.
	delayAhead = 20 * time.Second
)

// Seen is what one look at Slurm showed. At carries the monotonic clock, so that a
// system's clock that is set moves no grace and no hold, but for one over a restart.
type Seen struct {
	At     time.Time
	Sights map[cluster.JobID]Sight // of the jobs that were looked at
	Hold   time.Duration           // how long a place is kept after the last victim left

	// ZeroEnds is as in Settings.
	ZeroEnds bool
	// Paused calls off what is only recorded, and begins nothing.
	Paused bool
	// Consents tells whether a job may be evicted: its owner can change that.
	Consents func(*cluster.Job) bool

	// Of a whole cycle; nil between cycles.
	Waiting  map[cluster.JobID]cluster.Class // jobs that priod ranks
	Unusable map[string]bool                 // nodes
}

// Next is the transition: what Slurm shows now, against the journal. It changes
// nothing.
func Next(j *Journal, seen Seen) Turn {
	n := next{j: j, Seen: seen, claims: map[int64]Claim{}, evictions: map[int64]Eviction{}, busy: map[int64]bool{}}
	for i := range j.Evictions {
		n.evict(j.Evictions[i])
	}
	for i := range j.Claims {
		n.claim(j.Claims[i])
	}
	for i := range j.Evictions { // of claims that were just settled
		if e := n.now(&j.Evictions[i]); !n.busy[e.Number] {
			if _, changed := n.claims[e.Claim]; changed {
				n.evict(*e)
			}
		}
	}
	var t Turn
	for i := range j.Claims {
		if c, ok := n.claims[j.Claims[i].Number]; ok {
			t.Claims = append(t.Claims, c)
		}
	}
	for i := range j.Evictions {
		if e, ok := n.evictions[j.Evictions[i].Number]; ok {
			t.Evictions = append(t.Evictions, e)
		}
	}
	t.Commands = n.commands
	return t
}

type next struct {
	j *Journal
	Seen
	claims    map[int64]Claim
	evictions map[int64]Eviction
	busy      map[int64]bool // evictions with a command in this turn
	commands  []Command
}

// now is an eviction as this turn leaves it.
func (n *next) now(e *Eviction) *Eviction {
	if changed, ok := n.evictions[e.Number]; ok {
		return &changed
	}
	return e
}

func (n *next) claimOf(e *Eviction) *Claim {
	if c, ok := n.claims[e.Claim]; ok {
		return &c
	}
	return n.j.Claim(e.Claim)
}

func (n *next) do(e *Eviction, verb Verb, value string) {
	n.busy[e.Number] = true
	n.commands = append(n.commands, Command{Verb: verb, Job: e.Job, SLUID: n.Sights[e.Job].SLUID, Eviction: e.Number, Value: value})
}

// isRun tells whether the sight still shows the run that is evicted.
func (e *Eviction) isRun(s *Sight) bool {
	return !s.Gone && s.State != cluster.Pending && s.Restarts == e.Restarts && s.Start.Equal(e.Start)
}

func (n *next) evict(e Eviction) {
	if !e.Open() {
		return
	}
	s, looked := n.Sights[e.Job]
	if !looked {
		return
	}
	if s.User != "" && !cluster.SameUser(s.User, e.User) {
		s = Sight{Gone: true} // the id means another job now
	}
	before := e
	switch e.State {
	case Recorded:
		n.recorded(&e, &s)
	case Signalled:
		n.signalled(&e, &s)
	case Left:
		n.left(&e, &s)
	case Requeued:
		n.requeued(&e, &s)
	case Restored:
		n.back(&e, &s)
	}
	if e != before {
		n.evictions[e.Number] = e
	}
}

// recorded sends the signal. The row says so first: after a crash nobody knows
// whether it arrived, so it is sent again, whatever has become of the claim, each time
// after twice as long. A victim that leaves meanwhile leaves because of it.
func (n *next) recorded(e *Eviction, s *Sight) {
	c := n.claimOf(e)
	if !e.SignalledAt.IsZero() {
		if n.At.Before(e.SignalledAt) {
			e.SignalledAt = n.At // the clock was set back
		}
		switch {
		case !e.isRun(s) || s.Final != "":
			n.leave(e, s)
		case s.State == cluster.Completing:
		case n.At.Before(e.SignalledAt.Add(time.Second<<min(e.Tries, 20) - time.Second)): // 0, 1, 3, 7 ... s
		default:
			n.do(e, Signal, e.Signal)
		}
		return
	}
	switch {
	case !e.isRun(s) || s.Final != "" || s.State == cluster.Completing:
		e.How = Ended
		e.close(CalledOff, "its run ended before it was told to", n.At)
	case c == nil || !c.Open() || n.refuses(c):
		e.close(CalledOff, "the job that it makes room for does not wait any more", n.At)
	case !s.CanRequeue || s.Expedites || s.OnHold || !n.Consents(&s.Job):
		e.close(CalledOff, "it may not be evicted any more", n.At)
	case n.Paused:
		e.close(CalledOff, "priod is paused", n.At)
	case e.Tries >= maxTries:
		e.close(CalledOff, "the signal could not be sent: "+e.Reason, n.At)
	case !n.isPinned(c) || c.Resv != "" && c.ResvAt.IsZero():
	default:
		e.SignalledAt = n.At
		n.do(e, Signal, e.Signal)
		n.commands[len(n.commands)-1].First = true
	}
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

// Asks tells whether the job asks for these nodes, and no others.
func (s *Sight) Asks(nodes string) bool { return sameHosts(s.ReqNodes, nodes) }

// isPinned tells whether the waiting job names its place, if it has to: until then
// nobody leaves for it.
func (n *next) isPinned(c *Claim) bool {
	if c.Pin == "" {
		return true
	}
	s, looked := n.Sights[c.Job]
	return looked && s.ReqNodes != ""
}

func (n *next) signalled(e *Eviction, s *Sight) {
	if !e.isRun(s) || s.Final != "" {
		n.leave(e, s)
		return
	}
	if n.At.Before(e.SignalledAt) {
		e.SignalledAt = n.At // the clock was set back: one more grace at most
	}
	if s.State != cluster.Completing && !n.At.Before(e.SignalledAt.Add(e.Grace)) {
		n.requeue(e)
	}
}

// leavings are the states of a run that may have ended because it was told to leave.
var leavings = []string{"COMPLETED", "FAILED", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED"}

// leave says how a signalled victim went, and puts it back into the queue if it
// went because of the signal.
func (n *next) leave(e *Eviction, s *Sight) {
	e.LeftAt, e.Tries, e.Reason = n.At, 0, ""
	e.ExitCode, e.ExitSignal = s.ExitCode, s.ExitedBy
	switch {
	case s.Gone && (s.Final == "" || s.Start.Before(e.Start)):
		e.How = Forgotten
		e.close(Done, "Slurm knows it no more, and accounting does not say how it ended: unless it finished, its owner has to submit it again", n.At)
	case s.Gone && s.Start.After(e.Start):
		e.How = Returned
		e.close(Done, "it ran again and ended: "+s.Final, n.At)
	case !s.Gone && !e.isRun(s):
		e.How, e.State, e.RequeuedAt = Returned, Requeued, n.At
		if !n.At.Before(e.SignalledAt.Add(e.Grace)) {
			e.How = Forced // by a requeue whose answer nobody heard
		}
	default:
		if s.Gone && s.End.After(e.SignalledAt) {
			e.LeftAt = s.End
		}
		switch {
		case s.Final == "COMPLETED" && (n.ZeroEnds || s.Gone):
			e.How = Finished
			e.close(Done, "", n.At)
		case !slices.Contains(leavings, s.Final):
			e.How = Ended
			e.close(Done, s.Final, n.At)
		case s.Gone:
			e.forget(n.At)
		default:
			e.How, e.State = Exited, Left
			n.requeue(e)
		}
	}
	e.pay()
}

// pay says what the eviction has cost: the promise, with the time that leaving
// really took.
func (e *Eviction) pay() {
	switch e.How {
	case Exited, Forced, Returned:
		e.Paid = float64(e.GPUs) * (e.Unsaved + e.LeftAt.Sub(e.SignalledAt) + e.Restart).Seconds()
	}
}

// later is the begin time of a victim that has to wait for the claim to be settled.
var later = fmt.Sprintf("now+%d", int(delay.Seconds()))

// requeue puts the victim back into the queue. As long as its place is claimed its
// begin time is set at once: Slurm keeps one that lies ahead when the run is over
// (seen on 22.05.8, 24.11.5 and 26.05.5).
func (n *next) requeue(e *Eviction) {
	if e.Tries >= maxRepeats {
		e.close(CalledOff, "it could not be requeued: "+e.Reason, n.At)
		return
	}
	begin := ""
	if c := n.claimOf(e); c != nil && c.Open() {
		begin = later
	}
	n.do(e, Requeue, begin)
}

func (n *next) left(e *Eviction, s *Sight) {
	switch {
	case s.Gone:
		e.forget(n.At)
	case !e.isRun(s):
		e.State, e.RequeuedAt, e.Tries, e.Reason = Requeued, n.At, 0, ""
	case s.State != cluster.Completing:
		n.requeue(e)
	}
}

func (n *next) requeued(e *Eviction, s *Sight) {
	if s.State != cluster.Pending {
		n.back(e, s)
		return
	}
	waits := s.Eligible.Sub(n.At)
	c := n.claimOf(e)
	switch {
	case c != nil && c.Open():
		if waits < delayAhead {
			n.do(e, Begin, later)
		}
	case c != nil && c.Purpose == ForRound && n.Waiting == nil && waits > 0:
		// A whole cycle takes back what an earlier round wrote to put it first.
	case waits <= 0 || e.Tries >= maxTries:
		e.State, e.RestoredAt, e.Tries = Restored, n.At, 0
	default:
		n.do(e, Begin, soon)
	}
}

// back ends an eviction when its victim runs again or is gone.
func (n *next) back(e *Eviction, s *Sight) {
	switch {
	case s.Gone || s.Final != "":
		e.close(Done, "it left the queue", n.At)
	case s.State == cluster.Running || s.State == cluster.Suspended:
		if !e.isRun(s) {
			e.close(Done, "", s.Start)
		}
	}
}

// forget closes the eviction of a victim that left because of the signal, longer
// ago than slurmctld remembers.
func (e *Eviction) forget(at time.Time) {
	e.How = Forgotten
	e.close(Done, "it left because of the signal, and Slurm forgot it before it could be requeued: its owner has to submit it again", at)
}

func (e *Eviction) close(state State, why string, at time.Time) {
	e.State, e.Reason, e.Ended = state, why, at
}

func (n *next) claim(c Claim) {
	s, looked := n.Sights[c.Job]
	if looked && s.User != "" && !cluster.SameUser(s.User, c.User) {
		s = Sight{Gone: true}
	}
	before := c.key()
	switch {
	case c.Open():
		n.open(&c, &s, looked)
	case c.Pin != "" && looked:
		n.unpin(&c, &s)
	}
	n.reserve(&c)
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
const margin = 2 * time.Minute

// reserve keeps others off the place as long as only parts of it are free.
func (n *next) reserve(c *Claim) {
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
			Verb: Reserve, Job: c.Job, Claim: c.Number, Value: c.Resv, Nodes: slurmplug.CompactHosts(c.Nodes()), For: grace + margin, User: c.User,
		})
	}
}

func (n *next) open(c *Claim, s *Sight, looked bool) {
	if looked && s.NodeList != "" && s.State != cluster.Pending { // a job cancelled before it started has a start time too
		c.State, c.Reason, c.Ended = Started, "", s.Start
		return
	}
	why, complete := "", false
	if looked {
		why = n.unwanted(c, s)
	}
	if why == "" {
		why, complete = n.room(c)
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
func (n *next) unwanted(c *Claim, s *Sight) string {
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

// room tells whether all who are to leave the claim's place have left, or why it
// will not be free.
func (n *next) room(c *Claim) (why string, complete bool) {
	for _, share := range c.Shares {
		if n.Unusable[share.Node] {
			return "node " + share.Node + " cannot be used", false
		}
	}
	complete = true
	for i := range n.j.Evictions {
		e := n.now(&n.j.Evictions[i])
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
func (n *next) stillWants(c *Claim) bool {
	class, ranked := n.Waiting[c.Job]
	return ranked && (c.Purpose == ForRound || class == cluster.TE)
}

func (n *next) release(c *Claim, s *Sight, why string) {
	c.State, c.Reason, c.Ended = Released, why, n.At
	if c.Pin != "" {
		n.unpin(c, s)
	}
}

// unpin takes the nodes out of the job's request again. A job that runs keeps them
// until it is requeued or Slurm forgets it: Slurm changes them only before, and
// one that has ended can come back, as a victim does that exits by itself.
func (n *next) unpin(c *Claim, s *Sight) {
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

// Settle takes in what became of the commands of a turn.
func Settle(j *Journal, results []Result, at time.Time) Turn {
	var t Turn
	for _, r := range results {
		if r.Eviction != 0 {
			if e := *j.Eviction(r.Eviction); e.settle(&r, at) {
				t.Evictions = append(t.Evictions, e)
			}
			continue
		}
		if c := *j.Claim(r.Claim); c.settle(&r, at) {
			t.Claims = append(t.Claims, c)
		}
	}
	return t
}

func (e *Eviction) settle(r *Result, at time.Time) bool {
	if r.Status != slurmplug.Applied {
		if r.Verb == Signal && r.Status != slurmplug.Unknown && r.First {
			e.SignalledAt = time.Time{} // it did not arrive
		}
		e.Tries, e.Reason = e.Tries+1, r.Message
		return true
	}
	tried := e.Tries
	e.Tries, e.Reason = 0, ""
	switch {
	case r.Verb == Signal:
		e.State, e.SignalledAt = Signalled, at
	case r.Verb == Requeue:
		if e.State == Signalled {
			e.How, e.LeftAt = Forced, at
			e.pay()
		}
		e.State, e.RequeuedAt = Requeued, at
	case r.Verb == Begin && r.Value == soon:
		e.State, e.RestoredAt = Restored, at
	default:
		return tried > 0
	}
	return true
}

func (c *Claim) settle(r *Result, at time.Time) bool {
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
