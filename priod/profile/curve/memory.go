package curve

import (
	"math"
	"slices"
)

// Cache is the cache model of Synergy: a cache in the job's memory keeps a
// fixed part of the data set, so that each epoch reads the rest, and only the
// rest, from storage. What comes from memory costs nothing beside it.
type Cache struct {
	DatasetMB  float64
	EpochSteps float64 // steps in which the program reads the data set once
	DiskMBps   float64 // what storage gives this job
	WorkingMB  float64 // memory of the whole job without any cache
}

// Rate is how many steps a second storage can feed with so much memory for the
// whole job; +Inf when all is cached.
func (c Cache) Rate(memMB float64) float64 {
	missed := c.DatasetMB - max(0, memMB-c.WorkingMB)
	if missed <= 0 {
		return math.Inf(1)
	}
	return c.EpochSteps * c.DiskMBps / missed
}

// Amounts are the MB for each GPU at which the model is worth a column: the
// working set with each quarter of the data set in the cache, as far as a node
// with mostMB for each GPU has them.
func (c Cache) Amounts(gpus int, mostMB int64) []int64 {
	var amounts []int64
	for quarter := range 5 {
		mb := int64(math.Ceil((c.WorkingMB + c.DatasetMB*float64(quarter)/4) / float64(gpus)))
		amounts = append(amounts, max(1, min(mb, mostMB)))
	}
	return slices.Compact(amounts)
}
