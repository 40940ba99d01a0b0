// Package size gives waiting jobs other CPUs and memory beside their GPUs than they ask
// for, as Synergy does (Mohan et al., OSDI 2022).
//
// A training job of a certain number of GPUs is faster with more CPUs and memory, up to
// its demand. The proportional share of a GPU is what a node has, divided by its GPUs.
// Synergy gives jobs their demand where others need less than their share, and no job
// less than the smaller of its share and its demand.
//
// Slurm starts jobs itself and changes CPUs and memory only while a job waits. So priod
// walks the queue in the order of the plan, places each job where Slurm could start it
// now, and writes the size of those whose owners agreed (by a tag with cpu, mem or
// workload). A job that gets more than its share is pinned to the node that has it to
// spare, and each GPU that stays free keeps its share. A job that does not start with
// its new size within Settings.Within gets its own request back.
//
// What waiting jobs get:
//   - size.go: settings, and one cycle: which jobs are read closer, then what is
//     written
//   - queue.go: the waiting jobs in order
//   - restore.go: jobs of which what was written is taken back
//   - place.go: the walk through the queue, and the sizes of those that could start now
//   - candidate.go: whether a job may be sized, and how fast it is with which size
//   - next.go: jobs that cannot start now, and wait for a node with more than their share
//   - ahead.go: those that wait for any node
//   - grant.go: from the mechanism's sizes to whole CPUs and MB, and the write
//   - limits.go: what associations and QOS leave a job
//   - feature.go: how sizes take part in a cycle
//
// The mechanism knows jobs, nodes and curves only, and nothing of Slurm; tests/papers has
// Synergy's others:
//   - packer.go: its types, and which jobs it admits
//   - packing.go: one way to place the admitted jobs: best fit, split
//   - tune.go: Synergy-TUNE; waterfill.go: what improves on it
package size

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
)

// Settings say which waiting jobs get other CPUs and memory than they ask for.
type Settings struct {
	Enabled bool          // new sizes are written; jobs get their own requests back in any case
	Within  time.Duration // a job that has not started so long after it got a place gets its own request back
	Jobs    int           // jobs at the head of the queue that are looked at, and written to, in one cycle
	Table   *workload.Table
	Past    sensitivity.Past
	PastAt  time.Time // when Past was learnt
	Unread  bool      // Past has not been read from accounting yet: no job gets another size before
}

// Sizes decides on sizes. It remembers from one cycle to the next what it need not work
// out again, and may be lost: what was written, and what became of that, is in History.
type Sizes struct {
	set       Settings
	packer    *Packer
	curves    map[curveKey]*sensitivity.Sensitivity
	explained map[cluster.JobID]string // the sentence about each job that waits with a new size
	due       time.Time                // the clock alone changes no decision before; zero: it never does
}

// Due reports whether a cycle may decide otherwise than the last one did because time has
// gone by, though nothing else has changed since.
func (z *Sizes) Due(at time.Time) bool { return !z.due.IsZero() && !at.Before(z.due) }

// byTheClock takes down when the clock changes a decision of a cycle.
func (d *decider) byTheClock(then time.Time) {
	if then.After(d.s.At) && (d.due.IsZero() || then.Before(d.due)) {
		d.due = then
	}
}

// Set takes over the settings, which may change between two cycles.
func (z *Sizes) Set(set Settings) {
	if z.curves == nil {
		z.curves, z.explained = map[curveKey]*sensitivity.Sensitivity{}, map[cluster.JobID]string{}
	}
	if z.packer == nil {
		z.packer = NewPacker(Rule{Reserve: true})
	}
	if z.set.Table != set.Table || !z.set.PastAt.Equal(set.PastAt) {
		clear(z.curves)
	}
	z.set = set
}

// Enabled reports whether new sizes are written.
func (z *Sizes) Enabled() bool { return z != nil && z.set.Enabled }

// Heads returns the jobs, as indices into the snapshot, whose Asked Decide needs:
// waiting jobs with a size of priod's and, if some job at the head of the queue agreed
// to another size, the head of the queue.
func (z *Sizes) Heads(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) []int {
	if !z.set.Enabled && len(h.Requests) == 0 {
		return nil
	}
	var heads []int
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending {
			continue
		}
		if _, written := h.Requests[j.ID][slurmplug.Size]; written {
			heads = append(heads, i)
		}
	}
	if !z.set.Enabled || !anyConsents(s) {
		return heads
	}
	var first []queuedJob
	for w := range waitingInOrder(s, h, p) {
		if len(first) == z.set.Jobs {
			break
		}
		first = append(first, w)
	}
	if !slices.ContainsFunc(first, func(w queuedJob) bool { return w.job.AllowsSize() }) {
		return heads
	}
	for _, w := range first {
		if w.job.HetLeader == 0 && !slices.Contains(heads, w.at) {
			heads = append(heads, w.at)
		}
	}
	return heads
}

// Decide adds to the plan the writes that give waiting jobs the sizes from which they
// gain most, and those that give jobs their own requests back. The jobs of Heads have
// their Asked. Decisions get a sentence about their job's size.
func (z *Sizes) Decide(s *cluster.Snapshot, h *cluster.History, p *plan.Plan) {
	z.forget(s)
	d := &decider{Sizes: z, s: s, h: h, p: p, steered: map[cluster.JobID]bool{}, quota: plan.Quota{Most: z.set.Jobs}}
	for i := range p.Actions {
		if !p.Actions[i].Lever.Ranks() {
			d.steered[p.Actions[i].Job] = true
		}
	}
	z.due = time.Time{}
	d.restoreStale()
	d.restoreOverShare()
	if z.set.Enabled && !z.set.Unread {
		d.placeQueue()
	}
	d.restoreRaised()
	p.Ask(d.actions)
}

// forget drops the sentences about jobs that wait no more.
func (z *Sizes) forget(s *cluster.Snapshot) {
	if len(z.explained) == 0 {
		return
	}
	known := map[uint32]bool{} // few arrays are sized, and only theirs have to be expanded
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

// maxTasks is how many tasks of one array are remembered.
const maxTasks = 1000

// decider makes one cycle's sizes.
type decider struct {
	*Sizes
	s       *cluster.Snapshot
	h       *cluster.History
	p       *plan.Plan
	nodes   *nodemap.Map
	actions []plan.Action
	quota   plan.Quota
	shares  []sensitivity.Share // see leastShares

	kept    map[cluster.JobID]bool       // jobs that keep a size of priod's
	pinned  []pinnedJob                  // of those: on a node that priod chose
	raised  []*raisedJob                 // of those: with more than they asked for, on any node
	foreign map[cluster.JobID]bool       // jobs whose size changed by others after priod wrote it
	steered map[cluster.JobID]bool       // jobs that are steered in this cycle: where they may run changes
	ahead   map[cluster.JobID]*pinnedJob // of those: on a node on which no GPU was free then
	toSize  []resizable                  // jobs that got a place and agreed to another size
	rooms   map[roomKey]placement.Amount // see roomAfterEnd
	open    map[int][]*openNodes         // by GPUs of a job; see openFor
	idle    []int                        // GPUs that no job has now, by node
	later   []*resizable                 // jobs that agreed to another size and got no place, in order
	unsized []placement.Share            // what other jobs with a place take
}

// explain adds to a decision what became of the job's size; of an array, what became of
// its first task's.
func (d *decider) explain(dec *plan.Decision, format string, a ...any) {
	if dec.Size == "" {
		dec.Size = fmt.Sprintf(format, a...)
	}
}
