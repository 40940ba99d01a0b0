package workload

import "math"

// SpreadLoss is the part of its speed that a job loses on so many times as many switches
// as it needs. costs are those parts for 2, 4, 8 ... times as many; between them it goes
// by the logarithm, beyond them the last holds.
func SpreadLoss(costs []float64, times float64) (lost float64) {
	doublings := math.Log2(times)
	for _, next := range costs {
		if doublings <= 1 {
			return lost + (next-lost)*max(doublings, 0)
		}
		lost = next
		doublings--
	}
	return lost
}
