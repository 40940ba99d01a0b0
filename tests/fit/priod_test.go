package fit

import (
	"context"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/live"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// priod decides as its daemon does, by its own reads of Slurm, and writes nothing.
type priod struct {
	cfg   *config.Config
	slurm *live.Cluster
}

// settings: room for TE jobs, with no limit on the number of evictions, their cost and the budgets, so that
// what fits decides alone.
var settings = []string{
	"preemption.enabled=true", "preemption.max_evictions=0", "preemption.min_run=0s", "preemption.max_per_hour=0",
	"preemption.gpu_hours_per_day=0", "preemption.urgency=0", "preemption.min_gain=0s",
	"preemption.user_gpu_minutes_per_day=0",
	"te_budget.user.gpus=0", "te_budget.user.time_limit=0s", "te_budget.user.gpu_hours_per_day=0",
}

func newPriod(conf string) (*priod, error) {
	cfg, err := config.Load("", settings...)
	if err != nil {
		return nil, err
	}
	runner := slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: conf})
	return &priod{cfg, live.New(slurmplug.NewClient(runner, slurmplug.Options{}))}, nil
}

// released shows jobs that are held as they will be once Slurm has looked at them and found others first.
type released struct{ *live.Cluster }

func (r released) Observe(ctx context.Context) (cluster.Snapshot, error) {
	s, err := r.Cluster.Observe(ctx)
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Pending && j.Reason == "JobHeldUser" {
			j.Reason, j.Priority, j.Eligible = "Priority", 1000, s.At
		}
	}
	return s, err
}

// decide is what priod says of each waiting TE job; held ones count as just released, or not at all.
func (p *priod) decide(ctx context.Context, release bool) (map[string]verdict, error) {
	slurm := plan.Slurm(p.slurm)
	if release {
		slurm = released{p.slurm}
	}
	result, err := cycle.Step(ctx, slurm, nil, cluster.NewHistory(), cycle.Settings{
		DryRun: true, Consent: p.cfg.ConsentRules(), Order: order.Feature{Settings: p.cfg.Decide()},
		Evictions: evict.Feature{Settings: p.cfg.Eviction(), Slurm: p.slurm, Journal: evict.NewJournal(), Vetoes: evict.Vetoes{}},
	})
	all := map[string]verdict{}
	choice := result.Room.Of(evict.ForTrial)
	if err != nil || choice == nil {
		return all, err
	}
	for _, t := range choice.Claimants {
		v := verdict{why: string(t.Why), fits: t.Why == preemption.Fits, counted: counts(t.Why)}
		for _, id := range t.Leaving() {
			v.victims = append(v.victims, id.String())
		}
		for _, c := range choice.Changes.Claims {
			if c.Job == t.Job {
				v.pin = c.Pin
			}
		}
		all[t.Job.String()] = v
	}
	return all, nil
}

// counts reports whether a verdict is one about room: not for jobs that wait for something else, or that
// priod says it cannot count.
func counts(why preemption.Why) bool {
	switch why {
	case preemption.Fits, preemption.Evicts, preemption.Impossible, preemption.Gang:
		return true
	}
	return false
}
