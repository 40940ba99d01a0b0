package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
)

// checkBudgets says which shares of TE jobs have no effect here: larger than the cluster, or of an account that Slurm does not
// have. What cannot be read is not looked at; the rest of check names it.
func checkBudgets(ctx context.Context, slurm *live.Cluster, cfg *config.Config) []live.Finding {
	numbers := false
	for _, b := range cfg.Budgets() {
		numbers = numbers || b.GPUs != nil && *b.GPUs > 0 || b.GPUHoursPerDay != nil && *b.GPUHoursPerDay > 0
	}
	if !numbers && len(cfg.TEBudget.Accounts) == 0 {
		return nil
	}
	gpus := 0
	if view, err := slurm.View(ctx); err == nil {
		for i := range view.Snapshot.Nodes {
			gpus += view.Snapshot.Nodes[i].GPUs
		}
	}
	var accounts map[string]float64
	if len(cfg.TEBudget.Accounts) > 0 {
		tree, _ := slurm.Accounts(ctx)
		accounts = tree.Parts
	}
	return idleBudgets(cfg, gpus, accounts)
}

// idleBudgets are the findings, with the GPUs of the cluster (0: unknown) and its accounts (none: unknown).
func idleBudgets(cfg *config.Config, gpus int, accounts map[string]float64) (findings []live.Finding) {
	warn := func(fix, format string, a ...any) {
		findings = append(findings, live.Finding{Level: live.Warn, Name: "te_budget", Text: fmt.Sprintf(format, a...), Fix: fix})
	}
	budgets := cfg.Budgets()
	for _, table := range slices.Sorted(maps.Keys(budgets)) {
		b := budgets[table]
		if b.GPUs != nil && gpus > 0 && *b.GPUs > gpus {
			warn(table+".gpus in priod.toml", "%s.gpus = %d is above the %d GPUs of this cluster: it limits no job", table, *b.GPUs, gpus)
		}
		if b.GPUHoursPerDay != nil && gpus > 0 && *b.GPUHoursPerDay > float64(24*gpus) {
			warn(table+".gpu_hours_per_day in priod.toml", "%s.gpu_hours_per_day = %v is above the %d GPU-hours that this cluster has in a day: it limits no job", table, *b.GPUHoursPerDay, 24*gpus)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.TEBudget.Accounts)) {
		if _, known := accounts[name]; len(accounts) > 0 && !known {
			warn("remove the table, or correct its name", "te_budget.accounts.%s: this cluster has no account %s in slurmdbd; the table has no effect", name, name)
		}
	}
	return findings
}
