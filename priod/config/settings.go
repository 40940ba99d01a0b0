package config

import (
	"regexp"
	"slices"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/headroom"
	"slurmprio/priod/idle"
	"slurmprio/priod/locality"
	"slurmprio/priod/nodespeed"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/priod/window"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
)

// Decide returns the settings of the decisions.
func (c *Config) Decide() order.Settings {
	set := c.Constants.Order
	set.Peers = c.Cycle.FollowController
	set.Order = order.Order(c.Ranking.Order)
	set.Lead = c.Constants.Eviction.Rounds.Lead
	set.Ranking = plan.Classes{
		Partitions: c.Slurm.Partitions,
		TEQOS:      c.Ranking.TEQOS,
		BEQOS:      c.Ranking.BEQOS,
		User:       c.TEBudget.User.over(Budget{}),
		Account:    c.TEBudget.Account.over(Budget{}),
		Users:      allOver(c.TEBudget.Users, c.TEBudget.User),
		Accounts:   allOver(c.TEBudget.Accounts, c.TEBudget.Account),
	}
	return set
}

// AllocationSettings returns how the time of GPUs is divided; what speeds rest on
// is the caller's to add.
func (c *Config) AllocationSettings() allocate.Settings {
	set := c.Constants.Allocation
	set.Weights, set.Ranking, set.Speeds = c.Allocation.Weights, c.Decide().Ranking, c.SpeedSettings()
	set.Policy = allocate.Policy(c.Allocation.Policy)
	return set
}

// Steer returns how pending jobs are bound to GPU types.
func (c *Config) Steer() steer.Settings {
	set := c.Constants.Steering
	set.Enabled, set.Features = c.Steering.Enabled, map[string]string{}
	if c.Rounds.Enabled { // jobs that have the time in the next round may need another type
		set.Rule.Keep = min(set.Rule.Keep, time.Duration(c.Rounds.Length).Seconds())
	}
	for t, g := range c.GPUTypes {
		set.Features[t] = g.Feature
	}
	return set
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
	set := c.Constants.Sizing
	set.Enabled = c.Sizing.Enabled
	return set
}

// LocalitySettings returns which jobs wait for few switches.
func (c *Config) LocalitySettings() locality.Settings {
	set := c.Constants.Locality
	set.Enabled, set.Rule.Costs = c.Locality.Enabled, c.Locality.Costs
	return set
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
	nodes := nodespeed.Find(set.Completed(stays, c.Constants.ShortestRun, table))
	return locality.SlowNodes{Known: true, Table: table, Nodes: slices.DeleteFunc(nodes, func(n nodespeed.Node) bool { return !n.Slow })}
}

// Knowledge is what the runs of accounting teach of speeds, and of how many runs.
func (c *Config) Knowledge(stays []cluster.PastStay, table *workload.Table) (*speed.Knowledge, int) {
	set := c.SpeedSettings()
	runs := set.Completed(stays, c.Constants.ShortestRun, table)
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
	return time.Duration(c.Constants.Locality.Rule.Longest) * time.Second
}

// Eviction returns the settings of making room.
func (c *Config) Eviction() evict.Settings {
	p, set := &c.Preemption, c.Constants.Eviction
	set.Enabled, set.Defrag = p.Enabled && p.Policy != noEvictions, p.Defrag
	set.Rounds.Enabled, set.Rounds.Length = c.Rounds.Enabled, time.Duration(c.Rounds.Length)
	set.Policy.Policy, set.Policy.Urgency = preemption.Policy(p.Policy), p.Urgency
	set.Policy.MaxEvictions, set.Policy.MinRun = p.MaxEvictions, time.Duration(p.MinRun).Seconds()
	set.Policy.Limits.MaxPerHour = p.MaxPerHour
	set.GraceShare, set.LossShare, set.UserLossShare = p.GraceShare, p.LossShare, p.UserLossShare
	set.Ranking, set.Rules = c.Decide().Ranking, c.ConsentRules()
	set.Grace, set.MaxGrace = time.Duration(p.Grace), time.Duration(p.MaxGrace)
	return set
}

// WindowSettings returns which jobs run until maintenance; leaving says which agree to leave, and how long they take.
func (c *Config) WindowSettings(leaving *evict.Settings) window.Settings {
	set := c.Constants.Window
	set.Enabled, set.Restart, set.Leaves = c.Windows.Enabled, leaving.Restart, leaving.Leaves
	return set
}

// HeadroomSettings returns whether nodes are kept for TE jobs.
func (c *Config) HeadroomSettings() headroom.Settings {
	p := &c.Preemption
	set := c.Constants.Headroom
	set.Enabled = p.Headroom && p.Enabled && p.Policy != noEvictions
	return set
}

// Retries returns which jobs that failed are requeued.
func (c *Config) Retries() retry.Settings {
	set := c.Constants.Retries
	set.Rules, set.Output, set.Drain = c.failures, c.Retry.Output, c.Retry.Drain
	return set
}

// Idle returns when a running job counts as idle, and what is done then.
func (c *Config) Idle() idle.Settings {
	set := c.Constants.Idle
	set.Enabled = true
	for _, do := range c.Usage.OnIdle {
		set.Do = append(set.Do, idle.Do(do))
	}
	return set
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
