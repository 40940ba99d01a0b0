package undo

import (
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Written is what the journal tells about values that priod may have left in jobs.
func (u *Journal) Written() map[cluster.JobID]cluster.Written {
	all := make(map[cluster.JobID]cluster.Written, len(u.changes))
	for id, list := range u.changes {
		if slices.ContainsFunc(list, func(c *Change) bool { return c.Lever.Ranks() }) {
			all[id] = u.writtenInto(id, u.Find(id, slurmplug.SiteFactor))
		}
	}
	return all
}

// writtenInto is the last change of a job's place in the order, as History remembers it.
func (u *Journal) writtenInto(id cluster.JobID, c *Change) cluster.Written {
	w := c.written()
	w.Older = u.Older(id)
	a := u.ofArray(c, id)
	if a == nil {
		return w
	}
	main, other, until := w, a.written(), a.Time
	if a.reaches(id) { // the task had not left it, so the array's value came after the task's
		main, other = other, main
	}
	main.At = until // so that History does not take the array's value for the task's: it cannot tell which tasks had left
	main.Older = append(slices.Clone(w.Older), cluster.Sent{Value: other.Value, Until: until}, cluster.Sent{Value: other.Tried, Until: until})
	return main
}

// ofArray is the change of a task's array that came after the last one of the task
// itself: it reached the task, too, if that one did not; nil when there is none.
func (u *Journal) ofArray(c *Change, task cluster.JobID) *Change {
	for _, a := range u.changes[slurmplug.Plain(task.ID)] {
		if a.Lever == c.Lever && a.seq > c.seq && a.Was == c.Was {
			return a
		}
	}
	return nil
}

// Requests is what the journal tells about values that priod may have left in
// jobs' requests.
func (u *Journal) Requests() map[cluster.JobID]map[slurmplug.Lever]cluster.Requested {
	all := map[cluster.JobID]map[slurmplug.Lever]cluster.Requested{}
	for id := range u.changes {
		if r := u.requests(id, func(*Change) bool { return true }); r != nil {
			all[id] = r
		}
	}
	return all
}

// knownOf is what those changes of an id tell that are of j.
func (u *Journal) knownOf(id cluster.JobID, j *cluster.Job) (w cluster.Written, requests map[slurmplug.Lever]cluster.Requested) {
	if c := u.find(id, slurmplug.SiteFactor, j); c != nil {
		w = u.writtenInto(id, c)
	}
	return w, u.requests(id, func(c *Change) bool { return c.Of(j) })
}

// disown drops from h what is known of earlier jobs with the ids of j.
func (u *Journal) disown(h *cluster.History, j *cluster.Job) {
	if u.latest(j.ID, func(c *Change) bool { return !c.Of(j) }) == nil && u.latest(j.FirstTask(), func(c *Change) bool { return !c.Of(j) }) == nil {
		return
	}
	lineage := cluster.Lineage(j.ID)
	for _, id := range append([]cluster.JobID{j.FirstTask()}, lineage[:]...) {
		delete(h.Written, id)
		delete(h.Requests, id)
		w, requests := u.knownOf(id, j)
		if w.Lever != "" {
			h.Written[id] = w
		}
		if requests != nil {
			h.Requests[id] = requests
		}
	}
}

// Of is what the journal tells about the request of a user's job, or of its array.
func (u *Journal) Of(id cluster.JobID, user string) map[slurmplug.Lever]cluster.Requested {
	return u.requests(id, func(c *Change) bool { return cluster.SameUser(c.User, user) })
}

// requests is what the changes of a job, or of its array, that count tell about
// values that priod may have left in its request; nil when there is none.
func (u *Journal) requests(id cluster.JobID, counts func(*Change) bool) map[slurmplug.Lever]cluster.Requested {
	var all map[slurmplug.Lever]cluster.Requested
	for _, id := range []cluster.JobID{slurmplug.Plain(id.ID), id} {
		for _, c := range u.changes[id] {
			if !c.inRequest() || !counts(c) {
				continue
			}
			r := c.requested()
			if a := u.ofArray(c, id); a != nil && counts(a) {
				r.Older = slices.Concat(r.Older, a.Sent, []slurmplug.Value{a.From, a.To})
			}
			if all == nil {
				all = map[slurmplug.Lever]cluster.Requested{}
			}
			all[c.Lever] = r
		}
	}
	return all
}

// NoticeReset reads the journal again if a reset took place since, and drops from h what
// the journal no longer has: that counts as taken back. It returns how many values.
func (u *Journal) NoticeReset(h *cluster.History) (noticed bool, values int, err error) {
	if err = u.file.Follow(); err != nil || u.reset.Equal(u.noticed) {
		return false, 0, err
	}
	u.noticed = u.reset
	for id, w := range h.Written {
		if u.Find(id, w.Lever) == nil {
			delete(h.Written, id)
			values++
		}
	}
	for id, requests := range h.Requests {
		for lever := range requests {
			if u.Find(id, lever) == nil {
				delete(requests, lever)
				values++
			}
		}
	}
	for id := range h.Sizes {
		if u.Find(id, slurmplug.Size) == nil {
			delete(h.Sizes, id)
		}
	}
	clear(h.Refused)
	return true, values, nil
}
