package profile

import (
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/profile/curve"
)

// Offer is what a partition has of one GPU type.
type Offer struct {
	GPUType string
	Share   float64 // CPUs for each GPU on the smallest of its nodes
	MemMB   int64   // memory for each GPU there
	Largest int     // GPUs of its largest node
	CPUs    int     // of the node with the most CPUs among those with enough GPUs
	NodeMB  int64   // likewise
	Free    int     // CPUs free on one such node with enough free GPUs
}

// Offers lists, by name, the GPU types of a partition's nodes that are up, for
// a job of so many GPUs on one node. Nodes with several types, or with GPUs of
// no type, are left out: a curve has to name a type.
func Offers(nodes []cluster.Node, partitions []string, gpus int) []Offer {
	var all []Offer
	for i := range nodes {
		n := &nodes[i]
		if n.GPUs == 0 || n.GPUType == "" || n.MixedTypes || !n.Usable || strings.Contains(n.State, "RESERVED") ||
			!slices.ContainsFunc(partitions, func(p string) bool { return slices.Contains(n.Partitions, p) }) {
			continue
		}
		at, found := slices.BinarySearchFunc(all, n.GPUType, func(o Offer, t string) int { return strings.Compare(o.GPUType, t) })
		share, mem := float64(n.CPUs)/float64(n.GPUs), n.MemMB/int64(n.GPUs)
		if !found {
			all = slices.Insert(all, at, Offer{GPUType: n.GPUType, Share: share, MemMB: mem})
		}
		o := &all[at]
		o.Share, o.MemMB, o.Largest = min(o.Share, share), min(o.MemMB, mem), max(o.Largest, n.GPUs)
		if n.GPUs < gpus {
			continue
		}
		o.CPUs, o.NodeMB = max(o.CPUs, n.CPUs), max(o.NodeMB, n.MemMB)
		if n.GPUs-n.GPUsUsed >= gpus {
			o.Free = max(o.Free, n.CPUs-n.CPUsUsed)
		}
	}
	return all
}

// usual is how far beyond the proportional share a profile looks where
// none is named: Synergy's jobs use up to four times theirs.
const usual = 4

// Choose says on which types, and among which CPUs for each GPU, to measure.
// names and cpus are what the user asked for, empty for all and for the usual.
func Choose(offers []Offer, names []string, cpus []int, gpus int) ([]Type, error) {
	known := make([]string, len(offers))
	for i, o := range offers {
		known[i] = o.GPUType
	}
	if len(offers) == 0 {
		return nil, fmt.Errorf("no node that is up has GPUs of a type that Slurm knows: see sinfo -o '%%N %%G %%T', and choose another --partition")
	}
	all := len(names) == 0
	if all {
		names = known
	}
	var types []Type
	for _, name := range names {
		i := slices.Index(known, name)
		switch {
		case i < 0:
			return nil, fmt.Errorf("GPU type %q: no node that is up has it; there are %s", name, strings.Join(known, ", "))
		case slices.ContainsFunc(types, func(t Type) bool { return t.Name == name }):
			return nil, fmt.Errorf("GPU type %q stands twice", name)
		}
		o := offers[i]
		if o.Largest < gpus {
			if all {
				continue
			}
			return nil, fmt.Errorf("GPU type %q: no node has %d of them; the largest has %d", name, gpus, o.Largest)
		}
		t := Type{Name: name, Share: o.Share, ShareMB: o.MemMB, MostMB: o.NodeMB / int64(gpus), Candidates: cpus}
		most, share := o.CPUs/gpus, max(1, int(o.Share))
		if most < 1 {
			return nil, fmt.Errorf("GPU type %q: its nodes have fewer CPUs than the job has GPUs", name)
		}
		if len(cpus) == 0 {
			want := min(usual*share, most)
			if o.Free >= share*gpus { // rather fewer now than more later
				want = min(want, o.Free/gpus)
			}
			t.Candidates = curve.Candidates(want, min(share, want))
		} else if slices.Max(cpus) > most {
			return nil, fmt.Errorf("--cpus %d for each of %d GPUs: no %s node has so many; at most %d", slices.Max(cpus), gpus, name, most)
		}
		types = append(types, t)
	}
	if len(types) == 0 {
		return nil, fmt.Errorf("no node has %d GPUs of one type", gpus)
	}
	return types, nil
}
