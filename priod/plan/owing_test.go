package plan

import (
	"math"
	"testing"
)

func TestOwed(t *testing.T) {
	var with Lead
	// An hour of a type three times slower is 20 minutes of the fastest.
	if got := with.Owed([]float64{-600, 3600, 99}, []float64{100, 300, math.Inf(1)}); math.Abs(got-600) > 1e-9 {
		t.Errorf("owed %v s, want 1200 - 600", got)
	}
	with = Lead{Most: 1000, Half: 100}
	if got := with.Owed([]float64{0, 0}, []float64{100, 300}); math.Abs(got-500) > 1e-9 {
		t.Errorf("lead %v s, want half of 1000", got)
	}
	if got := with.Owed([]float64{5}, []float64{math.Inf(1)}); got != 0 {
		t.Errorf("a job that runs nowhere is owed %v", got)
	}
}
