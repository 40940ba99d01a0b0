package plan

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// The one way in which features write into waiting jobs: a feature makes a Change of a field, within its Quota, and Ask puts
// them into the plan; Hear takes in what became of it. Whose a value is, and why a field is left alone, cluster.History says.

// Change is the write that makes another value of a field of a job's request.
func Change(j *cluster.Job, f *cluster.Field, to slurmplug.Value, reason string) Action {
	return Action{Job: j.ID, Tasks: j.Tasks, Lever: f.Lever, Before: f.Now, After: to, Was: f.Own, Reason: reason}
}

// OfTasks is the write into some of an array's tasks.
func (a Action) OfTasks(tasks string) Action {
	a.Tasks, a.Part = tasks, true
	return a
}

// Quota is how many writes a feature may make in a cycle.
type Quota struct {
	Most  int // 0: any number
	Used  int
	Later int // that wait for the next cycle
}

// Take uses one of them; false when none is left.
func (q *Quota) Take() bool {
	if q.Most > 0 && q.Used >= q.Most {
		q.Later++
		return false
	}
	q.Used++
	return true
}

// Note notes in the plan how many it left over.
func (q *Quota) Note(p *Plan, kind NoteKind, what string) {
	if q.Later > 0 {
		p.Note(kind, q.Later, "%d %s wait for the next cycle: the writes of one cycle are used up", q.Later, what)
	}
}

// Ask puts writes into jobs' requests before all that rank: those could let the jobs start as they are.
func (p *Plan) Ask(actions []Action) { p.Actions = append(actions, p.Actions...) }

// Hear takes in what became of writes, because the next snapshot need not show it: what jobs hold now, and what Slurm
// refused.
func Hear(c *Cycle) {
	h, at := c.History, c.Snapshot.At
	for i := range c.Outcomes {
		o := &c.Outcomes[i]
		for _, id := range o.Jobs() {
			hearOf(h, id, o, at)
			switch {
			case o.Lever.Ranks():
				hearPlace(c, id, o)
			case o.Status == slurmplug.Applied || o.Status == slurmplug.Unknown:
				h.Asked(id, o.Lever, o.Was, o.After, o.Status == slurmplug.Applied, at)
			}
		}
	}
}

// hearOf takes in of one write into a job what outlives the values: a refusal, and what sizes were for.
func hearOf(h *cluster.History, id cluster.JobID, o *Outcome, at time.Time) {
	switch {
	case o.Status == slurmplug.Refused:
		h.Refuse(id, o.Lever, o.Message, at)
	case o.Lever == slurmplug.Size && o.Status != slurmplug.Raced && o.Status != slurmplug.Postponed:
		h.Sized(id, o.Reason == SizeRests, o.Reason == SizeAhead, at)
	}
}

// hearPlace takes in a write into a job's place in the order.
func hearPlace(c *Cycle, id cluster.JobID, o *Outcome) {
	h := c.History
	h.Shown(id, o.Before.Number(), c.Snapshot.At)
	w, was := Effect(o.Action, c.Snapshot.At), h.Written[id]
	switch o.Status {
	case slurmplug.Applied:
		h.Wrote(id, w, was.Value != 0 && o.Before == slurmplug.Number(0))
	case slurmplug.Unknown:
		h.Try(id, w)
	}
}
