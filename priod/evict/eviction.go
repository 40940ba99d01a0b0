// Package evict makes room on a real Slurm: for trial-and-error (TE) jobs, and
// at the end of a round for best-effort (BE) jobs that are owed their GPUs. Two
// state machines, each a pure transition from the journal's rows, what Slurm
// shows now and the time, to the next rows and the commands that follow them:
//
//	claim     planned -> holding -> started, or released: one waiting job's place
//	eviction  recorded -> signalled -> left -> requeued -> restored -> done, or
//	          called off: one victim's one run
//
// A row is saved before its command goes out, and a command goes out only while
// Slurm still shows the run that the row names (start time and restarts). So
// whoever reads the journal after a crash goes on where it ends: a signal may
// come twice, an eviction never.
//
// Once signalled, a victim is always carried to the end of its eviction, even
// when the waiting job goes away: it may have saved its state and wait to be ended.
// Its begin time is given back only when the claim is settled, so that it does
// not take back the place that it left.
package evict

import (
	"time"

	"slurmprio/priod/cluster"
)

// ClaimState is where a claim stands.
type ClaimState string

// The states of a claim.
const (
	Planned  ClaimState = "planned"  // its victims have not all left
	Holding  ClaimState = "holding"  // the room is there, the job has not started
	Started  ClaimState = "started"  //
	Released ClaimState = "released" // Reason says why
)

// Purpose is what a claim is for.
type Purpose string

// The purposes of a claim.
const (
	ForTrial Purpose = "te"    // a TE job starts at once
	ForRound Purpose = "round" // a BE job gets the GPU type that it is owed
)

// Share is what a claim takes of one node.
type ClaimShare struct {
	Node  string `json:"node"`
	GPUs  int    `json:"gpus"`
	CPUs  int    `json:"cpus"`
	MemMB int64  `json:"mem_mb"`
}

// Claim is one waiting job's demand for a place.
type Claim struct {
	Number  int64
	Purpose Purpose
	Job     cluster.JobID
	RawID   uint32 // an id by which Slurm finds the job's record
	User    string
	GPUs    int
	Shares  []ClaimShare
	Wait    time.Duration // promised, until the last victim has left
	State   ClaimState
	Reason  string
	Pin     string    // the nodes written into the job's ReqNodeList; "": none, or taken back
	Resv    string    // the reservation that keeps others off the nodes until all victims have left; "": none, or deleted
	ResvAt  time.Time // it was created
	At      time.Time // recorded
	Changed time.Time
	Room    time.Time // the last victim had left
	Ended   time.Time // started, as Slurm says, or released
}

// Open tells whether the claim still keeps a place.
func (c *Claim) Open() bool { return c.State == Planned || c.State == Holding }

// Nodes are the claim's nodes.
func (c *Claim) Nodes() []string {
	names := make([]string, len(c.Shares))
	for i, s := range c.Shares {
		names[i] = s.Node
	}
	return names
}

// State is where an eviction stands.
type State string

// The states of an eviction.
const (
	Recorded  State = "recorded"
	Signalled State = "signalled" // in its grace period
	Left      State = "left"      // its run has ended because of the signal
	Requeued  State = "requeued"  // in the queue again, with Slurm's begin time
	Restored  State = "restored"  // may start, before other BE jobs
	Done      State = "done"      // runs again, or has ended for good
	CalledOff State = "called-off"
)

// States are all of them.
var States = []State{Recorded, Signalled, Left, Requeued, Restored, Done, CalledOff}

// How says how a victim left.
type How string

// The ways to leave.
const (
	Exited    How = "exited"    // by itself, because of the signal
	Finished  How = "finished"  // exit status 0, which Settings.ZeroEnds takes for the end of its work, or Slurm forgot it
	Forced    How = "forced"    // by the requeue at the end of its grace
	Returned  How = "requeued"  // its owner, itself or Slurm put it back into the queue
	Ended     How = "ended"     // cancelled, out of time or memory: an end of its own
	Forgotten How = "forgotten" // Slurm knew it no more when priod looked
)

// Eviction is one run of one victim that makes room. Costs are in GPU-seconds.
type Eviction struct {
	Number, Claim int64
	Job           cluster.JobID
	RawID         uint32
	User          string
	Start         time.Time // with Restarts: the run
	Restarts      int
	GPUs          int
	Signal        string // as the tag says it; "": TERM to all of the job
	Grace         time.Duration
	Eligible      time.Time     // before the eviction
	Unsaved       time.Duration // work at risk when recorded
	Restart       time.Duration // what starting again is taken to cost
	Promised      float64       // cost as it was expected
	Paid          float64       // cost as it came, once it has left
	State         State
	Reason        string
	How           How
	ExitCode      int
	ExitSignal    int
	Tries         int // of the command of this state, without success so far

	At                                                 time.Time // recorded
	SignalledAt, LeftAt, RequeuedAt, RestoredAt, Ended time.Time
}

// Open tells whether something is still to be done.
func (e *Eviction) Open() bool { return e.State != Done && e.State != CalledOff }

// Leaving tells whether the victim's run is on its way out.
func (e *Eviction) Leaving() bool { return e.State == Recorded || e.State == Signalled }

// Counts tells whether the victim was told to leave: others cost nothing.
func (e *Eviction) Counts() bool { return e.State != CalledOff || !e.SignalledAt.IsZero() }

// Turn is what one transition comes to: rows to save first, then commands.
type Turn struct {
	Claims    []Claim
	Evictions []Eviction
	Commands  []Command
}

// Empty tells whether there is nothing to save.
func (t *Turn) Empty() bool { return len(t.Claims)+len(t.Evictions) == 0 }
