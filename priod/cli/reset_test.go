package cli

import (
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// A size that cannot be read keeps reset from nothing else, is told, and its line
// stays in the journal.
func TestResetUnreadSize(t *testing.T) {
	undo, err := store.OpenUndo(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := cluster.NewHistory()
	s := cluster.Snapshot{At: time.Unix(1_000_000, 0)}
	for id := uint32(1); id <= 2; id++ {
		s.Jobs = append(s.Jobs, cluster.Job{ID: slurmplug.Plain(id), State: cluster.Pending, TaskCount: 1})
		h.Asked(slurmplug.Plain(id), slurmplug.Size, "NumCPUs=3", "NumCPUs=6", true, s.At)
	}
	s.Jobs[1].Asked = &slurmplug.Asked{Text: "NumCPUs=6"}
	actions, unread, keep := unask(&s, undo, h)
	if len(actions) != 1 || actions[0].Job.ID != 2 || actions[0].After != "NumCPUs=3" {
		t.Errorf("%+v", actions)
	}
	if len(unread) != 1 || unread[0].Job.ID != 1 || unread[0].Status != slurmplug.Unknown || len(keep) != 1 {
		t.Errorf("%+v, %v", unread, keep)
	}
}
