package steer

import (
	"cmp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// taskGroup is the tasks of one record that go to one type.
type taskGroup struct {
	to    int32
	why   string
	tasks []int32
	ask   request // to write
}

// bind writes what was decided about the candidates of one record. Those with a claim
// stay as they are: their places were found by the constraint that they have.
func (st *Steered) bind(record []candidate) {
	j := &st.in.jobs[record[0].at]
	claimed := func(c *candidate) bool { return st.in.history.Claiming[c.id] || st.in.history.Claiming[j.ID] }
	whole := j.Tasks == "" || record[0].tasks == j.TaskCount // all that the record has goes to one type
	var all []*taskGroup
	byType := map[int32]*taskGroup{}
	for i := range record {
		c := &record[i]
		to := c.verdict.Type
		whole = whole && to == record[0].verdict.Type && !claimed(c)
		if claimed(c) {
			continue
		}
		if byType[to] == nil {
			byType[to] = &taskGroup{to: to, why: cmp.Or(c.excluded, c.state.barred, string(c.verdict.Back), string(c.verdict.Why))}
			all = append(all, byType[to])
		}
		byType[to].tasks = append(byType[to].tasks, c.id.Task)
	}
	var changed []*taskGroup
	tasks := 0
	for _, g := range all {
		if ask, ok := st.requestFor(record[0].at, g.to); ok {
			g.ask, changed, tasks = ask, append(changed, g), tasks+len(g.tasks)
		}
	}
	for i, g := range changed {
		if whole {
			st.write(j, j.Tasks, false, g)
			continue
		}
		// What is written for all tasks that are left in a record, Slurm writes into the record itself, and the user's own request, known only of
		// the tasks, is lost: one task waits for the next cycle.
		if i == len(changed)-1 && tasks == j.TaskCount {
			g.tasks = g.tasks[:len(g.tasks)-1]
		}
		if len(g.tasks) > 0 {
			st.write(j, slurmplug.CompactTasks(g.tasks), true, g)
		}
	}
}

// requestFor is what binds a job to a type, or to none; ok is false when it asks for that already or nothing can be written.
func (st *Steered) requestFor(at int, t int32) (ask request, ok bool) {
	j := &st.in.jobs[at]
	if t != Open && j.bound == t {
		return ask, false
	}
	ask, err := st.types.requestFor(j, t)
	if err != nil && t == Open {
		st.in.plan.Decisions[at].Steer, st.in.plan.Decisions[at].Choices.GPUType = err.Error(), nil
	}
	return ask, err == nil && ask != requestOf(j.Job)
}

// open takes the type off a job, by its place in the plan.
func (st *Steered) open(at int, why string) {
	if ask, ok := st.requestFor(at, Open); ok {
		j := &st.in.jobs[at]
		st.write(j, j.Tasks, false, &taskGroup{to: Open, why: why, ask: ask})
	}
}

// write adds the writes for a record, or for part of its tasks, unless there are too many.
func (st *Steered) write(j *pendingJob, tasks string, part bool, g *taskGroup) {
	if !st.quota.Take() {
		return
	}
	fields, ids := fieldsOf(j.Job, st.in.history), []cluster.JobID(nil)
	for i := range fields {
		f := &fields[i]
		if f.Now == g.ask.of(f.Lever) {
			continue
		}
		a := plan.Change(j.Job, f, g.ask.of(f.Lever), "steering: "+g.why)
		if part {
			a = a.OfTasks(tasks)
		}
		st.Actions, st.bindsTo, ids = append(st.Actions, a), append(st.bindsTo, g.to), a.Jobs()
	}
	if !part {
		ids = firstTasks(j.Job, st.nodes.tasksAtOnce(j.Job))
	}
	for _, id := range ids {
		if g.to == Open {
			st.memory.of(id).openedAt = st.in.snapshot.At
		}
	}
}
