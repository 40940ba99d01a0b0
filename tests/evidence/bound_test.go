package main

import (
	"math"
	"testing"
)

// The bound of the page is that of the jobs of its seeds.
func TestBounds(t *testing.T) {
	list, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	var proportional, best float64
	for seed := range uint64(5) {
		p, b := bounds(generate(list, seed+1, 3000, 0.9, 6))
		proportional, best = proportional+p/5/3600, best+b/5/3600
	}
	if t.Logf("%.3f %.3f h", proportional, best); math.Abs(proportional-5.76) > 0.005 || math.Abs(best-4.51) > 0.005 {
		t.Errorf("alone %.2f h at the proportional share, %.2f h with all that jobs gain from", proportional, best)
	}
}
