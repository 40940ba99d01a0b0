// Package plan is what priod intends to do to a cluster, as data: actions,
// what became of them, and why. It also holds the one interface that stands
// between priod and a cluster, real or simulated.
package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Slurm is a cluster: the real one (priod/live) or a virtual one
// (priod/simulate).
type Slurm interface {
	// Observe returns one consistent snapshot, or an error when the read
	// cannot be trusted; then nothing may be written.
	Observe(context.Context) (cluster.Snapshot, error)
	// Apply carries out the actions in order and returns one outcome for each.
	Apply(context.Context, []Action) []Outcome
}

// Action is one write to one job.
type Action struct {
	Job    cluster.JobID   `json:"job"`
	Tasks  string          `json:"tasks,omitempty"` // set for an unsplit array
	Part   bool            `json:"part,omitempty"`  // Tasks are only some of the record's: Slurm splits it
	Lever  slurmplug.Lever `json:"lever"`
	Before slurmplug.Value `json:"before"` // what Slurm held when this was decided
	After  slurmplug.Value `json:"after"`
	Reason string          `json:"reason"`
	// UserNice is the job's Nice when this was decided.
	UserNice slurmplug.Value `json:"user_nice,omitzero"`
	// Was is, for a lever on the job's request, what the user asked for: what an
	// undo puts back.
	Was slurmplug.Value `json:"was,omitzero"`
}

// Field is the lever in words, with the tasks where they are only some of the record's.
func (a Action) Field() string {
	if a.Part {
		return fmt.Sprintf("%s of tasks %s", a.Lever, a.Tasks)
	}
	return string(a.Lever)
}

// SizeRests is the Reason of giving a job its own size again that did not start with
// another one: it gets no other for a while, whatever priod is started meanwhile.
const SizeRests = "size: its own for a while"

// SizeAhead is the Reason of a size for a job that no node has room for yet.
const SizeAhead = "size: before there is room"

// Jobs are the jobs that the action changes, as History and the store name them.
func (a Action) Jobs() []cluster.JobID {
	if !a.Part {
		return []cluster.JobID{a.Job}
	}
	tasks, err := slurmplug.ExpandTasks(a.Tasks)
	if err != nil {
		return nil // decide took them from a list that parsed
	}
	ids := make([]cluster.JobID, len(tasks))
	for i, t := range tasks {
		ids[i] = cluster.JobID{ID: a.Job.ID, Task: t}
	}
	return ids
}

// Outcome is what became of one action.
type Outcome struct {
	Action
	Status  slurmplug.Status `json:"status"`
	Message string           `json:"message,omitempty"` // Slurm's words when it said no
}

// Decision is what priod decided about one job and why. It is stored when it
// changes and read back by explain; nothing recomputes it.
type Decision struct {
	Job      cluster.JobID `json:"job"`
	Class    cluster.Class `json:"class"`
	Ranked   bool          `json:"ranked"`             // priod orders this job
	Value    int64         `json:"value"`              // wanted above Slurm's own priority
	Own      int64         `json:"own_priority"`       // Slurm's own part of the priority when this was decided
	Why      string        `json:"why"`                // te, te-qos, be, be-qos, untagged, bad-tag, over-budget, overrun, held, dependency, reservation, partition, not-eligible, het, evicted, in-share, withheld, round
	Detail   string        `json:"detail,omitempty"`   // words for a person, of its place in the queue; as it is read all that is said but of its type
	Since    time.Time     `json:"since,omitzero"`     // when the job could first have run
	Steer    string        `json:"steer,omitempty"`    // which GPU type it gets, or none, and why; "" when that was no question
	Size     string        `json:"size,omitempty"`     // which CPUs and memory it gets, and why; "" when that was no question
	Locality string        `json:"locality,omitempty"` // why its switches and nodes are its own matter, where Choices do not tell; "" else
	Unmoved  string        `json:"unmoved,omitempty"`  // why a wanted value is not written; "" when it is or need not be
	Choices  Choices       `json:"choices,omitzero"`
}

// GetsRoom reports whether jobs may leave so that the job starts at once: TE jobs, and those within their account's
// guaranteed share.
func (d *Decision) GetsRoom() bool {
	return d.Ranked && (d.Class == cluster.TE || d.Why == string(InShare))
}

// Words are all that is said of the job but its type and its Choices, in one line.
func (d *Decision) Words() string { return Joined(d.Detail, d.Size, d.Locality) }

// Joined are texts in one line, without those that are empty.
func Joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

// Plan is one cycle's decisions and the writes that carry them out.
type Plan struct {
	At         time.Time
	Band       Band // where values lie and how large one step is
	Decisions  []Decision
	Queue      []Queued // made with the decisions, by MakeQueue
	Actions    []Action
	Renumbered int     // writes beyond the fewest possible, because a gap was used up
	Notes      []Note  // what an operator should know about the whole plan
	Shares     *Shares // what the allocation gives each job; nil: nothing is allocated

	// Until is when what was decided may change although nothing happens to a job or a
	// node, because something goes by the clock; zero: it does not. See Stands.
	Until time.Time

	UntilWindow, LateLimits int // jobs that run until a window, or have a limit of priod's and none ahead
}

// Stands notes that what a feature decided stands for so many seconds if nothing happens:
// cycles before that would decide the same and write nothing. A simulation leaves them out.
func (p *Plan) Stands(seconds float64) {
	if seconds < forever {
		p.StandsUntil(p.At.Add(time.Duration(seconds * float64(time.Second))))
	}
}

// StandsUntil is Stands with the time when that ends; zero: never.
func (p *Plan) StandsUntil(until time.Time) {
	if p.Until.IsZero() || !until.IsZero() && until.Before(p.Until) {
		p.Until = until
	}
}

// forever is longer, s, than anything stands that does not stand for good.
const forever = 1e9

// Seen is what a cycle hands to its recorder before it acts.
type Seen struct {
	Snapshot *cluster.Snapshot
	Stays    []cluster.Stay // that began or ended since the last cycle
	Plan     *Plan
	Hold     string         // why nothing will be written; "" when Plan.Actions follow
	Waits    func() []*Wait // that changed since the last call; nil: causes of waiting are not looked for
}
