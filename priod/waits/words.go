package waits

import (
	"fmt"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// whatShort says what of the nodes a job lacks that waits for fragmentation, and words
// about it with the placement that would fit now, and that as data.
func (w *walk) whatShort(j *cluster.Job, g *group) (what, words string, fits *plan.FitsNow) {
	if g.fits { // by number; the nodes do not lie together
		return "switches", "the free nodes are on more switches than it allows; a larger --switches count or none would let it start sooner", &plan.FitsNow{AnySwitches: true}
	}
	r := g.request
	most, nodes := w.mostOnOne(g.kinds)
	have := fmt.Sprintf("requests %s; %s on %d nodes, at most %d on one", shape(g), count(g.free, "is free", "are free"), nodes, most) + w.keptForTE(j, g)
	without := func(change func(r *placement.Request)) bool {
		relaxed := r
		relaxed.TaskCPUs, relaxed.NodeCPUs, relaxed.NodeMemMB, relaxed.MemByCPU = 0, 0, 0, false // of the size that it asks for
		change(&relaxed)
		return w.place(relaxed, g.byType)
	}
	switch noCPUs, noMem := func(r *placement.Request) { r.CPUs = 1 }, func(r *placement.Request) { r.MemMB = 1 }; {
	case without(noCPUs):
		n, enough := w.enough("CPUs", int64(r.CPUs), func(n int64) bool { return without(func(r *placement.Request) { r.CPUs = int32(n) }) })
		return "cpus", have + ", without the CPUs that it asks for" + enough, &plan.FitsNow{CPUs: n}
	case without(noMem):
		n, enough := w.enough("MB", r.MemMB, func(n int64) bool { return without(func(r *placement.Request) { r.MemMB = n }) })
		return "memory", have + ", without the memory that it asks for" + enough, &plan.FitsNow{MemMB: n}
	case without(func(r *placement.Request) { noCPUs(r); noMem(r) }):
		return "cpus-memory", have + ", without the CPUs and the memory that it asks for", nil
	case r.Whole && without(func(r *placement.Request) { r.Whole = false }):
		return "whole-node", have + ", no node is empty; it would fit now without --exclusive", &plan.FitsNow{Shared: true}
	}
	for n := max(r.Nodes, 1) + 1; n <= min(r.GPUs, int32(nodes)); n = max(n+1, n*3/2) {
		if without(func(r *placement.Request) { r.Nodes = n }) {
			return "shape", fmt.Sprintf("%s; it would fit now on %d nodes", have, n), &plan.FitsNow{Nodes: int(n)}
		}
	}
	for n := r.Nodes - 1; n > 0; n = min(n-1, n*2/3) {
		if without(func(r *placement.Request) { r.Nodes = n }) {
			return "shape", fmt.Sprintf("%s; it would fit now on %d", have, n), &plan.FitsNow{Nodes: int(n)}
		}
	}
	fits, words = w.fewer(j, g)
	return "shape", have + words, fits
}

// shape is what a job asks for, in words.
func shape(g *group) string {
	switch nodes := g.request.Nodes; {
	case nodes > 1:
		return fmt.Sprintf("%d GPUs on %d nodes", g.asks.GPUs, nodes)
	case nodes == 1 && g.asks.GPUs > 1:
		return fmt.Sprintf("%d GPUs on one node", g.asks.GPUs)
	}
	return count(g.asks.GPUs, "GPU", "GPUs")
}

// count is a number of things in words.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// keptForTE says how many GPUs are free on nodes that are kept for TE jobs, which it could use if it were one.
func (w *walk) keptForTE(j *cluster.Job, g *group) string {
	open := *j
	open.Admitted = true
	kinds, _ := w.nodes.Types(&open)
	if free := w.freeOf(kinds &^ g.kinds); free > 0 {
		return fmt.Sprintf(", %d more kept for TE jobs", free)
	}
	return ""
}

// mostOnOne is how many GPUs are free on the node of some kinds that has most, and how
// many nodes have any.
func (w *walk) mostOnOne(kinds placement.Types) (most, nodes int) {
	for i := range int32(w.nodes.Nodes.Len()) {
		if free := int(w.nodes.Nodes.FreeOn(i).GPUs); free > 0 && kinds.Has(w.nodes.Nodes.Type(i)) && !w.nodes.Nodes.Down(i) {
			most, nodes = max(most, free), nodes+1
		}
	}
	return most, nodes
}

// enough is up to how much of something a job could ask for to fit now, also in words.
func (w *walk) enough(of string, asked int64, fits func(int64) bool) (most int64, words string) {
	low, high := int64(1), asked // low fits, high does not
	if high <= low {
		return low, ""
	}
	for high-low > max(asked/64, 1) {
		if mid := (low + high) / 2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low, fmt.Sprintf("; with %d %s it would fit now", low, of)
}

// fewer is with how many GPUs, or on which other types, a job would fit now, also in words;
// nil: with none.
func (w *walk) fewer(j *cluster.Job, g *group) (fits *plan.FitsNow, words string) {
	var parts []string
	low, high := int32(0), g.request.GPUs
	for high-low > 1 {
		r, mid := g.request, (low+high)/2
		r.GPUs, r.Nodes = mid, min(r.Nodes, mid)
		r.TaskCPUs, r.NodeCPUs = 0, 0
		r.CPUs, r.MemMB = int32(int64(r.CPUs)*int64(mid)/int64(g.request.GPUs)), r.MemMB*int64(mid)/int64(g.request.GPUs)
		if w.place(r, g.byType) {
			low = mid
		} else {
			high = mid
		}
	}
	if low > 0 {
		parts = append(parts, "with "+count(int(low), "GPU", "GPUs"))
	}
	types := w.otherTypes(j, g)
	if len(types) > 0 {
		parts = append(parts, "on "+strings.Join(types, " or "))
	}
	if len(parts) == 0 {
		return nil, ""
	}
	return &plan.FitsNow{GPUs: int(low), GPUTypes: types}, "; it would fit now " + strings.Join(parts, " or ")
}

// otherTypes are the GPU types on which a job would fit now that its request rules out.
func (w *walk) otherTypes(j *cluster.Job, g *group) (names []string) {
	open := *j
	open.GPUType, open.Features = "", ""
	kinds, _ := w.nodes.Types(&open)
	for _, of := range w.kindsOf {
		of &= kinds &^ g.kinds
		name := ""
		for kind, n := range w.nodes.Kinds {
			if of.Has(int32(kind)) {
				name = n.GPUType
			}
		}
		if name != "" && name != g.asks.GPUType && w.place(w.nodes.Request(&open, of), []placement.Types{of}) {
			names = append(names, name)
		}
	}
	return names
}

// betterPlace says which place a job waits for that could start now.
func betterPlace(what string) string {
	var parts []string
	for w := range strings.SplitSeq(what, ",") {
		switch w {
		case plan.FewSwitches:
			parts = append(parts, "on more switches than it accepts so far")
		case plan.SlowNodes:
			parts = append(parts, "on slow nodes, which it avoids so far")
		}
	}
	return "it could start now " + strings.Join(parts, " or ")
}

// explain gives what of a verdict is to be told.
func (w *walk) explain(v *verdict) (what, words string, fits *plan.FitsNow) {
	what, words, fits = w.tell(v)
	if j := &w.snapshot.Jobs[v.job]; words != "" && v.cause != plan.NoNode && slurmplug.SaysDown(j.Reason) {
		words += `; its nodes are up: Slurm says "DOWN, DRAINED or reserved" while a job of another partition is ahead of it on them`
	}
	return what, words, fits
}

// tell makes the words once for all jobs that ask alike.
func (w *walk) tell(v *verdict) (what, words string, fits *plan.FitsNow) {
	j, g := &w.snapshot.Jobs[v.job], v.group
	switch v.cause {
	case plan.AtLimit:
		return v.what, "the limit " + v.what + " holds it back", nil
	case plan.Precedence:
		if v.before != (cluster.JobID{}) {
			before := v.before // the verdicts are not kept
			return "", fmt.Sprintf("%s for it; job %s is ahead of it", count(g.free, "GPU is free", "GPUs are free"), before), &plan.FitsNow{Before: &before}
		}
		return "", fmt.Sprintf("%s for it; jobs ahead of it get them", count(g.free, "GPU is free", "GPUs are free")), nil
	case plan.Locality:
		return v.what, betterPlace(v.what), nil
	case plan.NoNode:
		if g != nil {
			return "none", "no node matches its request", nil
		}
		if _, nodes, more := strings.Cut(j.Reason, ","); more && slurmplug.NotAvailable(j.Reason) { // "UnavailableNodes:n[1-2]", "May be reserved for other job"
			return v.what, strings.TrimSpace(strings.ReplaceAll(nodes, "_", " ")), nil
		}
	case plan.Fragmentation, plan.Capacity:
		text, known := g.told[v.cause]
		switch {
		case !known && v.cause == plan.Capacity:
			fits, words := w.fewer(j, g)
			text = told{fmt.Sprintf("requests %s; %s", shape(g), count(g.free, "is free", "are free")) + w.keptForTE(j, g) + words, fits}
			g.told[v.cause] = text
		case !known:
			g.what, text.words, text.fits = w.whatShort(j, g)
			g.told[v.cause] = text
		}
		if v.cause == plan.Fragmentation {
			return g.what, text.words, text.fits
		}
		return "", text.words, text.fits
	}
	return v.what, "", nil
}
