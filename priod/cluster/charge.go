package cluster

import (
	"math"
	"strings"

	"slurmprio/slurmplug"
)

// Charges says what Slurm allocates to each job of a snapshot, in GPUs.
//
// What a job takes of a node of g GPUs is the largest of its GPUs there, g times its part of the node's CPUs and g times
// its part of the node's memory: GPUs without CPUs or memory beside them start no job. It takes a node that it has for
// itself whole. A node without GPUs counts as 1 GPU for as many CPUs as all nodes together have for each GPU, so that a part
// of all CPUs that hang on no GPU costs as much as the same part of all GPUs. Without any GPU nothing is charged.
//
// It is used by one goroutine.
type Charges struct {
	s          *Snapshot
	byCPU      float64 // GPUs that each CPU of a node without GPUs counts as
	limits     Partitions
	sizes      []*Node          // one node of each kind and size, in the order of the snapshot
	nodes      map[string]*Node // by name
	asked      ByRequest[float64]
	components map[uint32]float64 // of all components of heterogeneous jobs that wait, by their leaders
}

// NewCharges reads nothing before it is asked.
func NewCharges(s *Snapshot) *Charges { return &Charges{s: s} }

// Of is what one task of a job holds; of a job that waits, what it will hold on the cheapest kind of nodes of its
// partitions that fits it, in service or not, and of a heterogeneous one that waits all of its components. It is never
// less than the job's GPUs. Where a constraint cannot be read, any node fits it; where no node fits, its GPUs are charged.
func (c *Charges) Of(j *Job) float64 {
	if c.nodes == nil {
		c.read()
	}
	switch {
	case j.State != Pending:
		return rounded(c.held(j))
	case j.HetLeader == 0:
		return c.asks(j)
	case c.components == nil:
		c.components = map[uint32]float64{}
		for i := range c.s.Jobs {
			if o := &c.s.Jobs[i]; o.HetLeader != 0 && o.State == Pending {
				c.components[o.HetLeader] += c.asks(o)
			}
		}
	}
	return c.components[j.HetLeader]
}

// rounded is a charge in 1024ths, rounded down but never to 0: sums of such are exact, in whatever order.
func rounded(gpus float64) float64 {
	const parts, slack = 1024, 1e-6
	if gpus <= 0 {
		return 0
	}
	return max(math.Floor(gpus*parts+slack), 1) / parts
}

func (c *Charges) read() {
	c.nodes, c.limits = make(map[string]*Node, len(c.s.Nodes)), c.s.PartitionsByName()
	c.byCPU = GPUsByCPU(c.s.Nodes)
	type size struct {
		gpuType, features, partitions         string
		gpus, cpus, threads, together, parted int
		memMB                                 int64
	}
	known := map[size]bool{}
	for i := range c.s.Nodes {
		n := &c.s.Nodes[i]
		c.nodes[n.Name] = n
		if i > 0 {
			if o := &c.s.Nodes[i-1]; n.Alike(o) && n.GPUs == o.GPUs && n.CPUs == o.CPUs && n.MemMB == o.MemMB && n.Threads == o.Threads && n.Together == o.Together {
				continue
			}
		}
		k := size{n.GPUType, strings.Join(n.Features, ","), strings.Join(n.Partitions, ","), n.GPUs, n.CPUs, n.Threads, n.Together, 0, n.MemMB}
		if n.MixedTypes {
			k.parted = i + 1 // each by itself
		}
		if !known[k] {
			known[k] = true
			c.sizes = append(c.sizes, n)
		}
	}
}

// GPUsByCPU is how many GPUs some nodes have for each of their CPUs; 0 where they have none of one or the other.
func GPUsByCPU(nodes []Node) float64 {
	gpus, cpus := 0, 0
	for i := range nodes {
		gpus, cpus = gpus+nodes[i].GPUs, cpus+nodes[i].CPUs
	}
	if cpus == 0 {
		return 0
	}
	return float64(gpus) / float64(cpus)
}

// held is what a job that has started holds of its nodes: equal parts of each where it is not known what of which.
func (c *Charges) held(j *Job) (sum float64) {
	hosts := []string{j.NodeList}
	if c.nodes[j.NodeList] == nil {
		hosts, _ = slurmplug.ExpandHosts(j.NodeList)
	}
	for i, host := range hosts {
		n := float64(len(hosts))
		gpus, cpus, memMB := float64(j.GPUs)/n, float64(j.CPUs)/n, float64(j.MemMB)/n
		if len(j.Parts) == len(hosts) {
			gpus, cpus, memMB = float64(j.Parts[i].GPUs), float64(j.Parts[i].CPUs), float64(j.Parts[i].MemMB)
		}
		if node := c.nodes[host]; node != nil {
			gpus = c.takes(node, gpus, cpus, memMB, j.Whole)
		}
		sum += gpus
	}
	return max(sum, float64(j.GPUs))
}

// takes is what so much of one node counts as, in GPUs.
func (c *Charges) takes(n *Node, gpus, cpus, memMB float64, whole bool) float64 {
	worth, part := float64(n.GPUs), 0.0
	if n.GPUs == 0 {
		worth = float64(n.CPUs) * c.byCPU
	}
	if gpus == 0 {
		cpus = max(cpus, 1) // Slurm gives each node's job one
	}
	if n.CPUs > 0 {
		part = cpus / float64(n.CPUs)
	}
	if n.MemMB > 0 && !c.s.MemShared {
		part = max(part, memMB/float64(n.MemMB))
	}
	if whole {
		part = 1
	}
	return max(gpus, worth*min(part, 1))
}

// asks is what one record of a waiting job will be charged.
func (c *Charges) asks(j *Job) float64 {
	r := j.Asks(c.limits.Starting(j.Partition, j))
	return c.asked.Get(&r, func() float64 { return rounded(c.cheapest(&r)) })
}

// cheapest is the charge of a request on the kind of nodes where it is least.
func (c *Charges) cheapest(r *Request) float64 {
	least := math.Inf(1)
	constraint, err := slurmplug.ParseConstraint(r.Features)
	for _, n := range c.sizes {
		if n.In(r.Partitions) && (err != nil || constraint.Allows(n.Features)) {
			if charge, fits := c.on(n, r); fits {
				least = min(least, charge)
			}
		}
	}
	if math.IsInf(least, 1) {
		return float64(r.GPUs)
	}
	return least
}

// on is what a request is charged on nodes like this one, on as few as it names or needs.
func (c *Charges) on(n *Node, r *Request) (charge float64, fits bool) {
	cpus, memMB := r.CPUs, r.MemMB
	if r.OneThread {
		cpus *= max(n.Threads, 1)
	}
	core := max(n.Together, n.Threads, 1)
	cpus = (cpus + core - 1) / core * core
	if r.MemByCPU && r.CPUs > 0 {
		memMB = memMB * int64(cpus) / int64(r.CPUs)
	}
	gpus := n.countOf(r.GPUType)
	nodes := max(r.Nodes, 1)
	for _, x := range []struct{ asks, has int64 }{{int64(r.GPUs), int64(gpus)}, {int64(cpus), int64(n.CPUs)}, {memMB, n.MemMB}} {
		switch {
		case x.has > 0 && r.Nodes <= 1:
			nodes = max(nodes, int((x.asks+x.has-1)/x.has))
		case x.has > 0 && x.asks > x.has*int64(nodes):
			return 0, false
		}
	}
	if r.GPUs > 0 && gpus == 0 || r.Node.GPUs > gpus || n.CPUs > 0 && r.Node.CPUs > n.CPUs || n.MemMB > 0 && r.Node.MemMB > n.MemMB {
		return 0, false
	}
	of := float64(nodes)
	each := c.takes(n, float64(r.GPUs)/of, max(float64(cpus)/of, float64(r.Node.CPUs)), max(float64(memMB)/of, float64(r.Node.MemMB)), r.Whole)
	return of * each, true
}

// countOf is how many GPUs of a type the node has; "" and a list of types are any.
func (n *Node) countOf(gpuType string) (count int) {
	if gpuType == "" || strings.Contains(gpuType, ",") || n.GPUType == gpuType && !n.MixedTypes {
		return n.GPUs
	}
	for _, p := range n.Parts {
		if p.Type == gpuType {
			count += p.Count
		}
	}
	return count
}
