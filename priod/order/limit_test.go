package order

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Property: under a limit of writes, jobs for which Slurm refuses every write keep no other job from
// its value.
func TestRefusedWritesStarveNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, limit := rapid.IntRange(1, 12).Draw(t, "jobs"), rapid.IntRange(1, 4).Draw(t, "limit")
		set := Settings{Lever: slurmplug.SiteFactor, Top: 1_000_000, Step: 1000, WritesPerCycle: limit}
		s, h := &cluster.Snapshot{At: time.Unix(1_700_000_000, 0), Multifactor: cluster.Multifactor{Span: 100}}, cluster.NewHistory()
		refuses, memory := map[cluster.JobID]bool{}, &Memory{}
		for i := range n {
			j := cluster.Job{
				ID: slurmplug.Plain(uint32(i + 1)), TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, GPUs: 1,
				Submit: s.At, Eligible: s.At.Add(time.Duration(i) * time.Second), SiteFactorKnown: true, Priority: 1,
			}
			j.Tag.Type = "te"
			refuses[j.ID] = rapid.Bool().Draw(t, "refused")
			s.Jobs = append(s.Jobs, j)
		}
		s.At = s.At.Add(time.Minute)
		for range n/limit + n + 2 {
			h.Observe(s)
			c := &plan.Cycle{Snapshot: s, History: h, Plan: &plan.Plan{}}
			f := Feature{Settings: set, Memory: memory}
			if err := f.Plan(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if len(c.Plan.Actions) > limit {
				t.Fatalf("%d writes, %d may be", len(c.Plan.Actions), limit)
			}
			for _, a := range c.Plan.Actions {
				o := plan.Outcome{Action: a, Status: slurmplug.Refused}
				if !refuses[a.Job] {
					o.Status = slurmplug.Applied
					s.Jobs[a.Job.ID-1].SiteFactor = a.After.Number()
				}
				c.Outcomes = append(c.Outcomes, o)
			}
			f.Heard(c)
			s.At = s.At.Add(15 * time.Second)
		}
		for i := range s.Jobs {
			if j := &s.Jobs[i]; !refuses[j.ID] && j.SiteFactor == 0 {
				t.Fatalf("job %s of %d has no value; %v are refused", j.ID, n, refuses)
			}
		}
	})
}
