package workload

import (
	"fmt"
	"math"
	"slices"
)

// Curve is how the speed of a workload on one GPU type depends on the CPUs
// and the memory that each of its GPUs gets: the sensitivity of Synergy
// (OSDI'22). Speed 1 is that of the proportional share.
type Curve struct {
	IterationS  float64     `toml:"iteration_s" json:"iteration_s"`     // s for one step at speed 1
	DemandCPUs  float64     `toml:"demand_cpus" json:"demand_cpus"`     // per GPU; more makes nothing faster
	DemandMemMB int64       `toml:"demand_mem_mb" json:"demand_mem_mb"` // per GPU; more makes nothing faster
	CPUs        []float64   `toml:"cpus" json:"cpus"`                   // per GPU, rising
	MemMB       []int64     `toml:"mem_mb" json:"mem_mb"`               // per GPU, rising
	Speed       [][]float64 `toml:"speed" json:"speed"`                 // relative: a row for each of CPUs, a column for each of MemMB
}

// check returns an error that begins with the key.
func (c *Curve) check() error {
	switch {
	case !(c.IterationS > 0) || math.IsInf(c.IterationS, 1):
		return fmt.Errorf("iteration_s = %v: want seconds above 0", c.IterationS)
	case !(c.DemandCPUs > 0) || math.IsInf(c.DemandCPUs, 1):
		return fmt.Errorf("demand_cpus = %v: want CPUs for each GPU above 0", c.DemandCPUs)
	case c.DemandMemMB <= 0:
		return fmt.Errorf("demand_mem_mb = %d: want MB for each GPU above 0", c.DemandMemMB)
	case len(c.CPUs) == 0 || !(c.CPUs[0] > 0) || !rising(c.CPUs) || math.IsInf(slices.Max(c.CPUs), 1):
		return fmt.Errorf("cpus = %v: want rising numbers above 0", c.CPUs)
	case len(c.MemMB) == 0 || c.MemMB[0] <= 0 || !rising(c.MemMB):
		return fmt.Errorf("mem_mb = %v: want rising numbers above 0", c.MemMB)
	case len(c.Speed) != len(c.CPUs):
		return fmt.Errorf("speed: %d rows, want one for each of the %d cpus", len(c.Speed), len(c.CPUs))
	}
	for i, row := range c.Speed {
		if len(row) != len(c.MemMB) {
			return fmt.Errorf("speed: row %d has %d columns, want one for each of the %d mem_mb", i+1, len(row), len(c.MemMB))
		}
		for _, s := range row {
			if !(s > 0) || math.IsInf(s, 1) {
				return fmt.Errorf("speed: row %d has %v: want numbers above 0", i+1, s)
			}
		}
	}
	return nil
}

func rising[T int64 | float64](s []T) bool {
	for i := 1; i < len(s); i++ {
		if !(s[i] > s[i-1]) {
			return false
		}
	}
	return true
}

// Relative is the speed with so many CPUs and MB for each GPU: linear between
// the points of the table, that of the nearest point outside.
func (c *Curve) Relative(cpus, memMB float64) float64 {
	i, u := between(c.CPUs, cpus)
	j, v := between(c.MemMB, memMB)
	at := func(row []float64) float64 { return mix(row[j], row[min(j+1, len(row)-1)], v) }
	return mix(at(c.Speed[i]), at(c.Speed[min(i+1, len(c.Speed)-1)]), u)
}

// Best is the speed when the demand is met.
func (c *Curve) Best() float64 { return c.Relative(c.DemandCPUs, float64(c.DemandMemMB)) }

// between finds the last point not above x and how far x is on the way from
// it to the next one.
func between[T int64 | float64](points []T, x float64) (i int, part float64) {
	last := len(points) - 1
	for i < last && float64(points[i+1]) <= x {
		i++
	}
	if i == last || x <= float64(points[i]) {
		return i, 0
	}
	return i, (x - float64(points[i])) / (float64(points[i+1]) - float64(points[i]))
}

func mix(a, b, part float64) float64 {
	if part == 0 {
		return a // exactly
	}
	return a + (b-a)*part
}
