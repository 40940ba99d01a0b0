package daemon

import (
	"context"
	"fmt"
	"time"

	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/trial"
)

// trying is what the daemon knows of a trial. The trial itself is a file: it survives restarts, and the next host goes on with it.
type trying struct {
	begun    bool      // this process has just begun with the state folder
	reloaded bool      // with another priod.toml
	last     time.Time // a cycle ended; zero: not known
	block    int       // in which one began last
	judged   time.Time // its bounds were looked at
	trouble  string    // why it is not known
}

// silent is for how long no cycle may end before its block is left out.
const silent = 10 * time.Minute

// judgeEvery is how often the bounds of a trial are looked at.
const judgeEvery = 10 * time.Minute

// trial says whether a trial has priod off in this cycle, and notes it. What keeps a block from counting is kept with the trial.
func (d *Daemon) trial(now time.Time, hold string) (off bool, notes []plan.Note) {
	x, dir := &d.trying, d.Config.Journals()
	t, err := store.Trial(dir)
	if err != nil && err.Error() != x.trouble {
		x.trouble = err.Error()
		d.Log.Error("the trial is not followed: priod is on", "error", err)
	}
	if t == nil {
		*x = trying{trouble: x.trouble, last: x.last}
		return false, nil
	}
	x.trouble = ""
	d.touches(t, now, hold)
	off = t.Off(now)
	words := t.Words(now)
	if words != "" {
		kind := plan.TrialBlock
		if t.Harms {
			kind = plan.TrialHarms
		}
		notes = []plan.Note{{Kind: kind, Of: 1, Text: words}}
	}
	if b, on := t.At(now); on && b.Number != x.block {
		x.block = b.Number
		d.Log.Info("trial", "cycle", d.cycle, "block", b.Number, "priod", map[bool]string{true: "off", false: "on"}[b.Off], "until", b.Until)
	} else if !on && x.block != 0 {
		x.block = 0
		d.Log.Info("the trial is over", "cycle", d.cycle)
	}
	return off, notes
}

// touches notes in the trial what has happened to its blocks.
func (d *Daemon) touches(t *trial.Trial, now time.Time, hold string) {
	x, touched := &d.trying, false
	touch := func(is bool, from time.Time, why string) { touched = is && t.Touch(from, now, why) || touched }
	touch(x.begun && d.Config.State.Shared != "", x.last, "priod was started, or another host took over") // what that host saw is in its own database
	touch(x.begun && d.Config.State.Shared == "", x.last, "priod was started")
	touch(x.reloaded, now, "priod.toml was read again")
	touch(hold != "" && !store.ByDaemon(hold), now, "priod was paused")
	touch(store.ByDaemon(hold), now, "priod paused itself")
	touch(!x.begun && now.Sub(x.last) > silent, x.last, "no cycle ended for more than ten minutes")
	x.begun, x.reloaded = false, false
	if touched {
		d.saveTrial(t)
	}
}

func (d *Daemon) saveTrial(t *trial.Trial) {
	if err := store.SaveTrial(d.Config.Journals(), t); err != nil {
		d.Log.Error("what happened to the trial is not kept", "error", err)
	}
}

// tried looks after a cycle at what bears on the trial: nodes in maintenance, and its bounds.
func (d *Daemon) tried(r *cycle.Result) {
	t, err := store.Trial(d.Config.Journals())
	at := r.Snapshot.At
	d.trying.last = at
	if _, on := t.At(at); err != nil || !on {
		return
	}
	nodes := map[string]bool{}
	for _, w := range r.Snapshot.Windows {
		if !at.Before(w.Start) && at.Before(w.End) {
			for _, n := range w.Nodes {
				nodes[n] = true
			}
		}
	}
	touched := len(nodes) > 0 && t.Touch(at, at, "maintenance")
	if b := t.Bounds; (b.TEWaitP95 > 0 || b.Completion > 0) && time.Since(d.trying.judged) >= min(judgeEvery, t.Block) {
		d.trying.judged = time.Now()
		if why := d.harm(t, at); why != "" {
			t.Ended, t.Harms, t.Why, touched = at, true, why, true
			d.Log.Error("the trial has ended early: priod is off until priod trial stop", "why", why)
		}
	}
	if touched {
		d.saveTrial(t)
	}
}

// harm says by which bound the trial harms, by what is stored.
func (d *Daemon) harm(t *trial.Trial, now time.Time) string {
	ctx, cancel := context.WithTimeout(context.Background(), longestCycle)
	defer cancel()
	r, err := store.OpenReader(ctx, d.Config.State.Dir)
	if err == nil {
		defer r.Close()
		var jobs []trial.Job
		if jobs, err = r.TrialJobs(ctx, t); err == nil {
			return trial.Harm(t, jobs, now)
		}
	}
	d.Log.Warn(fmt.Sprintf("the bounds of the trial are not looked at for %v", judgeEvery), "error", err)
	return ""
}
