package plan

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
)

// Feature takes part in each cycle: steering, sizing, evictions and so on. A cycle calls
// Plan of each feature in their order, carries out the plan, hears what became of it (Hear), and
// then calls Act of each. In a dry run it ends after Plan.
type Feature interface {
	// Plan looks closer at single jobs where the snapshot does not tell enough, and adds
	// what the feature decides to the plan. After an error the cycle continues without it.
	Plan(context.Context, *Cycle) error
	// Act does what is no write into a job: signals, requeues, reservations. Whether
	// anything new may be begun Cycle.Paused says.
	Act(context.Context, *Cycle) error
}

// Cycle is what the features of one cycle share.
type Cycle struct {
	Snapshot *cluster.Snapshot
	History  *cluster.History
	Stays    []cluster.Stay // that began or ended since the last cycle
	Plan     *Plan
	Paused   string // why nothing may be written now; "" when it may
	Off      bool   // a trial has priod off now: features take back what they wrote, and begin nothing
	DryRun   bool   // the plan is the result: nothing is written or begun
	Outcomes []Outcome

	// Pinned reports whether evictions still hold nodes in a job's request: they are no
	// word of its user's. nil: no job's.
	Pinned func(cluster.JobID) bool
	// Evicted reports whether evictions ended, or end, the run of a job that began then. nil:
	// none did.
	Evicted func(cluster.JobID, time.Time) bool
	// Owing says what jobs are owed, for the end of a round; nil, or its result nil: no
	// job is given a GPU type.
	Owing func(Lead) *Owing
	// Fragmented is how long a job has waited because free GPUs lacked the shape that it
	// asks for (Wait.Fragmented), by the cycles before this one. nil: not read.
	Fragmented func(cluster.JobID) time.Duration
	// FailedQuickly is how many runs of jobs like this one failed in a row soon after their start (retry.Memory.Quick). nil: not known.
	FailedQuickly func(*cluster.Job) int
	// Kept are the jobs that could start now and that locality keeps waiting, and what for:
	// see Keep.
	Kept map[cluster.JobID]string

	// Vacating are the running jobs that have to leave before a window.
	Vacating []Vacating

	nodes func() *nodemap.Map
	begun []func() // waits for what runs in the background
}

// Vacating is a running job that has to leave before a window.
type Vacating struct {
	Job    *cluster.Job
	Window string    // its name; "": it is not known any more
	Start  time.Time // of the window
}

// manyJobs is the queue length from which concurrency pays.
const manyJobs = 2000

// Concurrently runs do in the background when the queue is long, otherwise inline; the function that it
// returns waits for the result, and has to be called.
func Concurrently[T any](s *cluster.Snapshot, do func() T) (wait func() T) {
	wait = sync.OnceValue(do)
	if len(s.Jobs) >= manyJobs {
		go wait()
	} else {
		wait()
	}
	return wait
}

// InBackground is Concurrently for a result of which Join makes sure that it is there before what it reads changes.
func InBackground[T any](c *Cycle, do func() T) (wait func() T) {
	wait = Concurrently(c.Snapshot, do)
	c.begun = append(c.begun, func() { wait() })
	return wait
}

// InBackgroundLazily is InBackground for a result that a cycle may not need: when the queue is short, do runs at the first wait.
func InBackgroundLazily[T any](c *Cycle, do func() T) (wait func() T) {
	if len(c.Snapshot.Jobs) >= manyJobs {
		return InBackground(c, do)
	}
	return sync.OnceValue(do)
}

// Join waits for all that was begun, needed or not: from here on journals and memories change.
func (c *Cycle) Join() {
	for _, wait := range c.begun {
		wait()
	}
	c.begun = nil
}

// ReadNodes begins to make Nodes in the background. After it several goroutines may call Nodes.
func (c *Cycle) ReadNodes() {
	if c.nodes == nil {
		c.nodes = InBackground(c, func() *nodemap.Map { return nodemap.New(c.Snapshot) })
	}
}

// Nodes are the nodes of the snapshot in placement's terms, made once. They are read-only: a search
// changes a clone.
func (c *Cycle) Nodes() *nodemap.Map {
	if c.nodes == nil {
		made := nodemap.New(c.Snapshot)
		c.nodes = func() *nodemap.Map { return made }
	}
	return c.nodes()
}

// NoteNodes notes in the plan on which nodes nothing can be placed because there are too many
// kinds, if a feature asked for Nodes.
func (c *Cycle) NoteNodes() {
	if c.nodes == nil {
		return
	}
	if out := c.nodes().Out; len(out) > 0 {
		c.Plan.Note(NodeKinds, len(out), "more than %d kinds of GPU nodes (GPU type, requested features, partitions): no job is steered, sized or given room on %d of them, such as %.80s",
			placement.MaxTypes, len(out), out[0])
	}
}

// maxUnreadNamed is how many unread records the note names.
const maxUnreadNamed = 10

// NoteUnread notes the records of Slurm's that could not be read, each by its name.
func (c *Cycle) NoteUnread() {
	all := c.Snapshot.Unread
	if len(all) == 0 {
		return
	}
	named := make([]string, min(len(all), maxUnreadNamed))
	for i := range named {
		named[i] = all[i].String()
	}
	more := ""
	if n := len(all) - len(named); n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	c.Plan.Note(RecordsUnread, len(all), "%d records of Slurm's cannot be read and are left out: %s%s", len(all), strings.Join(named, "; "), more)
}

// Keep notes that a job could start now, and that locality keeps it waiting: for FewSwitches,
// SlowNodes or both.
func (c *Cycle) Keep(id cluster.JobID, what string) {
	if c.Kept == nil {
		c.Kept = map[cluster.JobID]string{}
	}
	if before := c.Kept[id]; before != "" {
		what = before + "," + what
	}
	c.Kept[id] = what
}

// PlanOnly is embedded by features that have nothing to do beside the plan.
type PlanOnly struct{}

// Act does nothing.
func (PlanOnly) Act(context.Context, *Cycle) error { return nil }
