package size

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
)

// SizeSettings say which waiting jobs get other CPUs and memory than they ask for.
type Settings struct {
	Enabled   bool // new sizes are written; what was written is given back in any case
	Mechanism Mechanism
	Within    time.Duration // a job that has not started so long after it got a place gets its own request back
	MaxJobs   int           // jobs at the head of the queue that are looked at, and written to, in one cycle
	Table     *workload.Table
	Past      sensitivity.Past
	PastAt    time.Time // when it was learnt
	Unread    bool      // accounting has yet to say what it knows: no job gets another size before
}

// Sizes decides on sizes, and remembers from one cycle to the next what it need not
// work out again. It may be lost: no write depends on it. What was written, and what
// became of that, is in History.
type Sizes struct {
	set       Settings
	packer    *Packer
	curves    map[curveKey]*sensitivity.Sensitivity
	explained map[cluster.JobID]string // what was said of jobs that wait with a new size
}

// Set takes in settings, which may change between two cycles.
func (z *Sizes) Set(set Settings) {
	if z.curves == nil {
		z.curves, z.explained = map[curveKey]*sensitivity.Sensitivity{}, map[cluster.JobID]string{}
	}
	if z.packer == nil || z.set.Mechanism != set.Mechanism {
		z.packer = NewPacker(Rule{Mechanism: set.Mechanism, Reserve: true})
	}
	if z.set.Table != set.Table || !z.set.PastAt.Equal(set.PastAt) {
		clear(z.curves)
	}
	z.set = set
}

// Heads are the waiting jobs, as indices into the snapshot, whose Asked Decide
// needs: those that carry a size of priod's and, where some job at the head of the
// queue consents, that head.
func (z *Sizes) Heads(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) []int {
	if !z.set.Enabled && len(h.Requests) == 0 {
		return nil
	}
	var heads []int
	consent := false
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if _, written := h.Requests[j.ID][slurmplug.Size]; written && j.State == cluster.Pending {
			heads = append(heads, i)
		}
		consent = consent || j.State == cluster.Pending && consents(j)
	}
	if !z.set.Enabled || !consent {
		return heads
	}
	first := waitingInOrder(s, h, p)
	first = first[:min(len(first), z.set.MaxJobs)]
	if !slices.ContainsFunc(first, func(w queuedJob) bool { return consents(w.job) }) {
		return heads
	}
	at := make(map[*cluster.Job]int, len(s.Jobs))
	for i := range s.Jobs {
		at[&s.Jobs[i]] = i
	}
	for _, w := range first {
		if i := at[w.job]; w.job.HetLeader == 0 && !slices.Contains(heads, i) {
			heads = append(heads, i)
		}
	}
	return heads
}

// Decide adds to the plan the writes that give waiting jobs the sizes on which
// they gain most, and those that give others their own requests back. The jobs of
// Heads have their Asked. The plan's decisions say for people what became of it.
func (z *Sizes) Decide(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) {
	z.forget(s)
	d := &decider{Sizes: z, s: s, h: h, p: p, steered: map[cluster.JobID]bool{}}
	for i := range p.Actions {
		if !p.Actions[i].Lever.Ranks() {
			d.steered[p.Actions[i].Job] = true
		}
	}
	d.restoreStale()
	d.restoreOverShare()
	if z.set.Enabled && !z.set.Unread {
		d.placeQueue()
	}
	d.restoreRaised()
	p.Ask(d.actions)
}

func (z *Sizes) forget(s *cluster.Snapshot) {
	if len(z.explained) == 0 {
		return
	}
	known := map[uint32]bool{} // arrays are long, and few of them are meant
	for id := range z.explained {
		known[id.ID] = true
	}
	pending := map[cluster.JobID]bool{}
	for i := range s.Jobs {
		if s.Jobs[i].State == cluster.Pending && known[s.Jobs[i].ID.ID] {
			pending[s.Jobs[i].ID] = true
			if s.Jobs[i].Tasks != "" {
				tasks, _ := slurmplug.ExpandTasks(s.Jobs[i].Tasks)
				for _, t := range tasks[:min(len(tasks), maxTasks)] {
					pending[cluster.JobID{ID: s.Jobs[i].ID.ID, Task: t}] = true
				}
			}
		}
	}
	maps.DeleteFunc(z.explained, func(id cluster.JobID, _ string) bool { return !pending[id] })
}

// mostTasks are how many tasks of one array are remembered.
const maxTasks = 1000

// sizer makes one cycle's sizes.
type decider struct {
	*Sizes
	s       *cluster.Snapshot
	h       *cluster.History
	p       *plan.Plan
	nodes   *nodemap.Map
	actions []plan.Action
	writes  int
	shares  []sensitivity.Share // see leastShares

	kept    map[cluster.JobID]bool // carry a size of priod's that stays
	pinned  []pinnedJob            // of those: on a node of its own
	raised  []*raisedJob           // of those: with more than they asked for, on any node
	foreign map[cluster.JobID]bool // somebody changed after priod wrote
	steered map[cluster.JobID]bool // are steered in this cycle: where they may run changes
	toSize  []resizable
	unsized []placement.Share // what jobs take that are not sized
}

// tell says what became of a job's size; of an array, of its first task.
func (d *decider) explain(dec *plan.Decision, format string, a ...any) {
	switch {
	case strings.Contains(dec.Detail, "size: "):
		return
	case dec.Detail != "":
		dec.Detail += "; "
	}
	dec.Detail += fmt.Sprintf(format, a...)
}
