package policies_test

import (
	"math"
	"reflect"
	"testing"

	"slurmprio/priod/allocate"
	"slurmprio/tests/papers/policies"
)

// What is written is read again, with Together as pairs.
func TestProblemAsJSON(t *testing.T) {
	p := &policies.Problem{Problem: allocate.Problem{
		Types:    []allocate.GPUType{{Name: "k80", GPUs: 8}, {Name: "v100", GPUs: 4}},
		Entities: []allocate.Entity{{Name: "a", Weight: 2}, {Name: "b", Weight: 1, FIFO: true}},
		Jobs: []allocate.ProblemJob{
			{ID: "1 \"x\"", Speed: []float64{0.5, 1.0 / 3}, GPUs: 2, Weight: 1e-9, StepsLeft: 12.5, Elapsed: 3, IsolatedElapsed: 4, Arrival: -5, Entity: 1},
			{ID: "2", Speed: []float64{0, 1e26}, GPUs: 2, Weight: 1, StepsLeft: 1, Entity: allocate.NoEntity},
			{ID: "3", Speed: []float64{7, 0}, GPUs: 1, Weight: 1, Entity: 0},
		}},
		PerHour: []float64{0, 0.74}, Deadlines: []float64{60, math.Inf(1), math.Inf(1)}, Previous: [][]float64{{0, 0.25}, nil, nil},
		Pairs: []policies.Pair{{A: 1, B: 0, Speed: [][2]float64{{0, 0}, {5e25, 0.25}}}},
	}
	text, err := p.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := policies.ParseProblem(text, "max-min")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v\nwant %+v\nby way of %s", got, p, text)
	}
	p.Pairs, p.Together = nil, func(a, b, gpuType int) (float64, float64) { return float64(gpuType), float64(gpuType) }
	text, err = p.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err = policies.ParseProblem(text, "max-min"); err != nil || len(got.Pairs) != 1 || got.Pairs[0].Speed[1] != [2]float64{1, 1} || got.Pairs[0].Speed[0] != [2]float64{} {
		t.Errorf("%v, %+v by way of %s", err, got.Pairs, text)
	}
}
