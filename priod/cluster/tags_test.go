package cluster

import (
	"testing"
	"time"

	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// What a tag says of evictions is what it said when the run began, whatever its owner writes into the comment of a
// running job. What it says of other things may change.
func TestKeepTags(t *testing.T) {
	const be = "prio:grace=60&type=be&v=1"
	show := func(h *History, id JobID, state State, text, wrong string) Job {
		j := Job{ID: id, State: state, TaskCount: 1, TagText: text, TagErr: wrong, Tag: jobtag.Read(text).Tag}
		s := &Snapshot{At: time.Unix(1e9, 0), Jobs: []Job{j}}
		h.KeepTags(s)
		h.Observe(s)
		return s.Jobs[0]
	}
	one := slurmplug.Plain(1)
	for name, c := range map[string]struct {
		before, after, wrong string
		kind, retry          string
		grace                time.Duration
	}{
		"a longer grace":       {be, "prio:grace=86400&type=be&v=1", "", "be", "", time.Minute},
		"no consent":           {be, "", "", "be", "", time.Minute},
		"TE":                   {be, "prio:type=te&v=1", "", "be", "", time.Minute},
		"BE after TE":          {"prio:type=te&v=1", be, "", "te", "", 0},
		"none":                 {be, "prio:type=none&v=1", "", "be", "", time.Minute},
		"an invalid tag":       {be, "", "tag: x", "be", "", time.Minute},
		"a tag where was none": {"", be, "", "", "", 0},
		"a retry":              {be, be + "&retry=infra", "", "be", "infra", time.Minute},
		"a retry, TE":          {be, "prio:retry=infra&type=te&v=1", "", "be", "infra", time.Minute},
	} {
		h := NewHistory()
		show(h, one, Pending, c.before, "")
		for range 2 {
			if j := show(h, one, Running, c.after, c.wrong); j.Tag.Type != c.kind || j.Tag.Grace != c.grace || j.Tag.Retry != c.retry || j.TagErr != "" {
				t.Errorf("%s: %+v, %q", name, j.Tag, j.TagErr)
			}
		}
		if j := show(h, one, Pending, c.after, c.wrong); j.TagText != c.after || j.TagErr != c.wrong {
			t.Errorf("%s: %q, %q while it waits for its next run", name, j.TagText, j.TagErr)
		}
	}
	h := NewHistory()
	show(h, one, Pending, be, "")
	if j := show(h, JobID{ID: 1, Task: 3}, Running, "", ""); j.Tag.Type != "be" {
		t.Errorf("a task keeps nothing of its array: %+v", j.Tag)
	}
	h = NewHistory() // of a priod that starts anew: the store has what the last poll showed
	h.Saw(&Job{ID: one, State: Running, TagText: be})
	if j := show(h, one, Running, "", ""); j.Tag.Type != "be" {
		t.Errorf("a restart forgets: %+v", j.Tag)
	}
	if j := show(NewHistory(), one, Running, be, ""); j.Tag.Type != "be" {
		t.Errorf("first seen while it runs: %+v", j.Tag)
	}
}
