// Package nodemap turns a snapshot of a real cluster into placement's terms:
// which kinds of nodes there are, which of them a job's own constraint allows,
// and what a running job takes of each node.
package nodemap

import (
	"cmp"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/slurmplug"
)

// Map is the cluster in placement's terms. Nodes of one kind (GPU type, features, partitions) make one of its types. A node with several
// GPU types stands there once for each of them, with the GPUs of that type; CPUs and memory are shared (placement.Nodes.Join).
type Map struct {
	Nodes *placement.Nodes // what is free now; nodes that start nothing are down
	Names []string
	Index map[string]int32 // of nodes with one GPU type or none; see At for the others
	Kinds []*cluster.Node  // one node of each kind; MixedTypes: with several GPU types, and GPUType that of the part
	Out   []string         // nodes with GPUs of more kinds than can be distinguished: nothing is placed there

	ignored map[string]bool // features and partitions of nodes that make no kinds; nil: all do
	sizes   []placement.Node
	parts   map[string][]int32 // by node with several GPU types, where its parts stand; nil: there is none
	largest []placement.Amount // by kind, the most of each that one of its nodes has
	mixed   map[int32]int32    // by kind of parts, the most GPUs of all types that one of these nodes has; nil: there is none
	others  []other            // what Amount.Others are amounts of
	open    map[string]string  // by partition or GRES, why it is not counted
	limits  cluster.Partitions
	spreads map[cluster.JobID][]placement.Share
}

// part is a node, or the GPUs of one type on a node with several.
type part struct {
	*cluster.Node
	gpuType    string
	gpus, used int
}

// partsOf are the parts of the nodes of a snapshot. A node with several GPU types that were not counted apart is one part without GPUs.
func partsOf(s *cluster.Snapshot) []part {
	all := make([]part, 0, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch {
		case !n.MixedTypes:
			all = append(all, part{n, n.GPUType, n.GPUs, n.GPUsUsed})
		case len(n.Parts) == 0:
			all = append(all, part{n, "", 0, 0})
		}
		for _, p := range n.Parts {
			all = append(all, part{n, p.Type, p.Count, p.Used})
		}
	}
	return all
}

// New reads the nodes of a snapshot. Where they are of more kinds than can be distinguished (placement.MaxTypes), only the features that a
// job of the snapshot names, or named holds, make kinds, and if need be only such partitions. Nodes of more kinds even so are left out:
// nothing is placed there. Nodes on which jobs with GPUs are placed come before others.
func New(s *cluster.Snapshot, named ...string) *Map {
	m := &Map{Index: make(map[string]int32, len(s.Nodes))}
	parts := partsOf(s)
	kinds, all := m.tell(parts)
	if !all {
		m.ignore(s, named, func(n *cluster.Node) []string { return n.Features })
		kinds, all = m.tell(parts)
	}
	if !all {
		m.ignore(s, named, func(n *cluster.Node) []string { return n.Partitions })
		kinds, _ = m.tell(parts)
	}
	m.countOthers(s)
	m.limits = s.PartitionsByName()
	m.Names, m.sizes = make([]string, 0, len(parts)), make([]placement.Node, 0, len(parts))
	used := make([]placement.Share, 0, len(parts))
	var down []int32
	for i := range parts {
		n := &parts[i]
		kind := kinds[i]
		if kind < 0 {
			if n.gpus > 0 && !slices.Contains(m.Out, n.Name) {
				m.Out = append(m.Out, n.Name)
			}
			continue
		}
		at := int32(len(m.sizes))
		taken := placement.Amount{GPUs: int32(n.used), CPUs: int32(n.CPUsUsed), MemMB: n.MemUsedMB, Others: m.othersUsed(n.Node)}
		if n.MixedTypes {
			if m.parts == nil {
				m.parts = map[string][]int32{}
			}
			if len(m.parts[n.Name]) > 0 { // the parts share these, and the first has counted them
				taken = placement.Amount{GPUs: taken.GPUs}
			}
			m.parts[n.Name] = append(m.parts[n.Name], at)
			if m.mixed == nil {
				m.mixed = map[int32]int32{}
			}
			m.mixed[kind] = max(m.mixed[kind], int32(n.GPUs))
		} else {
			m.Index[n.Name] = at
		}
		m.Names = append(m.Names, n.Name)
		size, most := placement.Amount{GPUs: int32(n.gpus), CPUs: int32(n.CPUs), MemMB: n.MemMB, Others: m.othersOf(n.Node)}, &m.largest[kind]
		m.sizes = append(m.sizes, placement.Node{Type: kind, Threads: int32(n.Threads), Core: int32(cmp.Or(n.Together, n.Threads)), Socket: int32(n.Socket), Amount: size})
		most.GPUs, most.CPUs, most.MemMB = max(most.GPUs, size.GPUs), max(most.CPUs, size.CPUs), max(most.MemMB, size.MemMB)
		used = append(used, placement.Share{Node: at, Amount: taken})
		if !n.Usable || n.Owned || n.MixedTypes && n.gpus == 0 || strings.Contains(n.State, "RESERVED") {
			down = append(down, at)
		}
	}
	m.Nodes = m.Empty()
	m.Nodes.Take(used)
	amounts := make([]placement.Amount, len(used))
	for i := range used {
		amounts[i] = used[i].Amount
	}
	m.spread(s.Jobs, amounts)
	m.takePartitionCPUs(s)
	m.crowd(s.Jobs)
	for _, at := range down {
		m.Nodes.SetDown(at, true)
	}
	return m
}

// At is where a node stands: of one with several GPU types, the part with GPUs of this type.
func (m *Map) At(name, gpuType string) (at int32, known bool) {
	if at, known = m.Index[name]; known {
		return at, true
	}
	for _, at := range m.parts[name] {
		if m.Kinds[m.sizes[at].Type].GPUType == gpuType {
			return at, true
		}
	}
	return 0, false
}

// of is where a job stands on a node.
func (m *Map) of(j *cluster.Job, name string) (at int32, known bool) {
	if parts := m.parts[name]; j.GPUs == 0 && len(parts) > 0 {
		return parts[0], true
	}
	return m.At(name, j.GPUType)
}

// PartOf is the GPU type of a node of Names where that has several, else "".
func (m *Map) PartOf(at int32) string {
	if kind := m.Kinds[m.sizes[at].Type]; kind.MixedTypes {
		return kind.GPUType
	}
	return ""
}

// tell is the kind of each part, -1 beyond MaxTypes of them: then not all are distinguished.
func (m *Map) tell(parts []part) (kinds []int32, told bool) {
	kinds, told = make([]int32, len(parts)), true
	m.Kinds, m.largest = nil, nil
	all := map[string]int32{}
	for _, others := range []bool{false, true} {
		last := -1 // the node before: most often of the same kind
		for i := range parts {
			n := parts[i].Node
			if others != (parts[i].gpus == 0) {
				continue
			}
			before := last
			if last = i; before >= 0 && n.Alike(parts[before].Node) {
				kinds[i] = kinds[before]
				continue
			}
			gpuType := parts[i].gpuType
			if n.MixedTypes {
				gpuType = "\x00" + gpuType
			}
			features, partitions := m.counted(n.Features), m.counted(n.Partitions)
			if n.Headroom() {
				gpuType = "\x01" + gpuType
			}
			key := gpuType + "\x00" + strings.Join(slices.Sorted(slices.Values(features)), ",") + "\x00" + strings.Join(partitions, ",")
			kind, known := all[key]
			switch {
			case !known && len(all) == placement.MaxTypes:
				kind, told = -1, false
			case !known:
				kind = int32(len(all))
				all[key] = kind
				one := n
				if len(features) < len(n.Features) || len(partitions) < len(n.Partitions) || n.MixedTypes {
					one = &cluster.Node{}
					*one = *n
					one.Features, one.Partitions, one.GPUType, one.GPUs, one.GPUsUsed = features, partitions, parts[i].gpuType, parts[i].gpus, parts[i].used
				}
				m.Kinds, m.largest = append(m.Kinds, one), append(m.largest, placement.Amount{})
			}
			kinds[i] = kind
		}
	}
	return kinds, told
}

// counted are those of a node's features or partitions that make kinds.
func (m *Map) counted(names []string) []string {
	if m.ignored == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(f string) bool { return m.ignored[f] })
}

// ignore finds the features, or the partitions, of nodes that no job names.
func (m *Map) ignore(s *cluster.Snapshot, named []string, of func(*cluster.Node) []string) {
	names, texts := map[string]bool{}, map[string]bool{}
	for _, f := range named {
		names[f] = true
	}
	for i := range s.Jobs {
		if list := s.Jobs[i].Partition; !texts[list] {
			texts[list] = true
			for p := range strings.SplitSeq(list, ",") {
				names[p] = true
			}
		}
		for _, text := range []string{s.Jobs[i].Features, s.Jobs[i].Prefer} {
			if text != "" && !texts[text] {
				texts[text] = true
				for f := range slurmplug.FeaturesIn(text) {
					names[f] = true
				}
			}
		}
	}
	if m.ignored == nil {
		m.ignored = map[string]bool{}
	}
	for i := range s.Nodes {
		for _, f := range of(&s.Nodes[i]) {
			if !names[f] {
				m.ignored[f] = true
			}
		}
	}
}

// Tells reports whether the kinds differ in all that a constraint names.
func (m *Map) Tells(constraint string) bool {
	for f := range slurmplug.FeaturesIn(constraint) {
		if m.ignored[f] {
			return false
		}
	}
	return true
}

// tellsPartitions reports whether the kinds differ in some partition of a list: on the nodes of the others it is not placed.
func (m *Map) tellsPartitions(list string) bool {
	for p := range strings.SplitSeq(list, ",") {
		if !m.ignored[p] {
			return true
		}
	}
	return false
}

// Largest is the most of each amount that a node of a kind has.
func (m *Map) Largest(kind int32) placement.Amount { return m.largest[kind] }

// Empty is the cluster with nothing on it and no node down.
func (m *Map) Empty() *placement.Nodes {
	empty := placement.New(placement.Packed, m.sizes)
	for _, parts := range m.parts {
		empty.Join(parts)
	}
	return empty
}

// Up is the cluster with nothing on it; nodes that start nothing are down.
func (m *Map) Up() *placement.Nodes {
	up := m.Empty()
	for i := range m.sizes {
		up.SetDown(int32(i), m.Nodes.Down(int32(i)))
	}
	return up
}

// Shares is what a running job takes of each node; nil when that is not known. Where the jobs beside
// one on several nodes do not tell (see spread), it has equal parts.
func (m *Map) Shares(j *cluster.Job) []placement.Share {
	if at, alone := m.of(j, j.NodeList); alone { // the name of one node
		return []placement.Share{{Node: at, Amount: m.held(j, at, placement.Amount{GPUs: int32(j.GPUs), CPUs: int32(j.CPUs), MemMB: j.MemMB})}}
	}
	if parts := m.spreads[j.ID]; parts != nil {
		parts = slices.Clone(parts) // none: not known
		for i := range parts {
			parts[i].Amount = m.held(j, parts[i].Node, parts[i].Amount)
		}
		return parts
	}
	hosts, err := slurmplug.ExpandHosts(j.NodeList)
	n := len(hosts)
	if err != nil || n == 0 || j.GPUs%n != 0 {
		return nil
	}
	all := make([]placement.Share, 0, n)
	for _, h := range hosts {
		at, known := m.of(j, h)
		if !known {
			return nil
		}
		all = append(all, placement.Share{Node: at, Amount: m.held(j, at, placement.Amount{
			GPUs: int32(j.GPUs / n), CPUs: int32(j.CPUs / n), MemMB: j.MemMB / int64(n),
		})})
	}
	return all
}

// Types are the kinds of nodes that a waiting job may run on; ok is false when
// its constraint is not understood, or names features that no job of the snapshot named.
func (m *Map) Types(j *cluster.Job) (types placement.Types, ok bool) {
	constraint, err := slurmplug.ParseConstraint(j.Features)
	if err != nil || strings.Contains(j.GPUType, ",") || m.ignored != nil && !(m.Tells(j.Features) && m.tellsPartitions(j.Partition)) {
		return 0, false
	}
	partitions := m.Starting(j)
	for i, n := range m.Kinds {
		if n.Headroom() && !j.Admitted {
			continue
		}
		if most := m.largest[i]; most.GPUs < int32(j.Node.GPUs) || most.CPUs < int32(j.Node.CPUs) || most.MemMB < j.Node.MemMB {
			continue
		}
		if n.In(partitions) && (j.GPUType == "" || j.GPUType == n.GPUType) && constraint.Allows(n.Features) {
			types |= 1 << uint(i)
		}
	}
	return types, true
}

// Starting are the partitions of a job's list that start it, by its size, time limit, account and QOS: all that Types depends on of these.
func (m *Map) Starting(j *cluster.Job) string { return m.limits.Starting(j.Partition, j) }

// OneType are the kinds of nodes with GPUs of one type, or without any: what a job takes of such
// a node beside its GPUs, no job on GPUs of another type takes.
func (m *Map) OneType() (types placement.Types) {
	for kind, n := range m.Kinds {
		if !n.MixedTypes {
			types |= 1 << uint(kind)
		}
	}
	return types
}

// ByGPUType are the kinds of nodes of each GPU type, in the order of the first of them.
func (m *Map) ByGPUType() (sets []placement.Types) {
	types := map[string]int{}
	for kind, n := range m.Kinds {
		t, known := types[n.GPUType]
		if !known {
			t = len(types)
			types[n.GPUType] = t
			sets = append(sets, 0)
		}
		sets[t] |= 1 << uint(kind)
	}
	return sets
}

// Request is what a waiting job asks for, on these kinds of nodes. One that a node can hold lies on one: Slurm gives each node what --gres
// asks for, so a second node would not halve that, and with --gpus it would be another task.
func (m *Map) Request(j *cluster.Job, types placement.Types) placement.Request {
	r := placement.Request{
		Types: types, Nodes: int32(j.Nodes), Whole: j.Whole, Amount: placement.Amount{GPUs: int32(j.GPUs), CPUs: int32(j.CPUs), MemMB: j.MemMB},
		TaskCPUs: int32(j.TaskCPUs), NodeCPUs: int32(j.Node.CPUs), NodeMemMB: j.Node.MemMB, OneThread: j.OneThread, MemByCPU: j.MemByCPU, BySocket: j.Node.BySocket,
		GPUCPUs: int32(j.Node.GPUCPUs),
	}
	if j.AllMem { // as much as each node has
		r.AllMem, r.MemMB = true, 0
	}
	r.Others, r.CPUsIn = m.asks(j)
	if r.Nodes > 1 {
		r.Together = m.setsOf(j, types)
		return r
	}
	r.Nodes = 0 // Slurm shows one before it has looked for a place
	for kind, size := range m.largest {
		if types.Has(int32(kind)) && r.GPUs <= size.GPUs && r.CPUs <= size.CPUs && r.MemMB <= size.MemMB {
			r.Nodes = 1
		}
	}
	if r.Nodes == 0 {
		r.Together, r.Most = m.setsOf(j, types), int32(m.limits.MostNodes(m.Starting(j), j))
	}
	return r
}

// setsOf are the sets of Together that are of several kinds. A node with several GPU types is in none.
func (m *Map) setsOf(j *cluster.Job, types placement.Types) (sets placement.Sets) {
	if types &= m.OneType(); types&(types-1) == 0 {
		return sets
	}
	n := 0
	for _, set := range m.Together(j, types) {
		if set&(set-1) != 0 && n < len(sets) {
			sets[n] = set
			n++
		}
	}
	return sets
}

// Together are the largest sets of these kinds on whose nodes together a job may lie: with GPUs of one type, and in one of its partitions.
func (m *Map) Together(j *cluster.Job, types placement.Types) (sets []placement.Types) {
	byType := m.ByGPUType()
	for p := range strings.SplitSeq(j.Partition, ",") {
		var in placement.Types
		for kind, n := range m.Kinds {
			if types.Has(int32(kind)) && slices.Contains(n.Partitions, p) {
				in |= 1 << uint(kind)
			}
		}
		for _, same := range byType {
			set := same & in
			if set == 0 || slices.ContainsFunc(sets, func(other placement.Types) bool { return set&^other == 0 }) {
				continue
			}
			sets = slices.DeleteFunc(sets, func(other placement.Types) bool { return other&^set == 0 })
			sets = append(sets, set)
		}
	}
	return sets
}
