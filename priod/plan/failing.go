package plan

import (
	"context"

	"slurmprio/priod/cluster"
)

// Failing is a cluster that reports how runs ended.
type Failing interface {
	Leaving
	// Ends reads what Slurm knows of the ends of runs beyond their sights. A job of which
	// nothing more is known is missing. With output it reads the end of what the runs
	// wrote, too, as their users and where that is possible; earlier tells where runs of the
	// same jobs before them ended.
	Ends(ctx context.Context, sights map[cluster.JobID]JobStatus, output bool, earlier map[cluster.JobID]Mark) map[cluster.JobID]End
	// MostRestarts is how often Slurm lets a job be requeued; 0: any number.
	MostRestarts() int
}

// End is how a run ended.
type End struct {
	StepCode, StepSignal int    // the highest of its steps
	PeakMB               int64  // the most memory that it used on a node; 0: not known
	Output               []byte // the end of what this run wrote; nil: not read
	Mark                 Mark   // where that ends
	Unread               string // why the output was not read; "" when it was, or not asked for
	Pending              bool   // the output is still being read: ask again in the next cycle
}

// Mark is a place in a job's output file. By it the output of a later run of the job is told
// from what stood there before, in a file to which jobs append (--open-mode=append).
type Mark struct {
	Bytes int64  `json:"bytes"` // before it
	Sum   string `json:"sum"`   // SHA-256 of the last of them, in hex
}

// What more can be done about a job that failed.
const (
	Exclude  CommandKind = "exclude"  // names nodes that a waiting job refuses, all of them
	HoldBack CommandKind = "holdback" // puts a job that has ended back into the queue, held
	Drain    CommandKind = "drain"    // takes a node out of use, for the reason that Value says
)
