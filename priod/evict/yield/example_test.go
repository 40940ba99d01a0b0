package yield_test

import (
	"fmt"

	"slurmprio/priod/evict/yield"
	"slurmprio/priod/placement"
)

// Two jobs run on a node of 2 GPUs. The one that has had more than its due yields to a
// job that is owed an hour; what is owed to the third is too little to pay for a move.
func ExampleDecide() {
	nodes := placement.New(placement.Packed, []placement.Node{{Amount: placement.Amount{GPUs: 2, CPUs: 16, MemMB: 128_000}}})
	gpu := placement.Amount{GPUs: 1, CPUs: 8, MemMB: 64_000}
	running := func(owed float64) yield.Running {
		share := []placement.Share{{Amount: gpu}}
		nodes.Take(share)
		return yield.Running{Shares: share, Consent: true, Owed: owed, Elapsed: 6 * 3600, Left: 10 * 3600, Cost: 120}
	}
	waiting := func(owed float64) yield.Waiting {
		return yield.Waiting{Request: placement.Request{Types: 1, Amount: gpu}, Owed: owed, Start: 10 * 3600, Run: 8 * 3600}
	}
	snapshot := yield.Snapshot{
		Running: []yield.Running{running(-2 * 3600), running(600)},
		Waiting: []yield.Waiting{waiting(3600), waiting(900)},
		Nodes:   nodes,
	}

	decision := yield.Decide(&snapshot, yield.Settings{Round: 1800, Pay: 20})

	for i, why := range decision.Waiting {
		fmt.Printf("waiting, owed %.0f s: %s\n", snapshot.Waiting[i].Owed, why)
	}
	for i, why := range decision.Running {
		fmt.Printf("running, owed %.0f s: %s\n", snapshot.Running[i].Owed, why)
	}
	// Output:
	// waiting, owed 3600 s: gets
	// waiting, owed 900 s: no-gain
	// running, owed -7200 s: yields
	// running, owed 600 s: stays
}
