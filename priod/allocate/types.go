package allocate

import (
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
)

// setTypes changes the GPU types. Promises of a type that no longer exists are dropped.
func (l *Ledger) setTypes(types []string) {
	if slices.Equal(types, l.shares.Types) {
		return
	}
	old := l.shares.Types
	l.shares.Types = types
	for _, e := range l.jobs.All() {
		if e.Time != nil {
			e.Time = reindex(e.Time, old, types)
		}
		e.Promised = reindex(e.Promised, old, types)
		if e.storedFits != nil {
			e.storedFits = reindex(e.storedFits, old, types)
		}
		e.profile, e.excluded = nil, 0
	}
	clear(l.profiles)
	l.fits = cluster.ByRequest[[]bool]{}
	l.warm, l.dirty = Warm{}, true
}

// reindex returns values that are in the order of some types in the order of others,
// sorted: 0 for a type that the former lack.
func reindex[T any](values []T, from, to []string) []T {
	out := make([]T, len(to))
	for i, t := range from {
		if at, known := slices.BinarySearch(to, t); known && i < len(values) {
			out[at] = values[i]
		}
	}
	return out
}

// nodeKey is what the ledger uses of a node: when no node's key changes, types, GPUs
// and fits stay as they are.
type nodeKey struct {
	name, gpuType        string
	gpus, cpus           int
	memMB                int64
	usable               bool
	features, partitions []string
}

func (k nodeKey) isOf(n cluster.Node) bool {
	return k.name == n.Name && k.gpuType == n.GPUType && k.gpus == n.GPUs && k.cpus == n.CPUs && k.memMB == n.MemMB &&
		k.usable == n.Usable && slices.Equal(k.features, n.Features) && slices.Equal(k.partitions, n.Partitions)
}

// scanNodes finds the GPU types and how many GPUs of each can be used. When a node's
// key has changed, where jobs fit is worked out again.
func (l *Ledger) scanNodes(s *cluster.Snapshot) {
	if slices.EqualFunc(l.seenNodes, s.Nodes, nodeKey.isOf) {
		return
	}
	l.seenNodes = l.seenNodes[:0]
	var types []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		l.seenNodes = append(l.seenNodes, nodeKey{n.Name, n.GPUType, n.GPUs, n.CPUs, n.MemMB, n.Usable, slices.Clone(n.Features), slices.Clone(n.Partitions)})
		if l.countsNode(n) {
			types = append(types, n.GPUType)
		}
	}
	slices.Sort(types)
	types = slices.Compact(types)
	types = types[:min(len(types), placement.MaxTypes)]
	l.setTypes(types)
	l.fits = cluster.ByRequest[[]bool]{}
	clear(l.profiles)
	for _, e := range l.jobs.All() {
		e.profile = nil
	}
	gpus, pools := make([]int, len(types)), l.findPools(s.Nodes)
	for i := range pools {
		gpus[pools[i].gpuType] += pools[i].gpus
	}
	l.dirty = l.dirty || !slices.Equal(gpus, l.gpus) || !slices.EqualFunc(pools, l.pools, samePool)
	l.gpus, l.pools = gpus, pools
}

// countsNode reports whether a node's GPUs are divided: all of one named type, and in a
// partition that priod ranks.
func (l *Ledger) countsNode(n *cluster.Node) bool {
	return n.GPUs > 0 && n.GPUType != "" && !n.MixedTypes &&
		(len(n.Partitions) == 0 || slices.ContainsFunc(n.Partitions, l.set.Ranking.Ranks))
}
