package cli

import (
	"context"
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/live"
)

// checkShares says which [[share]] tables promise what this cluster does not have, or are of accounts that Slurm does not have.
// What cannot be read is not looked at; the rest of check names it.
func checkShares(ctx context.Context, slurm *live.Cluster, cfg *config.Config) []live.Finding {
	if len(cfg.Shares) == 0 {
		return nil
	}
	set := cfg.Eviction()
	shares := cfg.Guarantees(&set)
	var nodes []cluster.Node
	if view, err := slurm.View(ctx); err == nil {
		nodes = view.Snapshot.Nodes
	}
	tree, err := slurm.Accounts(ctx)
	findings := sharesFit(shares.Shares, nodes, tree)
	if err != nil {
		findings = append(findings, live.Finding{
			Level: live.Warn, Name: "shares", Text: fmt.Sprintf("the accounts below those of [[share]] are not known, and have no part in them: %v", err),
			Fix: "accounting with slurmdbd, or a [[share]] for each account",
		})
	}
	if !set.Enabled {
		findings = append(findings, live.Finding{
			Level: live.Warn, Name: "shares", Text: "preemption is off: no job leaves for an entitled job, which waits for the end of others", Fix: "preemption.enabled = true",
		})
	}
	return findings
}

// sharesFit are the findings on these nodes (none: unknown) and accounts (none: unknown).
func sharesFit(shares []guarantee.Share, nodes []cluster.Node, tree cluster.Accounts) (findings []live.Finding) {
	warn := func(level live.Level, fix, format string, a ...any) {
		findings = append(findings, live.Finding{Level: level, Name: "shares", Text: fmt.Sprintf(format, a...), Fix: fix})
	}
	for i := range shares {
		s := &shares[i]
		if _, known := tree.Parents[s.Account]; len(tree.Parents) > 0 && !known {
			warn(live.Warn, "remove the table, or correct its name", "[[share]] %q: this cluster has no such account in slurmdbd; its share is kept for no job", s.Account)
		}
		for at, n := tree.Parents[s.Account], 0; at != "" && n <= len(tree.Parents); at, n = tree.Parents[at], n+1 {
			for k := range shares {
				if shares[k].Account == at {
					warn(live.Warn, "", "[[share]] %q is below %q, which has a share of its own: its jobs draw on their own share alone", s.Account, at)
				}
			}
		}
	}
	if len(nodes) == 0 {
		return findings
	}
	if short := guarantee.Short(shares, nodes); short != "" {
		warn(live.Fail, "smaller shares", "%s", short)
	}
	return findings
}
