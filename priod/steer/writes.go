package steer

import (
	"cmp"
	"errors"

	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// taskGroup is the tasks of one record that go to one type.
type taskGroup struct {
	to    int32
	why   string
	tasks []int32
	text  string // the constraint to write
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
		if text, ok := st.constraintFor(record[0].at, g.to); ok {
			g.text, changed, tasks = text, append(changed, g), tasks+len(g.tasks)
		}
	}
	for i, g := range changed {
		if whole {
			st.write(j, j.Tasks, false, g)
			continue
		}
		// What is written for all tasks that are left in a record, Slurm writes into the
		// record itself, and the user's own constraint, known only of the tasks, is lost:
		// one task waits for the next cycle.
		if i == len(changed)-1 && tasks == j.TaskCount {
			g.tasks = g.tasks[:len(g.tasks)-1]
		}
		if len(g.tasks) > 0 {
			st.write(j, slurmplug.CompactTasks(g.tasks), true, g)
		}
	}
}

// constraintFor is the constraint that binds a job to a type, or to none; ok is false when
// it has that already or nothing can be written.
func (st *Steered) constraintFor(at int, t int32) (text string, ok bool) {
	j := &st.in.jobs[at]
	var err error
	switch {
	case t == Open:
		if text, err = st.userConstraint(j); err != nil {
			st.in.plan.Decisions[at].Steer, st.in.plan.Decisions[at].Choices.GPUType = err.Error(), nil
		}
	case j.bound == t:
		return "", false
	default:
		text, err = st.types.vocabulary.with(j.own, st.types.features[t])
	}
	return text, err == nil && text != j.Features
}

// open takes the type off a job, by its place in the plan.
func (st *Steered) open(at int, why string) {
	if text, ok := st.constraintFor(at, Open); ok {
		j := &st.in.jobs[at]
		st.write(j, j.Tasks, false, &taskGroup{to: Open, why: why, text: text})
	}
}

// userConstraint is what can be put back of the constraint that a job's user wrote, or
// why nothing can. A constraint that priod has not written stays as it is.
func (st *Steered) userConstraint(j *pendingJob) (text string, err error) {
	if !j.ours {
		return j.Features, nil
	}
	text, lost := st.types.vocabulary.accepted(j.own)
	if text == "" && len(lost) > 0 {
		return "", errors.New(NoFeature(lost))
	}
	return text, nil
}

// write adds a write for a record, or for part of its tasks, unless there are too many.
func (st *Steered) write(j *pendingJob, tasks string, part bool, g *taskGroup) {
	if most := st.in.set.WritesPerCycle; most > 0 && len(st.Actions) >= most {
		st.postponed++
		return
	}
	a := plan.Action{
		Job: j.ID, Tasks: tasks, Part: part, Lever: slurmplug.Features,
		Before: slurmplug.Text(j.Features), After: slurmplug.Text(g.text), Was: slurmplug.Text(j.own), Reason: "steering: " + g.why,
	}
	st.Actions, st.bindsTo = append(st.Actions, a), append(st.bindsTo, g.to)
	ids := a.Jobs()
	if !part {
		ids = firstTasks(j.Job, st.nodes.tasksAtOnce(j.Job))
	}
	for _, id := range ids {
		if g.to == Open {
			st.memory.of(id).openedAt = st.in.snapshot.At
		}
	}
}

func (st *Steered) notePostponed() {
	if st.postponed > 0 {
		st.in.plan.Note(plan.SteeringWrites, st.postponed, "%d constraints wait for the next cycle: steering.writes_per_cycle is reached", st.postponed)
	}
}
