package config

import (
	"regexp"
	"slices"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/evict/yield"
	"slurmprio/priod/headroom"
	"slurmprio/priod/locality"
	"slurmprio/priod/nodespeed"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
)

// Decide returns the settings of the decisions.
func (c *Config) Decide() order.Settings {
	return order.Settings{
		Lever:          levers[c.Ranking.Lever],
		Top:            c.Ranking.Top,
		Step:           c.Ranking.Step,
		NiceLimit:      c.Ranking.NiceLimit,
		WritesPerCycle: c.Limits.WritesPerCycle,
		Peers:          c.Cycle.FollowController,
		Order:          order.Order(c.Ranking.Order),
		Lead:           c.RoundSettings().Policy.Lead,
		Ranking: plan.Classes{
			Partitions: c.Slurm.Partitions,
			TEQOS:      c.Ranking.TEQOS,
			BEQOS:      c.Ranking.BEQOS,
			User:       c.TEBudget.User.over(Budget{}),
			Account:    c.TEBudget.Account.over(Budget{}),
			Users:      allOver(c.TEBudget.Users, c.TEBudget.User),
			Accounts:   allOver(c.TEBudget.Accounts, c.TEBudget.Account),
		},
	}
}

// AllocationSettings returns how the time of GPUs is divided; what speeds rest on
// is the caller's to add.
func (c *Config) AllocationSettings() allocate.Settings {
	a := &c.Allocation
	return allocate.Settings{
		Policy: allocate.Policy(a.Policy), Every: time.Duration(a.Every), Weights: a.Weights, FIFO: a.FIFO, Ranking: c.Decide().Ranking, Speeds: c.SpeedSettings(),
	}
}

// Steer returns how pending jobs are bound to GPU types.
func (c *Config) Steer() steer.Settings {
	s := &c.Steering
	set := steer.Settings{
		Enabled: s.Enabled, WritesPerCycle: s.WritesPerCycle, Features: map[string]string{},
		Rule: steer.Rule{Depth: s.Depth, Wait: s.Wait, Least: s.Least, Keep: steer.Defaults.Keep, Away: steer.Defaults.Away, Change: s.Change, Cycles: s.Cycles},
	}
	if c.Rounds.Enabled { // jobs that have the time in the next round may need another type
		set.Rule.Keep = min(set.Rule.Keep, time.Duration(c.Rounds.Length).Seconds())
	}
	for t, g := range c.GPUTypes {
		set.Features[t] = g.Feature
	}
	return set
}

// RoundSettings returns which jobs yield to which at the end of a round.
func (c *Config) RoundSettings() evict.RoundSettings {
	r := &c.Rounds
	return evict.RoundSettings{Enabled: r.Enabled, Policy: yield.Settings{
		Round: time.Duration(r.Length).Seconds(), Pay: r.Pay, AtOnce: r.AtOnce,
		Lead: plan.Lead{Most: time.Duration(r.Lead).Seconds(), Half: time.Duration(r.Half).Seconds()},
	}}
}

// SpeedSettings returns how speeds are judged.
func (c *Config) SpeedSettings() speed.Settings {
	return speed.Settings{Types: c.Speeds.Types, Formerly: c.Speeds.Formerly}
}

// Steps is the expression that finds a job's steps in its command line; nil for none.
func (c *Config) Steps() *regexp.Regexp {
	if c.Speeds.Steps == "" {
		return nil
	}
	return regexp.MustCompile(c.Speeds.Steps) // validated
}

// Sizes are the settings of sizing but for the table of workloads and the past.
func (c *Config) Sizes() size.Settings {
	return size.Settings{
		Enabled: c.Sizing.Enabled, Within: time.Duration(c.Sizing.Within), Jobs: c.Sizing.Jobs,
	}
}

// LocalitySettings returns which jobs wait for few switches.
func (c *Config) LocalitySettings() locality.Settings {
	l := &c.Locality
	return locality.Settings{
		Enabled: l.Enabled, OfLimit: l.OfLimit, Depth: l.Depth, WritesPerCycle: l.WritesPerCycle,
		Rule: locality.Rule{Costs: l.Costs, Wait: l.Wait, Others: l.Others, Longest: time.Duration(l.Longest).Seconds()},
	}
}

// RefusalSettings returns which jobs refuse slow nodes.
func (c *Config) RefusalSettings() locality.Settings {
	set := c.LocalitySettings()
	set.Enabled = c.Locality.SlowNodes
	return set
}

// SlowNodes are those that runs of accounting show to be slow beyond doubt.
func (c *Config) SlowNodes(stays []cluster.PastStay, table *workload.Table) locality.SlowNodes {
	set := c.SpeedSettings()
	nodes := nodespeed.Find(set.Completed(stays, time.Duration(c.Speeds.Shortest), table))
	return locality.SlowNodes{Known: true, Table: table, Nodes: slices.DeleteFunc(nodes, func(n nodespeed.Node) bool { return !n.Slow })}
}

// Knowledge is what the runs of accounting teach of speeds, and of how many runs.
func (c *Config) Knowledge(stays []cluster.PastStay, table *workload.Table) (*speed.Knowledge, int) {
	set := c.SpeedSettings()
	runs := set.Completed(stays, time.Duration(c.Speeds.Shortest), table)
	var h speed.History
	for _, r := range runs {
		h.Add(r)
	}
	return h.Learn(), len(runs)
}

// SwitchWait is how long jobs wait for few switches at most; 0: they do not.
func (c *Config) SwitchWait() time.Duration {
	if !c.Locality.Enabled {
		return 0
	}
	return time.Duration(c.Locality.Longest)
}

// Eviction returns the settings of making room.
func (c *Config) Eviction() evict.Settings {
	p := &c.Preemption
	return evict.Settings{
		Enabled: p.Enabled && p.Policy != noEvictions,
		Defrag:  p.Defrag,
		Policy: preemption.Settings{
			Policy: preemption.Policy(p.Policy), S: p.FitGppS, Fallback: preemption.Fallback(p.FitGppFallback),
			MaxEvictions: p.MaxEvictions, MinRun: time.Duration(p.MinRun).Seconds(),
			Rise: p.Rise, Each: p.Each, Urgency: p.Urgency, RunCost: p.RunCost, MinGain: time.Duration(p.MinGain).Seconds(),
			Limits: preemption.Limits{MaxAtOnce: p.MaxAtOnce, MaxPerCycle: p.MaxPerCycle, MaxPerHour: p.MaxPerHour, GPUHoursPerDay: p.GPUHoursPerDay, UserGPUMinutesPerDay: p.UserGPUMinutesPerDay},
		},
		GraceShare: p.GraceShare, LossShare: p.LossShare, UserLossShare: p.UserLossShare,
		Ranking: c.Decide().Ranking, Rules: c.ConsentRules(),
		Grace: time.Duration(p.Grace), MaxGrace: time.Duration(p.MaxGrace), Restart: time.Duration(p.Restart),
		Reserve: p.Reserve, Hold: time.Duration(p.Hold), Retry: time.Duration(p.Retry),
		ZeroEnds: p.ZeroExit == "done",
	}
}

// HeadroomSettings returns whether nodes are kept for TE jobs.
func (c *Config) HeadroomSettings() headroom.Settings {
	p := &c.Preemption
	return headroom.Settings{Enabled: p.Headroom && p.Enabled && p.Policy != noEvictions, Share: p.HeadroomShare, Every: time.Duration(p.HeadroomEvery)}
}

// Retries returns which jobs that failed are requeued.
func (c *Config) Retries() retry.Settings {
	r := &c.Retry
	return retry.Settings{
		Enabled: r.Requeue, Rules: c.failures, Output: r.Output, PerJob: r.PerJob, PerHour: r.PerHour, PerUser: r.PerUserHour, PerCycle: r.PerCycle,
		Quick: time.Duration(r.Quick), Exclude: r.Exclude, Users: r.SuspectUsers, Within: time.Duration(r.SuspectWithin), Drain: r.Drain, MaxDrained: r.DrainMost,
	}
}

func allOver(single map[string]Budget, general Budget) map[string]plan.Budget {
	budgets := make(map[string]plan.Budget, len(single))
	for name, b := range single {
		budgets[name] = b.over(general)
	}
	return budgets
}

// over fills the keys that b leaves out from the general budget.
func (b Budget) over(general Budget) plan.Budget {
	for _, of := range []struct {
		number bool
		share  **float64
	}{{b.GPUs != nil, &general.Share}, {b.GPUHoursPerDay != nil, &general.GPUHoursShare}} {
		if of.number {
			*of.share = nil
		}
	}
	if b.GPUs == nil && b.Share != nil {
		general.GPUs = nil
	}
	if b.GPUHoursPerDay == nil && b.GPUHoursShare != nil {
		general.GPUHoursPerDay = nil
	}
	set := plan.Budget{
		GPUs:      first(b.GPUs, general.GPUs),
		TimeLimit: time.Duration(first(b.TimeLimit, general.TimeLimit)),
		GPUHours:  first(b.GPUHoursPerDay, general.GPUHoursPerDay),
	}
	if b.GPUs == nil && general.GPUs == nil {
		set.Share = first(b.Share, general.Share)
	}
	if b.GPUHoursPerDay == nil && general.GPUHoursPerDay == nil {
		set.HourShare = first(b.GPUHoursShare, general.GPUHoursShare)
	}
	return set
}

func first[T any](a, b *T) T {
	var zero T
	switch {
	case a != nil:
		return *a
	case b != nil:
		return *b
	}
	return zero
}

// waitsGap is the least time between two cycles that counts as one in which priod did not
// look: a slow poll is none.
const waitsGap = 5 * time.Minute

// WaitsGap is a longer time between two cycles than what jobs waited for in it is known.
func (c *Config) WaitsGap() time.Duration { return max(waitsGap, 5*time.Duration(c.Cycle.Interval)) }
