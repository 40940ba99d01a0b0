package view

import (
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// What became of a job since the last cycle, as Slurm shows it now.
const (
	sinceStarted  = "started"
	sinceRequeued = "requeued"
	sinceEnded    = "ended"
	sinceGone     = "gone"  // Slurm no longer knows it
	sinceRejoined = "waits" // an array's own record, of which no task waited
)

// sinceCycle is one of these words; "": nothing that is known. unread says that Slurm did not answer.
func (v *Explanation) sinceCycle(unread bool) string {
	j, left := &v.Job, !v.Job.Left.IsZero()
	waited, own := j.State == cluster.Pending.String(), v.Array != nil && j.ID.Task == slurmplug.NoTask
	switch now := v.Now; {
	case now == nil && !left && !unread:
		return sinceGone
	case now == nil:
		return ""
	case slurmplug.Ended(now.State):
		if left {
			return ""
		}
		return sinceEnded
	case left && own:
		return sinceRejoined
	case left, !waited && now.State == "PENDING":
		return sinceRequeued
	case waited && now.State != "PENDING":
		return sinceStarted
	}
	return ""
}

// stateWords are the job's state, now and as the last cycle saw it where that differs.
func (v *Explanation) stateWords() string {
	j, now := &v.Job, ""
	if v.Now != nil {
		now = fmt.Sprintf("%s (%s)", v.Now.State, v.Now.Reason)
	}
	seen := fmt.Sprintf("the cycle of %s saw it %s", report.Clock(v.Cycle.Until), j.State)
	switch v.Since {
	case sinceStarted:
		return now + "; started since then: " + seen
	case sinceEnded:
		return now + "; ended since then: " + seen
	case sinceGone:
		return "left the queue; " + seen
	case sinceRejoined:
		return now + fmt.Sprintf("; tasks wait in the array's own record again, none before %s", report.Clock(j.Left))
	case sinceRequeued:
		if x := v.lastEviction(); x != nil {
			now += fmt.Sprintf("; it left for job %s of %s", x.For, x.ForUser)
		}
		if j.Left.IsZero() {
			return now + "; requeued since then: " + seen
		}
		return now + fmt.Sprintf("; requeued since the cycle before %s, which saw it leave", report.Clock(j.Left))
	}
	switch {
	case !j.Left.IsZero() && v.Array != nil && j.ID.Task == slurmplug.NoTask:
		return fmt.Sprintf("none of its tasks waits in the array's own record since %s", report.Clock(j.Left))
	case !j.Left.IsZero():
		return fmt.Sprintf("left the queue before %s", report.Clock(j.Left))
	case v.Now != nil:
		return now
	}
	return fmt.Sprintf("%s (%s) at %s", j.State, j.Reason, report.Clock(v.Cycle.Until))
}

// lastEviction is the last one of the job's own runs, if it was signalled and is not back on GPUs.
func (v *Explanation) lastEviction() *store.Eviction {
	for i := range v.Evictions { // the latest first
		x := &v.Evictions[i]
		if x.Victim == v.Job.ID && x.State != string(evict.CalledOff) && x.State != string(evict.Recorded) && x.State != string(evict.Done) {
			return x
		}
	}
	return nil
}
