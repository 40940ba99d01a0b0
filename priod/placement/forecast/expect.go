package forecast

import (
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/workload/runtimes"
)

// ETA is when a waiting job is expected to start, s from the snapshot's time.
type ETA struct{ Median, P90 float64 }

// expectEffort bounds all draws of a plan, in nodes looked at: three seconds.
const expectEffort = 5 * Effort

// RunTimes say how long a job runs: of one that waits its whole run, of one that runs its whole run given what it has run.
type RunTimes func(j *cluster.Job) *runtimes.Distribution

// ByPast are the run times that a model of past runs predicts at a time; each kind of jobs is predicted once.
func ByPast(m *runtimes.Model, at time.Time) RunTimes {
	kinds := map[runtimes.Kind]*runtimes.Distribution{}
	return func(j *cluster.Job) *runtimes.Distribution {
		k := runtimes.KindOf(j)
		d, known := kinds[k]
		if !known {
			d = m.Predict(k, at)
			kinds[k] = d
		}
		return d
	}
}

// Expect plans the queue once for each draw of run times, of the running jobs too, and returns when each job would start in
// half and in nine tenths of them. Jobs without a distribution run to their time limits. A job that never fits, or waits for
// more than room, is missing; behind what a draw's effort reached starts are estimated, as in Starts.
func (q *Queue) Expect(of RunTimes, draws int) map[cluster.JobID]ETA {
	nodes, known := nodemap.New(q.Now), Distributions(q.Now, of)
	all := map[cluster.JobID][]float64{}
	for n := range draws {
		for id, at := range q.starts(nodes, Drawn{n, known}, expectEffort/draws) {
			all[id] = append(all[id], at)
		}
	}
	etas := make(map[cluster.JobID]ETA, len(all))
	for id, at := range all {
		if len(at) < draws {
			continue
		}
		half, most := HalfAndMost(at)
		etas[id] = ETA{half, most}
	}
	return etas
}

// HalfAndMost are what half and nine of ten draws do not exceed; it sorts them.
func HalfAndMost(draws []float64) (half, most float64) {
	slices.Sort(draws)
	n := len(draws)
	return draws[(n-1)/2], draws[min(int(math.Ceil(0.9*float64(n))), n-1)]
}

// Distributions are those of the running and waiting jobs.
func Distributions(s *cluster.Snapshot, of RunTimes) map[cluster.JobID]*runtimes.Distribution {
	known := map[cluster.JobID]*runtimes.Distribution{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Running || j.State == cluster.Pending {
			known[j.ID] = of(j)
		}
	}
	return known
}

// Drawn are the run times of one draw. What a draw says of a job depends on the job and the draw's number alone: all who ask
// about one state of the cluster are told the same, and a start moves because something happened.
type Drawn struct {
	Draw int
	Of   map[cluster.JobID]*runtimes.Distribution
}

// Remaining is drawn from what is left to a job that has run so long.
func (d Drawn) Remaining(j *cluster.Job, now time.Time) float64 {
	x := d.Of[j.ID]
	if x == nil || j.State != cluster.Running {
		return j.Remaining(now)
	}
	ran := now.Sub(j.Start)
	return max((x.Left(d.Uniform(j.ID), ran) - ran).Seconds(), 0)
}

// Run is drawn from all that a job may run.
func (d Drawn) Run(j *cluster.Job) float64 {
	x := d.Of[j.ID]
	if x == nil {
		return Limits{}.Run(j)
	}
	return x.Quantile(d.Uniform(j.ID)).Seconds()
}

// Uniform is a number from 0 to 1, by SplitMix64 of the job and the draw.
func (d Drawn) Uniform(id cluster.JobID) float64 {
	const golden = 0x9e3779b97f4a7c15
	x := (uint64(id.ID)<<32 | uint64(uint32(id.Task))) * golden
	for range 2 {
		x += uint64(d.Draw+1) * golden
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return float64(x>>11) / (1 << 53)
}
