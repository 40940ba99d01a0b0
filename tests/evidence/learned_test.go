package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"slurmprio/priod/workload/speed"
)

// What is learned of the study's programs, from runs with no tag on types as they come, is as near to the truth as it
// is said to be, and nearer with more runs.
func TestLearnedSpeedsAreAsSureAsTheySay(t *testing.T) {
	list, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	last := math.Inf(1)
	for _, runs := range []int{300, 1500} {
		squares, scaled, n := 0.0, 0.0, 0.0
		for seed := range uint64(3) {
			jobs := generate(list, seed+1, runs+200, 0.9, 6)
			draw := rand.New(rand.NewPCG(seed, 9))
			var h speed.History
			program := func(j *job) speed.Program {
				return speed.Program{User: fmt.Sprint(j.user), Name: j.program.Name, GPUs: j.gpus}
			}
			for i := range jobs[:runs] {
				j, on := &jobs[i], gpuTypes[draw.IntN(len(gpuTypes))]
				h.Add(speed.Run{Program: program(j), Seconds: map[string]float64{on: float64(j.steps) / j.program.steps[on][j.gpus]}, Limit: float64(j.limit)})
			}
			k, set := h.Learn(), speed.Settings{}
			for i := range jobs[runs:] {
				j := &jobs[runs+i]
				p := program(j)
				answers := set.For(&speed.Job{User: p.User, Name: p.Name, GPUs: p.GPUs}, gpuTypes, nil, k).Speeds
				off, mean := make([]float64, len(answers)), 0.0 // of the logs, and in the mean over the types: only ratios are known
				for i, a := range answers {
					off[i] = math.Log(a.Speed / j.program.steps[a.GPUType][j.gpus])
					mean += off[i] / float64(len(answers))
				}
				for i, a := range answers {
					squares += (off[i] - mean) * (off[i] - mean)
					z := (off[i] - mean) / math.Log(a.Factor)
					scaled += z * z
					n++
				}
			}
		}
		rms, z := math.Sqrt(squares/n), math.Sqrt(scaled/n)
		t.Logf("%d runs: off by a factor of %.2f; %.2f times as much as is said", runs, math.Exp(rms), z)
		if z < 0.6 || z > 1.3 || rms > min(0.32, last) {
			t.Errorf("%d runs: off by %.3f in logs, after %.3f; %.2f times as much as is said", runs, rms, last, z)
		}
		last = rms
	}
}
