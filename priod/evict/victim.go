package evict

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

const (
	// maxTries is how often a signal or a begin time is sent that Slurm refuses.
	maxTries = 3
	// maxRequeues is how often a requeue is sent.
	maxRequeues = 60
	// requeueDelay keeps a requeued victim out of the room that other victims still make. The delay that Slurm itself gives it may be less,
	// down to a second: AuthInfo=cred_expire, 120 s by default, or since 25.11 SchedulerParameters=requeue_delay (slurmctld/job_mgr.c,
	// batch_requeue_fini).
	requeueDelay = 2 * time.Minute
	// renewAhead is how long before its begin time a victim is delayed again.
	renewAhead = 20 * time.Second
)

// beginSoon is when a victim may start again: one that starts on the same node within
// the second in which it ended is lost (Slurm 22.05.8: "Job credential revoked").
var beginSoon = slurmplug.Delay(2 * time.Second)

// beginLater is the begin time of a victim that has to wait until its claim ends.
var beginLater = slurmplug.Delay(requeueDelay)

// isRun reports whether Slurm still shows the run that is evicted.
func (e *Eviction) isRun(s *plan.JobStatus) bool {
	return !s.Gone && s.State != cluster.Pending && s.IsRun(e.Start, e.Restarts)
}

// advanceEviction takes one eviction as far as it goes now.
func (n *transition) advanceEviction(e *Eviction) {
	s, looked := n.Statuses[e.Job]
	if !looked {
		return
	}
	if s.User != "" && !cluster.SameUser(s.User, e.User) {
		s = plan.JobStatus{Gone: true} // Slurm gave the id to another job
	}
	switch {
	case e.State == Recorded && e.SignalledAt.IsZero():
		n.fromRecorded(e, &s)
	case e.Leaving():
		n.fromSignalled(e, &s)
	case e.State == Left:
		n.fromLeft(e, &s)
	case e.State == Requeued:
		n.fromRequeued(e, &s)
	case e.State == Restored:
		n.fromRestored(e, &s)
	}
}

// fromRecorded sends the signal. The row says so before: after a crash it is not known whether the signal arrived.
func (n *transition) fromRecorded(e *Eviction, s *plan.JobStatus) {
	c := n.claimOf(e)
	window := c != nil && c.Purpose == ForWindow // its limit ends it anyway: it leaves while priod is paused, too
	switch {
	case !e.isRun(s) || s.Final != "" || s.State == cluster.Completing:
		e.How = Ended
		e.close(CalledOff, "its run ended before it was signalled", n.At)
	case !window && (c == nil || !c.Open() || n.isUnwanted(c)):
		e.close(CalledOff, "the job that it makes room for no longer waits", n.At)
	case !s.CanRequeue || s.Expedites || s.OnHold:
		e.close(CalledOff, "it may no longer be evicted", n.At)
	case n.Paused && !window:
		e.close(CalledOff, "priod is paused", n.At)
	case e.Tries >= maxTries:
		e.close(CalledOff, "the signal could not be sent: "+e.Reason, n.At)
	case !n.isPinned(c) || c.Resv != "" && c.ResvAt.IsZero():
	default:
		e.SignalledAt = n.At
		n.command(e, plan.Signal, slurmplug.Text(e.Signal))
		n.commands[len(n.commands)-1].First = true
	}
}

// fromSignalled waits until the victim leaves, and requeues it when its grace is over. A signal that may not have arrived is sent again,
// whatever has become of the claim, each time after twice as long; a victim that ends meanwhile counts as one that left because of it.
func (n *transition) fromSignalled(e *Eviction, s *plan.JobStatus) {
	if n.At.Before(e.SignalledAt) {
		e.SignalledAt = n.At // the clock was set back: it gets one more grace at most
	}
	told := n.At.Sub(e.SignalledAt)
	switch {
	case !e.isRun(s) || s.Final != "":
		n.recordLeaving(e, s)
	case s.State == cluster.Completing:
	case e.State == Recorded:
		if told >= time.Second<<min(e.Tries, 20)-time.Second { // 0, 1, 3, 7 ... s
			n.command(e, plan.Signal, slurmplug.Text(e.Signal))
		}
	case told >= e.Grace:
		n.requeue(e)
	}
}

// endsBySignal are the states of an ended run that may have ended because of the signal.
var endsBySignal = []string{"COMPLETED", "FAILED", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED"}

// recordLeaving records in which way a signalled victim left, and requeues it if it left because of the signal.
func (n *transition) recordLeaving(e *Eviction, s *plan.JobStatus) {
	e.LeftAt, e.Tries, e.Reason = n.At, 0, ""
	e.ExitCode, e.ExitSignal = s.ExitCode, s.ExitedBy
	switch {
	case s.Gone && (s.Final == "" || s.Start.Before(e.Start)):
		e.How = Forgotten
		e.close(Done, "Slurm no longer knows it, and accounting does not say how it ended: unless it finished, its owner has to resubmit it", n.At)
	case s.Gone && s.Start.After(e.Start):
		e.How = Returned
		e.close(Done, "it ran again and ended: "+s.Final, n.At)
	case !s.Gone && !e.isRun(s):
		e.How, e.State, e.RequeuedAt = Returned, Requeued, n.At
		if s.Submit.After(e.SignalledAt) && s.Submit.Before(n.At) {
			e.LeftAt = s.Submit // Slurm's word for when it was requeued: priod may have been down since
		}
		if !n.At.Before(e.SignalledAt.Add(e.Grace)) {
			e.How = Forced // by a requeue whose result was not received
		}
	default:
		if s.Gone && s.End.After(e.SignalledAt) {
			e.LeftAt = s.End
		}
		switch {
		case s.Final == "COMPLETED" && s.Gone:
			e.How = Finished
			e.close(Done, "", n.At)
		case !slices.Contains(endsBySignal, s.Final):
			e.How = Ended
			e.close(Done, s.Final, n.At)
		case s.Gone:
			e.closeForgotten(n.At)
		default:
			e.How, e.State = Exited, Left
			n.requeue(e)
		}
	}
	e.setPaid()
}

// setPaid sets what the eviction has cost: what was expected, with the time that leaving really took.
func (e *Eviction) setPaid() {
	switch e.How {
	case Exited, Forced, Returned:
		e.Paid = float64(e.GPUs) * (e.Unsaved + e.LeftAt.Sub(e.SignalledAt) + e.Restart).Seconds()
	}
}

// requeue puts the victim back into the queue. While its place is claimed its begin time is set by the same command: Slurm keeps a begin
// time that lies in the future when the run ends (seen on 22.05.8, 24.11.5 and 26.05.5).
func (n *transition) requeue(e *Eviction) {
	if e.Tries >= maxRequeues {
		e.close(CalledOff, "it could not be requeued: "+e.Reason, n.At)
		return
	}
	begin := slurmplug.Value{}
	if c := n.claimOf(e); c != nil && c.Open() {
		begin = beginLater
	}
	n.command(e, plan.Requeue, begin)
}

// fromLeft requeues a victim that has left, until Slurm shows it in the queue.
func (n *transition) fromLeft(e *Eviction, s *plan.JobStatus) {
	switch {
	case s.Gone:
		e.closeForgotten(n.At)
	case !e.isRun(s):
		e.State, e.RequeuedAt, e.Tries, e.Reason = Requeued, n.At, 0, ""
	case s.State != cluster.Completing:
		n.requeue(e)
	}
}

// fromRequeued keeps the victim waiting as long as its claim is open, and lets it start then.
func (n *transition) fromRequeued(e *Eviction, s *plan.JobStatus) {
	if s.State != cluster.Pending {
		n.fromRestored(e, s)
		return
	}
	waits := s.Eligible.Sub(n.At)
	c := n.claimOf(e)
	switch {
	case c != nil && c.Open():
		if waits < renewAhead {
			n.command(e, plan.Begin, beginLater)
		}
	case c != nil && c.Purpose == ForRound && n.Waiting == nil && waits > 0:
		// It waits for a whole cycle, which takes back the value by which an earlier round put it first.
	case waits <= 0 || e.Tries >= maxTries:
		e.State, e.RestoredAt, e.Tries = Restored, n.At, 0
	default:
		n.command(e, plan.Begin, beginSoon)
	}
}

// fromRestored ends an eviction when its victim runs again or has left the queue.
func (n *transition) fromRestored(e *Eviction, s *plan.JobStatus) {
	switch {
	case s.Gone || s.Final != "":
		e.close(Done, "it left the queue", n.At)
	case s.State == cluster.Running || s.State == cluster.Suspended:
		if !e.isRun(s) {
			e.close(Done, "", s.Start)
		}
	}
}

// closeForgotten closes the eviction of a victim that left because of the signal so long ago that slurmctld no longer knows it.
func (e *Eviction) closeForgotten(at time.Time) {
	e.How = Forgotten
	e.close(Done, "it left because of the signal, and Slurm dropped it before it could be requeued: its owner has to resubmit it", at)
}

// close ends an eviction.
func (e *Eviction) close(state State, why string, at time.Time) {
	e.State, e.Reason, e.Ended = state, why, at
}

// applyResult takes over the result of a command, and reports whether the row changed.
func (e *Eviction) applyResult(r *plan.Result, at time.Time) bool {
	if r.Status != slurmplug.Applied {
		if r.Kind == plan.Signal && r.Status != slurmplug.Unknown && r.First {
			e.SignalledAt = time.Time{} // it never arrived
		}
		e.Tries, e.Reason = e.Tries+1, r.Message
		return true
	}
	tried := e.Tries
	e.Tries, e.Reason = 0, ""
	switch {
	case r.Kind == plan.Signal:
		e.State, e.SignalledAt = Signalled, at
	case r.Kind == plan.Requeue:
		if e.State == Signalled {
			e.How, e.LeftAt = Forced, at
			e.setPaid()
		}
		e.State, e.RequeuedAt = Requeued, at
	case r.Kind == plan.Begin && r.Value == beginSoon:
		e.State, e.RestoredAt = Restored, at
	default:
		return tried > 0
	}
	return true
}
