package cluster

import (
	"testing"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// What is known of a job is not known of a later one with its id: neither its times and what was written into it, nor what its
// owner agreed to.
func TestLaterJobInheritsNothing(t *testing.T) {
	at := time.Unix(1e9, 0)
	job := func(id JobID, user string, submit time.Time) Job {
		return Job{ID: id, User: user, State: Pending, TaskCount: 1, Submit: submit, Eligible: submit, SiteFactorKnown: true}
	}
	show := func(h *History, j Job) Job {
		s := &Snapshot{At: at.Add(time.Hour), Jobs: []Job{j}}
		h.KeepTags(s)
		h.Observe(s)
		return s.Jobs[0]
	}
	plain, array, task := slurmplug.Plain(1), slurmplug.Plain(2), JobID{ID: 2, Task: 3}
	later := at.Add(time.Minute)
	for name, c := range map[string]struct {
		first, then Job
		other       bool
	}{
		"the same job":                     {job(plain, "ann", at), job(plain, "ann", at), false},
		"another user's":                   {job(plain, "ann", at), job(plain, "eve", at), true},
		"submitted later":                  {job(plain, "ann", at), job(plain, "ann", later), true},
		"requeued":                         {job(plain, "ann", at), func() Job { j := job(plain, "ann", later); j.Restarts = 1; return j }(), false},
		"a user without a name":            {job(plain, "ann", at), job(plain, "1001", at), false},
		"a task of the array":              {job(array, "ann", at), job(task, "ann", at), false},
		"a task of another user's array":   {job(array, "ann", at), job(task, "eve", at), true},
		"a task of an array that is later": {job(array, "ann", at), job(task, "ann", later), true},
	} {
		h := NewHistory()
		first := c.first
		first.TagText = "prio:grace=60&type=be&v=1"
		first.Tag = jobtag.Read(first.TagText).Tag
		show(h, first)
		h.Counted.Set(first.ID, TE)
		h.Wrote(first.ID, Written{Lever: slurmplug.SiteFactor, Value: 5, At: at}, false)
		h.Asked(first.ID, slurmplug.Features, slurmplug.Text(""), slurmplug.Text("a100"), true, at)
		h.Sized(first.ID, true, false, at)
		c.then.State, c.then.Start = Running, at.Add(30*time.Minute)
		got := show(h, c.then)
		_, written := h.Written[got.ID]
		_, requested := h.Requests[got.ID]
		_, counted := h.Counted.Find(got.ID)
		since, known := h.FirstEligible.Find(got.ID)
		if c.other != (got.Tag.Type == "") || c.other == written || c.other == requested || c.other == counted || !c.other && !since.Equal(at) || c.other && known {
			t.Errorf("%s: tag %q, written %v, requested %v, counted %v, since %v", name, got.Tag.Type, written, requested, counted, since)
		}
	}
}

// An Identity outlives a requeue and a record that cannot be read; of no known job, any record may be its own.
func TestIdentity(t *testing.T) {
	at := time.UnixMilli(1e12)
	var who Identity
	if j := (Job{User: "ann", Submit: at}); !who.Is(&j) || who.Known() || who.User() != "" || !who.Submit().IsZero() {
		t.Errorf("%+v", who)
	}
	who.See(&Job{State: Unread})
	who.See(&Job{User: "ann", Submit: at})
	who.See(&Job{User: "ann", Submit: at.Add(time.Hour), Restarts: 1})
	who.See(&Job{State: Unread})
	if who.User() != "ann" || !who.Submit().Equal(at.Add(time.Hour)) {
		t.Errorf("%q, %v", who.User(), who.Submit())
	}
	if !who.Is(&Job{User: "ann", Submit: at.Add(time.Hour)}) || who.Is(&Job{User: "ann", Submit: at.Add(2 * time.Hour)}) || !who.Is(&Job{State: Unread}) {
		t.Error("taken for another job, or another job for it")
	}
}
