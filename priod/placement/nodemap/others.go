package nodemap

import (
	"cmp"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/slurmplug"
)

// other is one of placement's other resources: a GRES, or the CPUs that the jobs of a partition may hold of a node.
type other struct {
	gres      string
	partition string
	cpus      int64 // of each node, of a partition
}

// countOthers finds the GRES that jobs ask for beside GPUs, and the partitions whose jobs may not have all CPUs of a
// node. What is beyond MaxOthers of them is not counted, nor are types of such a GRES.
func (m *Map) countOthers(s *cluster.Snapshot) {
	m.others, m.open = nil, map[string]string{}
	asked, partitions := map[string]bool{}, map[string]bool{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.Gres != "" && !asked[j.Gres] {
			asked[j.Gres] = true
			for _, g := range gresOf(j.Gres) {
				m.count(s, other{gres: g.Name})
			}
		}
		partitions[j.Partition] = true
	}
	for _, p := range s.Partitions {
		switch {
		case p.Open != "":
			m.open[p.Name] = p.Open
		case p.NodeCPUs > 0 && usedBy(partitions, p.Name):
			m.count(s, other{partition: p.Name, cpus: int64(p.NodeCPUs)})
		}
	}
}

// usedBy reports whether one of these lists of partitions names a partition.
func usedBy(lists map[string]bool, partition string) bool {
	for list := range lists {
		if list == partition || strings.Contains(list, ",") && slices.Contains(strings.Split(list, ","), partition) {
			return true
		}
	}
	return false
}

func (m *Map) count(s *cluster.Snapshot, o other) {
	switch name := cmp.Or(o.gres, o.partition); {
	case slices.Contains(m.others, o) || m.open[name] != "":
	case len(m.others) == placement.MaxOthers:
		m.open[name] = "too many kinds of GRES and limits of partitions on CPUs"
	case o.gres != "" && slices.ContainsFunc(s.Nodes, func(n cluster.Node) bool { return len(countsOf(&n, o.gres)) > 1 }):
		m.open[name] = "a GRES of several types"
	default:
		m.others = append(m.others, o)
	}
}

// countsOf are a node's entries of a GRES, one for each type.
func countsOf(n *cluster.Node, gres string) (all []cluster.GresCount) {
	for _, g := range n.Gres {
		if g.Name == gres {
			all = append(all, g)
		}
	}
	return all
}

// gresOf reads a job's GRES; one that cannot be read is none, and is named in its Open.
func gresOf(list string) []slurmplug.Gres {
	all, _ := slurmplug.ParseGres(list)
	return all
}

// othersOf is what a node has of the other resources; of a partition that it is not in, plenty.
func (m *Map) othersOf(n *cluster.Node) (has placement.Others) {
	for k, o := range m.others {
		if has[k] = placement.Plenty; o.gres != "" {
			has[k] = 0
			for _, g := range countsOf(n, o.gres) {
				has[k] = g.Count
			}
		} else if slices.Contains(n.Partitions, o.partition) {
			has[k] = o.cpus
		}
	}
	return has
}

// othersUsed is what is in use of a node's GRES.
func (m *Map) othersUsed(n *cluster.Node) (used placement.Others) {
	for k, o := range m.others {
		for _, g := range countsOf(n, o.gres) {
			used[k] = g.Used
		}
	}
	return used
}

// takePartitionCPUs takes the CPUs that running jobs hold within the limits of their partitions: those that they are known to
// hold, and of the node's others that are in use all that no job of another partition holds.
func (m *Map) takePartitionCPUs(s *cluster.Snapshot) {
	if !slices.ContainsFunc(m.others, func(o other) bool { return o.partition != "" }) {
		return
	}
	unknown := make([]int32, len(m.sizes)) // CPUs in use of each node with one GPU type that no job is known to hold
	for _, at := range m.Index {
		unknown[at] = m.sizes[at].CPUs - m.Nodes.FreeOn(at).CPUs
	}
	take := func(k int, node int32, cpus int64) {
		only := placement.Amount{}
		only.Others[k] = cpus
		m.Nodes.Take([]placement.Share{{Node: node, Amount: only}})
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State == cluster.Pending {
			continue
		}
		shares := m.Shares(j)
		if len(shares) == 0 {
			shares = m.mostCPUs(j)
		}
		for _, share := range shares {
			unknown[share.Node] -= m.coresOf(j, share.Node, share.CPUs)
			for k, o := range m.others {
				if o.partition != "" && j.Partition == o.partition {
					take(k, share.Node, share.Others[k])
				}
			}
		}
	}
	for at, cpus := range unknown {
		for k, o := range m.others {
			if cpus > 0 && o.partition != "" && m.sizes[at].Others[k] != placement.Plenty {
				take(k, int32(at), int64(cpus))
			}
		}
	}
}

// mostCPUs is what a job may hold of each of its nodes, where its parts are not known: all of its CPUs. On nodes with several
// GPU types they are not, of a job that names none.
func (m *Map) mostCPUs(j *cluster.Job) (most []placement.Share) {
	hosts, _ := slurmplug.ExpandHosts(j.NodeList)
	for _, name := range hosts {
		at, known := m.Index[name]
		if parts := m.parts[name]; len(parts) > 0 {
			at, known = parts[0], true
		}
		if known {
			most = append(most, placement.Share{Node: at, Amount: m.held(j, at, placement.Amount{CPUs: int32(j.CPUs)})})
		}
	}
	return most
}

// held adds to what a running job holds of a node what it holds of the other resources there.
func (m *Map) held(j *cluster.Job, at int32, a placement.Amount) placement.Amount {
	if len(m.others) == 0 {
		return a
	}
	var cpusIn uint8
	a.Others, cpusIn = m.asks(j)
	for k := range m.others {
		switch {
		case cpusIn&(1<<k) != 0:
			a.Others[k] = int64(m.coresOf(j, at, a.CPUs))
		case j.Whole && m.others[k].gres != "": // all of the node's
			a.Others[k] = m.sizes[at].Others[k]
		}
	}
	return a
}

// coresOf are the CPUs of the cores that a running job holds of a node, where so many are allocated to it: a job with one thread
// of each core keeps the others, too.
func (m *Map) coresOf(j *cluster.Job, at, cpus int32) int32 {
	size := &m.sizes[at]
	if j.OneThread {
		cpus *= max(size.Threads, 1)
	}
	core := max(size.Core, 1)
	return (cpus + core - 1) / core * core
}

// asks is what each node gives a job of the other resources, and in which its CPUs count. A job of several partitions
// counts in each of them.
func (m *Map) asks(j *cluster.Job) (each placement.Others, cpusIn uint8) {
	for k, o := range m.others {
		switch {
		case o.gres != "" && j.Gres != "":
			for _, g := range gresOf(j.Gres) {
				if g.Name == o.gres {
					each[k] += g.Count
				}
			}
		case o.partition != "" && (j.Partition == o.partition || slices.Contains(strings.Split(j.Partition, ","), o.partition)):
			cpusIn |= 1 << k
		}
	}
	return each, cpusIn
}

// Named are other resources by their names, which mean the same in each cycle; nil for none.
func (m *Map) Named(amounts placement.Others) (named map[string]int64) {
	for k, o := range m.others {
		if amounts[k] != 0 {
			if named == nil {
				named = map[string]int64{}
			}
			named[o.String()] = amounts[k]
		}
	}
	return named
}

// Unnamed is the reverse of Named; names that do not count now are left out.
func (m *Map) Unnamed(named map[string]int64) (amounts placement.Others) {
	for k, o := range m.others {
		amounts[k] = named[o.String()]
	}
	return amounts
}

func (o other) String() string {
	if o.gres != "" {
		return o.gres
	}
	return "CPUs of partition " + o.partition
}

// mixes reports whether Slurm may give a waiting job GPUs of several types on one node: it names no type, and asks for
// more of each node than there are of one.
func (m *Map) mixes(j *cluster.Job) bool {
	if m.mixed == nil || j.GPUType != "" || j.GPUs == 0 {
		return false
	}
	nodes, whole := max(j.Nodes, 1), *j
	each := int32(max(j.Node.GPUs, (j.GPUs+nodes-1)/nodes))
	whole.Node = cluster.Least{} // which is of one part
	types, _ := m.Types(&whole)
	for kind, all := range m.mixed {
		if types.Has(kind) && each > m.largest[kind].GPUs && (each <= all || j.Node.GPUs < int(each)) {
			return true
		}
	}
	return false
}

// Open names what a waiting job asks for, or a limit of its partitions, that is not counted: where it fits is not known. "": all counts.
func (m *Map) Open(j *cluster.Job) string {
	switch {
	case j.Open != "":
		return j.Open
	case m.mixes(j):
		return "GPUs of several types on one node"
	}
	for p := range strings.SplitSeq(j.Partition, ",") {
		if why := m.open[p]; why != "" {
			return why + " of partition " + p
		}
	}
	for _, g := range gresOf(j.Gres) {
		if why := m.open[g.Name]; why != "" {
			return g.Name + ": " + why
		}
	}
	return ""
}
