package locality

import (
	"slurmprio/priod/cluster"
)

// unknown reports whether it is not known which switches there are.
func (w *work) unknown() bool { return len(w.topology.Leaves) == 0 }

// field is what a job asks of switches.
func (w *work) field(j *cluster.Job) cluster.Field { return w.c.History.Field(j, w.lever) }
