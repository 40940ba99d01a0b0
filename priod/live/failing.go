package live

import (
	"context"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/live/tail"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// withinCycle is how long a cycle waits for outputs that begin to be read in it, all together.
const withinCycle = time.Second

// Ends reads what accounting has of ended runs, and with output the end of what they
// wrote. What cannot be read is left out: a class is then given by what is known.
func (c *Cluster) Ends(ctx context.Context, sights map[cluster.JobID]plan.JobStatus, output bool, earlier map[cluster.JobID]plan.Mark) map[cluster.JobID]plan.End {
	raw := make([]uint32, 0, len(sights))
	for _, s := range sights {
		if s.RawID != 0 {
			raw = append(raw, s.RawID)
		}
	}
	known, _ := c.client.Ends(ctx, raw) // accounting may be off, or behind
	ends := make(map[cluster.JobID]plan.End, len(sights))
	readings := map[cluster.JobID]*tail.Reading{}
	begun := false
	for id, s := range sights {
		e := known[s.RawID]
		end := plan.End{StepCode: e.StepCode, StepSignal: e.StepSignal, PeakMB: e.PeakMB}
		if output {
			run := tail.Run{Job: s.ID, Began: s.Start, Restarts: s.Restarts}
			if readings[id] = c.outputs.Of(run); readings[id] == nil {
				begun = true
				readings[id] = c.begin(ctx, run, &s, earlier[id])
			}
		}
		ends[id] = end
	}
	if begun {
		await(ctx, readings)
	}
	for id, reading := range readings {
		end := ends[id]
		select {
		case <-reading.Done:
			if end.Output, end.Mark = reading.Text, reading.End; reading.Err != nil {
				end.Unread = "its output was not read: " + reading.Err.Error()
			}
		default:
			end.Pending = true
		}
		ends[id] = end
	}
	return ends
}

// await waits for outputs that are read, not for long.
func await(ctx context.Context, readings map[cluster.JobID]*tail.Reading) {
	ctx, cancel := context.WithTimeout(ctx, withinCycle)
	defer cancel()
	for _, reading := range readings {
		select {
		case <-reading.Done:
		case <-ctx.Done():
			return
		}
	}
}

// begin begins to read the end of what a run wrote, as its user.
func (c *Cluster) begin(ctx context.Context, run tail.Run, s *plan.JobStatus, earlier plan.Mark) *tail.Reading {
	w, err := c.client.WrittenTo(ctx, s.ID, s.RawID)
	path := ""
	if err == nil {
		path, err = w.Path(s.RawID)
	}
	if err != nil {
		return tail.Failed(err)
	}
	return c.outputs.Begin(run, w.UID, tail.Request{Path: path, Earlier: earlier, Began: s.Start})
}

// MostRestarts is Slurm's MaxBatchRequeue; 0 where it has none.
func (c *Cluster) MostRestarts() int { return c.conf.MaxBatchRequeue() }

// doFailed sends a command about a job that failed, or about its node.
func (c *Cluster) doFailed(ctx context.Context, cmd *plan.Command) slurmplug.Result {
	switch cmd.Kind {
	case plan.Tell:
		if !c.conf.Superuser() { // slurmctld would log each try as a violation
			return slurmplug.Result{Status: slurmplug.Refused, Message: "a job's user is told only by root or SlurmUser"}
		}
		return c.client.Notify(ctx, cmd.Job, cmd.Value.String())
	case plan.Cancel:
		return c.client.Signal(ctx, slurmplug.RunID{Job: cmd.Job, SLUID: cmd.SLUID}, "KILL", slurmplug.Whole)
	case plan.Exclude:
		return c.set(ctx, cmd, slurmplug.ExcNodeList)
	case plan.HoldBack:
		return c.client.RequeueHeld(ctx, slurmplug.RunID{Job: cmd.Job, SLUID: cmd.SLUID})
	case plan.Drain:
		return c.client.DrainNode(ctx, cmd.Nodes, cmd.Value.String())
	}
	return slurmplug.Result{Status: slurmplug.Refused, Message: "unknown command " + string(cmd.Kind)}
}
