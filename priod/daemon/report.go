package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// report logs what a cycle did: a line for each write, one for a new trouble or
// standby. It returns the cycle's error, nil on standby.
func (d *Daemon) report(r *cycle.Result, err error) error {
	d.cycles++
	standby := standing(err)
	if standby == takingOver && d.last.trouble != "" {
		standby, err = "", d.last.err // only a cycle that acts ends it
	}
	d.metrics.standby.Set(0)
	if standby != "" {
		d.metrics.standby.Set(1)
		err = nil
	}
	d.health.note(func(h *health) { h.said.StandBy = string(standby) })
	if err == nil && standby != d.availability.standby {
		d.availability.standby = standby
		if standby != "" {
			d.Log.Info("stand-by", "poll", d.cycles, "why", string(standby))
		} else {
			d.Log.Info("the slurmctld of this host acts, and so does priod", "cycle", d.cycle, "poll", d.cycles)
		}
	}
	switch {
	case err != nil:
		d.blocked(failedBy(err))
	case standby != "" && d.availability.unready != "":
		d.blocked(CannotTakeOver)
	case standby != "":
		d.blocked("")
	default:
		d.blocked(heldBy(d.last.hold, d.last.unfit))
	}
	if errors.Is(err, store.ErrGaveWay) {
		d.Log.Info("gave way", "cycle", d.cycle, "why", err)
		err = nil
	}
	d.metrics.cycle(r, d.history, err)
	d.metrics.shares(&d.state.Lending.Statement)
	d.metrics.idle(d.state.Idle.Tally())
	switch {
	case standby != "":
		d.metrics.trouble.standBy()
	case err == nil:
		d.metrics.trouble.cycle(r, d.state)
	}
	counts := d.logWrites(r.Outcomes) // also when the outcomes could not be recorded
	if err != nil {
		d.last.failed++
		if trouble := troubleOf(err); trouble != d.last.trouble {
			d.last.trouble, d.last.err, d.last.failed = trouble, err, 1
			d.Log.Error("cycle failed; nothing is written until one succeeds", "cycle", d.cycle, "error", err)
		}
		d.notify(fmt.Sprintf("STATUS=%d cycles in a row failed: %v", d.last.failed, err))
		return err
	}
	if standby != "" {
		d.last.trouble, d.last.failed = "", 0
		d.notify("STATUS=" + standby.Error())
		return nil
	}
	if d.last.trouble != "" {
		d.Log.Info("cycles succeed again", "cycle", d.cycle, "failed", d.last.failed)
		d.last.trouble, d.last.failed = "", 0
	}
	for _, n := range r.Plan.Notes {
		if !slices.Contains(d.last.notes, n) {
			d.Log.Info("note", "cycle", d.cycle, "kind", string(n.Kind), "text", n.Text)
		}
	}
	d.last.notes = r.Plan.Notes
	d.notify(fmt.Sprintf("STATUS=cycle %d at %s: %d jobs, %d pending ranked, %d written",
		d.cycle, r.Snapshot.At.Format(time.TimeOnly), len(r.Snapshot.Jobs), len(r.Plan.Decisions), counts[slurmplug.Applied]))
	return nil
}

// troubleOf tells one trouble from the next: while slurmctld is away its commands fail with one text and then with another.
func troubleOf(err error) string {
	switch b := failedBy(err); b {
	case SlurmFails, OtherError:
		return err.Error()
	default:
		return string(b)
	}
}

// logWrites logs a line for each write and counts them by what became of them.
func (d *Daemon) logWrites(outcomes []plan.Outcome) map[slurmplug.Status]int {
	counts, postponed := map[slurmplug.Status]int{}, ""
	for _, o := range outcomes {
		counts[o.Status]++
		line := []any{"cycle", d.cycle, "job", o.Job.String(), "lever", string(o.Lever), "before", o.Before.String(), "after", o.After.String(), "why", o.Reason}
		if o.Part {
			line = append(line, "tasks", o.Tasks)
		}
		switch o.Status {
		case slurmplug.Applied:
			d.Log.Info("wrote", line...)
		case slurmplug.Raced, slurmplug.Postponed:
			if o.Status == slurmplug.Postponed && strings.HasPrefix(o.Message, slurmplug.NotSent) {
				postponed = cmp.Or(postponed, o.Message)
			}
			d.Log.Debug("not written", append(line, "status", string(o.Status), "message", o.Message)...)
		default:
			d.Log.Warn("not written", append(line, "status", string(o.Status), "message", o.Message)...)
		}
	}
	if postponed != "" && postponed != d.last.postponed {
		d.Log.Warn("writes wait for later cycles", "cycle", d.cycle, "writes", counts[slurmplug.Postponed], "why", postponed)
	}
	d.last.postponed = postponed
	return counts
}
