// Package placement says what fits where: on free nodes now, on the nodes as
// they will be, and what a backfilled job may take without delaying a
// reservation. Preemption, steering, rounds, advice and the virtual Slurm share it.
//
// A pool, in which GPUs are counted and not placed, is a cluster of one large
// node for each GPU type.
//
// A job without GPUs takes CPUs and memory in equal pieces, one on each of its nodes
// (cpus.go). It has no place in a pool.
package placement

import "math"

// Amount is what a node has or a job takes of it. A node on which CPUs or
// memory do not count has Plenty of them.
type Amount struct {
	GPUs, CPUs int32
	MemMB      int64
}

// Plenty is more CPUs, or MB, than all jobs together ask for.
const Plenty = math.MaxInt32 / 2

func (a Amount) holds(b Amount) bool {
	return a.GPUs >= b.GPUs && a.CPUs >= b.CPUs && a.MemMB >= b.MemMB
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.GPUs + b.GPUs, a.CPUs + b.CPUs, a.MemMB + b.MemMB}
}

// Minus is what is left of it without b.
func (a Amount) Minus(b Amount) Amount {
	return Amount{a.GPUs - b.GPUs, a.CPUs - b.CPUs, a.MemMB - b.MemMB}
}

// besideGPUs is an amount without its GPUs.
func (a Amount) besideGPUs() Amount { return Amount{CPUs: a.CPUs, MemMB: a.MemMB} }

func (a Amount) least(b Amount) Amount {
	return Amount{min(a.GPUs, b.GPUs), min(a.CPUs, b.CPUs), min(a.MemMB, b.MemMB)}
}

func (a Amount) most(b Amount) Amount {
	return Amount{max(a.GPUs, b.GPUs), max(a.CPUs, b.CPUs), max(a.MemMB, b.MemMB)}
}

// Types is a set of GPU types: bit i is the type with index i.
type Types uint64

// Has reports whether the set holds the type.
func (t Types) Has(i int32) bool { return t&(1<<uint(i)) != 0 }

// MaxTypes is how many GPU types one cluster may have.
const MaxTypes = 64

// Request is what a job asks for. Two jobs with equal requests fit in the same
// places.
type Request struct {
	Types    Types // any one of these; a gang never mixes types
	Amount         // of the whole job; CPUs or MemMB 0: the proportional share of each node
	Nodes    int32 // 0: as few as the GPUs need; without GPUs: one
	On       int32 // the node that it has to lie on, counted from 1; 0: any; below: several, by Nodes.Among. Not in a pool
	Off      int32 // nodes that it refuses, by Nodes.Refused; 0: none
	Most     int32 // nodes at most, of a request with Nodes 0; 0: any number. Not in a pool
	Switches int32 // leaf switches at most; 0: any number. Where they are unknown it says nothing
	Whole    bool  // each of its nodes has to be empty, and is taken with all its GPUs and CPUs. Not in a pool
}

// Share is what a job takes of one node.
type Share struct {
	Node int32
	Amount
}

// Mode is how the GPUs of one job may lie.
type Mode uint8

// Pool counts GPUs. Packed takes one node by best fit, else as few as the free
// GPUs allow. Consolidated never takes more nodes than the GPUs need: one node
// by best fit, or whole nodes and one by best fit for what is left.
const (
	Pool Mode = iota
	Packed
	Consolidated
)
