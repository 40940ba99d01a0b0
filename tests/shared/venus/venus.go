// Package venus is a week of the cluster Venus, and when a published simulator starts its jobs: from the shared data.
package venus

import (
	"testing"

	"slurmprio/priod/trace"
	"slurmprio/tests/shared"
)

// Jobs are a week of Helios's Venus (SC'21), 6,665 jobs on 768 GPUs.
func Jobs(t testing.TB) (jobs []trace.Job) {
	t.Helper()
	for _, r := range shared.Columns(t, "traces/expected/venus-1w.jobs.csv", "job_id", "submit_s", "duration_s", "gpus") {
		jobs = append(jobs, trace.Job{ID: r[0], Submit: shared.Number(t, r[1]), Duration: shared.Number(t, r[2]), GPUs: int(shared.Number(t, r[3]))})
	}
	if len(jobs) != 6665 {
		t.Fatalf("%d jobs", len(jobs))
	}
	return jobs
}

// Starts is when CQSim starts them in a pool of 768 GPUs, first come, first served, with a backfill: nobackfill, easy, conservative.
func Starts(t testing.TB, backfill string) map[string]float64 {
	t.Helper()
	starts := map[string]float64{}
	for _, r := range shared.Columns(t, "traces/expected/venus-1w.768gpu.cqsim.fcfs-"+backfill+".csv.gz", "job_id", "start_s") {
		starts[r[0]] = shared.Number(t, r[1])
	}
	if len(starts) != 6665 {
		t.Fatalf("%d starts", len(starts))
	}
	return starts
}
