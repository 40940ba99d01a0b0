package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/retry"
	"slurmprio/priod/store"
)

// Nothing of another user is told, nor of one whose name may be anybody's.
func TestHideOthers(t *testing.T) {
	v := &explanation{
		Failures: []retry.Failure{{User: "ann", Line: "mine"}, {User: "bob", Line: "secret"}, {User: "nobody", Line: "secret"}, {User: "4711", Line: "secret"}},
		Evictions: []store.Eviction{
			{ForUser: "bob", VictimUser: "ann", VictimTag: "mine"}, {ForUser: "ann", VictimUser: "nobody", VictimTag: "secret"}, {ForUser: "bob", VictimUser: "4711", VictimTag: "secret"},
		},
	}
	v.hideOthers("ann")
	want := &explanation{
		Failures:  []retry.Failure{{User: "ann", Line: "mine"}},
		Evictions: []store.Eviction{{ForUser: anotherUser, VictimUser: "ann", VictimTag: "mine"}, {ForUser: "ann", VictimUser: anotherUser}},
	}
	if diff := cmp.Diff([]any{want.Failures, want.Evictions}, []any{v.Failures, v.Evictions}); diff != "" {
		t.Error(diff)
	}
}
