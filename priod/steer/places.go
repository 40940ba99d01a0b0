package steer

import (
	"fmt"
	"maps"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// maxLookAgain is for how many jobs whose Place is known one cycle reads it again.
const maxLookAgain = 10

// demand is a job with what its Place says that it asks for. A job of one task is taken to lie on one node where one can hold it:
// --ntasks=1 and no --ntasks look the same, and with the former Slurm would not spread it.
func (view *nodeView) demand(j *pendingJob, place *cluster.Place) cluster.Job {
	asks := j.own.asked(j.Job)
	d := demand(&asks, &place.Bounds)
	whole := cluster.Least{GPUs: d.GPUs, CPUs: d.CPUs, MemMB: d.MemMB}
	if place.Bounds.Tasks == 1 && d.Nodes == 1 && view.oneNodeHas(j, whole) {
		d.Node = whole
	}
	return d
}

// demand is a job with the nodes, GPUs, CPUs and memory that follow from its bounds.
func demand(j *cluster.Job, b *slurmplug.Bounds) cluster.Job {
	d := *j
	if d.Nodes = max(d.Nodes, 1); b.TasksPerNode > 0 {
		d.Nodes = max(d.Nodes, (b.Tasks+b.TasksPerNode-1)/b.TasksPerNode)
	}
	if j.Node.GPUs > 0 && j.GPUs == j.Node.GPUs*max(j.Nodes, 1) { // it asks for GPUs by node
		d.GPUs = j.Node.GPUs * d.Nodes
	}
	d.CPUs = max(j.CPUs, b.CPUs*d.Nodes, b.CPUsPerGPU*d.GPUs)
	if b.Most > 0 {
		d.Node.GPUs = max(d.Node.GPUs, (d.GPUs+b.Most-1)/b.Most)
		d.Node.CPUs = (d.CPUs + b.Most - 1) / b.Most
	}
	d.Node.CPUs = max(d.Node.CPUs, b.CPUs, b.CPUsPerGPU*d.Node.GPUs)
	d.Node.MemMB = b.MemMB
	return d
}

// Unseen are the jobs of which Vet has to know the Place, by Slurm's own id: those that
// are to be bound, and some whose Place was read long ago.
func (st *Steered) Unseen() map[cluster.JobID]uint32 {
	ask := maps.Clone(st.lookAgain)
	if ask == nil {
		ask = map[cluster.JobID]uint32{}
	}
	for i := range st.Actions {
		if st.bindsTo[i] != Open {
			ask[st.Actions[i].Job] = 0
		}
	}
	for i := range st.in.jobs {
		j := st.in.jobs[i].Job
		if _, asked := ask[j.ID]; asked {
			ask[j.ID] = j.RawID
		}
	}
	return ask
}

// Vet drops the writes that the Places of their jobs rule out, and those of jobs without
// one. The next cycles know the Places, and read them again after Rule.Cycles cycles.
func (st *Steered) Vet(places map[cluster.JobID]cluster.Place) {
	for i := range st.candidates {
		c := &st.candidates[i]
		record := st.in.jobs[c.at].ID
		if place, known := places[record]; known && !st.namedBySize(place.Required, c.id, record) {
			c.state.place, c.state.placeGood = place, st.in.set.Rule.Cycles+1
		}
	}
	var at cluster.JobMap[int] // of in.jobs
	for i := range st.in.jobs {
		at.Set(st.in.jobs[i].ID, i)
	}
	kept := st.Actions[:0]
	for i, a := range st.Actions {
		place, known := places[a.Job]
		switch {
		case st.bindsTo[i] == Open:
			kept = append(kept, a)
		case known:
			if a, ok := st.vet(at.Get(a.Job), a, st.bindsTo[i], &place); ok {
				kept = append(kept, a)
			}
		}
	}
	st.Actions = kept
}

// vet returns a write that binds a job to a type when the job's Place allows it. Else it returns the write that takes back the type that
// the job has, where the Place rules out that one, too.
func (st *Steered) vet(at int, a plan.Action, t int32, place *cluster.Place) (plan.Action, bool) {
	j, decision := &st.in.jobs[at], &st.in.plan.Decisions[at]
	if st.namedBySize(place.Required, append(a.Jobs(), a.Job)...) {
		decision.Steer, decision.Choices.GPUType = sizeNamesNodes, nil
		return a, false
	}
	why := st.ruledOutBy(place, j, t)
	if why == "" {
		return a, true
	}
	decision.Steer, decision.Choices.GPUType = why, nil
	if !j.ours {
		return a, false
	}
	if j.bound != Open && st.ruledOutBy(place, j, j.bound) == "" {
		return a, false
	}
	back, writable := st.types.userRequest(j)
	a.After, a.Reason = back.of(a.Lever), "steering: "+why
	return a, writable == nil && a.After != a.Before
}

// ruledOutBy says why a job's Place keeps it off a type; "" when it does not.
func (st *Steered) ruledOutBy(place *cluster.Place, j *pendingJob, t int32) string {
	asks, ask := st.nodes.demand(j, place), j.own
	if st.types.features[t] == "" || !st.types.has(j.own.partitions, t) {
		ask.partitions = st.types.listFor(j, t)
	}
	switch {
	case place.Required != "":
		return namesNodes
	case st.nodes.fit(&asks, &ask, place.Excluded).Has(t):
		return ""
	case place.Excluded == "":
		return fmt.Sprintf("its requirements leave no place for it on %s", st.types.names[t])
	}
	return fmt.Sprintf("it excludes nodes (%.80s), and the others have no place for it on %s", place.Excluded, st.types.names[t])
}

// namedBySize reports whether the nodes that a job names are those for which priod made
// its size. That says nothing about where its user wants it.
func (st *Steered) namedBySize(hosts string, ids ...cluster.JobID) bool {
	return hosts != "" && slices.ContainsFunc(ids, func(id cluster.JobID) bool {
		r := st.in.history.Requests[id][slurmplug.Size]
		return slices.ContainsFunc(append(slices.Clone(r.Older), r.Value), func(v slurmplug.Value) bool { return v.Size().Nodes == hosts })
	})
}
