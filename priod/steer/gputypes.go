package steer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// migSlice finds the types that are slices of a GPU (MIG), by the names of NVML and of sites: 1g.10gb, a100_1g.5gb, mig_1g_5gb. A job
// bound there would get less than it asks for.
var migSlice = regexp.MustCompile(`(?i)(^|[^0-9])[0-9]+[gc][._-][0-9]+gb|(^|[^a-z])mig([^a-z]|$)`)

// Unsteerable says, for each GPU type of the nodes, why no job can be bound to it; "" when jobs can, to those of its nodes that have its
// feature. lacking names its other nodes. Nodes with several types count for none.
func (set *Settings) Unsteerable(nodes []cluster.Node) (why map[string]string, lacking map[string][]string) {
	why, lacking = map[string]string{}, map[string][]string{}
	found, unfit := map[string]bool{}, map[string]string{}
	lacks := false // the node before lacks its feature
	for i := range nodes {
		n := &nodes[i]
		if i > 0 && !lacks && n.Alike(&nodes[i-1]) {
			continue
		}
		lacks = false
		t, f := n.GPUType, set.Feature(n.GPUType)
		if t == "" || n.MixedTypes || n.GPUs == 0 {
			continue
		}
		problem, seen := unfit[t]
		if !seen {
			problem = whyUnfit(t, f)
			unfit[t] = problem
		}
		switch {
		case problem != "":
			why[t] = problem
		case !slices.Contains(n.Features, f):
			lacks, lacking[t] = true, append(lacking[t], n.Name)
		default:
			found[t], why[t] = true, ""
		}
	}
	for t := range lacking {
		if !found[t] {
			why[t] = "none of its nodes has the feature " + set.Feature(t)
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if i > 0 && n.Alike(&nodes[i-1]) {
			continue
		}
		for t := range why {
			if why[t] == "" && n.GPUs > 0 && (n.GPUType != t || n.MixedTypes) && slices.Contains(n.Features, set.Feature(t)) {
				why[t] = fmt.Sprintf("node %s has the feature %s and other GPUs", n.Name, set.Feature(t))
			}
		}
	}
	return why, lacking
}

// whyUnfit says why no job can be bound to a GPU type by this feature, on any node; "" when jobs can.
func whyUnfit(gpuType, feature string) string {
	switch {
	case migSlice.MatchString(gpuType):
		return "it is a slice of a GPU (MIG)"
	case !slurmplug.ValidFeature(feature):
		return fmt.Sprintf("%q cannot be the name of a node feature", feature)
	}
	return ""
}

// Lacks says that some nodes have no feature, and names a few of them.
func Lacks(nodes []string, feature string) string {
	const few = 4
	text, have := slurmplug.CompactHosts(nodes[:min(len(nodes), few)]), "they have"
	switch n := len(nodes) - few; {
	case n > 0:
		text += fmt.Sprintf(" and %d more", n)
	case len(nodes) == 1:
		have = "it has"
	}
	return fmt.Sprintf("%s: %s no feature %s", text, have, feature)
}

// gpuTypes are the GPU types of the shares, by number, and how a job is bound to each. Nodes that lack the feature of their type count as
// types of their own, which follow after all others: no job is bound to them.
type gpuTypes struct {
	names      []string
	features   []string // "": no job is bound to the type by a feature
	barred     []string // why no job is; "" when jobs are, or the type has no nodes
	unlabelled []int32  // types with nodes that lack the feature
	vocabulary vocabulary
	listed     []cluster.Partition
	in         map[string]placement.Types // by partition, the types of its nodes
	partitions cluster.Partitions         // those listed
	sole       map[string]string          // SoleTypes
}

// newGPUTypes reads the types off the nodes, and notes in the plan which of them no job is bound to.
func newGPUTypes(in *inputs) gpuTypes {
	types := gpuTypes{names: in.shares.Types, vocabulary: newVocabulary(in.snapshot.Nodes), listed: in.snapshot.Partitions}
	types.partitions, types.sole = in.snapshot.PartitionsByName(), SoleTypes(in.snapshot.Nodes)
	why, lacking := in.set.Unsteerable(in.snapshot.Nodes)
	types.in = map[string]placement.Types{}
	for i := range in.snapshot.Nodes {
		n := &in.snapshot.Nodes[i]
		if t, known := slices.BinarySearch(types.names, n.GPUType); known && (i == 0 || !n.Alike(&in.snapshot.Nodes[i-1])) {
			for _, p := range n.Partitions {
				types.in[p] |= 1 << uint(t)
			}
		}
	}
	var barred, without []string
	byPartition := slices.Collect(maps.Values(types.sole))
	for i, name := range types.names {
		feature := in.set.Feature(name)
		problem, hasNodes := why[name]
		if problem != "" || !hasNodes {
			feature = ""
		}
		if problem != "" && !slices.Contains(byPartition, name) {
			barred = append(barred, fmt.Sprintf("%s: %s", name, problem))
		}
		if feature != "" && len(lacking[name]) > 0 {
			without = append(without, "on "+Lacks(lacking[name], feature))
			if len(types.names)+len(types.unlabelled) < placement.MaxTypes {
				types.unlabelled = append(types.unlabelled, int32(i))
			}
		}
		types.features, types.barred = append(types.features, feature), append(types.barred, problem)
	}
	if len(barred) > 0 {
		in.plan.Note(plan.TypesBarred, len(barred), "no job is steered to %s (priod check)", strings.Join(barred, "; "))
	}
	if len(without) > 0 {
		in.plan.Note(plan.NodesUnlabelled, len(without), "steered jobs cannot run %s (priod check)", strings.Join(without, "; "))
	}
	return types
}

// count is how many types there are, with those of the nodes that lack a feature.
func (types *gpuTypes) count() int { return len(types.names) + len(types.unlabelled) }

// ofNode is a node's type.
func (types *gpuTypes) ofNode(n *cluster.Node) (t int32, known bool) {
	i, known := slices.BinarySearch(types.names, n.GPUType)
	if n.MixedTypes { // no feature tells its GPU types apart
		return 0, false
	}
	if !known || types.features[i] == "" || slices.Contains(n.Features, types.features[i]) {
		return int32(i), known
	}
	i, known = slices.BinarySearch(types.unlabelled, int32(i))
	return int32(len(types.names) + i), known
}

// SoleTypes is, by partition, the GPU type of all its nodes with GPUs; partitions with several types, and those with
// slices of GPUs, are missing. A job is given the type by such partitions where the nodes have no feature for it.
func SoleTypes(nodes []cluster.Node) map[string]string {
	sole, several := map[string]string{}, map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		if n.GPUs == 0 || i > 0 && n.Alike(&nodes[i-1]) {
			continue
		}
		for _, p := range n.Partitions {
			was, seen := sole[p]
			several[p] = several[p] || n.GPUType == "" || n.MixedTypes || migSlice.MatchString(n.GPUType) || seen && was != n.GPUType
			sole[p] = n.GPUType
		}
	}
	maps.DeleteFunc(sole, func(p string, _ string) bool { return several[p] })
	return sole
}

// steerable are those of some types, with nodes for it in one of the partitions that it reaches, to which a job can be bound,
// given the types with nodes for it as it would ask then.
func (types *gpuTypes) steerable(j *pendingJob, some placement.Types, fit func(*request) placement.Types) placement.Types {
	for t, feature := range types.features {
		if !some.Has(int32(t)) || feature != "" && j.reach == j.own.partitions {
			continue
		}
		if ask, err := types.requestFor(j, int32(t)); err != nil || !fit(&ask).Has(int32(t)) {
			some &^= 1 << uint(t)
		}
	}
	return some
}

// findBound finds the types to which jobs are bound. Many have the same constraint.
func (types *gpuTypes) findBound(jobs []pendingJob) {
	type constraints struct{ now, own string }
	known := map[constraints]int32{}
	for i := range jobs {
		j := &jobs[i]
		if !j.ours || j.own.features == j.Features {
			j.bound = types.boundTo(j)
			continue
		}
		has := constraints{j.Features, j.own.features}
		t, found := known[has]
		if !found {
			t = types.boundTo(j)
			known[has] = t
		}
		j.bound = t
	}
}

// boundBy is the type whose feature, composed with the user's own constraint, makes this constraint; Open when there is none.
func (types *gpuTypes) boundBy(constraint, own string) int32 {
	parsed, _ := slurmplug.ParseConstraint(own)
	for t, feature := range types.features {
		if feature == "" {
			continue
		}
		whole, err := parsed.With(feature) // also where Slurm would not take all of it any more
		text, _ := types.vocabulary.with(own, feature)
		if err == nil && (whole == constraint || text == constraint) {
			return int32(t)
		}
	}
	return Open
}

// whyBarred says of the first of some types to which a job is not bound why that is; "" when there is none.
func (types *gpuTypes) whyBarred(j *pendingJob, some placement.Types) string {
	for t, why := range types.barred {
		if why != "" && some.Has(int32(t)) && types.listFor(j, int32(t)) == "" {
			return fmt.Sprintf("left open: it could run on %s, to which no job is steered: %s", types.names[t], why)
		}
	}
	return ""
}

// whyUnlabelled says of the first type on which a job could run only on nodes that lack
// the feature that this is so; "" when there is none. some are those on which it could run.
func (types *gpuTypes) whyUnlabelled(some placement.Types) string {
	for i, t := range types.unlabelled {
		if !some.Has(t) && some.Has(int32(len(types.names)+i)) {
			return fmt.Sprintf("left open: on %s it could run only on nodes without the feature %s, where steered jobs cannot run", types.names[t], types.features[t])
		}
	}
	return ""
}
