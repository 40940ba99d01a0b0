package evict

import (
	"math"
	"slices"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
)

// Another kind of claimants is data: here owners of GPUs, for whom only jobs of other accounts leave, whatever the wait is worth.
func TestAnotherKindOfClaimants(t *testing.T) {
	owners := kind{
		purpose: "owner", price: func(p *preemption.Settings, _ *Settings) { p.Urgency = 0 },
		ask: func(c *Choice) {
			for i, job := range c.running {
				if job.Account == "vision" {
					c.stay(i, "within-its-share")
				}
			}
			for _, q := range c.Plan.Queue {
				x := c.claimant(&c.Snapshot.Jobs[q.Job])
				types, _ := allowedTypes(c.Nodes, x.job)
				c.learn(&x, types)
				x.Why = c.barred(&x)
				c.add(x, preemption.Claimant{Owner: x.User, Start: math.Inf(1)})
			}
		},
		decide: (*Choice).decide,
	}
	s := newScene(2)
	of := func(account string) func(*cluster.Job) { return func(j *cluster.Job) { j.Account = account } }
	s.runs(1, 1, 4, of("vision"))
	s.runs(2, 2, 4, of("chem"), func(j *cluster.Job) { j.Tag.Signal = "" }) // loses an hour of work
	s.waits(10, 4, of("vision"), func(j *cluster.Job) { j.Tag.Type = "be" })
	s.plan.Decisions[0].Class = cluster.BE
	s.plan.MakeQueue(&s.Snapshot)
	c := choose(owners, s.question())
	if len(c.Changes.Claims) != 1 || c.Changes.Claims[0].Purpose != "owner" || !slices.Equal(c.Claimants[0].Leaving(), []cluster.JobID{s.Jobs[1].ID}) {
		t.Errorf("%+v", c.Claimants)
	}
	if others := c.Refusals(&c.Claimants[0]); others[0].Why != "within-its-share" || others[1].Why != preemption.Victim {
		t.Errorf("%+v", others)
	}
}
