package locality

import (
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Why a job does not wait for switches.
const (
	noConsent  = "no valid tag: it may not be made to wait"
	partOfHet  = "it is part of a heterogeneous job"
	hasClaim   = "room is being made for it"
	edited     = "it was changed after priod wrote it: left as it is"
	unread     = "its request could not be read"
	runUnknown = "its run time is unknown: it has no time limit"
)

// gang is a waiting job that may come to lie on several switches.
type gang struct {
	job      *cluster.Job
	decision *plan.Decision
	request  placement.Request
	excluded string // why it waits for no switches; "" when it may
	rule     Job
	accepts  int // switches; 0: any number
	state    *jobState
}

// cell is the cluster with its switches.
type cell struct {
	nodes *nodemap.Map
	leaf  []int32 // by node, its switch
	parts map[placement.Types]*part
	taken []placement.Share // by the jobs before
}

// part is the nodes of some kinds, which are of one type here if their GPUs are: a gang may lie on nodes of several kinds.
type part struct {
	free, up *placement.Nodes // what the jobs before leave; with nothing on it
	at       []int32          // by node of the cluster, its place here; -1: it is not of this part
	nodes    []int32          // of the cluster
	switches int
}

func newCell(nodes *nodemap.Map, switches map[string]string) *cell {
	x := &cell{nodes: nodes, parts: map[placement.Types]*part{}}
	numbers := map[string]int32{}
	for _, name := range x.nodes.Names {
		leaf, known := switches[name]
		if !known {
			leaf = "\x00" + name // without a switch: on one of its own
		}
		n, seen := numbers[leaf]
		if !seen {
			n = int32(len(numbers))
			numbers[leaf] = n
		}
		x.leaf = append(x.leaf, n)
	}
	return x
}

// part is that of a request.
func (x *cell) part(types placement.Types) *part {
	if p := x.parts[types]; p != nil {
		return p
	}
	all := x.nodes.Nodes
	p := &part{at: slices.Repeat([]int32{-1}, all.Len()), nodes: make([]int32, 0, all.Len())}
	sizes, leaves, used := make([]placement.Node, 0, all.Len()), make([]int32, 0, all.Len()), make([]placement.Share, 0, all.Len())
	gpuTypes, numbers := map[string]int32{}, slices.Repeat([]int32{-1}, len(x.leaf)) // of switches
	for i := range int32(all.Len()) {
		if !types.Has(all.Type(i)) {
			continue
		}
		if n := &numbers[x.leaf[i]]; *n < 0 {
			*n = int32(p.switches)
			p.switches++
		}
		t := x.nodes.Kinds[all.Type(i)].GPUType
		if _, known := gpuTypes[t]; !known {
			gpuTypes[t] = int32(len(gpuTypes))
		}
		p.at[i] = int32(len(p.nodes))
		p.nodes, sizes, leaves = append(p.nodes, i), append(sizes, placement.Node{Type: gpuTypes[t], Amount: all.Size(i)}), append(leaves, numbers[x.leaf[i]])
	}
	p.up = placement.New(placement.Packed, sizes)
	p.up.SetLeaves(leaves)
	p.free = p.up.Clone()
	for at, i := range p.nodes {
		size, free := all.Size(i), all.FreeOn(i)
		if size != free {
			used = append(used, placement.Share{Node: int32(at), Amount: placement.Amount{GPUs: size.GPUs - free.GPUs, CPUs: size.CPUs - free.CPUs, MemMB: size.MemMB - free.MemMB}})
		}
	}
	p.free.Take(used)
	for at, i := range p.nodes {
		if all.Down(i) {
			p.free.SetDown(int32(at), true)
			p.up.SetDown(int32(at), true)
		}
	}
	p.take(x.taken)
	x.parts[types] = p
	return p
}

// take gives shares of the cluster to a job, as far as they are of this part.
func (p *part) take(shares []placement.Share) {
	for _, s := range shares {
		if at := p.at[s.Node]; at >= 0 {
			p.free.Take([]placement.Share{{Node: at, Amount: s.Amount}})
		}
	}
}

// anyType is all types of a part.
const anyType = ^placement.Types(0)

// request is what a job asks for; ok is false where its constraint is not understood or allows no node.
func (x *cell) request(j *cluster.Job) (r placement.Request, ok bool) {
	types, ok := x.nodes.Types(j)
	return x.nodes.Request(j, types), ok && types != 0
}

// fit is where a request would lie now, in places of its part.
func (x *cell) fit(r placement.Request) (shares []placement.Share, fits bool) {
	p := x.part(r.Types)
	r.Types = anyType
	return p.free.Fit(r, nil)
}

// switches are the fewest that hold a request, and the most that it can come to lie on.
func (x *cell) switches(r placement.Request) (fewest, most int) {
	p := x.part(r.Types)
	r.Types = anyType
	shares, fits := p.up.Fit(r, nil)
	if !fits {
		return 0, 0
	}
	nodes := int(r.Nodes)
	if nodes == 0 {
		nodes = int(r.GPUs)
	}
	return p.up.Leaves(shares), min(p.switches, nodes)
}

// take lets the tasks of a record start that would; it reports whether the first does.
func (x *cell) take(j *cluster.Job, r placement.Request) bool {
	p := x.part(r.Types)
	for n := range max(j.TasksNow(), 1) {
		places, fits := x.fit(r)
		if !fits {
			return n > 0
		}
		var shares []placement.Share
		for _, s := range places {
			shares = append(shares, placement.Share{Node: p.nodes[s.Node], Amount: s.Amount})
		}
		x.taken = append(x.taken, shares...)
		for _, p := range x.parts {
			p.take(shares)
		}
	}
	return true
}

// excluded says why a job waits for no places, whatever the cluster is like.
func (w *work) excluded(j *cluster.Job) string {
	if why := w.refuses(j); why != "" {
		return why
	}
	switch f := w.field(j); {
	case !f.Shown:
		return unread
	case f.Theirs:
		return edited
	case f.Ours:
		return ""
	case j.Switches != slurmplug.NoSwitches:
		return "it requests switches"
	}
	return ""
}

// refuses says why a job may not be kept waiting for places, whatever it asks for.
func (w *work) refuses(j *cluster.Job) string {
	switch {
	case !w.set.Enabled:
		return "locality is off"
	case !j.AllowsWaiting():
		return noConsent
	case j.GPUs == 0:
		return "it requests no GPUs"
	case j.HetLeader != 0:
		return partOfHet
	case w.c.History.Claiming[j.ID]:
		return hasClaim
	}
	return ""
}

// expected is how long a job runs, s: by its steps where its speed is known, else by its time limit; 0: not known.
func (w *work) expected(j *cluster.Job) float64 {
	if shares := w.c.Plan.Shares; shares != nil && j.Tag.Steps > 0 && shares.Jobs.Get(j.ID) != nil {
		if run := shares.Jobs.Get(j.ID).Run; len(run) > 0 {
			if least := slices.Min(run); !math.IsInf(least, 1) {
				return least
			}
		}
	}
	return max(j.TimeLimit.Seconds(), 0) * w.set.OfLimit
}

// delayed is how many jobs wait beside a job for the GPUs that it reaches, times the part of these that it takes: so
// many seconds all of them together wait longer for each that it runs longer.
func (w *work) delayed(j *cluster.Job) float64 {
	if w.perGPU == nil {
		jobs := map[string]int{}
		for _, q := range w.c.Plan.Queue {
			jobs[w.c.Snapshot.Jobs[q.Job].Partition]++
		}
		w.up = slices.DeleteFunc(slices.Clone(w.c.Snapshot.Nodes), func(n cluster.Node) bool { return !n.Usable })
		w.perGPU = plan.PerGPU(w.up, jobs)
	}
	gpus := plan.ReachOf(w.up, j.Partition).GPUs
	return max(w.perGPU(j.Partition)*float64(gpus)-1, 0) * float64(j.GPUs) / float64(max(gpus, j.GPUs))
}
