// Package placement says what fits where: on free nodes now, on the nodes as they will be, and what a backfilled job may take
// without delaying a reservation. Preemption, steering, rounds, advice and the virtual Slurm share it.
//
// A pool, in which GPUs are counted and not placed, is a cluster of one large node for each GPU type.
//
// A job without GPUs takes CPUs and memory in equal pieces, one on each of its nodes (cpus.go). It has no place in a pool.
package placement

import "math"

// Amount is what a node has or a job takes of it. A node on which CPUs or memory do not count has Plenty of them.
type Amount struct {
	GPUs, CPUs int32
	MemMB      int64
	Others     Others
}

// MaxOthers is how many resources beside GPUs, CPUs and memory count.
const MaxOthers = 4

// Others are amounts of other resources: GRES such as local disk, and the CPUs that the jobs of one partition may hold
// of a node. What stands where is up to the caller.
type Others [MaxOthers]int64

func (o Others) holds(b Others) bool {
	return o[0] >= b[0] && o[1] >= b[1] && o[2] >= b[2] && o[3] >= b[3]
}

// each applies a function to each two amounts.
func (o Others) each(b Others, by func(a, b int64) int64) Others {
	for k := range o {
		o[k] = by(o[k], b[k])
	}
	return o
}

// Plenty is more CPUs, or MB, than all jobs together ask for.
const Plenty = math.MaxInt32 / 2

// Holds reports whether there is no less of anything in it than in b.
func (a Amount) Holds(b Amount) bool {
	return a.GPUs >= b.GPUs && a.CPUs >= b.CPUs && a.MemMB >= b.MemMB && a.Others.holds(b.Others)
}

// Plus is both together.
func (a Amount) Plus(b Amount) Amount {
	a.GPUs, a.CPUs, a.MemMB = a.GPUs+b.GPUs, a.CPUs+b.CPUs, a.MemMB+b.MemMB
	for k := range a.Others {
		a.Others[k] += b.Others[k]
	}
	return a
}

// Minus is what is left of it without b.
func (a Amount) Minus(b Amount) Amount {
	a.GPUs, a.CPUs, a.MemMB = a.GPUs-b.GPUs, a.CPUs-b.CPUs, a.MemMB-b.MemMB
	for k := range a.Others {
		a.Others[k] -= b.Others[k]
	}
	return a
}

// BesideGPUs is an amount without its GPUs.
func (a Amount) BesideGPUs() Amount {
	a.GPUs = 0
	return a
}

func (a Amount) least(b Amount) Amount {
	return Amount{min(a.GPUs, b.GPUs), min(a.CPUs, b.CPUs), min(a.MemMB, b.MemMB), a.Others.each(b.Others, func(a, b int64) int64 { return min(a, b) })}
}

func (a Amount) most(b Amount) Amount {
	return Amount{max(a.GPUs, b.GPUs), max(a.CPUs, b.CPUs), max(a.MemMB, b.MemMB), a.Others.each(b.Others, func(a, b int64) int64 { return max(a, b) })}
}

// Types is a set of GPU types: bit i is the type with index i.
type Types uint64

// Has reports whether the set holds the type.
func (t Types) Has(i int32) bool { return t&(1<<uint(i)) != 0 }

// MaxTypes is how many GPU types one cluster may have.
const MaxTypes = 64

// Request is what a job asks for. Two jobs with equal requests fit in the same places.
type Request struct {
	Types               Types // any one of these
	Together            Sets  // a gang lies on one of these types, or mixes those of one set
	Amount                    // of the whole job; CPUs or MemMB 0: the proportional share of each node. Others: of each of its nodes
	Nodes               int32 // 0: as few as the GPUs need; without GPUs: one
	On                  int32 // the node that it has to lie on, counted from 1; 0: any; below: several, by Nodes.Among. Not in a pool
	Off                 int32 // nodes that it refuses, by Nodes.Refused; 0: none
	Most                int32 // nodes at most, of a request with Nodes 0; 0: any number. Not in a pool
	Switches            int32 // leaf switches at most; 0: any number. Where they are unknown it says nothing
	TaskCPUs            int32 // CPUs that lie on one node together; 0: any number
	NodeCPUs            int32 // of each of its nodes at least; 0: any number
	NodeMemMB           int64 // likewise
	CPUsIn              uint8 // bit k: its CPUs count as Others[k], too
	OneThread, MemByCPU bool  // as in cluster.Job
	GPUCPUs             int32 // CPUs of one socket that each GPU needs, where GPUs belong to sockets; 0: of any
	BySocket            bool  // with GPUCPUs: GPUs of a socket without free CPUs do not count
	AllMem              bool  // each of its nodes gives it all memory
	Whole               bool  // each of its nodes has to be empty, and is taken with all its GPUs and CPUs. Not in a pool
}

// MaxSets is how many sets of types a request may have.
const MaxSets = 8

// Sets are the sets of types, of several each, on whose nodes together one job may lie. The empty ones count for nothing.
type Sets [MaxSets]Types

// Share is what a job takes of one node.
type Share struct {
	Node int32
	Amount
}

// Mode is how the GPUs of one job may lie.
type Mode uint8

// Pool counts GPUs. Packed takes one node by best fit, else as few as the free GPUs allow. Consolidated never takes more nodes
// than the GPUs need: one node by best fit, or whole nodes and one by best fit for what is left.
const (
	Pool Mode = iota
	Packed
	Consolidated
)
