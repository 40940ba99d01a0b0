package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// Nothing of another user is told, nor of one whose name may be anybody's.
func TestNamesOfOthersAreHidden(t *testing.T) {
	v := &Explanation{
		Failures: []retry.Failure{{User: "ann", Line: "mine"}, {User: "bob", Line: "secret"}, {User: "nobody", Line: "secret"}, {User: "4711", Line: "secret"}},
		Evictions: []store.Eviction{
			{ForUser: "bob", VictimUser: "ann", VictimTag: "mine"}, {ForUser: "ann", VictimUser: "nobody", VictimTag: "secret"}, {ForUser: "bob", VictimUser: "4711", VictimTag: "secret"},
		},
	}
	v.only("ann")
	want := &Explanation{
		Failures:  []retry.Failure{{User: "ann", Line: "mine"}},
		Evictions: []store.Eviction{{ForUser: anotherUser, VictimUser: "ann", VictimTag: "mine"}, {ForUser: "ann", VictimUser: anotherUser}},
	}
	if diff := cmp.Diff([]any{want.Failures, want.Evictions}, []any{v.Failures, v.Evictions}); diff != "" {
		t.Error(diff)
	}
}

// A component and a run are found in Slurm's queue.
func TestJobsAreFoundInTheQueue(t *testing.T) {
	jobs := []slurmplug.Job{
		{ID: slurmplug.Plain(5), SLUID: "s4C5M81FV4NT00"}, {ID: slurmplug.Plain(83), HetID: 83}, {ID: slurmplug.Plain(84), HetID: 83, HetOffset: 1},
	}
	for word, want := range map[string]uint32{"s4C5M81FV4NT00": 5, "83+0": 83, "83+1": 84, "83+2": 0, "s4C5M81FV4NT01": 0} {
		name, err := slurmplug.ParseJobName(word)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := inQueue(jobs, name); id.ID != want || (err == nil) != (want != 0) {
			t.Errorf("%s is %s, %v", word, id, err)
		}
	}
}
