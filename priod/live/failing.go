package live

import (
	"context"

	"slurmprio/priod/cluster"
	"slurmprio/priod/live/tail"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

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
	for id, s := range sights {
		e := known[s.RawID]
		end := plan.End{StepCode: e.StepCode, StepSignal: e.StepSignal, PeakMB: e.PeakMB}
		if output {
			var err error
			if end.Output, end.Mark, err = c.output(ctx, &s, earlier[id]); err != nil {
				end.Unread = "its output was not read: " + err.Error()
			}
		}
		ends[id] = end
	}
	return ends
}

// output is the end of what a run wrote, read as its user.
func (c *Cluster) output(ctx context.Context, s *plan.JobStatus, earlier plan.Mark) ([]byte, plan.Mark, error) {
	w, err := c.client.WrittenTo(ctx, s.ID, s.RawID)
	if err != nil {
		return nil, plan.Mark{}, err
	}
	path, err := w.Path(s.RawID)
	if err != nil {
		return nil, plan.Mark{}, err
	}
	return tail.As(ctx, w.UID, tail.Request{Path: path, Earlier: earlier, Began: s.Start})
}

// MostRestarts is Slurm's MaxBatchRequeue; 0 where it has none.
func (c *Cluster) MostRestarts() int { return c.conf.MaxBatchRequeue() }

// doFailed sends a command about a job that failed, or about its node.
func (c *Cluster) doFailed(ctx context.Context, cmd *plan.Command) slurmplug.Result {
	switch cmd.Kind {
	case plan.Exclude:
		return c.set(ctx, cmd, slurmplug.ExcNodeList)
	case plan.HoldBack:
		return c.client.RequeueHeld(ctx, slurmplug.RunID{Job: cmd.Job, SLUID: cmd.SLUID})
	case plan.Drain:
		return c.client.DrainNode(ctx, cmd.Nodes, cmd.Value.String())
	}
	return slurmplug.Result{Status: slurmplug.Refused, Message: "unknown command " + string(cmd.Kind)}
}
