package eviction

import (
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// signalledAt is a journal with one victim in a grace of a minute, and what Slurm
// shows of it.
func signalledAt(t time.Time) (*Journal, Seen) {
	j := NewJournal()
	id := slurmplug.Plain(1)
	start := epoch.Add(-time.Hour)
	j.Claims = []Claim{{Number: 1, Job: slurmplug.Plain(9), User: "bob", State: Planned, At: t}}
	j.Evictions = []Eviction{{Number: 1, Claim: 1, Job: id, User: "alice", Start: start, GPUs: 2, Grace: time.Minute, State: Signalled, At: t, SignalledAt: t}}
	sight := Sight{Job: cluster.Job{ID: id, User: "alice", State: cluster.Running, Start: start}, CanRequeue: true}
	return j, Seen{At: t, Sights: map[cluster.JobID]Sight{id: sight}, Hold: time.Minute}
}

// A clock that is set back lengthens a grace by no more than the grace.
func TestClockSetBack(t *testing.T) {
	j, seen := signalledAt(epoch)
	seen.At = epoch.Add(-24 * time.Hour)
	turn := Next(j, seen)
	if len(turn.Commands) > 0 || len(turn.Evictions) != 1 || !turn.Evictions[0].SignalledAt.Equal(seen.At) {
		t.Fatalf("%+v", turn)
	}
	j.Take(&turn)
	seen.At = seen.At.Add(time.Minute)
	if turn = Next(j, seen); len(turn.Commands) != 1 || turn.Commands[0].Verb != Requeue {
		t.Errorf("%+v", turn)
	}
}

// Slurm gives ids again: another user's job with the victim's id is left alone.
func TestAnotherJobWithTheId(t *testing.T) {
	j, seen := signalledAt(epoch)
	for id, s := range seen.Sights {
		s.User = "carol"
		seen.Sights[id] = s
	}
	seen.At = epoch.Add(time.Hour)
	turn := Next(j, seen)
	if len(turn.Commands) > 0 || len(turn.Evictions) != 1 || turn.Evictions[0].How != Forgotten {
		t.Errorf("%+v", turn)
	}
}

// Ten days of grace are kept; a grace of nothing ends at once.
func TestLongAndNoGrace(t *testing.T) {
	j, seen := signalledAt(epoch)
	j.Evictions[0].Grace = 240 * time.Hour
	seen.At = epoch.Add(239 * time.Hour)
	if turn := Next(j, seen); len(turn.Commands) > 0 {
		t.Errorf("%+v", turn)
	}
	j, seen = signalledAt(epoch)
	j.Evictions[0].Grace = 0
	if turn := Next(j, seen); len(turn.Commands) != 1 || turn.Commands[0].Verb != Requeue {
		t.Errorf("%+v", turn)
	}
}

// How a run ended says whether it is requeued, and what it cost.
func TestHowVictimsLeave(t *testing.T) {
	for final, want := range map[string]struct {
		how     How
		requeue bool
		state   State
		paid    float64
	}{
		"FAILED": {Exited, true, Left, 20}, "NODE_FAIL": {Exited, true, Left, 20}, "COMPLETED": {Finished, false, Done, 0},
		"CANCELLED": {Ended, false, Done, 0}, "TIMEOUT": {Ended, false, Done, 0}, "OUT_OF_MEMORY": {Ended, false, Done, 0},
	} {
		j, seen := signalledAt(epoch)
		for id, s := range seen.Sights {
			s.State, s.Final = cluster.Other, final
			seen.Sights[id] = s
		}
		seen.At = epoch.Add(10 * time.Second)
		turn := Next(j, seen)
		if len(turn.Evictions) != 1 || (len(turn.Commands) == 1) != want.requeue {
			t.Fatalf("%s: %+v", final, turn)
		}
		if e := turn.Evictions[0]; e.How != want.how || e.State != want.state || e.Paid != want.paid {
			t.Errorf("%s: %+v", final, e)
		}
	}
}
