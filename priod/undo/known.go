package undo

import (
	"maps"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Written is what the journal tells about values that priod may have left in jobs.
func (u *Journal) Written() map[cluster.JobID]cluster.Written {
	all := make(map[cluster.JobID]cluster.Written, len(u.changes))
	for id, list := range u.changes {
		if slices.ContainsFunc(list, func(c *Change) bool { return c.Lever.Ranks() }) {
			all[id] = u.writtenInto(id, u.Last(id))
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

// Former is what the journal tells about values that priod may have left in a job that
// was gone from the queue for a while.
func (u *Journal) Former(j *cluster.Job) (w cluster.Written, requests map[slurmplug.Lever]cluster.Requested) {
	return u.knownOf(j.ID, j)
}

// knownOf is what those changes of an id tell that are of j.
func (u *Journal) knownOf(id cluster.JobID, j *cluster.Job) (w cluster.Written, requests map[slurmplug.Lever]cluster.Requested) {
	if c := u.last(id, j); c != nil {
		w = u.writtenInto(id, c)
	}
	return w, u.requests(id, func(c *Change) bool { return c.Of(j) })
}

// disown drops from h what is known of earlier jobs with the ids of j.
func (u *Journal) disown(h *cluster.History, j *cluster.Job) {
	if u.latest(j.ID, func(c *Change) bool { return !c.Of(j) }) == nil && u.latest(j.FirstTask(), func(c *Change) bool { return !c.Of(j) }) == nil {
		return
	}
	for _, id := range []cluster.JobID{j.ID, j.FirstTask(), slurmplug.Plain(j.ID.ID)} {
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

// Recall stands in for a database that is lost: it puts what the journal tells into h,
// and hands on the latest change of each job, which says whose job it is.
func (u *Journal) Recall(h *cluster.History, whose func(cluster.JobID, *Change)) {
	for id, w := range u.Written() {
		h.Written[id] = w
		whose(id, u.Last(id))
	}
	for id, requests := range u.Requests() {
		h.Requests[id] = requests
		whose(id, u.latest(id, (*Change).inRequest))
	}
	// Why a job has its own size again only the database knew: it did not start, perhaps.
	// Another size may have been for a job without room: then time says nothing against it.
	for id, list := range u.changes {
		for _, c := range list {
			if c.Lever == slurmplug.Size {
				h.Sized(id, c.To == c.Was, c.To != c.Was, c.Time)
			}
		}
	}
}

// Lacking are the lines of what the database knows and the journal does not, because
// it was deleted, cut off or replaced by an older copy. The caller says whose
// jobs they are.
func (u *Journal) Lacking(h *cluster.History) (lost []*Change) {
	for id, requests := range h.Requests {
		for lever, r := range requests {
			line := requestLine(id, lever, r)
			switch c := u.Find(id, lever); {
			case c == nil:
				lost = append(lost, line)
			case r.Value != c.To && (r.At.After(c.Time) || slices.Contains(r.Older, c.To) && !c.requested().Ours(r.Value)): // the clock may have been set back
				line.From = c.To
				line.Sent = append(slices.Clip(r.Older), c.requested().Older...)
				lost = append(lost, line)
			case c.Was != r.Was && r.Ours(c.Was) && !c.requested().Ours(r.Was): // its writer took priod's value for the user's
				line.Time, line.From, line.To = c.Time, r.Value, c.To
				lost = append(lost, line)
			}
		}
	}
	for id, w := range h.Written {
		line := &Change{
			Time: w.At, Job: id, Lever: w.Lever, Was: slurmplug.Number(0),
			From: slurmplug.Number(w.Value), To: slurmplug.Number(w.Tried), UserNice: slurmplug.Number(w.Original),
		}
		if w.Lever == slurmplug.Nice {
			line.Was = line.UserNice
		}
		switch c := u.Find(id, journalled(w.Lever)); {
		case c == nil:
			lost = append(lost, line)
		case w.At.After(c.Time) && line.To != c.To:
			line.Was = c.Was
			lost = append(lost, line)
		}
	}
	return lost
}

// requestLine is the line of what History knows about one field of a job's request.
func requestLine(id cluster.JobID, lever slurmplug.Lever, r cluster.Requested) *Change {
	return &Change{Time: r.At, Job: id, Lever: lever, Was: r.Was, From: r.Was, To: r.Value, Sent: r.Older}
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

// known is what priod may have left in jobs: what the journal tells, and what the
// database knows beyond that, because the journal was deleted or cut off.
func (u *Journal) known(recorded *cluster.History) *cluster.History {
	h := cluster.NewHistory()
	maps.Copy(h.Written, recorded.Written)
	maps.Copy(h.Written, u.Written())
	h.Requests = u.Requests()
	for id, requests := range recorded.Requests {
		told := h.Requests[id]
		h.Requests[id] = maps.Clone(requests)
		maps.Copy(h.Requests[id], told)
	}
	return h
}
