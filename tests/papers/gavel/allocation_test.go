package gavel_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"slurmprio/priod/allocate"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/policies"
	"slurmprio/tests/papers/simulate"
)

// scattered are jobs whose speeds lie thirty decades apart: on some of them the
// optimiser drowns in rounding errors.
func scattered(seed uint64) (jobs []trace.Job, speed map[string][]float64) {
	r := rand.New(rand.NewPCG(seed, 20))
	speed = map[string][]float64{}
	for i := range 25 {
		s := make([]float64, 4)
		most := 0.0
		for g := range s {
			s[g] = math.Pow(10, 30*(r.Float64()-0.5))
			most = max(most, s[g])
		}
		j := trace.Job{ID: fmt.Sprint(i), Submit: float64(i / 5 * 1000), GPUs: []int{1, 1, 1, 2, 3}[r.IntN(5)], Weight: math.Pow(10, 10*(r.Float64()-0.5)), Workload: "w", Steps: most * 3601.7, Deadline: math.Inf(1)}
		jobs, speed[j.ID] = append(jobs, j), s
	}
	return jobs, speed
}

// A run goes on with the allocation that it has where the next one fails, and
// hands out the problem, which fails again.
func TestTroubleLeavesTheLastAllocation(t *testing.T) {
	types := []string{"a", "b", "c", "d"}
	var nodes trace.Cluster
	for _, name := range types {
		nodes.Nodes = append(nodes.Nodes, trace.NodeGroup{Count: 3, GPUType: name, GPUs: 1})
	}
	for seed := range uint64(2000) {
		jobs, speed := scattered(seed)
		in := simulate.Input{Cluster: nodes, Speed: func(j *trace.Job, gpuType string) float64 {
			for g, name := range types {
				if name == gpuType {
					return speed[j.ID][g]
				}
			}
			return 0
		}}
		in.Jobs = func(yield func(trace.Job, error) bool) {
			for _, j := range jobs {
				if !yield(j, nil) {
					return
				}
			}
		}
		failed := 0
		in.Trouble = func(now float64, err error, p *policies.Problem) {
			failed++
			again := *p
			again.Warm = nil // a file does not have that
			if _, twice := (policies.Policy{Name: "max-min"}).Allocate(&again); !allocate.Numeric(err) || !allocate.Numeric(twice) {
				t.Errorf("%v, and then %v", err, twice)
			}
		}
		spec := simulate.Spec{Engine: "rounds", Allocation: "max-min"}
		if err := spec.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := simulate.Run(context.Background(), spec, in)
		if err != nil || len(r.Outcomes) != len(jobs) {
			t.Fatalf("seed %d, %d failures: %d outcomes, %v", seed, failed, len(r.Outcomes), err)
		}
		if failed == 0 {
			continue
		}
		in.Trouble = nil
		if _, err := simulate.Run(context.Background(), spec, in); !allocate.Numeric(err) {
			t.Errorf("seed %d: nobody takes the problem, and the run does not end with the error: %v", seed, err)
		}
		return
	}
	t.Fatal("no instance provoked it")
}
