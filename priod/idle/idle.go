// Package idle says which running GPU jobs hold their GPUs and do no work.
//
// Each source tells of a job what it can: its GPUs are busy or not, its CPUs are, its output is written, a step of it
// runs. A job that shows no sign of work for some time is idle. One that worked before has hung, one that never did has
// never used its GPUs; an interactive job is idle. With no source that can tell, nothing is said of a job.
//
// How long that time is, is learned for each program: a spell without work that ended by itself is no fault, and a later
// one of the same program has to be longer than that.
//
// Files: idle.go what is found, and the settings; signs.go which signs count; load.go the load of nodes; memory.go spells
// from cycle to cycle; program.go what earlier spells taught; feature.go its part in a cycle; act.go what is done;
// words.go what is told of it.
package idle

import (
	"time"

	"slurmprio/priod/cluster"
)

// Kind is what a job without work is.
type Kind string

// The kinds.
const (
	Idle      Kind = "idle"       // it is not known whether it worked before, or it is interactive
	Hung      Kind = "hung"       // it worked before
	NeverUsed Kind = "never-used" // it has not begun to work
)

// How is how a spell ended.
type How string

// The ends.
const (
	Worked    How = "worked"    // by itself: the job works again. A false alarm where it was found
	Ended     How = "ended"     // with the job
	Requeued  How = "requeued"  // by priod
	Cancelled How = "cancelled" // by priod
	Evicted   How = "evicted"   // by priod, for a waiting job
)

// Spell is a time without a sign of work of a run of a job.
type Spell struct {
	Job     cluster.JobID `json:"job"`
	RawID   uint32        `json:"raw_id"`
	Start   time.Time     `json:"start"` // of the run
	User    string        `json:"user"`
	Account string        `json:"account"`
	Name    string        `json:"job_name"`
	Program string        `json:"program"` // see ProgramOf
	GPUs    int           `json:"gpus"`
	GPUType string        `json:"gpu_type"`

	Since  time.Time     `json:"since"`           // its last sign of work, or its start
	Found  time.Time     `json:"found,omitzero"`  // when it counted as idle; zero: it never did
	After  time.Duration `json:"after_ns"`        // how long it may be without work
	End    time.Time     `json:"end,omitzero"`    // zero: it lasts
	How    How           `json:"how,omitempty"`   // it ended
	Kind   Kind          `json:"kind"`            //
	Source string        `json:"source"`          // that shows no work
	Value  float64       `json:"value,omitempty"` // that it shows
	Sure   bool          `json:"sure"`            // the source shows its GPUs or its CPUs: see Combine

	Told    time.Time `json:"told,omitzero"` // when its user was told
	Acted   time.Time `json:"acted,omitzero"`
	Do      Do        `json:"do,omitempty"`      // what was done then
	Message string    `json:"message,omitempty"` // Slurm's words when it refused that
}

// Lasted is how long the spell has lasted.
func (s *Spell) Lasted(at time.Time) time.Duration {
	if !s.End.IsZero() {
		at = s.End
	}
	return max(at.Sub(s.Since), 0)
}

// GPUHours are those held without work.
func (s *Spell) GPUHours(at time.Time) float64 { return s.Lasted(at).Hours() * float64(s.GPUs) }

// FalseAlarm reports whether it was found and ended by itself.
func (s *Spell) FalseAlarm() bool { return !s.Found.IsZero() && s.How == Worked }

// Do is one thing that a site has done about idle jobs.
type Do string

// What can be done.
const (
	Notify  Do = "notify"  // a line in the job's output
	Victim  Do = "victim"  // a job that agrees to leave leaves first, and counts last within its account's share
	Requeue Do = "requeue" // one with --prio-retry always
	Cancel  Do = "cancel"
)

// All is what can be done.
var All = []Do{Notify, Victim, Requeue, Cancel}

// Settings say when a job is idle, and what is done then.
type Settings struct {
	Enabled bool
	Do      []Do
	After   time.Duration // without a sign of work
	Gap     time.Duration // so long no source may tell of a job, and its spell goes on; longer gaps do not count
	// Acts times After, or what was learned, is when a job is requeued or cancelled.
	Acts float64
	// Longer times the longest spell that ended by itself is how long one of the same program may be.
	Longer   float64
	CPUs     float64 // for each GPU, below which a job uses none to speak of
	PerCycle int     // commands
	// Where spells of so many users, and of so large a part of all jobs, began together, the fault is none of theirs: nothing is done.
	Users int
	Part  float64
}

// Constants are the settings that no site changes.
var Constants = Settings{
	After: 30 * time.Minute, Gap: 10 * time.Minute, Acts: 2, Longer: 1.5, CPUs: 0.05, PerCycle: 20, Users: 3, Part: 0.25,
}
