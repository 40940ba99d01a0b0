package headroom

import (
	"context"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Slurm is what the feature asks of the cluster.
type Slurm interface {
	// KeepNodes makes the nodes of a host list those of the reservation cluster.HeadroomReservation, for so
	// long from now on.
	KeepNodes(ctx context.Context, nodes string, d time.Duration) error
}

// Feature keeps nodes for TE jobs. The zero value does nothing.
type Feature struct {
	Settings Settings
	Memory   *Memory // nil: no node is kept
	Slurm    Slurm
	// Evictions returns what they cost.
	Evictions interface {
		// StartCost is what the start of each GPU of a TE job by evictions has cost lately, in GPU-seconds.
		StartCost(now time.Time) float64
		// Claimed reports whether a place on a node is kept for a job already.
		Claimed(node string) bool
	}

	OnChange func(nodes string) // is called with the nodes that are kept, as a host list, where they have changed; may be nil

	nodes  []string // that are kept from now on
	writes bool     // in this cycle the reservation is written
}

// Plan lets waiting TE jobs start on the nodes that are kept, and says which are kept from now on.
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	f.writes = false
	if f.Memory == nil || !f.Settings.Enabled {
		return nil
	}
	m, s := f.Memory, c.Snapshot
	if c.Paused != "" {
		return nil
	}
	if m.problem != "" {
		c.Plan.Note(plan.HeadroomRefused, 1, "headroom: Slurm refuses to keep nodes for TE jobs: %s", m.problem)
	}
	var now []string
	for i := range s.Nodes {
		if s.Nodes[i].Headroom() {
			now = append(now, s.Nodes[i].Name)
		}
	}
	if list := slurmplug.CompactHosts(now); list != m.kept {
		if m.kept = list; f.OnChange != nil {
			f.OnChange(list)
		}
	}
	if len(now) > 0 {
		f.admit(c)
	}
	isTE := func(j *cluster.Job) bool { return c.History.ClassOf(j) == cluster.TE }
	m.note(s, isTE)
	if since := s.At.Sub(m.decided); since >= 0 && since < f.Settings.Every {
		c.Plan.StandsUntil(m.decided.Add(f.Settings.Every))
		return nil
	}
	c.Plan.StandsUntil(s.At.Add(f.Settings.Every))
	m.measure(s, sizesByType(s.Nodes), isTE)
	var stays []*cluster.Stay
	for stay := range c.History.Stays(true) {
		if stay.Class == cluster.TE {
			stays = append(stays, stay)
		}
	}
	f.nodes = m.choose(s, stays, &f.Settings, f.Evictions.StartCost(s.At), f.Evictions.Claimed)
	f.writes = len(f.nodes) > 0
	if !c.DryRun {
		m.decided = s.At
	}
	return nil
}

// admit has the waiting TE jobs name the reservation, and others no more.
func (f *Feature) admit(c *plan.Cycle) {
	var actions []plan.Action
	for _, q := range c.Plan.Queue {
		j, d := &c.Snapshot.Jobs[q.Job], &c.Plan.Decisions[q.Decision]
		may := d.Ranked && d.Class == cluster.TE && j.GPUs > 0
		if may == j.Headroom() || j.Reserved() || j.HetLeader != 0 {
			continue
		}
		name, why := "", "headroom: it no longer counts as TE"
		if may {
			name, why = cluster.HeadroomReservation, "headroom: it may start on nodes that are kept for TE jobs"
		}
		now, _ := j.Request(slurmplug.Reservation)
		actions = append(actions, plan.Action{
			Job: j.ID, Tasks: j.Tasks, Lever: slurmplug.Reservation, Before: now, After: slurmplug.Text(name), Was: slurmplug.Text(""), Reason: why,
		})
		j.Reservation = name
	}
	c.Plan.Ask(actions)
}

// Heard remembers what was written into jobs.
func (f *Feature) Heard(c *plan.Cycle) {
	for id, o := range c.Written(slurmplug.Reservation) {
		c.Asked(id, o)
	}
}

// Act writes the reservation.
func (f *Feature) Act(ctx context.Context, c *plan.Cycle) error {
	if !f.writes || c.DryRun || c.Paused != "" {
		return nil
	}
	f.Memory.problem = ""
	if err := f.Slurm.KeepNodes(ctx, slurmplug.CompactHosts(f.nodes), 3*f.Settings.Every); err != nil {
		f.Memory.problem = err.Error()
	}
	return nil
}
