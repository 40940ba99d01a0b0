package daemon

import (
	"context"
	"fmt"
	"time"

	"slurmprio/priod/evict"
)

// evictions is what a cycle needs to make room.
func (d *Daemon) evictions() evict.Feature {
	e := d.Config.Evictions(d.slurm, d.state)
	e.Recorder = d.Store
	e.OnChange = func(event evict.Event) {
		d.logEvent(event)
		d.tellVictim(event)
	}
	if d.Config.Cycle.FollowController {
		e.Slurm = follower{d.slurm, d}
	}
	if d.Config.State.Shared == "" {
		e.Settings.Since = d.availability.since
	}
	return e
}

// tend continues with the evictions under way between two cycles, so that none
// waits for the next poll. It tells when to come again, if at all. A
// look costs a small request for each job concerned, whatever the queue's length.
func (d *Daemon) tend(ctx context.Context) (pause time.Duration, more bool) {
	if !d.watching || d.state.Journal == nil || len(d.state.Journal.Urgent()) == 0 {
		return 0, false
	}
	hold, err := d.Store.Hold()
	begun := time.Now()
	if err == nil {
		e := d.evictions()
		err = e.Tend(ctx, nil, nil, hold != "" || d.peers.yielded != "" || d.last.unfit != "")
	}
	if err != nil {
		d.Log.Debug("evictions wait for the next cycle", "error", err) // which meets the same and says so
		return 0, false
	}
	return max(d.Config.Constants.Watch, politeness*time.Since(begun)), true
}

// logEvent logs each step of a claim or an eviction.
func (d *Daemon) logEvent(e evict.Event) {
	if c := e.Claim; c != nil {
		if e.Before == string(c.State) {
			return // the pin alone
		}
		d.metrics.trouble.claim(c)
		d.Log.Info("claim", "cycle", d.cycle, "purpose", string(c.Purpose), "job", c.Job.String(), "user", c.User, "state", string(c.State), "nodes", fmt.Sprint(c.Nodes()), "why", c.Reason)
		return
	}
	x := e.Eviction
	if e.Before != string(x.State) {
		counts := d.metrics.evictions
		switch {
		case e.Of == nil:
		case e.Of.Purpose == evict.ForRound:
			counts = d.metrics.yields
		case e.Of.Purpose == evict.ForWindow:
			counts = d.metrics.vacated
		}
		counts.WithLabelValues(string(x.State)).Inc()
	}
	line := []any{"cycle", d.cycle, "job", x.Job.String(), "user", x.User, "state", string(x.State)}
	if e.Of != nil {
		line = append(line, "for", e.Of.Job.String(), "purpose", string(e.Of.Purpose))
	}
	switch {
	case e.Before == string(x.State) && x.Tries == 0:
		return
	case e.Before == string(x.State):
		d.Log.Warn("eviction: a command failed and is tried again", append(line, "tries", x.Tries, "message", x.Reason)...)
		return
	case x.State == evict.Recorded:
		line = append(line, "signal", x.Signal, "grace", x.Grace.String(), "promised_gpu_s", fmt.Sprintf("%.0f", x.Promised))
	case x.How != "":
		line = append(line, "how", string(x.How), "paid_gpu_s", fmt.Sprintf("%.0f", x.Paid))
	}
	if x.Reason != "" {
		line = append(line, "why", x.Reason)
	}
	if x.How == evict.Forgotten || x.State == evict.CalledOff && !x.SignalledAt.IsZero() {
		d.metrics.trouble.lost.WithLabelValues(lostVictim).Inc()
		d.Log.Error("eviction", line...) // a person has to look
		return
	}
	d.Log.Info("eviction", line...)
}

// noticeTime is how long a notice may delay the command that follows it.
const noticeTime = 5 * time.Second

// tellVictim tells an evicted job's user, in the job's own output, that it is about to leave and for what, and once
// more when it runs again: by default Slurm empties the output then.
func (d *Daemon) tellVictim(e evict.Event) {
	text := notice(e)
	if text == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noticeTime)
	defer cancel()
	if err := d.slurm.Notify(ctx, e.Eviction.Job, text); err != nil {
		d.Log.Debug("the job's user is not told", "job", e.Eviction.Job.String(), "error", err)
	}
}

// notice is what the user of an eviction's job is told of a change; "": nothing.
func notice(e evict.Event) string {
	x := e.Eviction
	if x == nil || e.Of == nil {
		return ""
	}
	why := map[evict.Purpose]string{evict.ForTrial: "trial-and-error job", evict.ForRound: "job", evict.ForGang: "multi-node job"}[e.Of.Purpose]
	leaves, left, after := fmt.Sprintf("makes room for %s %s", why, e.Of.Job), fmt.Sprintf("was evicted at %s for %s %s", x.SignalledAt.Local().Format(time.DateTime), why, e.Of.Job), ""
	if e.Of.Purpose == evict.ForWindow {
		leaves, left, after = "leaves before "+e.Of.Reason, fmt.Sprintf("left at %s before %s", x.SignalledAt.Local().Format(time.DateTime), e.Of.Reason), " afterwards"
	}
	switch {
	case x.State == evict.Recorded && !x.SignalledAt.IsZero() && x.Tries == 0:
		return fmt.Sprintf("priod: this job %s: it has %s to save its state, is requeued and starts again on its own%s (priod explain %s)", leaves, x.Grace, after, x.Job)
	case x.State == evict.Done && e.Before != string(evict.Done) && x.Reason == "" && x.How != evict.Finished:
		return fmt.Sprintf("priod: this run follows one that %s (priod explain %s)", left, x.Job)
	}
	return ""
}
