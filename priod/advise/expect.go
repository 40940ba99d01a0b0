package advise

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/workload/runtimes"
)

// ETA is when a waiting job is expected to start, s from the snapshot's time.
type ETA struct{ Median, P90 float64 }

// expectEffort bounds all draws of a plan, in nodes looked at: three seconds.
const expectEffort = 5 * effort

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

// Expect plans the waiting jobs in their order once for each draw of run times, of the running jobs too, and returns
// when each would start in half and in nine tenths of them. Jobs without a distribution run to their time limits. A job
// that never fits, or waits for more than room, is missing; behind what a draw's effort reached starts are estimated, as in Starts.
func Expect(site *Site, order []*cluster.Job, of RunTimes, draws int, seed uint64) map[cluster.JobID]ETA {
	nodes, known := nodemap.New(site.Snapshot), distributions(site, of)
	all := map[cluster.JobID][]float64{}
	for n := range draws {
		d := drawn{rand.New(rand.NewPCG(seed, uint64(n))), known}
		for id, at := range starts(site, nodes, order, d, expectEffort/draws) {
			all[id] = append(all[id], at)
		}
	}
	etas := make(map[cluster.JobID]ETA, len(all))
	for id, at := range all {
		if len(at) < draws {
			continue
		}
		half, most := halfAndMost(at)
		etas[id] = ETA{half, most}
	}
	return etas
}

// halfAndMost are what half and nine of ten draws do not exceed; it sorts them.
func halfAndMost(draws []float64) (half, most float64) {
	slices.Sort(draws)
	n := len(draws)
	return draws[(n-1)/2], draws[min(int(math.Ceil(0.9*float64(n))), n-1)]
}

// drawn are run times of one draw.
type drawn struct {
	*rand.Rand
	of map[cluster.JobID]*runtimes.Distribution
}

// Remaining is drawn from what is left to a job that has run so long.
func (d drawn) Remaining(j *cluster.Job, now time.Time) float64 {
	x := d.of[j.ID]
	if x == nil || j.State != cluster.Running {
		return j.Remaining(now)
	}
	ran := now.Sub(j.Start)
	return max((x.Left(d.Float64(), ran) - ran).Seconds(), 0)
}

// Run is drawn from all that a job may run.
func (d drawn) Run(j *cluster.Job) float64 {
	x := d.of[j.ID]
	if x == nil {
		return Limits{}.Run(j)
	}
	return x.Quantile(d.Float64()).Seconds()
}
