package guarantee

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Feature gives each job its Right before a cycle plans, and keeps those waiting that may not borrow. The zero value
// guarantees nothing.
type Feature struct {
	plan.PlanOnly
	Settings Settings
	Slurm    interface {
		Do(context.Context, []plan.Command) []plan.Result
	}

	Memory *Memory

	result Result
	begins []plan.Command
}

// Memory is what is kept from one cycle to the next.
type Memory struct {
	since   map[cluster.JobID]time.Time // waiting jobs that are entitled, and since when
	delayed map[cluster.JobID]bool      // jobs whose begin time priod set: they wait for no time of their own

	Statement Statement // what became of the shares; nothing is decided by it
}

// Delay is how far ahead the begin time of a job lies that may not borrow: when priod ends, such a job waits no longer.
const Delay = 15 * time.Minute

// Classify sets the Right of each job of a snapshot.
func (f *Feature) Classify(s *cluster.Snapshot, h *cluster.History) {
	f.result = Result{}
	if f.Memory != nil {
		defer func() { f.Memory.Statement.see(s, &f.result) }()
	}
	if len(f.Settings.Shares) == 0 {
		return
	}
	f.result = Decide(s, h, &f.Settings, f.Memory)
	for i := range f.result.Jobs {
		s.Jobs[i].Right = f.result.Jobs[i].Right
	}
	f.Memory.entitle(s)
}

// Plan finds the jobs whose begin time is to be moved on, or ended.
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	f.begins = nil
	if len(f.Settings.Shares) == 0 {
		return nil
	}
	f.account(c)
	if c.Paused != "" {
		return nil
	}
	s := c.Snapshot
	f.tell(c)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending {
			continue
		}
		delayed := f.Memory.delayed[j.ID]
		switch {
		case j.Right == cluster.Withheld && (!delayed || j.Eligible.Sub(s.At) < Delay/2):
			f.begins = append(f.begins, plan.Command{Kind: plan.Begin, Job: j.ID, Value: slurmplug.Delay(Delay)})
		case j.Right != cluster.Withheld && delayed:
			f.begins = append(f.begins, plan.Command{Kind: plan.Begin, Job: j.ID, Value: slurmplug.Delay(0)})
		}
	}
	return nil
}

// tell adds to the plan's decisions what each waiting job may do.
func (f *Feature) tell(c *plan.Cycle) {
	at := map[cluster.JobID]int{}
	for i := range c.Snapshot.Jobs {
		if j := &c.Snapshot.Jobs[i]; j.State == cluster.Pending && j.Right != cluster.NoShares {
			at[j.ID] = i
		}
	}
	for i := range c.Plan.Decisions {
		d := &c.Plan.Decisions[i]
		k, has := at[d.Job]
		if !has {
			continue
		}
		x := plan.ShareChoice{Right: c.Snapshot.Jobs[k].Right.String()}
		if share := f.result.Jobs[k].Share; share >= 0 {
			state := &f.result.Shares[share]
			x.Share, x.Owned = state.Share.Name(), state.Owned
		}
		switch c.Snapshot.Jobs[k].Right {
		case cluster.Entitled:
			x.Since = f.Memory.since[d.Job]
		case cluster.Withheld:
			x.Until = c.History.FirstEligible.Get(d.Job).Add(f.Settings.After)
		}
		d.Choices.Share = &x
	}
}

// account tells the statement why entitled jobs wait.
func (f *Feature) account(c *plan.Cycle) {
	at := map[cluster.JobID]int{}
	for i := range c.Snapshot.Jobs {
		if j := &c.Snapshot.Jobs[i]; j.State == cluster.Pending && j.Right == cluster.Entitled {
			at[j.ID] = i
		}
	}
	for i := range c.Plan.Decisions {
		d := &c.Plan.Decisions[i]
		k, waits := at[d.Job]
		if !waits {
			continue
		}
		why, makesRoom := "", c.History.Claiming[d.Job] || c.History.Claiming[c.Snapshot.Jobs[k].FirstTask()]
		if x := d.Choices.Eviction; x != nil {
			why = x.Why
		}
		switch {
		case c.Paused != "":
			why = Paused
		case !makesRoom && f.result.Shares[f.result.Jobs[k].Share].Down > 0:
			why = Down
		}
		f.Memory.Statement.because(d.Job, why)
	}
}

// Act writes the begin times.
func (f *Feature) Act(ctx context.Context, c *plan.Cycle) error {
	if len(f.begins) == 0 {
		return nil
	}
	for _, r := range f.Slurm.Do(context.WithoutCancel(ctx), f.begins) {
		if r.Status == slurmplug.Applied {
			f.Memory.set(r.Job, r.Value.Delay() > 0)
		}
	}
	return nil
}

// entitle remembers since when waiting jobs are entitled.
func (m *Memory) entitle(s *cluster.Snapshot) {
	now := map[cluster.JobID]time.Time{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Pending && j.Right == cluster.Entitled {
			now[j.ID] = cmp.Or(m.since[j.ID], s.At)
		}
	}
	m.since = now
}

// set remembers whether a job waits by its begin time.
func (m *Memory) set(id cluster.JobID, delayed bool) {
	switch {
	case !delayed:
		delete(m.delayed, id)
	case m.delayed == nil:
		m.delayed = map[cluster.JobID]bool{id: true}
	default:
		m.delayed[id] = true
	}
}

// Shares are the shares as the last cycle saw them.
func (f *Feature) Shares() []State { return slices.Clone(f.result.Shares) }
