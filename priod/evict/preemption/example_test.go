package preemption_test

import (
	"fmt"
	"math"

	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
)

// A trial wants 2 of the 4 GPUs of a full node. Evicting the job that saved its state a
// minute ago loses the least.
func ExampleDecide() {
	nodes := placement.New(placement.Packed, []placement.Node{{Amount: placement.Amount{GPUs: 4, CPUs: 32, MemMB: 256_000}}})
	running := func(gpus int32, stays preemption.Why, unsaved float64) preemption.Candidate {
		share := []placement.Share{{Amount: placement.Amount{GPUs: gpus, CPUs: 8 * gpus, MemMB: 64_000 * int64(gpus)}}}
		nodes.Take(share)
		return preemption.Candidate{Shares: share, Stays: stays, Elapsed: 7200, Unsaved: unsaved, Grace: 30, Restart: 60}
	}
	names := []string{"of 1 GPU, nobody agreed", "of 1 GPU, an hour unsaved", "of 2 GPUs, a minute unsaved"}
	snapshot := preemption.Snapshot{
		Candidates: []preemption.Candidate{running(1, preemption.NoConsent, 0), running(1, "", 3600), running(2, "", 60)},
		Nodes:      nodes,
		Claimants: []preemption.Claimant{{
			Request: placement.Request{Types: 1, Amount: placement.Amount{GPUs: 2, CPUs: 16, MemMB: 128_000}},
			Start:   math.Inf(1),
		}},
	}
	settings := preemption.Settings{Policy: preemption.LeastLoss, MaxEvictions: 3, MinRun: 600}

	decision := preemption.Decide(&snapshot, settings)

	trial := decision.Verdicts[0]
	fmt.Printf("the trial: %s, in %.0f s, for %.0f GPU-seconds\n", trial.Why, trial.Grace, trial.Cost)
	for i, why := range decision.Refusals(&snapshot, settings, 0) {
		fmt.Printf("the job %s: %s\n", names[i], why)
	}
	// Output:
	// the trial: evicts, in 30 s, for 300 GPU-seconds
	// the job of 1 GPU, nobody agreed: no-consent
	// the job of 1 GPU, an hour unsaved: dearer
	// the job of 2 GPUs, a minute unsaved: victim
}
