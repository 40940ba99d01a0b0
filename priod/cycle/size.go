package cycle

import (
	"context"
	"fmt"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/size"
	"slurmprio/slurmplug"
)

// Sizing is what other sizes for waiting jobs take. The zero value gives none.
type Sizing struct {
	Sizes *size.Sizes
	Slurm Asker
}

// Asker is the Slurm that jobs ask.
type Asker interface {
	// Ask reads how waiting jobs ask for their sizes, into their Asked. After an
	// error some have none, and stay as they are.
	Ask(context.Context, []*cluster.Job) error
}

// decide looks at the jobs at the head of the queue and adds their sizes to the
// plan. What cannot be read is noted, and keeps nobody from anything else.
func (z *Sizing) decide(ctx context.Context, s *cluster.Snapshot, h *cluster.History, p *plan.Plan) {
	if z.Sizes == nil {
		return
	}
	heads := z.Sizes.Heads(s, h, p)
	jobs := make([]*cluster.Job, len(heads))
	for k, i := range heads {
		jobs[k] = &s.Jobs[i]
	}
	if err := z.Slurm.Ask(ctx, jobs); err != nil {
		p.Notes = append(p.Notes, fmt.Sprintf("sizes: %.300s", err))
	}
	z.Sizes.Decide(s, h, p)
}

// rememberSize keeps from trying again at once what Slurm refused, or what did not let
// its job start.
func rememberSize(h *cluster.History, id cluster.JobID, o *plan.Outcome, at time.Time) {
	switch {
	case o.Lever != slurmplug.Size:
	case o.Status == slurmplug.Refused:
		h.SizeRefused(id, o.Message, at)
	case o.Status == slurmplug.Applied, o.Status == slurmplug.Unknown:
		h.Sized(id, o.Reason == plan.SizeRests, o.Reason == plan.SizeAhead, at)
	}
}
