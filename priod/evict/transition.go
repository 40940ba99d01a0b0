package evict

import (
	"time"

	"slurmprio/priod/cluster"
)

// Seen is what one look at Slurm showed. At carries the monotonic clock, so that a
// system's clock that is set moves no grace and no hold, but for one over a restart.
type Seen struct {
	At     time.Time
	Sights map[cluster.JobID]Sight // of the jobs that were looked at
	Hold   time.Duration           // how long a place is kept after the last victim left

	// ZeroEnds is as in Settings.
	ZeroEnds bool
	// Paused calls off what is only recorded, and begins nothing.
	Paused bool
	// Consents tells whether a job may be evicted: its owner can change that.
	Consents func(*cluster.Job) bool

	// Of a whole cycle; nil between cycles.
	Waiting  map[cluster.JobID]cluster.Class // jobs that priod ranks
	Unusable map[string]bool                 // nodes
}

// Next is the transition: what Slurm shows now, against the journal. It changes
// nothing.
func Advance(j *Journal, seen Seen) Turn {
	n := transition{j: j, Seen: seen, claims: map[int64]Claim{}, evictions: map[int64]Eviction{}, commanded: map[int64]bool{}}
	for i := range j.Evictions {
		n.advanceEviction(j.Evictions[i])
	}
	for i := range j.Claims {
		n.advanceClaim(j.Claims[i])
	}
	for i := range j.Evictions { // of claims that were just settled
		if e := n.current(&j.Evictions[i]); !n.commanded[e.Number] {
			if _, changed := n.claims[e.Claim]; changed {
				n.advanceEviction(*e)
			}
		}
	}
	var t Turn
	for i := range j.Claims {
		if c, ok := n.claims[j.Claims[i].Number]; ok {
			t.Claims = append(t.Claims, c)
		}
	}
	for i := range j.Evictions {
		if e, ok := n.evictions[j.Evictions[i].Number]; ok {
			t.Evictions = append(t.Evictions, e)
		}
	}
	t.Commands = n.commands
	return t
}

type transition struct {
	j *Journal
	Seen
	claims    map[int64]Claim
	evictions map[int64]Eviction
	commanded map[int64]bool // evictions with a command in this turn
	commands  []Command
}

// now is an eviction as this turn leaves it.
func (n *transition) current(e *Eviction) *Eviction {
	if changed, ok := n.evictions[e.Number]; ok {
		return &changed
	}
	return e
}

func (n *transition) claimOf(e *Eviction) *Claim {
	if c, ok := n.claims[e.Claim]; ok {
		return &c
	}
	return n.j.Claim(e.Claim)
}

func (n *transition) command(e *Eviction, verb Verb, value string) {
	n.commanded[e.Number] = true
	n.commands = append(n.commands, Command{Verb: verb, Job: e.Job, SLUID: n.Sights[e.Job].SLUID, Eviction: e.Number, Value: value})
}

// Settle takes in what became of the commands of a turn.
func ApplyResults(j *Journal, results []Result, at time.Time) Turn {
	var t Turn
	for _, r := range results {
		if r.Eviction != 0 {
			if e := *j.Eviction(r.Eviction); e.applyResult(&r, at) {
				t.Evictions = append(t.Evictions, e)
			}
			continue
		}
		if c := *j.Claim(r.Claim); c.applyResult(&r, at) {
			t.Claims = append(t.Claims, c)
		}
	}
	return t
}
