package plan

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Leaving is a cluster on which jobs can be signalled.
type Leaving interface {
	// Look shows single jobs as they are now. A job that Slurm does not know is
	// Gone; one that cannot be trusted is missing, and makes an error.
	Look(context.Context, []Target) (map[cluster.JobID]JobStatus, error)
	// Excluded are the nodes that a waiting job refuses, as a host list.
	Excluded(context.Context, Target) (string, error)
	// Places are the nodes that waiting jobs name and refuse, and what they ask of each, by their raw ids. Jobs that are
	// gone are left out; those that cannot be read, too, with an error.
	Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error)
	// AtOnce is how many tasks of a task's array may run at a time; 0: any number.
	AtOnce(context.Context, Target) (int, error)
	// AskSwitches reads what waiting jobs ask of switches, into their Switches. Jobs that
	// wait no more are left as they are.
	AskSwitches(context.Context, []*cluster.Job) error
	// Do sends commands in order and returns one result for each.
	Do(context.Context, []Command) []Result
}

// Target is a job to look at and an id by which Slurm finds its record.
type Target struct {
	Job   cluster.JobID
	RawID uint32
}

// JobStatus is what Slurm shows of one job now.
type JobStatus struct {
	cluster.Job
	Gone               bool   // slurmctld does not know the job; what follows is of its last run, by accounting
	Final              string // the state in which it ended: "COMPLETED"; "" when it has not
	ExitCode, ExitedBy int    // status and signal of a run that ended
	CanRequeue         bool   // a batch job that Slurm may put back into the queue
	Expedites          bool   // a job that Slurm then starts before all others (sbatch --requeue=expedite)
	OnHold             bool   // held while it runs: once it is back in the queue, even its owner may not release it
	ReqNodes           string
	End                time.Time // the end of a job that is Gone
}

// The commands.
const (
	Signal  CommandKind = "signal"  // tells a job to leave
	Requeue CommandKind = "requeue" // puts a victim back into the queue, with Value as its begin time if there is one
	Begin   CommandKind = "begin"   // lets a requeued victim start, now or later
	Pin     CommandKind = "pin"     // names the nodes of the claim in the waiting job's request
	Unpin   CommandKind = "unpin"
	Reserve CommandKind = "reserve" // keeps all jobs off the nodes of a claim; ends by itself
	Free    CommandKind = "free"    // deletes the reservation
)

// CommandKind is what a command does.
type CommandKind string

// Command is one write to one job, for one row.
type Command struct {
	Kind            CommandKind
	Job             cluster.JobID
	SLUID           string // of the run that was seen, as in cluster.Job
	Claim, Eviction int64  // the number of the row: one of both
	Value           slurmplug.Value
	Nodes           string        // of Reserve, as a host list
	For             time.Duration // Reserve ends by itself after that
	First           bool          // no signal can have been sent before
}

// Result is the outcome of a command.
type Result struct {
	Command
	Status  slurmplug.Status
	Message string
}

// Asks reports whether the job asks for these nodes, and no others.
func (s *JobStatus) Asks(nodes string) bool { return SameHosts(s.ReqNodes, nodes) }

// SameHosts reports whether two host lists name the same nodes: Slurm shows a list in an
// order of its own.
func SameHosts(a, b string) bool {
	x, err := slurmplug.ExpandHosts(a)
	y, err2 := slurmplug.ExpandHosts(b)
	if err != nil || err2 != nil {
		return a == b
	}
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
