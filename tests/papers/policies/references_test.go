package policies

import (
	"math"
	"testing"
)

func near(t *testing.T, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("%v, want %v", got, want)
			return
		}
	}
}

func TestIsolated(t *testing.T) {
	x := make([]float64, 6)
	// Two jobs, one GPU of each type: half of each would be more than the whole time.
	Isolated([]int{1, 1, 1}, []int{1, 1}, x)
	near(t, x, []float64{1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3})
	// A gang of 4 gets a quarter of the time of a single GPU.
	x = make([]float64, 4)
	Isolated([]int{1, 0}, []int{1, 4}, x)
	near(t, x, []float64{.5, 0, .125, 0})
	Isolated(nil, nil, nil)
}

func TestProportional(t *testing.T) {
	x := make([]float64, 4)
	Proportional([]int{2, 6}, 2, x)
	near(t, x, []float64{.25, .75, .25, .75})
}
