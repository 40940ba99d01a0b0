package cluster

import (
	"testing"

	"slurmprio/slurmplug"
)

// An array that waits unsplit stands for the task that starts next, any other record
// for its own job; each cycle asks that of the whole queue, so it costs those nothing.
func TestFirstTask(t *testing.T) {
	for _, c := range []struct {
		id    JobID
		tasks string
		want  string
	}{
		{slurmplug.Plain(7), "", "7"},
		{JobID{ID: 7, Task: 3}, "", "7_3"},
		{slurmplug.Plain(7), "5-9:2%1", "7_5"},
		{slurmplug.Plain(7), "9", "7_9"},
		{slurmplug.Plain(7), "odd", "7"},
	} {
		j := Job{ID: c.id, Tasks: c.tasks}
		if got := j.FirstTask().String(); got != c.want {
			t.Errorf("%s of tasks %q: %s, want %s", c.id, c.tasks, got, c.want)
		}
		if n := testing.AllocsPerRun(10, func() { j.FirstTask() }); c.tasks == "" && n > 0 {
			t.Errorf("%s: %v allocations", c.id, n)
		}
	}
}

func TestSameUser(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"ann", "ann", true}, {"ann", "bob", false}, {"ann", "nobody", true}, {"1001", "ann", true},
		{"1001", "1002", true}, {"ann1", "ann", false}, {"", "ann", false}, {"-1", "ann", false},
	} {
		if SameUser(c.a, c.b) != c.same || SameUser(c.b, c.a) != c.same {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.same)
		}
	}
}
