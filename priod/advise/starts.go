package advise

import (
	"math"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
)

// Starts plans waiting jobs in the order in which Slurm looks at them, and returns when each
// of them would first start, s from the snapshot's time: the running jobs end at their time
// limits, each waiting job takes the first place where it fits without delaying those
// before it (conservative backfill), and runs for its time limit. Of an array that is its
// first task. A job that waits for more than room, or never fits by what is known, is
// missing, and so are all from the one on that is more work than a quarter of a second.
//
// Jobs that end before their limits start others sooner, mostly much sooner; what is put
// before a job later delays it. TestStartsComeTrue measures both.
func Starts(site *Site, order []*cluster.Job) map[cluster.JobID]float64 {
	s := newRunning(site, nodemap.New(site.Snapshot))
	s.left /= 2
	starts := map[cluster.JobID]float64{}
	for _, j := range order {
		if !forRoom(j) {
			continue
		}
		first, ok := s.plan(j, site.Memory)
		if !math.IsInf(first, 1) {
			starts[j.ID] = first
		}
		if !ok {
			break
		}
	}
	return starts
}
