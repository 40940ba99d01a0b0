package undo

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Known is a record of what became of priod's writes into a job: what History remembers of them. The changes tell what an undo
// puts back and what may stand in the job; it tells what a daemon that starts goes on with. A change after it is in doubt.
type Known struct {
	Job      cluster.JobID                         `json:"job"`
	User     string                                `json:"user,omitempty"`
	Submit   time.Time                             `json:"submit,omitzero"` // with User: tells the job from a later one of the same id
	Written  *cluster.Written                      `json:"written,omitempty"`
	Requests map[slurmplug.Lever]cluster.Requested `json:"requests,omitzero"` // an empty one keeps a task from inheriting
	Size     *cluster.SizePast                     `json:"size,omitempty"`
	Refused  map[slurmplug.Lever]cluster.Refusal   `json:"refused,omitempty"`

	seq int // place in the file
}

// KnownOf is what a History remembers of a job.
func KnownOf(h *cluster.History, id cluster.JobID) *Known {
	k := &Known{Job: id, Requests: maps.Clone(h.Requests[id]), Refused: maps.Clone(h.Refused[id])}
	if w, written := h.Written[id]; written {
		k.Written = &w
	}
	if size, sized := h.Sizes[id]; sized {
		k.Size = &size
	}
	return k
}

// Knows reports whether the journal tells of a job what a History remembers, but for values that may come back.
func (u *Journal) Knows(h *cluster.History, id cluster.JobID) bool {
	k := u.known[id]
	w, written := h.Written[id]
	requests, size, refused := h.Requests[id], h.Sizes[id], h.Refused[id]
	if k == nil { // changes of an earlier job with the id, or forgotten ones, are to count no more
		return !written && requests == nil && size == (cluster.SizePast{}) && len(refused) == 0 && len(u.changes[id]) == 0
	}
	return k.sameWritten(w, written) && k.sameRequests(requests) && k.sameSize(size) && k.sameRefused(refused)
}

func (k *Known) sameWritten(now cluster.Written, written bool) bool {
	was := k.Written
	if was == nil || !written {
		return was == nil && !written
	}
	return was.Value == now.Value && was.Tried == now.Tried && was.Reverts == now.Reverts && was.At.Equal(now.At)
}

func (k *Known) sameRequests(now map[slurmplug.Lever]cluster.Requested) bool {
	return (k.Requests == nil) == (now == nil) && maps.EqualFunc(k.Requests, now, func(a, b cluster.Requested) bool {
		return a.Was == b.Was && a.Value == b.Value && a.Sure == b.Sure && a.At.Equal(b.At) && slices.Equal(a.Older, b.Older)
	})
}

func (k *Known) sameSize(now cluster.SizePast) bool {
	was := cluster.SizePast{}
	if k.Size != nil {
		was = *k.Size
	}
	return was.Ahead == now.Ahead && was.Rests.Equal(now.Rests) && was.Since.Equal(now.Since)
}

func (k *Known) sameRefused(now map[slurmplug.Lever]cluster.Refusal) bool {
	return maps.EqualFunc(k.Refused, now, func(a, b cluster.Refusal) bool { return a.Words == b.Words && a.At.Equal(b.At) })
}

// Noticed reports whether History has noticed the last reset: until then it remembers what was taken back.
func (u *Journal) Noticed() bool { return u.reset.Equal(u.noticed) }

// takeKnown takes in a record; false: priod cannot have written it.
func (u *Journal) takeKnown(body []byte) bool {
	k := &Known{}
	if json.Unmarshal(body, k) != nil || k.Job.ID == 0 {
		return false
	}
	for lever, r := range k.Requests {
		r.Was, r.Value = lever.Value(r.Was.String()), lever.Value(r.Value.String())
		for i, v := range r.Older {
			r.Older[i] = lever.Value(v.String())
		}
		k.Requests[lever] = r
	}
	u.learn(k)
	return true
}

func (u *Journal) learn(k *Known) {
	u.seq++
	k.seq = u.seq
	u.index(k.Job)
	u.known[k.Job] = k
}

// Recall puts into h what the journal tells of a job that h knows nothing of. inherits: where it tells nothing of the job itself,
// what it tells of its array. With an array come the tasks that it still has. It reports whether a write is in doubt: no record
// tells what became of it.
func (u *Journal) Recall(h *cluster.History, j *cluster.Job, inherits bool) (doubted bool) {
	id := j.ID
	var list []*Change
	for _, c := range u.changes[id] {
		if c.Of(j) {
			list = append(list, c)
		}
	}
	k := u.known[id]
	if k != nil && !k.of(j) {
		k = nil
	}
	switch _, written := h.Written[id]; {
	case written || h.Requests[id] != nil:
	case k != nil:
		k.recall(h, j)
		for _, c := range list {
			if c.seq > k.seq {
				c.try(h, id)
				doubted = true
			}
		}
	case len(list) == 0 && !inherits:
	case u.recallArray(h, j, list):
		doubted = len(list) > 0
	default:
		u.recallLines(h, j, list)
	}
	if j.Tasks == "" {
		return doubted
	}
	for _, id := range u.tasks[j.ID.ID] {
		if has, err := slurmplug.HasTask(j.Tasks, id.Task); has && err == nil {
			task := *j
			task.ID, task.Tasks = id, ""
			doubted = u.Recall(h, &task, false) || doubted
		}
	}
	return doubted
}

// recallArray puts into h what is known of the array of a task, and what was written since then. It reports false if the task
// had left the array before priod last wrote into that, or if own changes of the task are earlier than what is known.
func (u *Journal) recallArray(h *cluster.History, j *cluster.Job, own []*Change) bool {
	known := u.known[slurmplug.Plain(j.ID.ID)]
	if known == nil || !known.of(j) {
		return false
	}
	since := slices.Clone(own)
	for _, c := range u.changes[known.Job] {
		if !c.reaches(j.ID) {
			return false
		}
		if c.seq > known.seq {
			since = append(since, c)
		}
	}
	slices.SortFunc(since, func(a, b *Change) int { return a.seq - b.seq })
	if len(own) > 0 && since[0].seq < known.seq {
		return false
	}
	k := *known
	k.Job, k.Refused = j.ID, nil // History finds the array's refusals
	k.recall(h, j)
	for _, c := range since {
		c.try(h, j.ID)
	}
	return true
}

// recallLines puts into h what changes alone tell of a job: a priod that died, or one of an earlier version, wrote them.
func (u *Journal) recallLines(h *cluster.History, j *cluster.Job, own []*Change) {
	reached := func(c *Change) bool { return c.Of(j) && c.reaches(j.ID) }
	if c := u.latest(j.ID, func(c *Change) bool { return c.Lever.Ranks() && reached(c) }); c != nil {
		w := u.writtenInto(j.ID, c)
		if c.From == c.Was && w.Value == c.Was.Number() {
			w.Value = 0 // the user's own
		}
		h.Written[j.ID] = w
	}
	if requests := u.requests(j.ID, reached); requests != nil {
		h.Requests[j.ID] = requests
	}
	// Why a job has its own size again is not known: it did not start, perhaps. Another size may have been for a job without
	// room: then time says nothing against it.
	for _, c := range own {
		if c.Lever == slurmplug.Size {
			h.Sized(j.ID, c.To == c.Was, c.To != c.Was, c.Time)
		}
	}
}

// of reports whether it is of j.
func (k *Known) of(j *cluster.Job) bool { return (&Change{User: k.User, Submit: k.Submit}).Of(j) }

func (k *Known) recall(h *cluster.History, j *cluster.Job) {
	if k.Written != nil {
		h.Written[k.Job] = *k.Written
	}
	if k.Requests != nil {
		h.Requests[k.Job] = maps.Clone(k.Requests)
	}
	if k.Size != nil && k.Submit.UnixMilli() == j.Submit.UnixMilli() { // else the job was put back into the queue since
		h.Sizes[k.Job] = *k.Size
	}
	if k.Refused != nil {
		h.Refused[k.Job] = maps.Clone(k.Refused)
	}
}

// try has h take in a write that may or may not have arrived, as it would have taken in that outcome.
func (c *Change) try(h *cluster.History, id cluster.JobID) {
	switch {
	case c.Lever.Ranks():
		h.Shown(id, c.From.Number(), c.Time)
		h.Try(id, cluster.Written{Lever: c.Lever, Value: c.To.Number(), At: c.Time})
		return
	case c.Lever == slurmplug.Size:
		h.Sized(id, c.Reason == plan.SizeRests, c.Reason == plan.SizeAhead, c.Time)
	}
	if c.inRequest() || c.Reason != "" {
		h.Asked(id, c.Lever, c.Was, c.To, false, c.Time)
	}
}

// records of all that counts, in the order of the file.
func (u *Journal) records() []journal.Record {
	type numbered struct {
		seq int
		journal.Record
	}
	var all []numbered
	for _, c := range u.Changes() {
		all = append(all, numbered{c.seq, journal.Record{Kind: journal.Write, Body: c}})
	}
	for id, k := range u.known {
		if len(u.changes[id]) > 0 || k.Written != nil || k.Requests != nil || k.Size != nil || k.Refused != nil {
			all = append(all, numbered{k.seq, journal.Record{Kind: journal.Known, Body: k}})
		}
	}
	slices.SortFunc(all, func(a, b numbered) int { return a.seq - b.seq })
	records := make([]journal.Record, len(all))
	for i := range all {
		records[i] = all[i].Record
	}
	return records
}
