package size

import (
	"fmt"
	"math"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
)

// leastShares are the smallest proportional shares of a GPU on the nodes of each kind.
func (d *decider) leastShares() []sensitivity.Share {
	if d.shares != nil {
		return d.shares
	}
	nodes := d.nodes
	least := make([]sensitivity.Share, len(nodes.Kinds))
	for i := range int32(nodes.Nodes.Len()) {
		size, l := nodes.Nodes.Size(i), &least[nodes.Nodes.Type(i)]
		if size.GPUs == 0 {
			continue
		}
		share := sensitivity.Share{CPUs: float64(size.CPUs) / float64(size.GPUs), MemMB: float64(size.MemMB) / float64(size.GPUs)}
		if *l != (sensitivity.Share{}) {
			share = sensitivity.Share{CPUs: min(share.CPUs, l.CPUs), MemMB: min(share.MemMB, l.MemMB)}
		}
		*l = share
	}
	d.shares = least
	return least
}

// aboveShareElsewhere reports whether a raised job would have more than its share on some
// node where it might start.
func (g *nodeGrant) aboveShareElsewhere(least []sensitivity.Share) bool {
	gpus := float64(g.asked.GPUs)
	for t, s := range g.on {
		if s != nil && (g.gets > g.asked.CPUs && float64(g.gets) > least[t].CPUs*gpus ||
			g.getsMB > g.asked.MemMB && !nearlyEqual(g.getsMB, g.asked.MemMB) && float64(g.getsMB) > least[t].MemMB*gpus) {
			return true
		}
	}
	return false
}

// nodeGrant is what a job gets on a node.
type nodeGrant struct {
	*resizable
	node        int32
	cpus        int
	memMB       int64
	gets        int // CPUs that Slurm gives for that
	getsMB      int64
	overShare   bool // it is more than the share
	unchanged   bool // the job asks for it already
	explanation string
}

func (g *nodeGrant) value(node string) slurmplug.Value {
	value, _, _ := g.asked.Resize(g.cpus, g.memMB, node)
	return value
}

// atLeastShare is what a job that is not sized counts with: the share of its GPUs or
// more, as far as the node has it free. Slurm may start the job elsewhere, and then
// that stays free.
func (d *decider) atLeastShare(o placement.Share) placement.Amount {
	size, free := d.nodes.Nodes.Size(o.Node), d.nodes.Nodes.FreeOn(o.Node)
	a := o.Amount
	if size.GPUs > 0 && free.GPUs > 0 {
		part := func(own, all, free64 int64) int64 {
			return max(own, min(all*int64(a.GPUs)/int64(size.GPUs), max(free64, 0)*int64(a.GPUs)/int64(free.GPUs)))
		}
		a.CPUs = int32(part(int64(a.CPUs), int64(size.CPUs), int64(free.CPUs)))
		a.MemMB = part(a.MemMB, size.MemMB, free.MemMB)
	}
	return a
}

func amountOf(a placement.Amount) Amount {
	return Amount{GPUs: int(max(a.GPUs, 0)), CPUs: float64(max(a.CPUs, 0)), MemMB: float64(max(a.MemMB, 0))}
}

// spareBeside is what a job may take of a node beside its GPUs: each GPU that stays
// free keeps its share. Where other jobs already have some of that, the job still may
// take its own share.
func spareBeside(free, size placement.Amount, gpus int32) (cpus int32, memMB int64) {
	left := int64(free.GPUs - gpus)
	of := func(have, all int64) int64 {
		reserved := (all*left + int64(size.GPUs) - 1) / int64(size.GPUs)
		own := all * int64(gpus) / int64(size.GPUs)
		return max(min(have, own), have-reserved, 0)
	}
	return int32(of(int64(free.CPUs), int64(size.CPUs))), of(free.MemMB, size.MemMB)
}

// wholeUnits turns a part of a node into whole CPUs and MB that fit there; false when
// that is less than the job needs.
func (d *decider) wholeUnits(c *resizable, node int32, part *Part) (nodeGrant, bool) {
	var (
		all   = d.nodes.Nodes
		s     = c.on[all.Type(node)]
		size  = all.Size(node)
		gpus  = c.asked.GPUs
		name  = d.nodes.Names[node]
		share = placement.Amount{CPUs: size.CPUs * int32(gpus) / size.GPUs, MemMB: size.MemMB * int64(gpus) / int64(size.GPUs)}
	)
	mayCPUs, mayMB := spareBeside(all.FreeOn(node), size, int32(gpus))
	why := s.Why
	for _, l := range c.asked.Allowances {
		cpus, memMB := l.Of(c.asked.CPUs, c.asked.MemMB)
		if cpus < min(int64(mayCPUs), int64(part.CPUs)) || memMB < min(mayMB, int64(part.MemMB)) {
			why = s.Why + "; no more because " + l.Limit
		}
		mayCPUs, mayMB = int32(min(int64(mayCPUs), cpus)), min(mayMB, memMB)
	}
	core := max(d.nodes.Kinds[all.Type(node)].Threads, 1)
	g := nodeGrant{resizable: c, node: node, cpus: max(min(int(part.CPUs+1e-6), int(mayCPUs))/core*core, 1), memMB: c.asked.MemMB}
	speed := func(cpus int, memMB int64) float64 {
		return s.Curve.Relative(float64(cpus)/float64(gpus), float64(memMB)/float64(gpus))
	}
	if !s.CPU {
		g.cpus = max(g.cpus, c.asked.CPUs)
	} else if _, gets, getsMB := c.asked.Resize(g.cpus, c.asked.MemMB, ""); part.CPUs > float64(gets) {
		// Rounded down, it might be slower than with its share, which it may always have.
		whole := roundUp(roundUp(int(math.Ceil(part.CPUs-1e-6)), c.asked.Unit()), core)
		if whole <= int(min(share.CPUs, mayCPUs)) && speed(whole, getsMB) > speed(gets, getsMB) {
			g.cpus = whole
		}
	}
	if s.Mem {
		g.memMB = max(min(int64(math.Ceil(part.MemMB-1e-6)), mayMB), 1)
	}
	_, gets, getsMB := c.asked.Resize(g.cpus, g.memMB, "")
	if s.Mem && getsMB > mayMB { // rounded up by CPU or GPU
		g.memMB = max(g.memMB-int64(max(gets, gpus)), 1)
		_, gets, getsMB = c.asked.Resize(g.cpus, g.memMB, "")
	}
	taken := roundUp(gets, core) // Slurm gives whole cores
	if getsMB > mayMB || taken > int(mayCPUs) {
		d.explain(c.dec, "size: unchanged, because %s do not fit on %s next to the share of its free GPUs (%s)", amountText(gets, getsMB), name, why)
		return g, false
	}
	for _, l := range c.asked.Allowances {
		l.Take(taken-c.asked.CPUs, getsMB-c.asked.MemMB)
	}
	all.Take([]placement.Share{{Node: node, Amount: placement.Amount{GPUs: int32(gpus), CPUs: int32(taken), MemMB: getsMB}}})
	g.gets, g.getsMB = gets, getsMB
	g.overShare = gets > int(share.CPUs) || getsMB > share.MemMB
	g.unchanged = gets == c.asked.CPUs && nearlyEqual(getsMB, c.asked.MemMB)
	if g.unchanged {
		g.explanation = fmt.Sprintf("size: requested %s, its best size (%s)", amountText(gets, getsMB), why)
		return g, true
	}
	faster := ""
	if asked := speed(c.asked.CPUs, c.asked.MemMB); asked > 0 && (s.CPU || s.Mem) {
		faster = fmt.Sprintf(", expected at %.2f times the speed", speed(gets, getsMB)/asked)
	}
	g.explanation = fmt.Sprintf("size: requested %s, its share of a node like %s is %s; gets %s%s (%s)",
		amountText(c.asked.CPUs, c.asked.MemMB), name, amountText(int(share.CPUs), share.MemMB), amountText(gets, getsMB), faster, why)
	return g, true
}

// addWrite adds the action that gives a job its size.
func (d *decider) addWrite(c *resizable, value slurmplug.Value, reason, told string) {
	if !d.quota.Take() {
		d.restoreAhead(c, "sizes of others are written first")
		return
	}
	a := plan.Change(c.job, &cluster.Field{Lever: slurmplug.Size, Now: c.job.Asked.Holds, Own: c.asked.Holds}, value, reason)
	if c.job.Tasks != "" {
		a = a.OfTasks(fmt.Sprint(c.id.Task))
	}
	d.actions = append(d.actions, a)
	d.explained[c.id] = told
	d.explain(c.dec, "%s", told)
}

// roundUp returns n rounded up to a multiple of unit.
func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// nearlyEqual reports whether two amounts of memory differ by too little to be worth a
// write.
func nearlyEqual(a, b int64) bool { return math.Abs(float64(a-b)) <= 0.02*float64(max(a, b)) }

func amountText(cpus int, memMB int64) string {
	if cpus == 1 {
		return fmt.Sprintf("1 CPU and %d MB", memMB)
	}
	return fmt.Sprintf("%d CPUs and %d MB", cpus, memMB)
}
