package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/store"
)

// Breach is a rule that did not hold.
type Breach struct {
	Rule string
	Job  string // by name and Slurm's id
	Why  string
}

func (b Breach) String() string { return fmt.Sprintf("%s: %s: %s", b.Rule, b.Job, b.Why) }

func (p *Part) breach(rule, format string, args ...any) Breach {
	return Breach{rule, fmt.Sprintf("%s (%s, %s)", p.Name, p.ID, p.Job.Class), fmt.Sprintf(format, args...)}
}

// Rules are all that have to hold over a run with priod.
var Rules = []func(*Run) []Breach{Completed, WorkDone, Consented, Journalled, InVain, Held, NotThrashed, Free, Retried, Undone, Answered, Quiet, Waited}

// Breaches are what the rules find.
func Breaches(r *Run) (all []Breach) {
	for _, rule := range Rules {
		all = append(all, rule(r)...)
	}
	return all
}

// count of a log's events of one kind.
func count(log []Event, what string) (n int) {
	for _, e := range log {
		if e.What == what {
			n++
		}
	}
	return n
}

// Completed: every job that was submitted ends COMPLETED, or was cancelled by its
// user, or failed by its own fault, or ran out of the time that its user gave it.
func Completed(r *Run) (all []Breach) {
	states := r.states()
	for _, p := range r.Parts() {
		runs, state := r.Ran[p.ID], cmp.Or(states[p.ID], "unknown")
		log := r.Logs[p.Name]
		// Accounting does not show a job that was cancelled before it was eligible.
		own := did(r.Done, p.N, time.Now(), "cancel") && (state == "CANCELLED" || len(runs)+len(log) == 0) || count(log, "failed")+count(log, "crashed") > 0 && state == "FAILED" || state == "TIMEOUT" ||
			state == "NODE_FAIL" && (p.Job.NoRequeue || p.Job.Het || p.Job.Nodes > 1)
		if state != "COMPLETED" && !own {
			all = append(all, p.breach("ends completed", "ended %s after %d runs and %d signals, its last words: %v", state, len(runs), count(log, "signal"), lastEvent(log)))
		}
	}
	return all
}

// crashed is when a job died of a signal of its own; false when it did not.
func (r *Run) crashed(p Part) (at time.Time, ok bool) {
	i := slices.IndexFunc(r.Logs[p.Name], func(e Event) bool { return e.What == "crashed" })
	if i < 0 {
		return at, false
	}
	return r.Logs[p.Name][i].At, true
}

// toldToLeave reports whether the store had the eviction of the run that a job was in at a moment.
func (r *Run) toldToLeave(p Part, at time.Time) bool {
	var begun time.Time
	for _, e := range r.Logs[p.Name] {
		if e.What == "start" && !e.At.After(at) {
			begun = e.At
		}
	}
	return slices.ContainsFunc(r.Journal, func(x store.Eviction) bool {
		return x.Victim.String() == p.ID && x.Recorded.After(begun) && x.Recorded.Before(at)
	})
}

// polled is how long a job may be in the queue without a poll that sees it: polls are 2 s
// apart, and each takes its time.
const polled = 3 * time.Second

// seenBefore reports whether a job was in the queue at a moment. One that comes and crashes
// between two polls priod does not see, so nobody runs it again (docs/features/failures.md).
func (r *Run) seenBefore(p Part, at time.Time) bool {
	return slices.ContainsFunc(r.Views, func(v View) bool {
		return !v.At.After(at) && slices.ContainsFunc(v.Queue, func(s Seen) bool {
			id, _, _ := strings.Cut(s.Shown, "+")
			return id == p.ID
		})
	})
}

// Retried: who crashed runs again if its user agreed to that, and else does not.
func Retried(r *Run) (all []Breach) {
	states := r.states()
	for _, p := range r.Parts() {
		at, crashed := r.crashed(p)
		if !crashed || slices.ContainsFunc(r.Done, func(d Done) bool { return d.Job == p.N }) {
			continue // what its user did may have ended its agreement
		}
		if r.toldToLeave(p, at) {
			continue // a victim is requeued, whatever it dies of
		}
		again := slices.ContainsFunc(r.Logs[p.Name], func(e Event) bool { return e.What == "start" && e.At.After(at) })
		agreed := p.Job.Retry == "always"
		// Who ends while no priod runs is nobody's: it knows the queue since its start.
		away := r.troubled(at) || at.After(r.Stopped.Add(-slack)) && at.Before(r.Stopped.Add(time.Minute))
		switch {
		case again && !agreed:
			all = append(all, p.breach("runs again who agreed", "crashed at %s and ran again; its tag says %q", at.Format("15:04:05.0"), p.Job.Retry))
		case !again && agreed && !away && r.seenBefore(p, at.Add(-polled)):
			all = append(all, p.breach("runs again who agreed", "crashed at %s and is %s", at.Format("15:04:05.0"), states[p.ID]))
		}
	}
	return all
}

// states are the last that squeue showed of each part; it forgets an end after MinJobAge.
func (r *Run) states() map[string]string {
	all := map[string]string{}
	for _, v := range r.Views {
		for _, s := range v.Queue {
			id, _, _ := strings.Cut(s.Shown, "+")
			all[id] = s.State
		}
	}
	return all
}

func lastEvent(log []Event) string {
	if len(log) == 0 {
		return "none"
	}
	e := log[len(log)-1]
	return fmt.Sprint(e.At.Format("15:04:05.0"), " ", e.What, " ", strings.Join(e.More, " "))
}

// WorkDone: who ended COMPLETED has done each piece of work, and each start but the
// first goes on from what was saved last. A kill can cut off a job between the save and
// its word of it: then it goes on from a piece that it had done since.
func WorkDone(r *Run) (all []Breach) {
	states := r.states()
	for _, p := range r.Parts() {
		log := r.Logs[p.Name]
		did, saved := map[int]bool{}, 0
		for _, e := range log {
			switch e.What {
			case "piece":
				did[e.Number(0)] = true
			case "saved":
				saved = e.Number(0)
			case "start":
				if from := e.Number(0); from < saved || from > saved && !did[from] {
					all = append(all, p.breach("goes on where it was", "run %d began at %d, and %d was saved", e.Number(1), from, saved))
				}
			}
		}
		if states[p.ID] == "COMPLETED" && (len(did) < p.Job.Pieces || count(log, "complete") == 0) {
			all = append(all, p.breach("all work done", "COMPLETED with %d of %d pieces done, %d signals; its last words: %s", len(did), p.Job.Pieces, count(log, "signal"), lastEvent(log)))
		}
	}
	return all
}

// slack is what a moment that two clocks tell may differ, and a cycle.
const slack = 6 * time.Second

// told are the signals to a part that its user did not cause: he cancels or
// requeues, and the next moments' TERM is of that; or its own time limit is over.
func (r *Run) told(p Part) (all []Event) {
	for _, e := range r.Logs[p.Name] {
		limit := slices.ContainsFunc(r.Ran[p.ID], func(x Ran) bool { return x.State == "TIMEOUT" && x.End.Sub(e.At).Abs() < time.Minute })
		if e.What == "signal" && !limit && !r.usersSignal(p, e.At) && !r.struck(p, e.At) {
			all = append(all, e)
		}
	}
	return all
}

func (r *Run) usersSignal(p Part, at time.Time) bool {
	for _, d := range r.Done {
		if d.Job == p.N && (d.Do == "cancel" || d.Do == "requeue") && d.From.Before(at) && at.Before(d.Until.Add(slack)) {
			return true
		}
	}
	return false
}

// Consented: nobody leaves who did not agree to it, nobody more often than the cap
// says, and nobody hears a signal of his own twice in one run.
func Consented(r *Run) (all []Breach) {
	for _, p := range r.Parts() {
		told := r.told(p)
		if len(told) == 0 {
			continue
		}
		for _, e := range told {
			if !r.agreed(p, e.At) {
				all = append(all, p.breach("consent", "was told to leave: %s at %s; no-requeue: %v, heterogeneous: %v", e.More, e.At.Format("15:04:05.0"), p.Job.NoRequeue, p.Job.Het))
				break
			}
		}
		own := strings.TrimPrefix(p.Job.Signal, "B:") // USR1, or "" for TERM
		runs, signals := map[int]bool{}, map[int]int{}
		for _, e := range told {
			runs[e.Number(1)] = true
			if e.More[0] == own && !r.troubled(e.At) {
				signals[e.Number(1)]++
			}
		}
		if r.Cap > 0 && len(runs) > r.Cap {
			all = append(all, p.breach("cap", "was told to leave in %d runs; max_evictions is %d", len(runs), r.Cap))
		}
		for run, n := range signals {
			if n > 1 {
				all = append(all, p.breach("one signal", "got %s %d times in run %d", own, n, run))
			}
		}
	}
	return all
}

// agreed reports whether a part had agreed to leave at some time: by its tag, until its
// user wrote another comment, or by a QOS of ranking.be_qos.
func (r *Run) agreed(p Part, at time.Time) bool {
	tag := p.Job.Evictable()
	for _, d := range r.Done {
		if d.Job != p.N || d.Failed != "" || d.From.After(at) {
			continue
		}
		switch {
		case d.Do == "QOS" && d.Value == "be" && !p.Job.NoRequeue && !p.Job.Het:
			return true
		case d.Do == "Comment" && d.Until.Add(slack).Before(at):
			tag = false
		}
	}
	return tag
}

// Journalled: each signal has its row in the store before it.
func Journalled(r *Run) (all []Breach) {
	for _, p := range r.Parts() {
		for _, e := range r.told(p) {
			found := false
			for _, x := range r.Journal {
				if x.Victim.String() == p.ID && !x.Recorded.After(e.At) && (x.Left.IsZero() || x.Left.After(e.At.Add(-slack))) {
					found = true
				}
			}
			if !found {
				all = append(all, p.breach("a row before the signal", "got %v at %s, and the store has no eviction of it that was recorded before", e.More, e.At.Format("15:04:05.0")))
			}
		}
	}
	return all
}

// InVain: no place for which a job left is free for a minute while the job that it is for does not start, but after a fault.
func InVain(r *Run) (all []Breach) {
	for i := range r.Journal {
		if x := &r.Journal[i]; x.ClaimReason == "the place was free, and the job did not start in time" && !r.troubled(x.Room) && !r.troubled(x.ClaimEnded) {
			all = append(all, Breach{"no job leaves in vain", x.Victim.String(), fmt.Sprintf("left for job %s on %s, until %s", x.For, x.Nodes, x.ClaimEnded.Format("15:04:05.0"))})
		}
	}
	return all
}

// Held: a job is never in BadConstraints, nor held by anybody but its user.
func Held(r *Run) (all []Breach) {
	said := map[string]bool{}
	for _, v := range r.Views {
		for _, s := range v.Queue {
			n := r.Number(s.Shown)
			if n < 0 || s.State != "PENDING" || said[s.Shown] {
				continue
			}
			why := ""
			switch {
			case s.Reason == "BadConstraints" && !(s.Partition == "interactive" && r.inWeather(v.At, Partition)):
				why = "is in BadConstraints"
			case strings.HasPrefix(s.Reason, "JobHeld") && !r.Jobs[n].Held && !did(r.Done, n, v.At, "hold"):
				why = "is held: " + s.Reason
			}
			if why != "" {
				said[s.Shown] = true
				all = append(all, Breach{"never held", fmt.Sprintf("%s (%s)", r.Jobs[n].Name, s.Shown), fmt.Sprintf("%s at %s; features %q, nodes %q, CPUs %s, priority %d", why, v.At.Format("15:04:05.0"), s.Features, s.ReqNodes, s.CPUs, s.Priority)})
			}
		}
	}
	return all
}
