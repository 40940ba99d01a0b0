package undo

import (
	"encoding/json"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Change is a record of the journal: what priod was about to write into a job.
type Change struct {
	Time   time.Time         `json:"time"`
	Job    cluster.JobID     `json:"job"`
	Tasks  string            `json:"tasks,omitempty"` // of an unsplit array
	Part   bool              `json:"part,omitempty"`  // Tasks are only some of the record's
	User   string            `json:"user"`
	Submit time.Time         `json:"submit,omitzero"` // with User: tells the job from a later one of the same id
	Lever  slurmplug.Lever   `json:"lever"`
	Was    slurmplug.Value   `json:"was"`              // before priod first touched it: what an undo puts back
	From   slurmplug.Value   `json:"from"`             // just before this change
	To     slurmplug.Value   `json:"to"`               // sent, perhaps not arrived
	Sent   []slurmplug.Value `json:"sent,omitempty"`   // into a request, between Was and From
	Reason string            `json:"reason,omitempty"` // of a size, and of nodes to be refused, by a feature's plan

	seq int // place in the file
}

// UnmarshalJSON reads a line: the lever says what its values are.
func (c *Change) UnmarshalJSON(line []byte) error {
	type fields Change // without methods
	if err := json.Unmarshal(line, (*fields)(c)); err != nil {
		return err
	}
	for _, v := range []*slurmplug.Value{&c.Was, &c.From, &c.To} {
		*v = c.Lever.Value(v.String())
	}
	for i, v := range c.Sent {
		c.Sent[i] = c.Lever.Value(v.String())
	}
	return nil
}

// Jobs are the jobs that the change reaches.
func (c *Change) Jobs() []cluster.JobID {
	return plan.Action{Job: c.Job, Tasks: c.Tasks, Part: c.Part}.Jobs()
}

// reaches reports whether the change was one to the record that a job, or a task, was part
// of. Tasks that had left their array before are not.
func (c *Change) reaches(id cluster.JobID) bool {
	if c.Job == id || id.Task == slurmplug.NoTask {
		return c.Job.ID == id.ID
	}
	if c.Job.ID != id.ID || c.Job.Task != slurmplug.NoTask {
		return false
	}
	has, err := slurmplug.HasTask(c.Tasks, id.Task)
	return has || err != nil // not known: Tasks is cut off
}

// Of reports whether j is the job that was changed, and not a later one with the
// same id, as far as that can be told.
func (c *Change) Of(j *cluster.Job) bool {
	if j.State == cluster.Unread {
		return true // nothing says that it is another job
	}
	if c.Submit.IsZero() { // not known when it was written
		return c.User == "" || cluster.SameUser(c.User, j.User)
	}
	return !j.Replaces(c.User, c.Submit)
}

// written is the change as cluster.History remembers it: it may have arrived.
func (c *Change) written() cluster.Written {
	return cluster.Written{Lever: c.Lever, Value: c.From.Number(), Tried: c.To.Number(), At: c.Time}
}

// requested is the change as cluster.History remembers it: it may have arrived.
func (c *Change) requested() cluster.Requested {
	r := cluster.Requested{Was: c.Was, Older: c.Sent, Value: c.From}
	return r.Next(c.To, false, c.Time)
}

// next is the line of a further write into the request that the change is about.
func (c *Change) next(from, to slurmplug.Value, at time.Time) *Change {
	next := *c
	next.Time = at.UTC()
	next.From, next.To, next.Sent = from, to, c.requested().Next(to, false, next.Time).Older
	return &next
}

// sound reports whether a line can be what priod wrote. Slurm's largest array has
// four million tasks.
func (c *Change) sound() bool {
	if c.Job.ID == 0 || c.Lever == "" {
		return false
	}
	n, err := slurmplug.CountTasks(c.Tasks)
	return !c.Part || err == nil && n > 0 && n <= 4_000_001
}

// inRequest reports whether the change is to what the job asks for, but its nodes: those that
// it asks for are the journal of evictions' affair, those that it refuses that of failures.
func (c *Change) inRequest() bool {
	return !c.Lever.Ranks() && c.Lever != slurmplug.ReqNodeList && c.Lever != slurmplug.ExcNodeList
}
