package headroom

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// note takes in the partitions of the TE jobs that run.
func (m *Memory) note(s *cluster.Snapshot, isTE func(*cluster.Job) bool) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.GPUs == 0 || j.State != cluster.Running || !isTE(j) {
			continue
		}
		if m.partitions == nil {
			m.partitions = map[string]map[string]time.Time{}
		}
		if m.partitions[j.GPUType] == nil {
			m.partitions[j.GPUType] = map[string]time.Time{}
		}
		m.partitions[j.GPUType][j.Partition] = s.At // of a job that runs it is one
	}
}

// measure takes in what the TE jobs that run take of nodes for each GPU that they hold.
func (m *Memory) measure(s *cluster.Snapshot, sizes map[string]size, isTE func(*cluster.Job) bool) {
	gpus, parts := map[string]float64{}, map[string]float64{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.GPUs > 0 && j.State == cluster.Running && isTE(j) {
			gpus[j.GPUType] += float64(j.GPUs)
			parts[j.GPUType] += sizes[j.GPUType].part(j)
		}
	}
	for t, n := range gpus {
		if m.factors == nil {
			m.factors = map[string]float64{}
		}
		m.factors[t] = parts[t] / n
	}
}

// size is the size of a GPU type's nodes: of the most of them.
type size struct{ gpus, cpus, memMB float64 }

func sizesByType(nodes []cluster.Node) map[string]size {
	counts, sizes, most := map[string]map[size]int{}, map[string]size{}, map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		if n.GPUs == 0 || n.MixedTypes {
			continue
		}
		z := size{float64(n.GPUs), float64(n.CPUs), float64(n.MemMB)}
		if counts[n.GPUType] == nil {
			counts[n.GPUType] = map[size]int{}
		}
		if counts[n.GPUType][z]++; counts[n.GPUType][z] > most[n.GPUType] {
			most[n.GPUType], sizes[n.GPUType] = counts[n.GPUType][z], z
		}
	}
	return sizes
}

// part is what a job takes of nodes of this size, in GPUs.
func (z size) part(j *cluster.Job) float64 {
	part := float64(j.GPUs)
	if z.cpus > 0 {
		part = max(part, float64(j.CPUs)/z.cpus*z.gpus)
	}
	if z.memMB > 0 {
		part = max(part, float64(j.MemMB)/z.memMB*z.gpus)
	}
	return part
}

// choose says which nodes are kept from now on. stays are those of TE jobs within a day; the start of each GPU
// of a TE job elsewhere costs so many GPU-seconds.
func (m *Memory) choose(s *cluster.Snapshot, stays []*cluster.Stay, set *Settings, cost float64, taken func(node string) bool) (nodes []string) {
	left := beWork(s)
	for _, group := range byType(s.Nodes) {
		held := 0.0
		for _, n := range group {
			if n.Headroom() && taken(n.Name) { // until its job starts, or the claim has its own reservation
				held += float64(n.GPUs)
				nodes = append(nodes, n.Name)
			}
		}
		d := demandOf(stays, group[0].GPUType, cmp.Or(m.factors[group[0].GPUType], 1), s.At)
		if len(d.starts) == 0 {
			continue
		}
		all, first := 0, 0 // GPUs of the nodes that serve TE jobs, and of one of them
		for _, n := range group {
			if m.serves(n, s.At) {
				all, first = all+n.GPUs, cmp.Or(first, n.GPUs)
			}
		}
		most := set.Share * float64(all)
		if set.Share > 0 && all > first { // one node, where there are others
			most = max(most, float64(first))
		}
		// Those that are kept already, then those with the least work of BE jobs to come.
		slices.SortStableFunc(group, func(a, b *cluster.Node) int {
			switch {
			case a.Headroom() && !b.Headroom():
				return -1
			case b.Headroom() && !a.Headroom():
				return 1
			}
			return cmp.Compare(left[a.Name]/float64(a.GPUs), left[b.Name]/float64(b.GPUs))
		})
		for _, n := range group {
			if !n.Usable || !m.serves(n, s.At) || !n.Headroom() && (taken(n.Name) || strings.Contains(n.State, "RESERVED") || strings.Contains(n.State, "POWER")) {
				continue // down, of another partition, of another reservation, or powered down
			}
			if n.Headroom() && taken(n.Name) {
				continue
			}
			gain, least := d.gain(held, float64(n.GPUs), cost), addsFrom
			if n.Headroom() {
				least = letsGoBelow
			}
			if gain < least || held+float64(n.GPUs) > most {
				break
			}
			held += float64(n.GPUs)
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// byType are the nodes with GPUs of one type, the types in the order of the nodes.
func byType(nodes []cluster.Node) (groups [][]*cluster.Node) {
	at := map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		if n.GPUs == 0 || n.MixedTypes {
			continue
		}
		g, known := at[n.GPUType]
		if !known {
			g = len(groups)
			at[n.GPUType], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], n)
	}
	return groups
}

// serves reports whether TE jobs have run in a partition of the node within a day.
func (m *Memory) serves(n *cluster.Node, now time.Time) bool {
	return slices.ContainsFunc(n.Partitions, func(p string) bool {
		last, ran := m.partitions[n.GPUType][p]
		return ran && now.Sub(last) < dayBefore
	})
}

// endless is what is left of a job without a time limit, s.
const endless = 30 * 86400

// beWork is the work of the jobs on each node until their time limits, in GPU-seconds.
func beWork(s *cluster.Snapshot) map[string]float64 {
	work := map[string]float64{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.NodeList == "" || j.GPUs == 0 || j.State != cluster.Running {
			continue
		}
		hosts, _ := slurmplug.ExpandHosts(j.NodeList)
		each := float64(j.GPUs) / float64(max(len(hosts), 1)) * math.Min(j.Remaining(s.At), endless)
		for _, h := range hosts {
			work[h] += each
		}
	}
	return work
}
