package steer

import (
	"math"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/slurmplug"
)

// reservedFor is how long, s, a node counts as in use that priod has reserved for a claim.
const reservedFor = 60

// snapshot is the nodes and the running jobs as Decide sees them, without pending jobs.
func (view *nodeView) snapshot() *Snapshot {
	snap := &Snapshot{Types: len(view.types.names), Unlabelled: view.types.unlabelled}
	view.placed = view.placed[:0]
	count := len(view.in.snapshot.Nodes)
	sizes, used := make([]placement.Node, 0, count), make([]placement.Share, 0, count)
	places := slices.Repeat([]int32{nowhere}, len(view.nodeMap.Names))
	var down []int32
	for i := range view.in.snapshot.Nodes {
		n := &view.in.snapshot.Nodes[i]
		t, known := view.types.ofNode(n)
		if !known || n.GPUs == 0 || n.MixedTypes {
			continue
		}
		at := int32(len(sizes))
		k, told := view.nodeMap.Index[n.Name]
		if told {
			places[k] = at
		}
		size := placement.Amount{GPUs: int32(n.GPUs), CPUs: int32(n.CPUs), MemMB: n.MemMB}
		sizes, view.placed = append(sizes, placement.Node{Type: t, Amount: size}), append(view.placed, n)
		if view.in.usableForClaim(n) && strings.Contains(n.State, "RESERVED") {
			used = append(used, placement.Share{Node: at, Amount: size})
			free := placement.Share{Node: at, Amount: placement.Amount{GPUs: int32(n.GPUs - n.GPUsUsed)}}
			snap.Running = append(snap.Running, Running{Shares: []placement.Share{free}, End: reservedFor})
			continue
		}
		used = append(used, placement.Share{Node: at, Amount: placement.Amount{GPUs: int32(n.GPUsUsed), CPUs: int32(n.CPUsUsed), MemMB: n.MemUsedMB}})
		if !told || view.nodeMap.Nodes.Down(k) {
			down = append(down, at)
		}
	}
	snap.Nodes = placement.New(placement.Packed, sizes)
	snap.Nodes.Take(used)
	for _, at := range down {
		snap.Nodes.SetDown(at, true)
	}
	for i := range view.in.snapshot.Jobs {
		if j := &view.in.snapshot.Jobs[i]; j.GPUs > 0 && (j.State == cluster.Running || j.State == cluster.Completing) {
			if r, known := view.running(j, i, places); known {
				snap.Running = append(snap.Running, r)
			}
		}
	}
	return snap
}

// off gives the Off of jobs: the nodes that are in no partition in which they may run, and those kept for TE jobs.
func (view *nodeView) off(snap *Snapshot) func(*pendingJob) int32 {
	type kind struct {
		list     string
		admitted bool
	}
	known := map[kind]int32{}
	return func(j *pendingJob) int32 {
		k := kind{j.reach, j.Admitted}
		off, found := known[k]
		if !found {
			var nodes []int32
			in := false
			for at, n := range view.placed {
				if at == 0 || !n.Alike(view.placed[at-1]) {
					in = n.In(k.list)
				}
				if !in || !k.admitted && n.Headroom() {
					nodes = append(nodes, int32(at))
				}
			}
			off = snap.Nodes.Refused(nodes)
			known[k] = off
		}
		return off
	}
}

// nowhere is the number of a node that Decide does not see.
const nowhere = int32(-1)

// running is what a job, the one at this place in the snapshot, holds, and until when; places has Decide's numbers of the nodes of
// nodeMap. No poll shows how the GPUs of a job lie on several nodes: they are assumed to lie evenly.
func (view *nodeView) running(j *cluster.Job, at int, places []int32) (r Running, known bool) {
	var hosts []string
	one, alone := view.nodeMap.Index[j.NodeList]
	if !alone {
		var err error
		if hosts, err = slurmplug.ExpandHosts(j.NodeList); err != nil || len(hosts) == 0 {
			return Running{}, false
		}
	}
	r.End = math.Inf(1)
	if j.TimeLimit != slurmplug.Unlimited {
		r.End = max(j.Start.Add(j.TimeLimit).Sub(view.in.snapshot.At).Seconds(), 0)
	}
	if alone && places[one] != nowhere {
		r.Shares = []placement.Share{{Node: places[one], Amount: placement.Amount{GPUs: int32(j.GPUs)}}}
	}
	for k, h := range hosts {
		on, known := view.nodeMap.Index[h]
		if !known || places[on] == nowhere {
			continue
		}
		gpus := j.GPUs / len(hosts)
		if k < j.GPUs%len(hosts) {
			gpus++
		}
		r.Shares = append(r.Shares, placement.Share{Node: places[on], Amount: placement.Amount{GPUs: int32(gpus)}})
	}
	r.Sure = r.End
	if t, known := slices.BinarySearch(view.types.names, j.GPUType); known {
		if share := view.in.shares.Of(j, at); share != nil && !math.IsInf(share.Run[t], 1) {
			left := share.Run[t] + workLeft(share.Beyond)/share.Speed[t]
			r.End = min(r.End, left)
			r.Sure = min(r.Sure, left-1/share.Speed[t]) // a second of work counts as left in any case
		}
	}
	if j.Start.After(view.in.snapshot.At) { // it does not get on yet
		r.Sure = 0
	}
	return r, true
}

// workLeft is the work, s, that is taken to be left, beside the last second, of a job that has done so much beyond what it said: a second,
// and twice as much each time that it outlives that. Until then it is known when it ends (prediction correction: Tsafrir, Etsion and
// Feitelson, TPDS 2007).
func workLeft(beyond float64) float64 {
	left := -beyond
	for more := 1.0; left < 0; more *= 2 {
		left += more
	}
	return left
}
