package trace

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// jitter is by how much submissions move at most, s.
const jitter = 5

// Jittered are jobs whose submissions moved by some seconds, as the draw of that number has it; 0: not at all. Where the cluster is nearly full a
// schedule depends on seconds: what holds for several such draws holds for the jobs (Tsafrir, Ouaknine and Feitelson, Reducing performance
// evaluation sensitivity and variability by input shaking, MASCOTS 2007).
func Jittered(jobs []Job, number uint64) []Job {
	if number == 0 {
		return jobs
	}
	r := rand.New(rand.NewPCG(number, 1))
	moved := slices.Clone(jobs)
	for i := range moved {
		moved[i].Submit += jitter * r.Float64()
	}
	slices.SortStableFunc(moved, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return moved
}
