package plan

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// What priod wants of a job's place in the order is a value above Slurm's own priority; 0: where Slurm itself puts it. It
// stands in the job's SiteFactor, which Slurm adds to its own factors.

// HeldValue is what a job holds of that.
type HeldValue struct {
	Value   int64
	Known   bool
	Wrote   bool // priod wrote into the job
	Foreign bool // priod did not write Value
}

// HeldBy is what a job holds.
func HeldBy(j *cluster.Job, h *cluster.History) (x HeldValue) {
	w, wrote := h.Written[j.ID]
	return heldBy(j, w, wrote)
}

func heldBy(j *cluster.Job, w cluster.Written, wrote bool) (x HeldValue) {
	switch {
	case j.SiteFactorKnown:
		x.Value, x.Known = j.SiteFactor, true
	case wrote && w.Tried == w.Value:
		x.Value, x.Known = w.Value, true
	}
	x.Wrote, x.Foreign = wrote, x.Known && x.Value != 0 && isForeign(j, x.Value, w, wrote)
	return x
}

// isForeign leaves alone what a BE job holds that this priod never wrote to; on a TE job it may be priod's own value from
// before its database was lost.
func isForeign(j *cluster.Job, now int64, w cluster.Written, wrote bool) bool {
	if !wrote {
		return j.Tag.Type != "te"
	}
	return !w.Sent(now)
}

// Rank is the action that moves a job from one value to another.
func Rank(j *cluster.Job, now, want int64) Action {
	return Action{Job: j.ID, Lever: slurmplug.SiteFactor, Before: slurmplug.Number(now), After: slurmplug.Number(want), UserNice: slurmplug.Number(j.Nice)}
}

// Restore returns the action that gives a job its own place back, given what was last written into it; false when it holds
// its own value, or one of another origin.
func Restore(j *cluster.Job, w cluster.Written) (back Action, needed bool) {
	x := heldBy(j, w, true)
	switch {
	case !x.Known, j.State == cluster.Unread: // what it holds is not known
		x.Value = w.Tried
	case x.Value == 0, x.Foreign:
		return back, false
	}
	return Rank(j, x.Value, 0), true
}

// Effect returns what History has to remember of an action that Slurm accepted.
func Effect(a Action, at time.Time) cluster.Written {
	return cluster.Written{Lever: a.Lever, Value: a.After.Number(), At: at}
}
