package cluster

import (
	"strconv"
	"time"
	"unique"

	"slurmprio/slurmplug"
)

// Whether an id still names the job that was known by it, whether a job's run is still the one that was known, and what a task has
// from its array, is told here for all rooms.

// Identity tells the job that an id names from an earlier or a later one with the same id. The zero Identity is of no known job.
type Identity struct {
	user   unique.Handle[string]
	submit int64 // as last seen, Unix ms
}

// Identify is the identity of a user's job that was submitted at a time.
func Identify(user string, submit time.Time) Identity {
	return Identity{unique.Make(user), submit.UnixMilli()}
}

// Known reports whether it is of a job.
func (i Identity) Known() bool { return i.user != unique.Handle[string]{} }

// User is the job's user, as it was first seen; "": not known.
func (i Identity) User() string {
	if !i.Known() {
		return ""
	}
	return i.user.Value()
}

// Submit is when the job was submitted, or put back into the queue last; zero: not known.
func (i Identity) Submit() time.Time {
	if !i.Known() {
		return time.Time{}
	}
	return time.UnixMilli(i.submit).UTC()
}

// Is reports whether j is this job, as far as that can be told.
func (i Identity) Is(j *Job) bool {
	return !i.Known() || !j.Replaces(i.user.Value(), time.UnixMilli(i.submit))
}

// See takes in a record of this job.
func (i *Identity) See(j *Job) {
	switch {
	case j.State == Unread:
	case !i.Known():
		*i = Identify(j.User, j.Submit)
	default:
		i.submit = j.Submit.UnixMilli() // a requeue resets it
	}
}

// Nameless reports whether Slurm's commands show this for a uid without a name: its user
// is gone, or names cannot be looked up just now. It is "nobody" up to 23.02 (seen on
// 22.05.8), since 23.11 the uid itself (seen on 24.11.5 and 26.05.5).
func Nameless(user string) bool {
	_, err := strconv.ParseUint(user, 10, 32)
	return user == "nobody" || err == nil
}

// SameUser reports whether two names may be one user's, as Slurm's commands show them.
func SameUser(a, b string) bool { return a == b || Nameless(a) || Nameless(b) }

// Replaces reports whether j is not the job that a user submitted at a time under j's id,
// but a later one: Slurm wraps around at MaxJobId and starts again at FirstJobId when
// its state is lost. A requeue keeps the user and counts a restart.
func (j *Job) Replaces(user string, submit time.Time) bool {
	return j.State != Unread && !SameUser(user, j.User) || j.Restarts == 0 && j.Submit.UnixMilli() > submit.UnixMilli()
}

// IsRun reports whether a job is still in the run that began at a time after so many restarts.
func (j *Job) IsRun(start time.Time, restarts int) bool {
	return j.Start.Equal(start) && j.Restarts == restarts
}

// Run names one run of a job.
type Run struct {
	Job   JobID
	start int64 // Unix seconds, as Slurm counts
}

// RunOf is the run of a job that began at a time.
func RunOf(id JobID, start time.Time) Run { return Run{id, start.Unix()} }

// Lineage are the ids under which something may be known of a job: its own and, of a task, that of the array that it is or was
// part of.
func Lineage(id JobID) [2]JobID { return [2]JobID{id, slurmplug.Plain(id.ID)} }

// Inherited is what is known of a job and, of a task of which nothing is known, what is known of its array.
func (m *JobMap[T]) Inherited(id JobID) (v T, known bool) {
	for _, id := range Lineage(id) {
		if v, known = m.Find(id); known {
			break
		}
	}
	return v, known
}

// sight is when a poll last showed a job, and which one it was.
type sight struct {
	Identity
	poll uint32
}

// known is the id under which a job of a snapshot was seen before: its own, or that of the array that it was part of. What is known of
// an earlier job by these ids is dropped.
func (h *History) known(j *Job) (id JobID, seen bool) {
	for _, id := range Lineage(j.ID) {
		was, seen := h.seen.Find(id)
		switch {
		case !seen:
		case was.Is(j):
			return id, true
		default:
			h.drop(id)
		}
	}
	return j.ID, false
}

// drop forgets a job: its id names another one.
func (h *History) drop(id JobID) {
	h.seen.Delete(id)
	h.tags.Delete(id)
	h.FirstEligible.Delete(id)
	h.Counted.Delete(id)
	delete(h.Written, id)
	delete(h.Requests, id)
	delete(h.Sizes, id)
	delete(h.Refused, id)
}
