package order_test

import (
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Two trial-and-error jobs go before a best-effort job that Slurm itself prefers, the one
// that could have run first before the other.
func ExampleDecide() {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	job := func(id uint32, typ string, priority int64) cluster.Job {
		return cluster.Job{
			ID: slurmplug.Plain(id), User: "ann", Partition: "gpu", State: cluster.Pending, GPUs: 1, TaskCount: 1,
			Tag: jobtag.Tag{Type: typ}, Priority: priority, SiteFactorKnown: true,
		}
	}
	snapshot := cluster.Snapshot{
		At:          now,
		Jobs:        []cluster.Job{job(1, "be", 9000), job(2, "te", 500), job(3, "te", 7000)},
		Multifactor: cluster.Multifactor{Span: 10_000}, // what Slurm's own factors can differ by
	}
	history := cluster.NewHistory()
	for id, waited := range map[uint32]time.Duration{1: 3 * time.Hour, 2: 20 * time.Minute, 3: 5 * time.Minute} {
		history.FirstEligible.Set(slurmplug.Plain(id), now.Add(-waited))
	}

	p := order.Decide(&snapshot, history, order.Settings{Top: 2_000_000_000})

	slices.SortFunc(p.Decisions, func(a, b plan.Decision) int { return int(b.Own + b.Value - a.Own - a.Value) })
	for i, d := range p.Decisions {
		fmt.Printf("%d. job %s, %s: Slurm's own priority is %d\n", i+1, d.Job, d.Class, d.Own)
	}
	for _, a := range p.Actions {
		fmt.Printf("job %s: %s %s instead of %s\n", a.Job, a.Lever, a.After, a.Before)
	}
	// Output:
	// 1. job 2, te: Slurm's own priority is 500
	// 2. job 3, te: Slurm's own priority is 7000
	// 3. job 1, be: Slurm's own priority is 9000
	// job 2: SiteFactor 1777800000 instead of 0
	// job 3: SiteFactor 1555580000 instead of 0
}
