package size

import (
	"fmt"
	"math"

	"slurmprio/priod/plan"
)

// sizeAhead changes a job that cannot start now to its demand, because Slurm starts it
// at once when GPUs become free: down to its demand, with which it fits wherever it
// would have fitted; or up to it, but not above its share of any node where it may
// start. It returns false when that is its own request.
func (d *decider) sizeAhead(c *resizable) bool {
	cpus, memMB := 0, int64(0)
	gpus := float64(c.asked.GPUs)
	mayCPUs, mayMB := math.MaxInt, int64(math.MaxInt64)
	least := d.leastShares()
	for t, s := range c.on {
		if s == nil {
			continue
		}
		core := float64(max(d.nodes.Kinds[t].Threads, 1))
		want, wantMB := c.asked.CPUs, c.asked.MemMB
		if s.CPU {
			want = int(math.Ceil(s.Curve.DemandCPUs*gpus/core) * core)
		}
		if s.Mem {
			wantMB = s.Curve.DemandMemMB * int64(c.asked.GPUs)
		}
		cpus, memMB = max(cpus, want), max(memMB, wantMB)
		mayCPUs = min(mayCPUs, int(math.Floor(least[t].CPUs*gpus/core)*core))
		mayMB = min(mayMB, int64(least[t].MemMB*gpus))
	}
	for _, l := range c.asked.Allowances {
		most, mostMB := l.Of(0, 0) // without a place, the job was not taken from the limit
		if most < int64(c.asked.CPUs) || mostMB < c.asked.MemMB {
			mayCPUs, mayMB = 0, 0 // jobs before it take what the limit leaves
		}
		mayCPUs, mayMB = int(min(int64(mayCPUs), most)), min(mayMB, mostMB)
	}
	unit := c.asked.Unit()
	cpus = min(roundUp(cpus, unit), max(mayCPUs/unit*unit, c.asked.CPUs))
	memMB = min(memMB, max(mayMB, c.asked.MemMB))
	value, gets, getsMB := c.asked.Resize(cpus, memMB, "")
	if c.asked.KeepsCPUs == "" && gets > max(mayCPUs, c.asked.CPUs) || c.asked.KeepsMemory == "" && getsMB > max(mayMB, c.asked.MemMB) || gets == c.asked.CPUs && nearlyEqual(getsMB, c.asked.MemMB) {
		d.explain(c.dec, "size: unchanged, %s, while no node has room for it (%s)", amountText(c.asked.CPUs, c.asked.MemMB), d.basis(c))
		return false
	}
	told := fmt.Sprintf("size: requested %s; gains nothing beyond %s, which it has while it waits (%s)",
		amountText(c.asked.CPUs, c.asked.MemMB), amountText(gets, getsMB), d.basis(c))
	if gets > c.asked.CPUs || getsMB > c.asked.MemMB {
		for _, l := range c.asked.Allowances {
			l.Take(gets, getsMB)
		}
		told = fmt.Sprintf("size: requested %s; waits with %s, the lesser of what it gains from and its share on each node where it may start (%s)",
			amountText(c.asked.CPUs, c.asked.MemMB), amountText(gets, getsMB), d.basis(c))
	}
	d.addWrite(c, value, plan.SizeAhead, told)
	return true
}

// basis is what a job's sensitivity rests on, in words.
func (d *decider) basis(c *resizable) string {
	for _, s := range c.on {
		if s != nil {
			return s.Why
		}
	}
	return ""
}
