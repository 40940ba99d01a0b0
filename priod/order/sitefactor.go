package order

import (
	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// What priod wants of a job's place is a value above Slurm's own priority; 0: where Slurm itself puts it. It stands in
// the job's SiteFactor, which Slurm adds to its own factors.

// held is what a job holds of that.
type held struct {
	value   int64
	known   bool
	wrote   bool // priod wrote into the job
	foreign bool // priod did not write value
}

func heldBy(j *cluster.Job, h *cluster.History) (x held) {
	w, wrote := h.Written[j.ID]
	ours := wrote && w.Lever == slurmplug.SiteFactor
	switch {
	case j.SiteFactorKnown:
		x.value, x.known = j.SiteFactor, true
	case ours && w.Tried == w.Value:
		x.value, x.known = w.Value, true
	}
	x.wrote, x.foreign = wrote, x.known && x.value != 0 && isForeign(j, x.value, w, ours)
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

// set moves a job from one value to another.
func set(j *cluster.Job, now, want int64) []plan.Action {
	return []plan.Action{write(j, slurmplug.SiteFactor, now, want)}
}

func write(j *cluster.Job, l slurmplug.Lever, before, after int64) plan.Action {
	return plan.Action{Job: j.ID, Lever: l, Before: slurmplug.Number(before), After: slurmplug.Number(after), UserNice: slurmplug.Number(j.Nice)}
}

// Restore returns the actions that give a job its own value back, given what was last written into it; none when it holds
// its own value, or one of another origin.
func Restore(j *cluster.Job, w cluster.Written) []plan.Action {
	if w.Lever != slurmplug.SiteFactor {
		return formerly(j, w)
	}
	x := heldBy(j, &cluster.History{Written: map[cluster.JobID]cluster.Written{j.ID: w}})
	switch {
	case !x.known, j.State == cluster.Unread: // what it holds is not known
		x.value = w.Tried
	case x.value == 0, x.foreign:
		return nil
	}
	return set(j, x.value, 0)
}

// formerly is Restore for what an earlier version wrote by another field than SiteFactor.
func formerly(j *cluster.Job, w cluster.Written) []plan.Action {
	switch w.Lever {
	case slurmplug.Nice:
		return restoreNice(j, w)
	case slurmplug.Priority:
		return restorePriority(j, w)
	}
	return nil
}

// restoreNice gives a job its own Nice back, which an earlier version lowered.
func restoreNice(j *cluster.Job, w cluster.Written) []plan.Action {
	if j.State != cluster.Unread && (j.Nice == w.Original || !w.Sent(j.Nice)) {
		return nil
	}
	a := write(j, slurmplug.Nice, j.Nice, w.Original)
	a.UserNice = slurmplug.Number(w.Original)
	return []plan.Action{a}
}

// restorePriority releases a job whose priority an earlier version set. Slurm froze its own factors then and set its
// Nice to 0 (job_mgr.c, direct_set_prio). A job that is held since is not let go.
func restorePriority(j *cluster.Job, w cluster.Written) []plan.Action {
	now := j.Priority
	if j.State == cluster.Unread {
		now = w.Tried
	}
	if w.Value == 0 && w.Tried == 0 || now == 0 && j.State != cluster.Unread {
		return nil
	}
	back := []plan.Action{{Job: j.ID, Lever: slurmplug.Release, Before: slurmplug.Number(now)}}
	if w.Original != 0 {
		a := write(j, slurmplug.Nice, 0, w.Original)
		a.UserNice = slurmplug.Number(w.Original) // Slurm zeroed the job's own
		back = append(back, a)
	}
	return back
}

// neutral is what the field holds once priod has withdrawn its value.
func neutral(w cluster.Written) int64 {
	if w.Lever == slurmplug.Nice {
		return w.Original
	}
	return 0
}

// isTakenBack reports whether an action writes into a job whose last value another writer took back.
func isTakenBack(a plan.Action, w cluster.Written) bool {
	return w.Lever == a.Lever && w.Value != neutral(w) && a.Before == slurmplug.Number(neutral(w))
}

// Effect returns what History has to remember of an action that Slurm accepted.
func Effect(a plan.Action, h *cluster.History) cluster.Written {
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
