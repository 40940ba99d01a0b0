package market

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What the search for a level is told is what the cheapest mix costs, and a unit
// of rate more; only at a type's own speed does it depend on the side.
func TestCostIsThatOfTheCheapestMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "types")
		j := Job{Speed: make([]float64, n), GPUs: float64(rapid.IntRange(1, 8).Draw(t, "gpus")), Count: 1}
		price := make([]float64, n)
		for i := range n {
			j.Speed[i] = rapid.SampledFrom([]float64{0, 0.3, 1, 2.5}).Draw(t, "speed")
			price[i] = rapid.Float64Range(0, 1).Draw(t, "price")
		}
		rate := rapid.Float64Range(0, 3).Draw(t, "rate")
		best, want, _ := j.cheapest(rate, price)
		cost, slope := j.cost(rate, price)
		if cost != want {
			t.Fatalf("costs %v, the cheapest mix %v", cost, want)
		}
		if math.IsInf(cost, 1) || best.hi == none {
			return
		}
		step := 1e-6 * rate
		if slices.ContainsFunc(j.Speed, func(speed float64) bool { return math.Abs(rate-speed) <= step }) {
			return
		}
		more, _ := j.cost(rate+step, price)
		less, _ := j.cost(rate-step, price)
		if low, high := (cost-less)/step, (more-cost)/step; slope < low-1e-3*(1+low) || slope > high+1e-3*(1+slope) {
			t.Fatalf("slope %v, between %v and %v", slope, low, high)
		}
	})
}
