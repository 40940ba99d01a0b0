// Package evict makes room on a real Slurm: for trial-and-error (TE) jobs, an idea of
// FitGpp (Yabuuchi et al., OpML 2019), for gangs that wait though enough GPUs are free,
// and at the end of a round for best-effort (BE) jobs that are owed a GPU type. Only jobs
// whose owners agreed are evicted.
//
// A claim is the place that is kept for one waiting job, and an eviction is one run of
// one victim that leaves for it. Both are rows of a journal, and both are state
// machines:
//
//	claim     planned -> holding -> started, or released
//	eviction  recorded -> signalled -> left -> requeued -> restored -> done, or
//	          called off
//
// A transition is a pure function of the journal's rows, what Slurm shows now and the
// time; it returns the changed rows and the commands that follow from them. A row is
// saved before its command is sent, and a command is sent only while Slurm still shows
// the run that the row names (by start time and restarts). So a priod that starts after
// a crash continues where the journal ends: a signal may be sent twice, but no job is
// evicted twice.
//
// A victim that was signalled is always carried to the end of its eviction, even when
// the waiting job goes away: it may have saved its state and wait to be ended. It may
// start again only when the claim has ended, so that it does not take back the place
// that it left.
//
// Waiting jobs that ask for room are claimants. A kind of claimants is data: who asks, in which order, which running
// jobs may leave for it, at what price, in which cycle (choice.go). For each kind, in order of priority, the same
// search chooses, under the same limits; when a cycle makes room for one kind, the next one asks those behind it.
//
// An eviction from decision to requeue:
//   - room.go: the part that evictions take in a cycle
//   - choice.go: the choice for one kind of claimants, by package preemption, and its rows
//   - check.go: the closer look at the chosen jobs, and what it rules out
//   - tend.go: looks at Slurm, one step of all rows, commands, and again
//   - claim.go, victim.go: the states of a claim and of an eviction
//
// Beside it:
//   - trials.go, gangs.go, rounds.go: the kinds of claimants
//   - candidates.go: the running jobs, and how long they take to leave, from experience
//   - limits.go: what counts against limits, and which jobs wait for another try; settings.go
//   - shadow.go: when claimants would start without evictions
//   - lessons.go: what claims teach whose jobs did not start
//   - eviction.go: the rows; journal.go: all that are known; overdue.go: those that hang
//   - reasons.go: reasons, and their words for explain
//   - start_cost.go: what headroom asks
package evict

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// ClaimState is where a claim stands.
type ClaimState string

// The states of a claim.
const (
	Planned  ClaimState = "planned"  // its victims have not all left
	Holding  ClaimState = "holding"  // the room is there, the job has not started
	Started  ClaimState = "started"  // the job runs
	Released ClaimState = "released" // Reason says why
)

// Purpose is what a claim is for.
type Purpose string

// The purposes of a claim.
const (
	ForTrial Purpose = "te"    // a TE job starts at once
	ForRound Purpose = "round" // a BE job gets the GPU type that it is owed
	ForGang  Purpose = "gang"  // small jobs move elsewhere, so that free GPUs get the shape that a gang asks for
	// ForWindow is no claim of a waiting job: the job itself leaves before nodes are reserved for maintenance. The claim is
	// never open, keeps no place and counts against no limit.
	ForWindow Purpose = "window"
)

// ClaimShare is what a claim takes of one node.
type ClaimShare struct {
	Node    string `json:"node"`
	GPUType string `json:"gpu_type,omitempty"` // of a node with several GPU types: of the GPUs that are kept
	GPUs    int    `json:"gpus"`
	CPUs    int    `json:"cpus"`
	MemMB   int64  `json:"mem_mb"`

	Others    map[string]int64 `json:"others,omitempty"`    // see nodemap.Named
	Kind      string           `json:"kind,omitempty"`      // names the job's request and the node's kind: see lessonKey; "": the claim teaches nothing
	FreeGPUs  int              `json:"free_gpus,omitempty"` // of the node when the job did not start there: see notStarted
	FreeCPUs  int              `json:"free_cpus,omitempty"`
	FreeMemMB int64            `json:"free_mem_mb,omitempty"`
}

// Claim is the place that is kept for one waiting job.
type Claim struct {
	Number  int64         `json:"claim"`
	Purpose Purpose       `json:"purpose"`
	Job     cluster.JobID `json:"job"`
	RawID   uint32        `json:"raw_id"` // an id by which Slurm finds the job's record
	User    string        `json:"user"`
	GPUs    int           `json:"gpus"`
	Shares  []ClaimShare  `json:"shares"`
	Wait    time.Duration `json:"wait_ns"` // until the last victim has left, as it was expected
	State   ClaimState    `json:"state"`
	Reason  string        `json:"reason,omitempty"`
	Free    bool          `json:"free,omitempty"`   // the place was free: no job leaves for it
	Pin     string        `json:"pin,omitempty"`    // the nodes written into the job's ReqNodeList; "": none, or taken back
	Resv    string        `json:"resv,omitempty"`   // the reservation that keeps others off the nodes until all victims have left; "": none, or deleted
	ResvAt  time.Time     `json:"resv_at,omitzero"` // when the reservation was created
	At      time.Time     `json:"at"`               // when it was recorded
	Changed time.Time     `json:"changed"`
	Room    time.Time     `json:"room,omitzero"`  // when the last victim had left
	Ended   time.Time     `json:"ended,omitzero"` // when the job started, as Slurm says, or the claim was released

	// Awaits are evictions for other claims on whose victims the place counts, too. A restart of priod
	// forgets them: then the place is held from when the claim's own victims have left.
	Awaits []int64 `json:"-"`
}

// Open reports whether the claim still keeps a place.
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

// How says in which way a victim left.
type How string

// The ways to leave.
const (
	Exited    How = "exited"    // by itself, because of the signal
	Finished  How = "finished"  // with exit status 0, and Slurm no longer knows it
	Forced    How = "forced"    // by the requeue at the end of its grace
	Returned  How = "requeued"  // its owner, itself or Slurm put it back into the queue
	Ended     How = "ended"     // cancelled, out of time or out of memory, whatever the signal did
	Forgotten How = "forgotten" // Slurm no longer knew it when priod looked
)

// Eviction is one run of one victim that makes room. Costs are in GPU-seconds.
type Eviction struct {
	Number     int64         `json:"eviction"`
	Claim      int64         `json:"claim"`
	Job        cluster.JobID `json:"job"`
	RawID      uint32        `json:"raw_id"`
	User       string        `json:"user"`
	Start      time.Time     `json:"start"` // Start and Restarts name the run
	Restarts   int           `json:"restarts"`
	GPUs       int           `json:"gpus"`
	Signal     string        `json:"signal,omitempty"` // as the tag says it; "": TERM to all of the job
	Grace      time.Duration `json:"grace_ns"`
	Eligible   time.Time     `json:"eligible,omitzero"`   // the eligible time before the eviction
	Unsaved    time.Duration `json:"unsaved_ns"`          // work at risk when recorded
	Restart    time.Duration `json:"restart_ns"`          // what starting again is taken to cost
	Promised   float64       `json:"cost_promised_gpu_s"` // cost as it was expected
	Paid       float64       `json:"cost_paid_gpu_s"`     // cost as it turned out, once it has left
	State      State         `json:"state"`
	Reason     string        `json:"reason,omitempty"`
	How        How           `json:"how,omitempty"`
	ExitCode   int           `json:"exit_code,omitempty"`
	ExitSignal int           `json:"exit_signal,omitempty"`
	Tries      int           `json:"tries,omitempty"` // how often the command of this state failed so far

	At          time.Time `json:"at"` // recorded
	SignalledAt time.Time `json:"signalled,omitzero"`
	LeftAt      time.Time `json:"left,omitzero"`
	RequeuedAt  time.Time `json:"requeued,omitzero"`
	RestoredAt  time.Time `json:"restored,omitzero"`
	Ended       time.Time `json:"ended,omitzero"`
}

// Open reports whether something is still to be done.
func (e *Eviction) Open() bool { return e.State != Done && e.State != CalledOff }

// Leaving reports whether the victim's run is on its way out.
func (e *Eviction) Leaving() bool { return e.State == Recorded || e.State == Signalled }

// Counts reports whether the victim was signalled: others cost nothing.
func (e *Eviction) Counts() bool { return e.State != CalledOff || !e.SignalledAt.IsZero() }

// Changes are the outcome of one transition: rows to save first, then commands to send.
type Changes struct {
	Claims    []Claim
	Evictions []Eviction
	Commands  []plan.Command

	fit []Claim // places on which trials fit, though Slurm has started none there: see Feature.check
}

// Empty reports whether there is nothing to save.
func (t *Changes) Empty() bool { return len(t.Claims)+len(t.Evictions) == 0 }
