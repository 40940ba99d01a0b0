package size

import (
	"math"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
)

// placeQueue walks the queue, gives each job in its turn a place in what is free, and
// sizes those that agreed to it.
func (d *decider) placeQueue() {
	if !anyConsents(d.s) {
		return
	}
	if d.nodes == nil {
		d.nodes = nodemap.New(d.s)
	}
	raises := make(map[cluster.JobID]*raisedJob, len(d.raised))
	for _, x := range d.raised {
		raises[x.job.ID] = x
	}
	free := d.nodes.Nodes.Clone()
	gpus := 0
	for t := range d.nodes.Kinds {
		gpus += free.FreeGPUs(int32(t))
	}
	n := 0
	for w := range waitingInOrder(d.s, d.h, d.p) {
		if n++; gpus <= 0 && n > d.set.Jobs && d.ahead[w.job.ID] == nil {
			if len(d.ahead) == 0 {
				break
			}
			continue
		}
		types, known := d.nodes.Types(w.job)
		if types &= d.nodes.OneType(); !known {
			continue // priod cannot tell where it may run
		}
		for _, id := range tasksFrom(w.job, gpus/max(w.job.GPUs, 1)) {
			c, why := d.candidate(w, id, types)
			switch x := d.ahead[id]; {
			case why == "":
			case x != nil && x.job.Asked.Nodes != "" && !d.isBusy(w.job, id):
				d.addRestore(x.job, x.dec, x.r, reasonSize, why)
			case w.job.AllowsSize() && !d.kept[id] && !d.foreign[id]:
				d.explain(w.dec, "size: unchanged, because %s", why)
			}
			sized := c
			if c != nil && c.ahead != nil && w.job.Asked.Nodes == "" {
				sized = nil // Slurm may start it with the size that it has
			}
			took := d.placeJob(free, sized, w, types)
			if x := raises[w.job.ID]; x != nil && !x.fits {
				x.fits = took > 0
				if !x.fits {
					took = d.placeWithOwnRequest(free, x, types)
				}
			}
			gpus -= took
			if took == 0 {
				if c != nil {
					d.later = append(d.later, c)
				}
				break
			}
			takeFromLimits(w)
		}
	}
	d.sizePlaced()
	d.planAhead()
}

// placeJob places a job in what is free, and returns how many GPUs it takes, 0 when it
// does not fit. A job that is not sized takes what it asks for, one that is sized the
// least that it may get.
func (d *decider) placeJob(free *placement.Nodes, c *resizable, w queuedJob, types placement.Types) int {
	r := d.nodes.Request(w.job, types)
	if a := w.job.Asked; c == nil && a != nil && a.GPUs > 0 {
		resize(&r, int32(min(a.CPUs, placement.Plenty)), a.MemMB)
		if a.Nodes != "" {
			at, known := d.nodes.Index[a.Nodes]
			own := []placement.Share{{Node: at, Amount: r.Amount}}
			if !known || !free.Hold(own) {
				return 0
			}
			free.Take(own)
			d.unsized = append(d.unsized, own...)
			return w.job.GPUs
		}
	}
	if c != nil {
		cpus, memMB := d.leastToPlace(c)
		resize(&r, cpus, memMB)
		r.Nodes = 1
	}
	shares, fits := free.Fit(r, nil)
	if !fits {
		return 0
	}
	free.Take(shares)
	if c != nil {
		d.toSize = append(d.toSize, *c)
	} else {
		d.unsized = append(d.unsized, shares...)
	}
	return w.job.GPUs
}

// placeWithOwnRequest places a raised job, which did not fit, with what its owner asked
// for.
func (d *decider) placeWithOwnRequest(free *placement.Nodes, x *raisedJob, types placement.Types) int {
	r, own := d.nodes.Request(x.job, types), x.job.Asked.Of(x.r.Was)
	resize(&r, int32(min(own.CPUs, placement.Plenty)), own.MemMB)
	shares, fits := free.Fit(r, nil)
	if !fits {
		return 0
	}
	free.Take(shares)
	d.unsized = append(d.unsized, shares...)
	x.ownFits = true
	return x.job.GPUs
}

// resize gives a request another size: what the job asked for each task, node or CPU counts no more.
func resize(r *placement.Request, cpus int32, memMB int64) {
	r.CPUs, r.MemMB, r.TaskCPUs, r.NodeCPUs, r.NodeMemMB, r.MemByCPU = cpus, memMB, 0, 0, 0, false
}

// leastToPlace is the least that a job may get, on the kind of nodes where that is
// lowest.
func (d *decider) leastToPlace(c *resizable) (cpus int32, memMB int64) {
	cpus, memMB = math.MaxInt32, math.MaxInt64
	gpus := float64(c.asked.GPUs)
	for t, s := range c.on {
		if s == nil {
			continue
		}
		n := d.nodes.Kinds[t]
		want, wantMB := s.Curve.DemandCPUs*gpus, float64(s.Curve.DemandMemMB)*gpus
		if s.CPU {
			want = min(want, float64(n.CPUs)*gpus/float64(n.GPUs))
		}
		if s.Mem {
			wantMB = min(wantMB, float64(n.MemMB)*gpus/float64(n.GPUs))
		}
		cpus, memMB = min(cpus, int32(max(want, 1))), min(memMB, int64(max(wantMB, 1)))
	}
	return max(cpus, int32(c.asked.Least)), memMB
}

// sizePlaced lets the mechanism size the jobs that got a place, and writes what fits in
// whole CPUs and MB beside the share of each free GPU.
func (d *decider) sizePlaced() {
	if len(d.toSize) == 0 {
		return
	}
	for _, o := range d.unsized {
		d.nodes.Nodes.Take([]placement.Share{{Node: o.Node, Amount: d.atLeastShare(o)}})
	}
	var nodes []Node
	var at []int32
	for i := range int32(d.nodes.Nodes.Len()) {
		size := d.nodes.Nodes.Size(i)
		if size.GPUs == 0 || size.CPUs == 0 || size.MemMB == 0 {
			continue
		}
		free := d.nodes.Nodes.FreeOn(i)
		if d.nodes.Nodes.Down(i) {
			free = placement.Amount{}
		}
		nodes = append(nodes, Node{Type: int(d.nodes.Nodes.Type(i)), Total: amountOf(size), Free: amountOf(free)})
		at = append(at, i)
	}
	jobs := make([]Job, len(d.toSize))
	for i := range d.toSize {
		c := &d.toSize[i]
		jobs[i] = Job{GPUs: c.asked.GPUs, On: make([]Sensitivity, len(c.on))}
		for t, s := range c.on {
			if s != nil {
				speed := 1.0
				if v, said := c.job.Tag.Speed[d.nodes.Kinds[t].GPUType]; said {
					speed = v
				}
				jobs[i].On[t] = Sensitivity{Speed: speed, Curve: s.Curve}
			}
		}
	}
	var grants []nodeGrant
	granted := map[*resizable]bool{}
	for _, g := range d.Sizes.packer.Pack(jobs, nodes) {
		c := &d.toSize[g.Job]
		if len(g.Parts) != 1 {
			d.explain(c.dec, "size: unchanged, because no single node has its GPUs free")
			continue
		}
		if g, ok := d.wholeUnits(c, at[g.Parts[0].Node], &g.Parts[0]); ok {
			grants = append(grants, g)
			granted[c] = true
		}
	}
	for i := range d.toSize {
		if c := &d.toSize[i]; !granted[c] {
			d.restoreAhead(c, "GPUs are free for it, but not the CPUs or memory of its size")
		}
	}
	// A job that takes more than its share counts on what its neighbours leave: they
	// all go where they were placed. So does one that is raised to its share and would
	// have more than that on other nodes. The rest may go anywhere.
	full := map[int32]bool{}
	for _, g := range grants {
		full[g.node] = full[g.node] || g.overShare
	}
	least := d.leastShares()
	for _, g := range grants {
		node, on := "", ""
		if full[g.node] || g.aboveShareElsewhere(least) {
			node = d.nodes.Names[g.node]
			on = " on " + node
		}
		if g.unchanged && node == "" && g.ahead == nil {
			d.explain(g.dec, "%s", g.explanation)
			continue
		}
		d.addWrite(g.resizable, g.value(node), reasonSize, g.explanation+on)
	}
}
