package undo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/steer"
	"slurmprio/slurmplug"
)

// Survey is what priod may have left in the jobs of the queue.
type Survey struct {
	journal  *Journal
	snapshot *cluster.Snapshot
	history  *cluster.History                  // what priod wrote, by the records that the queue has now
	written  map[cluster.JobID]cluster.Written // by the names under which it was written
}

// NewSurvey joins what the journal tells and the queue as it is.
func NewSurvey(j *Journal, s *cluster.Snapshot) *Survey {
	v := &Survey{journal: j, snapshot: s, history: cluster.NewHistory()}
	v.history.Written, v.history.Requests = j.Written(), j.Requests()
	v.written = maps.Clone(v.history.Written)
	for i := range s.Jobs {
		j.disown(v.history, &s.Jobs[i])
	}
	v.history.Observe(s) // tasks that were split off inherit from their array
	return v
}

// Unseen are the waiting jobs into which priod wrote what a poll does not show.
type Unseen struct {
	Fields map[slurmplug.Lever][]*cluster.Job // by what was written
	Pinned []plan.Target                      // whose nodes an eviction named
	Kept   []plan.Target                      // that refuse nodes, slow ones or those on which they failed
}

// Unseen says where to look closer before Plan.
func (v *Survey) Unseen() (u Unseen) {
	u.Fields = map[slurmplug.Lever][]*cluster.Job{}
	for i := range v.snapshot.Jobs {
		j := &v.snapshot.Jobs[i]
		if j.State != cluster.Pending {
			continue
		}
		for l := range v.history.Requests[j.ID] {
			u.Fields[l] = append(u.Fields[l], j)
		}
		if v.pin(j) != nil {
			u.Pinned = append(u.Pinned, plan.Target{Job: j.ID, RawID: j.RawID})
		}
		if v.refuses(j) != nil {
			u.Kept = append(u.Kept, plan.Target{Job: j.ID, RawID: j.RawID})
		}
	}
	return u
}

// pin is the line of a job's nodes that an eviction named; nil when there is none.
func (v *Survey) pin(j *cluster.Job) *Change {
	pin := v.journal.find(j.ID, slurmplug.ReqNodeList, j)
	if pin != nil && pin.Job == j.ID && pin.To != (slurmplug.Value{}) {
		return pin
	}
	return nil
}

// refuses is the line of nodes that a job refuses because they are slow, or it failed there;
// nil when there is none.
func (v *Survey) refuses(j *cluster.Job) *Change {
	c := v.journal.find(j.ID, slurmplug.ExcNodeList, j)
	if c != nil && c.Job == j.ID && !plan.SameHosts(c.To.String(), c.Was.String()) {
		return c
	}
	return nil
}

// Closer is what closer looks told, beside what they read into jobs. One that failed
// holds up nothing else.
type Closer struct {
	Statuses       map[cluster.JobID]plan.JobStatus // of the pinned
	Refused        map[cluster.JobID]string         // the nodes that the kept refuse; those that could not be read are missing
	NoSize, NoNode error                            // why some sizes, memory or switches, and nodes, were not read; nil: all were
}

// Plan is what takes everything back, as far as that is possible now.
type Plan struct {
	Actions []plan.Action  // requests before all that rank: those could let the jobs start as they are
	Blocked []plan.Outcome // what cannot be put back now, and why: it is still there
	Gone    int            // jobs with a place in the order by priod that left the queue
	Ending  int            // jobs whose run still ends, with a request by priod: those that were requeued come back with it

	survey *Survey
	seen   Closer
	rest   []*Change        // lines of what may be left
	stay   map[*Change]bool // lines of running jobs, should they be requeued, and of constraints put back in part
}

// Plan plans the reset of a priod with these settings.
func (v *Survey) Plan(set order.Settings, seen Closer) *Plan {
	p := &Plan{survey: v, seen: seen, stay: map[*Change]bool{}}
	if set.Peers {
		order.Adopt(order.FindPeerValues(v.snapshot, v.history, set), v.snapshot, v.history)
	}
	for i := range v.snapshot.Jobs {
		p.request(&v.snapshot.Jobs[i])
	}
	gone := maps.Clone(v.written)
	for i := range v.snapshot.Jobs {
		p.place(&v.snapshot.Jobs[i], gone)
	}
	p.Gone = len(gone)
	return p
}

// place takes back a job's place in the order. gone loses the names of a job that is
// still there.
func (p *Plan) place(j *cluster.Job, gone map[cluster.JobID]cluster.Written) {
	w, ours := p.survey.history.Written[j.ID]
	if !ours {
		return
	}
	for _, id := range names(j.ID, j.Tasks) {
		delete(gone, id)
	}
	if a, needed := plan.Restore(j, w); needed {
		a.Tasks, a.Reason = j.Tasks, reason
		p.Actions = append(p.Actions, a)
	}
}

// request takes back what priod wrote into a waiting job's request and that was not
// changed since; of a size that was, the node. A request of a job that runs
// cannot be changed: its lines stay, should it be requeued.
func (p *Plan) request(j *cluster.Job) {
	stay := len(p.stay)
	pin := p.nodes(j)
	p.refused(j)
	requests := p.survey.history.Requests[j.ID]
	for _, lever := range slices.Sorted(maps.Keys(requests)) {
		if lever == slurmplug.ExcNodeList {
			continue // done by refused
		}
		p.field(j, lever, requests[lever], pin)
	}
	if j.State == cluster.Completing && len(p.stay) > stay {
		p.Ending++
	}
}

// nodes takes back the nodes that an eviction named for a waiting job, unless they were
// has named others since, and returns their line; nil when they are not priod's.
func (p *Plan) nodes(j *cluster.Job) *Change {
	pin := p.survey.pin(j)
	if pin == nil {
		return nil
	}
	status, looked := p.seen.Statuses[j.ID]
	back := putBack(j, pin.Lever, pin.To, pin.Was)
	switch {
	case j.State != cluster.Pending:
		p.stay[pin] = true
		return nil
	case !looked:
		p.block(back, fmt.Sprintf("its nodes cannot be read: %.300s", p.seen.NoNode))
	case status.Asks(pin.To.String()):
		p.Actions = append(p.Actions, back)
	default:
		return nil
	}
	return pin
}

// refused has a waiting job refuse only what its user wants again, unless that was
// named other nodes since.
func (p *Plan) refused(j *cluster.Job) {
	c := p.survey.refuses(j)
	if c == nil {
		return
	}
	now, looked := p.seen.Refused[j.ID]
	switch {
	case j.State != cluster.Pending:
		p.stay[c] = true
	case !looked:
		p.block(putBack(j, c.Lever, c.To, c.Was), "the nodes that it refuses cannot be read")
	case plan.SameHosts(now, c.To.String()):
		p.Actions = append(p.Actions, putBack(j, c.Lever, slurmplug.Text(now), c.Was))
	}
}

// field takes back what priod made of one field of a job's request. pin is the line
// of a node that is taken back beside it, nil for none.
func (p *Plan) field(j *cluster.Job, lever slurmplug.Lever, r cluster.Requested, pin *Change) {
	now, shown := j.Request(lever)
	if lever == slurmplug.NumNodes && j.NodeCount == slurmplug.HiddenNodes {
		now, shown = r.Value, true // a change since cannot be seen
	}
	if size, pinned := unpinned(now, pin); pinned && lever == slurmplug.Size {
		now = size
	}
	to := r.Was
	if shown && !r.Ours(now) {
		size, pinned := r.Freed(now)
		if lever != slurmplug.Size || !pinned {
			return
		}
		to = size // changed since, beside the node that priod named
	}
	c := p.survey.journal.find(j.ID, lever, j)
	if c == nil { // the lines are those of the array's tasks
		c = &Change{Time: r.At, Job: j.ID, User: j.User, Submit: j.Submit, Lever: lever, Was: r.Was, From: r.Was, To: r.Value, Sent: r.Older}
		p.rest = append(p.rest, c)
	}
	switch {
	case j.State == cluster.Pending && shown && lever == slurmplug.Features:
		nodes := p.survey.snapshot.Nodes
		if !p.survey.snapshot.SeesNodes() {
			nodes = nil // Slurm knows which features there are
		}
		text, lost := steer.PutBack(to.String(), nodes)
		p.part(putBack(j, lever, now, slurmplug.Text(text)), to, lost, steer.NoFeature, c)
	case j.State == cluster.Pending && shown && lever == slurmplug.PartitionList:
		list, lost := steer.PutBackPartitions(to.String(), p.survey.snapshot.Partitions)
		p.part(putBack(j, lever, now, slurmplug.Text(list)), to, lost, steer.NoPartition, c)
	case j.State == cluster.Pending && shown, j.State == cluster.Running && shown && lever == slurmplug.TimeLimit:
		p.Actions = append(p.Actions, putBack(j, lever, now, to))
	case j.State == cluster.Unread:
		p.block(putBack(j, lever, slurmplug.Value{}, to), "its record in the queue cannot be read")
	case j.State == cluster.Pending && p.seen.NoSize != nil:
		p.block(putBack(j, lever, slurmplug.Value{}, to), fmt.Sprintf("its %s cannot be read: %.300s", lever, p.seen.NoSize))
	default:
		p.stay[c] = true
		if a := p.survey.journal.ofArray(c, j.ID); a != nil {
			p.stay[a] = true // the task may hold what was written into its array later
		}
	}
}

// part takes back what priod made of a constraint or a list of partitions, as far as Slurm
// lets: where a name in it is lost, the line stays, for a later reset to put back the rest.
func (p *Plan) part(back plan.Action, to slurmplug.Value, lost []string, words func([]string) string, c *Change) {
	back.Was = to
	if back.After == back.Before || back.After == (slurmplug.Value{}) && len(lost) > 0 {
		p.block(back, words(lost))
		return
	}
	if len(lost) > 0 {
		rest := c.next(back.Before, back.After, p.survey.snapshot.At)
		p.rest, p.stay[rest] = append(p.rest, rest), true
	}
	p.Actions = append(p.Actions, back)
}

// block notes a write that is not possible now.
func (p *Plan) block(a plan.Action, why string) {
	p.Blocked = append(p.Blocked, plan.Outcome{Action: a, Status: slurmplug.Postponed, Message: why})
}

// keep tells of a line of the journal whether it says something yet once the plan is
// carried out, with values still left in some jobs.
func (p *Plan) keep(c *Change, still map[cluster.JobID]bool) bool {
	return p.stay[c] || slices.ContainsFunc(c.Jobs(), func(id cluster.JobID) bool { return still[id] })
}

// explain says of a constraint or a list of partitions what could not be put back of it.
func (p *Plan) explain(writes []plan.Outcome) {
	for i := range writes {
		o := &writes[i]
		if o.Status != slurmplug.Applied || o.After == o.Was {
			continue
		}
		switch o.Lever {
		case slurmplug.Features:
			_, lost := steer.PutBack(o.Was.String(), p.survey.snapshot.Nodes)
			o.Message = fmt.Sprintf("without %.80s, which no node has", strings.Join(lost, ", "))
		case slurmplug.PartitionList:
			_, lost := steer.PutBackPartitions(o.Was.String(), p.survey.snapshot.Partitions)
			o.Message = fmt.Sprintf("without %.80s: there is no such partition any more", strings.Join(lost, ", "))
		}
	}
}

// reason is why a reset writes.
const reason = "reset"

// putBack is the write that brings a field of a job's request from one text to
// another.
func putBack(j *cluster.Job, lever slurmplug.Lever, from, to slurmplug.Value) plan.Action {
	return plan.Action{Job: j.ID, Tasks: j.Tasks, Lever: lever, Before: from, After: to, Reason: reason, Was: to}
}

// unpinned is a size as it is once the node is taken back that an eviction wrote
// beside it.
func unpinned(size slurmplug.Value, pin *Change) (own slurmplug.Value, pinned bool) {
	s := size.Size()
	if pin == nil || s.Nodes != pin.To.String() {
		return size, false
	}
	s.Nodes = pin.Was.String()
	return s.Value(), true
}

// names are all that the journal may know a record by: its own id, the tasks that an
// unsplit array still has, and the array that a task was split from.
func names(id cluster.JobID, tasks string) []cluster.JobID {
	record := plan.Action{Job: id, Tasks: tasks, Part: tasks != ""}
	return append(record.Jobs(), id, slurmplug.Plain(id.ID))
}

// failures counts the values that could not be taken back, and tells in which jobs
// something may still be: a request of a job that has started meanwhile, too. What
// was written into a task may stand in the journal under its array, and the reverse.
func failures(writes []plan.Outcome) (failed int, still map[cluster.JobID]bool) {
	still = map[cluster.JobID]bool{}
	for _, o := range writes {
		raced := o.Status == slurmplug.Raced
		if o.Status == slurmplug.Applied || raced && o.Lever.Ranks() {
			continue
		}
		if !raced {
			failed++
		}
		for _, id := range names(o.Job, o.Tasks) {
			still[id] = true
		}
	}
	return failed, still
}

// unsettled are those of the actions that no round before has settled: not all that a
// write did can be seen in the next round.
func unsettled(actions []plan.Action, settled []plan.Outcome) []plan.Action {
	type field struct {
		job   cluster.JobID
		lever slurmplug.Lever
	}
	done := make(map[field]bool, len(settled))
	for _, o := range settled {
		done[field{o.Job, o.Lever}] = true
	}
	return slices.DeleteFunc(actions, func(a plan.Action) bool { return done[field{a.Job, a.Lever}] })
}
