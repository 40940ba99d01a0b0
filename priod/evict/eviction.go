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
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
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

// Sight is a job as Slurm shows it now.
type Sight struct {
	cluster.Job
	Gone               bool   // slurmctld does not know the job; what follows is of its last run, by accounting
	Final              string // the state in which it ended: "COMPLETED"; "" when it has not
	ExitCode, ExitedBy int    // of a run that ended: status and signal
	CanRequeue         bool   // a batch job that Slurm may put back into the queue
	Expedites          bool   // and one that then starts before all others (sbatch --requeue=expedite)
	OnHold             bool   // while it runs: once it is back in the queue, even its owner may not release it
	ReqNodes           string
	End                time.Time // of one that is Gone
}

// Verb is what a command does.
type Verb string

// The commands.
const (
	Signal  Verb = "signal"
	Requeue Verb = "requeue" // and sets the begin time, if Value names one
	Begin   Verb = "begin"   // lets a requeued victim start, now or later
	Pin     Verb = "pin"     // names the nodes of the claim in the waiting job's request
	Unpin   Verb = "unpin"
	Reserve Verb = "reserve" // keeps the nodes of a claim from everybody; ends by itself
	Free    Verb = "free"    // deletes the reservation
)

// Command is one write to one job, for one row.
type Command struct {
	Verb            Verb
	Job             cluster.JobID
	SLUID           string // of the run that was seen, as in cluster.Job
	Claim, Eviction int64  // the row: one of both
	Value           string
	Nodes           string        // of Reserve, as a host list
	For             time.Duration // Reserve ends by itself after that
	User            string        // of Reserve: the waiting job's
	First           bool          // no signal can have been sent before
}

// Result is what became of a command.
type Result struct {
	Command
	Status  slurmplug.Status
	Message string
}

// Turn is what one transition comes to: rows to save first, then commands.
type Turn struct {
	Claims    []Claim
	Evictions []Eviction
	Commands  []Command
}

// Empty tells whether there is nothing to save.
func (t *Turn) Empty() bool { return len(t.Claims)+len(t.Evictions) == 0 }

// Memory is how long ended rows stay in the journal: limits, learned graces and
// second claims look at them.
const Memory = 7 * 24 * time.Hour

// Journal is what is known of claims and evictions, by number.
type Journal struct {
	Claims                  []Claim
	Evictions               []Eviction
	Times                   map[cluster.JobID]int // evictions of each job in its life
	LastClaim, LastEviction int64                 // numbers given

	nodes []cluster.Node // as See was told
}

// NewJournal returns an empty one.
func NewJournal() *Journal { return &Journal{Times: map[cluster.JobID]int{}} }

// Blank tells whether nothing is known, as long as nobody was ever evicted.
func (j *Journal) Blank() bool { return len(j.Claims)+len(j.Evictions) == 0 }

// Claim returns the claim of a number, nil when it is forgotten.
func (j *Journal) Claim(number int64) *Claim {
	at, ok := slices.BinarySearchFunc(j.Claims, number, func(c Claim, n int64) int { return int(c.Number - n) })
	if !ok {
		return nil
	}
	return &j.Claims[at]
}

// Eviction returns the eviction of a number, nil when it is forgotten.
func (j *Journal) Eviction(number int64) *Eviction {
	at, ok := slices.BinarySearchFunc(j.Evictions, number, func(e Eviction, n int64) int { return int(e.Number - n) })
	if !ok {
		return nil
	}
	return &j.Evictions[at]
}

var reservation = regexp.MustCompile(`^priod_[0-9]+_[0-9]+$`)

// IsReservation tells whether a reservation is named as Number names them.
func IsReservation(name string) bool { return reservation.MatchString(name) }

// Number gives the rows of new claims their numbers; each eviction's Claim is
// the index of its claim until then.
func (j *Journal) Number(t *Turn) {
	for i := range t.Claims {
		c := &t.Claims[i]
		c.Number = j.LastClaim + int64(i) + 1
		if c.Resv != "" {
			c.Resv = fmt.Sprintf("priod_%d_%d", c.Number, c.At.Unix())
		}
	}
	for i := range t.Evictions {
		e := &t.Evictions[i]
		e.Number, e.Claim = j.LastEviction+int64(i)+1, t.Claims[e.Claim].Number
	}
}

// Take takes in rows that are saved.
func (j *Journal) Update(t *Turn) {
	for _, c := range t.Claims {
		if old := j.Claim(c.Number); old != nil {
			*old = c
			continue
		}
		j.Claims = append(j.Claims, c)
		j.LastClaim = max(j.LastClaim, c.Number)
	}
	for _, e := range t.Evictions {
		old := j.Eviction(e.Number)
		counted := old != nil && !old.SignalledAt.IsZero()
		switch counts := !e.SignalledAt.IsZero(); {
		case counts && !counted:
			j.Times[e.Job]++
		case counted && !counts:
			j.Times[e.Job]--
		}
		if old != nil {
			*old = e
			continue
		}
		j.Evictions = append(j.Evictions, e)
		j.LastEviction = max(j.LastEviction, e.Number)
	}
}

// Forget drops what ended longer ago than Memory, and then the counts of jobs that are
// not in the queue: one that failed may come back. A claim stays as long as one of its
// evictions is open.
func (j *Journal) Forget(now time.Time, present func(cluster.JobID) bool) {
	before := now.Add(-Memory)
	j.Evictions = slices.DeleteFunc(j.Evictions, func(e Eviction) bool { return !e.Open() && e.Ended.Before(before) })
	known, made := map[cluster.JobID]bool{}, map[int64]bool{}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		known[e.Job] = true
		made[e.Claim] = made[e.Claim] || e.Open()
	}
	j.Claims = slices.DeleteFunc(j.Claims, func(c Claim) bool {
		return !c.Open() && c.Pin == "" && c.Resv == "" && !made[c.Number] && c.Ended.Before(before)
	})
	for id := range j.Times {
		if !known[id] && !present(id) {
			delete(j.Times, id)
		}
	}
}

// Urgent lists the jobs that something waits for, each once: those to look at
// between two cycles.
func (j *Journal) Urgent() (jobs []Target) {
	for i := range j.Claims {
		if c := &j.Claims[i]; c.Open() || c.Resv != "" {
			jobs = append(jobs, Target{c.Job, c.RawID})
		}
	}
	for i := range j.Evictions {
		if e := &j.Evictions[i]; e.Open() && e.State != Restored {
			jobs = append(jobs, Target{e.Job, e.RawID})
		}
	}
	return unique(jobs)
}

// Idle lists the others of which something is still to come: victims that wait
// in the queue, and jobs that are pinned to a place that no claim keeps any more.
func (j *Journal) Idle() (waiting, pinned []Target) {
	for i := range j.Claims {
		if c := &j.Claims[i]; !c.Open() && c.Pin != "" {
			pinned = append(pinned, Target{c.Job, c.RawID})
		}
	}
	for i := range j.Evictions {
		if e := &j.Evictions[i]; e.State == Restored {
			waiting = append(waiting, Target{e.Job, e.RawID})
		}
	}
	return unique(waiting), unique(pinned)
}

// Pins tells whether a job's request may still name the place of one of its claims.
func (j *Journal) Pins(id cluster.JobID) bool {
	return j != nil && slices.ContainsFunc(j.Claims, func(c Claim) bool { return c.Job == id && c.Pin != "" })
}

// Taken counts the places that tasks of an array take: those that run, and those that
// wait with a claim.
func (j *Journal) CountArrayPlaces(array uint32, s *cluster.Snapshot) (n int) {
	running := map[cluster.JobID]bool{}
	for i := range s.Jobs {
		if x := &s.Jobs[i]; x.ID.ID == array && (x.State == cluster.Running || x.State == cluster.Suspended) {
			running[x.ID] = true
		}
	}
	n = len(running)
	for i := range j.Claims {
		if c := &j.Claims[i]; c.Open() && c.Job.ID == array && !running[c.Job] {
			n++
		}
	}
	return n
}

// Target is a job to look at and an id by which Slurm finds its record.
type Target struct {
	Job   cluster.JobID
	RawID uint32
}

func unique(jobs []Target) []Target {
	slices.SortFunc(jobs, func(a, b Target) int { return a.Job.Compare(b.Job) })
	return slices.CompactFunc(jobs, func(a, b Target) bool { return a.Job == b.Job })
}

// Mark tells History who goes first among TE and among BE jobs, and which nodes are
// reserved meanwhile.
func (j *Journal) MarkHistory(h *cluster.History) {
	h.Claiming, h.Returning, h.Reserved = map[cluster.JobID]bool{}, map[cluster.JobID]bool{}, map[string]bool{}
	for i := range j.Claims {
		c := &j.Claims[i]
		if c.Open() {
			h.Claiming[c.Job] = true
		}
		if c.Resv != "" { // it may outlive the claim until its deletion is seen to
			for _, node := range c.Nodes() {
				h.Reserved[node] = true
			}
		}
	}
	for i := range j.Evictions {
		switch e := &j.Evictions[i]; e.State {
		case Left, Requeued, Restored:
			if c := j.Claim(e.Claim); c == nil || c.Purpose != ForRound { // who has had more than its due goes back to its place
				h.Returning[e.Job] = true
			}
		}
	}
}

// Slurm is a cluster on which jobs can be told to leave.
type Slurm interface {
	// Look shows single jobs as they are now. A job that Slurm does not know is
	// Gone; one that cannot be trusted is missing, and makes an error.
	Look(context.Context, []Target) (map[cluster.JobID]Sight, error)
	// Excluded are the nodes that a waiting job refuses, as a host list.
	Excluded(context.Context, Target) (string, error)
	// AtOnce is how many tasks of a task's array may run at a time; 0: any number.
	AtOnce(context.Context, Target) (int, error)
	// Do sends commands in order and returns one result for each.
	Do(context.Context, []Command) []Result
}
