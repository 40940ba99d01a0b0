package order

import (
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// lever translates between the value that a job stands at (0: where Slurm
// itself puts it) and one of Slurm's fields.
type lever interface {
	// band is where values may lie, given the size of a step and the highest value.
	band(step, top int64) plan.Band
	// now is the value that the job holds, and whether that is known.
	now(j *cluster.Job, h *cluster.History) (value int64, known bool)
	// value turns what was written into the field back into a value.
	value(written int64, w cluster.Written) int64
	// neutral is what the field holds when priod has withdrawn its value.
	neutral(w cluster.Written) int64
	// own is Slurm's own part of the job's priority.
	own(j *cluster.Job, now int64) int64
	// userNice is the Nice that the job's owner asked for.
	userNice(j *cluster.Job, h *cluster.History) int64
	// foreign reports whether the value now, which is not 0, is of another origin.
	foreign(j *cluster.Job, now int64, w cluster.Written, wrote bool) bool
	// peerValue is what another priod, with the same settings, must have written for
	// the job to hold what it holds; false when no priod writes such a value, or this
	// one wrote it (w).
	peerValue(j *cluster.Job, w cluster.Written, wrote bool, s valueRange) (cluster.Written, bool)
	// actions move a job that holds now to want.
	actions(j *cluster.Job, h *cluster.History, now, want int64) []plan.Action
}

func leverOf(l slurmplug.Lever) lever {
	switch l {
	case slurmplug.SiteFactor:
		return siteFactor{}
	case slurmplug.Nice:
		return nice{}
	case slurmplug.Priority, slurmplug.Release:
		return priority{}
	}
	panic(fmt.Sprintf("order: %q ranks no job", l))
}

// Restore returns the actions that give a job its own value back, given what was last
// written into it; none when it holds its own value, or one of another origin.
func Restore(j *cluster.Job, w cluster.Written) []plan.Action {
	h := cluster.History{Written: map[cluster.JobID]cluster.Written{j.ID: w}}
	l := leverOf(w.Lever)
	now, known := l.now(j, &h)
	switch {
	case !known, j.State == cluster.Unread: // what it holds is not known
		now = l.value(w.Tried, w)
	case now == 0, l.foreign(j, now, w, true):
		return nil
	}
	return l.actions(j, &h, now, 0)
}

// TakenBack reports whether an action writes into a job whose last value another writer
// took back.
func TakenBack(a plan.Action, w cluster.Written) bool {
	if w.Lever != a.Lever {
		return false
	}
	neutral := leverOf(w.Lever).neutral(w)
	return w.Value != neutral && a.Before == slurmplug.Number(neutral)
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

func setTo(j *cluster.Job, l slurmplug.Lever, before, after int64) plan.Action {
	return plan.Action{Job: j.ID, Lever: l, Before: slurmplug.Number(before), After: slurmplug.Number(after), UserNice: slurmplug.Number(j.Nice)}
}

// siteFactor is the lever that adds to Slurm's own factors (multifactor only).
type siteFactor struct{}

func (siteFactor) band(step, top int64) plan.Band {
	return plan.Band{Lo: step, Hi: top / step * step, Step: step}
}

func (siteFactor) now(j *cluster.Job, h *cluster.History) (int64, bool) {
	if j.SiteFactorKnown {
		return j.SiteFactor, true
	}
	if w, ok := h.Written[j.ID]; ok && w.Lever == slurmplug.SiteFactor && w.Tried == w.Value {
		return w.Value, true
	}
	return 0, false
}

func (siteFactor) value(written int64, _ cluster.Written) int64      { return written }
func (siteFactor) neutral(cluster.Written) int64                     { return 0 }
func (siteFactor) own(j *cluster.Job, now int64) int64               { return j.Priority - now }
func (siteFactor) userNice(j *cluster.Job, _ *cluster.History) int64 { return j.Nice }

// foreign leaves alone what a BE job holds that this priod never wrote to; on a TE job
// it may be priod's own value from before its database was lost.
func (siteFactor) foreign(j *cluster.Job, now int64, w cluster.Written, wrote bool) bool {
	if !wrote {
		return j.Tag.Type != "te"
	}
	return !w.Sent(now)
}

func (siteFactor) peerValue(j *cluster.Job, w cluster.Written, wrote bool, s valueRange) (cluster.Written, bool) {
	v := j.SiteFactor
	if !j.SiteFactorKnown || v < s.least || v > s.top || wrote && w.Sent(v) {
		return w, false
	}
	return cluster.Written{Lever: slurmplug.SiteFactor, Value: v, Tried: v}, true
}

func (siteFactor) actions(j *cluster.Job, _ *cluster.History, now, want int64) []plan.Action {
	return []plan.Action{setTo(j, slurmplug.SiteFactor, now, want)}
}

// nice is the lever that lowers the job's Nice; the owner's own Nice stays part of it. It
// adds to the priority as siteFactor does.
type nice struct{ siteFactor }

func (n nice) now(j *cluster.Job, h *cluster.History) (int64, bool) {
	return n.userNice(j, h) - j.Nice, true
}

func (nice) value(written int64, w cluster.Written) int64 { return w.Original - written }
func (nice) neutral(w cluster.Written) int64              { return w.Original }

func (nice) userNice(j *cluster.Job, h *cluster.History) int64 {
	if w, ok := h.Written[j.ID]; ok && w.Lever == slurmplug.Nice {
		return w.Original
	}
	return j.Nice
}

func (nice) foreign(_ *cluster.Job, now int64, w cluster.Written, wrote bool) bool {
	return wrote && !w.Sent(w.Original-now)
}

// peerValue takes what is left of the Nice after whole steps for the owner's own: that
// is right if the other priod's step was the same, else a guess.
func (n nice) peerValue(j *cluster.Job, w cluster.Written, wrote bool, s valueRange) (cluster.Written, bool) {
	original := j.Nice + (s.step/2-j.Nice)/s.step*s.step
	if wrote {
		original = w.Original
	}
	v := original - j.Nice
	if wrote && w.Sent(j.Nice) || v < s.least || v > s.top || original < -s.nice || original > s.nice {
		return w, false
	}
	return cluster.Written{Lever: slurmplug.Nice, Value: j.Nice, Tried: j.Nice, Original: original}, true
}

func (n nice) actions(j *cluster.Job, h *cluster.History, _, want int64) []plan.Action {
	own := n.userNice(j, h)
	a := setTo(j, slurmplug.Nice, j.Nice, own-want)
	a.UserNice = slurmplug.Number(own)
	return []plan.Action{a}
}

// priority is the lever that sets the priority itself. Slurm then freezes the job's own
// factors and sets its Nice to 0; only a release gives both back (job_mgr.c,
// direct_set_prio). Values are priorities, and need no steps between them.
type priority struct{}

// band lies above all that Slurm's own factors can reach.
func (priority) band(step, top int64) plan.Band {
	return plan.Band{Lo: 2 * step, Hi: top, Step: 1}
}

// isSet reports whether priod has set the job's priority.
func (priority) isSet(j *cluster.Job, h *cluster.History) bool {
	w, ok := h.Written[j.ID]
	return ok && w.Lever == slurmplug.Priority && (w.Value != 0 || w.Tried != 0)
}

func (p priority) now(j *cluster.Job, h *cluster.History) (int64, bool) {
	if !p.isSet(j, h) {
		return 0, true
	}
	return j.Priority, true
}

func (priority) value(written int64, _ cluster.Written) int64 { return written }
func (priority) neutral(cluster.Written) int64                { return 0 }

func (priority) own(j *cluster.Job, now int64) int64 {
	if now != 0 {
		return 0
	}
	return j.Priority
}

func (p priority) userNice(j *cluster.Job, h *cluster.History) int64 {
	if p.isSet(j, h) {
		return h.Written[j.ID].Original
	}
	return j.Nice
}

// foreign is always false: before Slurm 26.05 backfill can put an older priority back
// by itself (backfill.c), so priod writes the value again, a few times at most.
func (priority) foreign(*cluster.Job, int64, cluster.Written, bool) bool { return false }

// peerValue recognises a priority that Slurm's own factors cannot reach. The owner's
// Nice is lost, since Slurm set it to 0.
func (priority) peerValue(j *cluster.Job, w cluster.Written, wrote bool, s valueRange) (cluster.Written, bool) {
	if wrote || j.Priority < 2*s.step || j.Priority > s.top {
		return w, false
	}
	return cluster.Written{Lever: slurmplug.Priority, Value: j.Priority, Tried: j.Priority}, true
}

func (p priority) actions(j *cluster.Job, h *cluster.History, now, want int64) []plan.Action {
	if want != 0 {
		return []plan.Action{setTo(j, slurmplug.Priority, now, want)}
	}
	back := []plan.Action{{Job: j.ID, Lever: slurmplug.Release, Before: slurmplug.Number(now)}}
	if n := p.userNice(j, h); n != 0 {
		a := setTo(j, slurmplug.Nice, 0, n)
		a.UserNice = slurmplug.Number(n) // Slurm zeroed the job's own
		back = append(back, a)
	}
	return back
}
