package evict

import "slurmprio/priod/plan"

// What evictions ask of a cluster; package plan tells of each.
type (
	Slurm   = plan.Leaving
	Target  = plan.Target
	Sight   = plan.Sight
	Verb    = plan.Verb
	Command = plan.Command
	Result  = plan.Result
)

// The commands.
const (
	Signal  = plan.Signal
	Requeue = plan.Requeue
	Begin   = plan.Begin
	Pin     = plan.Pin
	Unpin   = plan.Unpin
	Reserve = plan.Reserve
	Free    = plan.Free
)
