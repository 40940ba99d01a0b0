package cli

import (
	"reflect"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/slurmplug"
)

// A plan tells those who leave for TE jobs from those who yield at a round's end, and
// of the waiting ones only those that get.
func TestPlanTellsRounds(t *testing.T) {
	one, two, nine := slurmplug.Plain(1), slurmplug.Plain(2), slurmplug.Plain(9)
	round := &evict.Choice{For: evict.ForRound, Claimants: []evict.Claimant{{Job: two, Why: evict.TooSoon}, {Job: nine, Why: preemption.Evicts, Victims: []evict.Running{{Job: one}}, Cost: 60}}}
	r := &cycle.Result{Room: evict.Choices{round}}
	if v := viewPlan(r); len(v.Yields) > 0 {
		t.Errorf("nothing is begun: %+v", v.Yields)
	}
	round.Changes.Claims = make([]evict.Claim, 1)
	if v := viewPlan(r); !reflect.DeepEqual(v.Yields, []leaveView{{For: nine, Victims: []cluster.JobID{one}, Cost: 60}}) || len(v.Evictions) > 0 {
		t.Errorf("%+v", v)
	}
}
