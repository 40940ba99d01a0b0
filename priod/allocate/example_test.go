package allocate_test

import (
	"fmt"

	"slurmprio/priod/allocate"
)

// Two transformers are three times as fast on an a100 as on a v100, two LSTMs hardly: max-min makes all four
// faster than half of each GPU would.
func ExamplePolicy_Allocate() {
	job := func(id string, onA100, onV100 float64) allocate.ProblemJob {
		return allocate.ProblemJob{
			ID: id, Speed: []float64{onA100, onV100}, GPUs: 1, Weight: 1, StepsLeft: 1000,
			Entity: allocate.NoEntity,
		}
	}
	problem := allocate.Problem{
		Types: []allocate.GPUType{{Name: "a100", GPUs: 1}, {Name: "v100", GPUs: 1}},
		Jobs:  []allocate.ProblemJob{job("transformer 1", 3, 1), job("transformer 2", 3, 1), job("LSTM 1", 1.2, 1), job("LSTM 2", 1.2, 1)},
	}
	a, err := allocate.Policy("max-min").Allocate(&problem)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, j := range problem.Jobs {
		fmt.Printf("%s: %.0f %% of its time on a100, %.0f %% on v100, %.2f steps/s\n", j.ID, 100*a.Time[i][0], 100*a.Time[i][1], a.Rate[i])
	}
	// Output:
	// transformer 1: 39 % of its time on a100, 0 % on v100, 1.16 steps/s
	// transformer 2: 39 % of its time on a100, 0 % on v100, 1.16 steps/s
	// LSTM 1: 11 % of its time on a100, 50 % on v100, 0.64 steps/s
	// LSTM 2: 11 % of its time on a100, 50 % on v100, 0.64 steps/s
}
