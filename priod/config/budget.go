package config

import (
	"cmp"
	"fmt"
)

// BudgetKey names the key of te_budget that gives a limit (gpus, gpu_hours, time_limit_s) of so much to a user or an account, with
// its value, and where that stands: "te_budget.user.gpus = 8, priod.toml". A name of "" is any without a table of its own.
func (c *Config) BudgetKey(of, name, limit string, allowed float64) string {
	table, general, own := "te_budget.user", c.TEBudget.User, c.TEBudget.Users[name]
	if of == "account" {
		table, general, own = "te_budget.account", c.TEBudget.Account, c.TEBudget.Accounts[name]
	}
	type key struct {
		name     string
		own      bool
		value    float64
		of, text string
	}
	both := own.over(general)
	number := key{"gpus", own.GPUs != nil, float64(both.GPUs), "", fmt.Sprint(both.GPUs)}
	part := key{"share", own.Share != nil, both.Share, " of the GPUs that the job reaches", fmt.Sprint(both.Share)}
	switch limit {
	case "gpu_hours":
		number = key{"gpu_hours_per_day", own.GPUHoursPerDay != nil, both.GPUHours, "", fmt.Sprint(both.GPUHours)}
		part = key{"gpu_hours_share", own.GPUHoursShare != nil, both.HourShare, " of what the GPUs give that the job reaches", fmt.Sprint(both.HourShare)}
	case "time_limit_s":
		number, part = key{"time_limit", own.TimeLimit != nil, both.TimeLimit.Seconds(), "", both.TimeLimit.String()}, key{}
	}
	k := number
	if part.value > 0 && (number.value == 0 || allowed < number.value) { // of both the lesser holds
		k = part
	}
	if k.own {
		table += "s." + name
	}
	source := cmp.Or(c.sources[table+"."+k.name], "the default")
	return fmt.Sprintf("%s.%s = %s%s, %s", table, k.name, k.text, k.of, source)
}
