package plan

import (
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
	ours := wrote && w.Lever == slurmplug.SiteFactor
	switch {
	case j.SiteFactorKnown:
		x.Value, x.Known = j.SiteFactor, true
	case ours && w.Tried == w.Value:
		x.Value, x.Known = w.Value, true
	}
	x.Wrote, x.Foreign = wrote, x.Known && x.Value != 0 && isForeign(j, x.Value, w, ours)
	return x
}

// isForeign leaves alone what a BE job holds that this priod never wrote to; on a TE job it may be priod's own value from
// before its database was lost.
func isForeign(j *cluster.Job, now int64, w cluster.Written, ours bool) bool {
	if !ours {
		return j.Tag.Type != "te"
	}
	return !w.Sent(now)
}

// Rank is the action that moves a job from one value to another.
func Rank(j *cluster.Job, now, want int64) Action {
	return place(j, slurmplug.SiteFactor, now, want)
}

func place(j *cluster.Job, l slurmplug.Lever, before, after int64) Action {
	return Action{Job: j.ID, Lever: l, Before: slurmplug.Number(before), After: slurmplug.Number(after), UserNice: slurmplug.Number(j.Nice)}
}

// Restore returns the actions that give a job its own place back, given what was last written into it; none when it holds
// its own value, or one of another origin.
func Restore(j *cluster.Job, w cluster.Written) []Action {
	if w.Lever != slurmplug.SiteFactor {
		return RestoreFormer(j, w)
	}
	x := HeldBy(j, &cluster.History{Written: map[cluster.JobID]cluster.Written{j.ID: w}})
	switch {
	case !x.Known, j.State == cluster.Unread: // what it holds is not known
		x.Value = w.Tried
	case x.Value == 0, x.Foreign:
		return nil
	}
	return []Action{Rank(j, x.Value, 0)}
}

// RestoreFormer is Restore for what an earlier version wrote by another field than SiteFactor.
func RestoreFormer(j *cluster.Job, w cluster.Written) []Action {
	switch w.Lever {
	case slurmplug.Nice:
		return restoreNice(j, w)
	case slurmplug.Priority:
		return restorePriority(j, w)
	}
	return nil
}

// restoreNice gives a job its own Nice back, which an earlier version lowered.
func restoreNice(j *cluster.Job, w cluster.Written) []Action {
	if j.State != cluster.Unread && (j.Nice == w.Original || !w.Sent(j.Nice)) {
		return nil
	}
	a := place(j, slurmplug.Nice, j.Nice, w.Original)
	a.UserNice = slurmplug.Number(w.Original)
	return []Action{a}
}

// restorePriority releases a job whose priority an earlier version set. Slurm froze its own factors then and set its
// Nice to 0 (job_mgr.c, direct_set_prio). A job that is held since is not let go.
func restorePriority(j *cluster.Job, w cluster.Written) []Action {
	now := j.Priority
	if j.State == cluster.Unread {
		now = w.Tried
	}
	if w.Value == 0 && w.Tried == 0 || now == 0 && j.State != cluster.Unread {
		return nil
	}
	back := []Action{{Job: j.ID, Lever: slurmplug.Release, Before: slurmplug.Number(now)}}
	if w.Original != 0 {
		a := place(j, slurmplug.Nice, 0, w.Original)
		a.UserNice = slurmplug.Number(w.Original) // Slurm zeroed the job's own
		back = append(back, a)
	}
	return back
}

// Withdrawn is what the field holds once priod has taken its value back.
func Withdrawn(w cluster.Written) int64 {
	if w.Lever == slurmplug.Nice {
		return w.Original
	}
	return 0
}

// Effect returns what History has to remember of an action that Slurm accepted.
func Effect(a Action, h *cluster.History) cluster.Written {
	w := h.Written[a.Job]
	if a.Lever == slurmplug.Release {
		return cluster.Written{Lever: slurmplug.Priority, Original: w.Original}
	}
	original := w.Original
	if w.Lever != a.Lever {
		original = a.UserNice.Number()
	}
	return cluster.Written{Lever: a.Lever, Value: a.After.Number(), Original: original}
}
