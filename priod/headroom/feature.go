package headroom

import (
	"context"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Slurm is what the feature asks of the cluster.
type Slurm interface {
	// KeepNodes makes the nodes of a host list those of the reservation cluster.HeadroomReservation, for so
	// long from now on. Without nodes it is deleted.
	KeepNodes(ctx context.Context, nodes string, d time.Duration) error
}

// Feature keeps nodes for TE jobs. The zero value does nothing.
type Feature struct {
	Settings Settings
	Memory   *Memory // nil: no node is kept
	Slurm    Slurm
	// Evictions returns what they cost, and what they hold.
	Evictions interface {
		// StartCost is what the start of each GPU of a TE job by evictions has cost lately, in GPU-seconds.
		StartCost(now time.Time) float64
		// Claimed reports whether a place on a node is kept for a job already, and whether that needs no reservation but its own.
		Claimed(node string) (kept, own bool)
		// Beside is what is free beside these places, and the jobs that have one.
		Beside(*nodemap.Map) (free *placement.Nodes, jobs map[cluster.JobID]bool)
	}

	OnChange func(nodes string) // is called with the nodes that are kept, as a host list, where they have changed; may be nil

	nodes  []string // that are reserved from now on
	writes bool     // in this cycle the reservation is written
}

// margin is how much longer than Settings.Every the reservation lasts.
const margin = time.Minute

// Plan says which nodes are kept from now on, and which of these are opened for waiting TE jobs.
func (f *Feature) Plan(_ context.Context, c *plan.Cycle) error {
	f.writes = false
	if f.Memory == nil || c.Paused != "" {
		return nil
	}
	m, s := f.Memory, c.Snapshot
	reserved := reservedNow(s)
	f.tell(slurmplug.CompactHosts(reserved))
	if !f.Settings.Enabled {
		f.nodes, f.writes = nil, len(reserved) > 0
		return nil
	}
	if m.problem != "" {
		c.Plan.Note(plan.HeadroomRefused, 1, "headroom: Slurm refuses to keep nodes for TE jobs: %s", m.problem)
	}
	isTE := func(j *cluster.Job) bool { return c.History.ClassOf(j) == cluster.TE }
	m.note(s, isTE)
	chosen := m.nodes
	since := s.At.Sub(m.decided)
	decides := since < 0 || since >= f.Settings.Every
	if decides {
		m.measure(s, sizesByType(s.Nodes), isTE)
		var stays []*cluster.Stay
		for stay := range c.History.Stays(true) {
			if stay.Class == cluster.TE {
				stays = append(stays, stay)
			}
		}
		chosen = m.choose(s, stays, &f.Settings, f.Evictions.StartCost(s.At), func(node string) bool {
			kept, _ := f.Evictions.Claimed(node)
			return kept
		})
		since = 0
	}
	c.Plan.StandsUntil(s.At.Add(f.Settings.Every - since))
	opened := f.open(c, chosen, reserved)
	f.nodes = slices.DeleteFunc(slices.Clone(chosen), func(node string) bool {
		_, own := f.Evictions.Claimed(node)
		return own || opened[node]
	})
	slices.Sort(f.nodes)
	f.writes = !slices.Equal(f.nodes, reserved) || decides && len(f.nodes) > 0
	if !c.DryRun && decides {
		m.decided, m.nodes = s.At, chosen
	}
	return nil
}

// reservedNow are the nodes that no job starts on now, sorted.
func reservedNow(s *cluster.Snapshot) (nodes []string) {
	for i := range s.Nodes {
		if s.Nodes[i].Headroom() {
			nodes = append(nodes, s.Nodes[i].Name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// tell calls OnChange.
func (f *Feature) tell(list string) {
	if m := f.Memory; list != m.kept {
		if m.kept = list; f.OnChange != nil {
			f.OnChange(list)
		}
	}
}

// open admits the waiting TE jobs to the nodes that are reserved, and says which nodes are opened: those on which a TE job fits now that
// fits nowhere else. Slurm starts the job there that ranks first, and TE jobs rank ahead of others.
func (f *Feature) open(c *plan.Cycle, chosen, reserved []string) (opened map[string]bool) {
	var jobs []*cluster.Job
	for _, q := range c.Plan.Queue {
		j, d := &c.Snapshot.Jobs[q.Job], &c.Plan.Decisions[q.Decision]
		te := d.Ranked && d.Class == cluster.TE && j.GPUs > 0 && j.HetLeader == 0
		if j.Admitted = te && len(reserved) > 0; te {
			jobs = append(jobs, j)
		}
	}
	opened = map[string]bool{}
	if len(jobs) == 0 || len(chosen)+len(reserved) == 0 {
		return opened
	}
	all := *c.Snapshot // of which no node is kept
	all.Nodes = slices.Clone(all.Nodes)
	for i := range all.Nodes {
		all.Nodes[i].State = strings.TrimSuffix(all.Nodes[i].State, cluster.StateHeadroom)
	}
	m := nodemap.New(&all)
	free, claiming := f.Evictions.Beside(m)
	keep := func(kept bool) {
		for _, name := range reserved {
			if at, known := m.Index[name]; known && !opened[name] && !m.Nodes.Down(at) {
				free.SetDown(at, kept)
			}
		}
	}
	keep(true)
	for _, j := range jobs {
		types, understood := m.Types(j)
		if !understood || claiming[j.FirstTask()] || !j.WantsRoom() && slurmplug.WaitsFor(j.Reason) != slurmplug.ForNodes {
			continue // it has its place, or would not start there
		}
		request := m.Request(j, types)
		for range min(max(j.TaskCount, 1), mostTasks) {
			shares, fits := free.Fit(request, nil)
			if !fits {
				keep(false)
				if shares, fits = free.Fit(request, nil); !fits {
					for _, name := range reserved { // a part of its place, of which others are still to become free
						if at, known := m.Index[name]; known && !m.Nodes.Down(at) && types.Has(m.Nodes.Type(at)) && partOf(&request, free, at) {
							opened[name] = true
						}
					}
					keep(true)
					break
				}
			}
			free.Take(shares)
			for _, s := range shares {
				opened[m.Names[s.Node]] = true
			}
			keep(true)
		}
	}
	return opened
}

// partOf reports whether a node whose GPUs are all free is a part of a place on several nodes.
func partOf(r *placement.Request, free *placement.Nodes, node int32) bool {
	gpus := free.Size(node).GPUs
	return r.Nodes != 1 && r.GPUs > gpus && free.FreeOn(node).GPUs == gpus
}

// mostTasks is for how many tasks of an array nodes are opened at a time.
const mostTasks = 64

// Act writes the reservation.
func (f *Feature) Act(ctx context.Context, c *plan.Cycle) error {
	if !f.writes || c.DryRun || c.Paused != "" {
		return nil
	}
	f.Memory.problem = ""
	if err := f.Slurm.KeepNodes(ctx, slurmplug.CompactHosts(f.nodes), f.Settings.Every+margin); err != nil {
		f.Memory.problem = err.Error()
	}
	return nil
}
