// Package giveback decides which running jobs give back memory that they hold and have
// not used: as few as let free GPUs of their node have their share of it. It is pure.
package giveback

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/cluster"
)

// Margin is what a job is left at least beyond the most that it has used, and the least
// that is worth a write, in MB.
const Margin = 1024

// Keep is what a job is left that has used peak MB at most: a quarter more, and no less
// than Margin more.
func Keep(peak int64) int64 { return peak + max(peak/4, Margin) }

// Node is what a node has, and what of it is free.
type Node struct {
	GPUs, FreeGPUs   int
	CPUs, FreeCPUs   int
	MemMB, FreeMemMB int64
}

// Lacking are the free GPUs that do not get their share of the node's CPUs, and of its
// memory, in whole CPUs and MB.
func (n Node) Lacking() (cpus, mem int) {
	lacking := func(free, all float64) int {
		if share := math.Floor(all / float64(n.GPUs)); share > 0 {
			return n.FreeGPUs - min(n.FreeGPUs, int(free/share))
		}
		return 0
	}
	return lacking(float64(n.FreeCPUs), float64(n.CPUs)), lacking(float64(n.FreeMemMB), float64(n.MemMB))
}

// Job is a running job on the node that agrees to give back what it holds beyond Keep.
type Job struct {
	ID    cluster.JobID
	MemMB int64 // that it holds
	Keep  int64
}

func (j *Job) idle() int64 { return j.MemMB - j.Keep }

// Choose returns the fewest jobs that let as many free GPUs have their share of CPUs and
// memory as all of them together could; none when no GPU gets it by them.
func Choose(n Node, jobs []Job) []Job {
	served := func() int { return n.FreeGPUs - max(n.Lacking()) }
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { return j.idle() < Margin })
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Or(cmp.Compare(b.idle(), a.idle()), a.ID.Compare(b.ID)) })
	most, fewest := served(), 0
	for i := range jobs {
		n.FreeMemMB += jobs[i].idle()
		if now := served(); now > most {
			most, fewest = now, i+1
		}
	}
	return jobs[:fewest]
}
