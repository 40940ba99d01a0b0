package allocate

import (
	"slices"
	"strings"

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
	for _, e := range l.jobs {
		if e.Time != nil {
			e.Time = l.reindex(e.Time, old)
		}
		e.Promised = l.reindex(e.Promised, old)
		if e.storedFits != nil {
			mask := make([]bool, len(types))
			for i, t := range old {
				if at, known := slices.BinarySearch(types, t); known {
					mask[at] = e.storedFits[i]
				}
			}
			e.storedFits = mask
		}
		e.profile, e.excluded = nil, 0
	}
	clear(l.profiles)
	clear(l.fits)
	l.warm, l.dirty = Warm{}, true
}

// reindex returns values that are in the order of other types in the order of the
// ledger's types: 0 for a type that those lack.
func (l *Ledger) reindex(values []float64, types []string) []float64 {
	to := make([]float64, len(l.shares.Types))
	for i, t := range types {
		if at, known := slices.BinarySearch(l.shares.Types, t); known && i < len(values) {
			to[at] = values[i]
		}
	}
	return to
}

// nodeKey is what the ledger uses of a node: when no node's key changes, types, GPUs
// and fits stay as they are.
type nodeKey struct {
	name, gpuType, features, partitions string
	gpus, cpus                          int
	memMB                               int64
	usable                              bool
}

// scanNodes finds the GPU types and how many GPUs of each can be used. When a node's
// key has changed, where jobs fit is worked out again.
func (l *Ledger) scanNodes(s *cluster.Snapshot) {
	same := len(l.seenNodes) == len(s.Nodes)
	for len(l.seenNodes) < len(s.Nodes) {
		l.seenNodes = append(l.seenNodes, nodeKey{})
	}
	l.seenNodes = l.seenNodes[:len(s.Nodes)]
	for i := range s.Nodes {
		n, old := &s.Nodes[i], &l.seenNodes[i]
		if n.Name == old.name && n.GPUType == old.gpuType && n.GPUs == old.gpus && n.CPUs == old.cpus && n.MemMB == old.memMB &&
			n.Usable == old.usable && isJoined(old.features, n.Features) && isJoined(old.partitions, n.Partitions) {
			continue
		}
		same = false
		*old = nodeKey{
			name: n.Name, gpuType: n.GPUType, gpus: n.GPUs, cpus: n.CPUs, memMB: n.MemMB, usable: n.Usable,
			features: strings.Join(n.Features, ","), partitions: strings.Join(n.Partitions, ","),
		}
	}
	if same {
		return
	}
	var types []string
	for i := range s.Nodes {
		if n := &s.Nodes[i]; l.countsNode(n) {
			types = append(types, n.GPUType)
		}
	}
	slices.Sort(types)
	types = slices.Compact(types)
	if len(types) > placement.MaxTypes {
		types = types[:placement.MaxTypes]
	}
	l.setTypes(types)
	clear(l.fits)
	clear(l.profiles)
	for _, e := range l.jobs {
		e.profile = nil
	}
	gpus := make([]int, len(types))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if t, known := slices.BinarySearch(types, n.GPUType); known && l.countsNode(n) && n.Usable {
			gpus[t] += n.GPUs
		}
	}
	l.dirty = l.dirty || !slices.Equal(gpus, l.gpus)
	l.gpus = gpus
}

// isJoined tells whether text is the list, joined by commas.
func isJoined(text string, list []string) bool {
	for i, s := range list {
		if i > 0 {
			if text == "" || text[0] != ',' {
				return false
			}
			text = text[1:]
		}
		if !strings.HasPrefix(text, s) {
			return false
		}
		text = text[len(s):]
	}
	return text == ""
}

// countsNode tells whether a node's GPUs are divided: all of one named type, and in a
// partition that priod ranks.
func (l *Ledger) countsNode(n *cluster.Node) bool {
	return n.GPUs > 0 && n.GPUType != "" && !n.MixedTypes &&
		(len(n.Partitions) == 0 || slices.ContainsFunc(n.Partitions, l.set.Ranking.Ranks))
}
