package config

import (
	"cmp"
	"fmt"
)

// BudgetKey names the key of te_budget that gives a share (gpus, gpu_hours, time_limit_s) to a user or an account, with
// its value, and where that stands: "te_budget.user.gpus = 8, priod.toml". A name of "" is any without a table of its own.
func (c *Config) BudgetKey(of, name, limit string) string {
	type key struct {
		name string
		own  bool
		text string
	}
	table, general, own := "te_budget.user", c.TEBudget.User, c.TEBudget.Users[name]
	if of == "account" {
		table, general, own = "te_budget.account", c.TEBudget.Account, c.TEBudget.Accounts[name]
	}
	both := own.over(general)
	k := key{"gpus", own.GPUs != nil, fmt.Sprint(both.GPUs)}
	switch {
	case limit == "time_limit_s":
		k = key{"time_limit", own.TimeLimit != nil, both.TimeLimit.String()}
	case limit == "gpu_hours" && both.HourShare > 0:
		k = key{"gpu_hours_share", own.GPUHoursShare != nil, fmt.Sprint(both.HourShare) + " of what the GPUs give that the job reaches"}
	case limit == "gpu_hours":
		k = key{"gpu_hours_per_day", own.GPUHoursPerDay != nil, fmt.Sprint(both.GPUHours)}
	case both.Share > 0:
		k = key{"share", own.Share != nil, fmt.Sprint(both.Share) + " of the GPUs that the job reaches"}
	}
	if k.own {
		table += "s." + name
	}
	source := cmp.Or(c.sources[table+"."+k.name], "the default")
	return fmt.Sprintf("%s.%s = %s, %s", table, k.name, k.text, source)
}

// Budgets are the tables of te_budget by their names: "te_budget.user", "te_budget.users.ann".
func (c *Config) Budgets() map[string]Budget {
	budgets := map[string]Budget{"te_budget.user": c.TEBudget.User, "te_budget.account": c.TEBudget.Account}
	for name, b := range c.TEBudget.Users {
		budgets["te_budget.users."+name] = b
	}
	for name, b := range c.TEBudget.Accounts {
		budgets["te_budget.accounts."+name] = b
	}
	return budgets
}
