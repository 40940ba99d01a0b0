package evict

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Observation is what one look at Slurm showed. At carries the monotonic clock: when the
// system's clock is set, graces and holds stay as long as they were, except over a
// restart of priod.
type Observation struct {
	At       time.Time
	Statuses map[cluster.JobID]plan.JobStatus // the jobs that were looked at
	Hold     time.Duration                    // how long a place is kept after the last victim left

	// Paused says that priod is paused: recorded evictions are called off, and nothing is begun.
	Paused bool
	// MaxSignals is how many victims may be signalled by this look; 0: any number, below 0: none.
	MaxSignals int

	// Known in a whole cycle only; nil between cycles.
	Waiting  map[cluster.JobID]bool // each job of the journal that priod ranks, and whether jobs may leave for it
	Unusable map[string]bool        // nodes that cannot be used
}

// Advance is the transition: it compares the journal with what Slurm shows now, and
// returns what has to change. It changes nothing itself.
func Advance(j *Journal, seen Observation) Changes {
	n := transition{j: j, Observation: seen, claims: map[int64]Claim{}, evictions: map[int64]Eviction{}, commanded: map[int64]bool{}}
	claims, evictions := j.live()
	for e := range evictions {
		n.advanceEviction(*e)
	}
	for c := range claims {
		n.advanceClaim(*c)
	}
	for e := range evictions { // whose claims have just changed
		if e := n.current(e); !n.commanded[e.Number] {
			if _, changed := n.claims[e.Claim]; changed {
				n.advanceEviction(*e)
			}
		}
	}
	var t Changes
	for c := range claims {
		if c, ok := n.claims[c.Number]; ok {
			t.Claims = append(t.Claims, c)
		}
	}
	for e := range evictions {
		if e, ok := n.evictions[e.Number]; ok {
			t.Evictions = append(t.Evictions, e)
		}
	}
	t.Commands = n.commands
	return t
}

// transition collects the changes of one Advance.
type transition struct {
	j *Journal
	Observation
	claims    map[int64]Claim
	evictions map[int64]Eviction
	commanded map[int64]bool // evictions with a command in this transition
	commands  []plan.Command
}

// current returns an eviction with the changes of this transition.
func (n *transition) current(e *Eviction) *Eviction {
	if changed, ok := n.evictions[e.Number]; ok {
		return &changed
	}
	return e
}

// claimOf returns an eviction's claim with the changes of this transition.
func (n *transition) claimOf(e *Eviction) *Claim {
	if c, ok := n.claims[e.Claim]; ok {
		return &c
	}
	return n.j.Claim(e.Claim)
}

// command adds a command for an eviction's victim.
func (n *transition) command(e *Eviction, verb plan.CommandKind, value slurmplug.Value) {
	n.commanded[e.Number] = true
	n.commands = append(n.commands, plan.Command{Kind: verb, Job: e.Job, SLUID: n.Statuses[e.Job].SLUID, Eviction: e.Number, Value: value})
}

// ApplyResults returns the rows that the results of a turn's commands change.
func ApplyResults(j *Journal, results []plan.Result, at time.Time) Changes {
	var t Changes
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
