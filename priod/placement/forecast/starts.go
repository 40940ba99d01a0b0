package forecast

import (
	"math"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/slurmplug"
)

// Queue is the jobs that wait, in the order in which Slurm looks at them, and the cluster as it is.
type Queue struct {
	Now    *cluster.Snapshot
	Order  []*cluster.Job
	Memory bool // it is handed out; else only GPUs and CPUs are
}

// Starts plans the queue and returns when each job would first start, s from the snapshot's time: the running jobs end at
// their time limits, each waiting job takes the first place where it fits without delaying those before it (conservative
// backfill, as Slurm's is), and runs for its time limit. Of an array that is its first task. A job that waits for more than
// room, or never fits by what is known, is missing. From the one on that is more work than a quarter of a second, starts are
// estimated from the GPU time that is wanted before each.
//
// Jobs that end before their limits start others sooner, mostly much sooner; what is put before a job later delays it.
// TestStartsComeTrue measures both.
func (q *Queue) Starts() map[cluster.JobID]float64 {
	return q.starts(nodemap.New(q.Now), Limits{}, Effort/2)
}

// Lengths say how long jobs hold their places, s; infinite: not known.
type Lengths interface {
	Remaining(j *cluster.Job, now time.Time) float64 // of a job that runs, or is completing
	Run(j *cluster.Job) float64                      // of a job that waits
}

// Limits assume time limits.
type Limits struct{}

// Remaining is what is left to the time limit.
func (Limits) Remaining(j *cluster.Job, now time.Time) float64 { return j.Remaining(now) }

// Run is the time limit.
func (Limits) Run(j *cluster.Job) float64 {
	if j.TimeLimit == slurmplug.Unlimited {
		return math.Inf(1)
	}
	return j.TimeLimit.Seconds()
}

func (q *Queue) starts(nodes *nodemap.Map, lengths Lengths, effort int) map[cluster.JobID]float64 {
	s := New(q.Now, nodes, q.Memory, lengths, effort)
	starts := map[cluster.JobID]float64{}
	for _, j := range q.Order {
		if !ForRoom(j) {
			continue
		}
		if first := s.Plan(j); !math.IsInf(first, 1) {
			starts[j.ID] = first
		}
	}
	return starts
}
