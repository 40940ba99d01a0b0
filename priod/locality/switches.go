package locality

import (
	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// unknown reports whether it is not known which switches there are.
func (w *work) unknown() bool { return len(w.topology.Leaves) == 0 }

// own is what its user wants a job to ask of switches.
func (w *work) own(j *cluster.Job) string {
	if r, written := w.c.History.Requests[j.ID][w.lever]; written {
		return r.Was.String()
	}
	return slurmplug.NoSwitches
}

// ours reports whether what a job asks of switches is what priod wrote.
func (w *work) ours(j *cluster.Job) bool {
	r, known := w.c.History.Requests[j.ID][w.lever]
	return known && r.Ours(slurmplug.Text(j.Switches))
}
