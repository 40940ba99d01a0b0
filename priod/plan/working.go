package plan

import (
	"context"

	"slurmprio/priod/cluster"
)

// Working is a cluster that shows which jobs work.
type Working interface {
	// Signs are what sources beside the snapshot last showed of its running jobs; it waits for none of them. wanted are the
	// jobs of which they may ask alone. The error names sources that fail.
	Signs(ctx context.Context, s *cluster.Snapshot, wanted []cluster.JobID) (map[cluster.JobID][]cluster.Sign, error)
}

// What can be done about a running job that does not work, beside Requeue.
const (
	Tell   CommandKind = "tell"   // writes Value into its output
	Cancel CommandKind = "cancel" // ends it
)
