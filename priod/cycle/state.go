package cycle

import (
	"context"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/headroom"
	"slurmprio/priod/idle"
	"slurmprio/priod/locality"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/waits"
	"slurmprio/priod/workload/sensitivity"
)

// Slurm is all that cycles ask of a cluster. The real one (priod/live) and the virtual
// one (priod/simulate/virtual) are such.
type Slurm interface {
	plan.Slurm
	headroom.Slurm
	plan.Working
	plan.Failing // and what evictions ask of a cluster
	size.Asker
	locality.Slurm
	// Places reads what pending jobs say of their nodes: see steer.Feature.
	Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error)
}

// State is what the features remember from one cycle to the next.
type State struct {
	Ledger   *allocate.Ledger
	Journal  *evict.Journal
	Rounds   *evict.Rounds
	Vetoes   evict.Vetoes
	Steering *steer.Memory
	Sizes    *size.Sizes
	Locality *locality.Memory
	Refusals *locality.Memory
	Headroom *headroom.Memory
	Failures *retry.Memory
	Uses     Uses
	Waits    *waits.Tracker
	Lending  *guarantee.Memory
	Idle     *idle.Memory
}

// Uses are what accounting taught of CPUs and memory; the zero value: nothing.
type Uses struct {
	Past   sensitivity.Past
	At     time.Time
	Unread bool // the first answer is still to come
}

// NewState is that of a priod that has seen nothing yet.
func NewState() *State {
	return &State{
		Ledger: &allocate.Ledger{}, Journal: evict.NewJournal(), Rounds: &evict.Rounds{}, Vetoes: evict.Vetoes{}, Steering: &steer.Memory{},
		Sizes: &size.Sizes{}, Locality: &locality.Memory{}, Refusals: &locality.Memory{}, Headroom: &headroom.Memory{}, Failures: retry.NewMemory(), Waits: &waits.Tracker{}, Lending: &guarantee.Memory{}, Idle: idle.NewMemory(),
	}
}

// Failures are the rows of jobs that failed, which a Recorder makes safe.
type Failures = retry.Changes

// Evictions are the rows of claims and evictions that a Recorder makes safe.
type Evictions = evict.Changes

// Spells are times without work of running jobs, which a Recorder makes safe.
type Spells = []*idle.Spell

// IdleJobs are what is kept of running jobs that may not work.
type IdleJobs = idle.Memory

// Statement is what became of guaranteed shares.
type Statement = guarantee.Taken
