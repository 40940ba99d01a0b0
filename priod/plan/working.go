package plan

import (
	"context"

	"slurmprio/priod/cluster"
)

// Working is a cluster that shows which jobs work.
type Working interface {
	// Signs are what sources beside the snapshot last showed of its running jobs. It waits for none of them.
	Signs(context.Context, *cluster.Snapshot) map[cluster.JobID][]cluster.Sign
}

// What can be done about a running job that does not work, beside Requeue.
const (
	Tell   CommandKind = "tell"   // writes Value into its output
	Cancel CommandKind = "cancel" // ends it
)
