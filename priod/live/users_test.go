package live

import (
	"testing"
	"time"

	"slurmprio/slurmplug"
)

func TestNamesInAnOutage(t *testing.T) {
	u := users{}
	for _, c := range []struct {
		uid         uint32
		shown, want string
	}{
		{1001, "1001", "1001"}, // never had a name
		{1001, "ann", "ann"},
		{1001, "nobody", "ann"}, // up to 23.02
		{1001, "1001", "ann"},
		{1002, "1002", "1002"},
		{65534, "nobody", "nobody"},
		{1001, "anne", "anne"}, // renamed
		{1001, "1001", "anne"},
	} {
		if got := u.name(c.uid, c.shown); got != c.want {
			t.Errorf("%d %s: %s, want %s", c.uid, c.shown, got, c.want)
		}
	}
}

// Budgets and what was written before depend on the name.
func TestASnapshotInAnOutageHasTheNames(t *testing.T) {
	c := New(nil)
	for _, shown := range []string{"ann", "1001", "nobody"} {
		s := c.snapshot(time.Unix(1, 0), []slurmplug.Job{{RawID: 7, ID: slurmplug.Plain(7), UID: 1001, User: shown, State: "PENDING"}}, nil)
		if s.Jobs[0].User != "ann" {
			t.Errorf("%s: %s", shown, s.Jobs[0].User)
		}
	}
}
