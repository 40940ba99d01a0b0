package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

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
	x := shareCheck{shares: cfg.Guarantees(&set).Shares}
	if view, err := slurm.View(ctx); err == nil {
		x.nodes, x.jobs = view.Snapshot.Nodes, view.Snapshot.Jobs
	}
	tree, err := slurm.Accounts(ctx)
	if x.parents = tree.Parents; err == nil {
		x.limits, err = slurm.GPULimits(ctx)
	}
	findings := x.findings()
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

// shareCheck is what shares are compared with; what is not known is empty.
type shareCheck struct {
	shares  []guarantee.Share
	nodes   []cluster.Node
	jobs    []cluster.Job
	parents map[string]string         // of accounts
	limits  map[string]map[string]int // GPUs at a time, by account and GPU type
	out     []live.Finding
}

func (x *shareCheck) say(level live.Level, fix, format string, a ...any) {
	x.out = append(x.out, live.Finding{Level: level, Name: "shares", Text: fmt.Sprintf(format, a...), Fix: fix})
}

func (x *shareCheck) findings() []live.Finding {
	for i := range x.shares {
		s := &x.shares[i]
		x.account(s)
		if len(x.nodes) > 0 {
			x.size(s)
		}
	}
	if short := guarantee.Short(x.shares, x.nodes); len(x.nodes) > 0 && short != "" {
		x.say(live.Fail, "smaller shares", "%s", short)
	}
	return x.out
}

// account compares a share with the account's associations.
func (x *shareCheck) account(s *guarantee.Share) {
	if _, known := x.parents[s.Account]; len(x.parents) > 0 && !known {
		queued := 0
		for i := range x.jobs {
			if x.jobs[i].Account == s.Account {
				queued++
			}
		}
		text := "its share is kept for no job"
		if queued > 0 {
			text = fmt.Sprintf("it was renamed or removed while %d of its jobs are in the queue, for which its share is kept", queued)
		}
		x.say(live.Warn, "remove the table, or correct its name", "[[share]] %q: this cluster has no such account in slurmdbd; %s", s.Account, text)
	}
	for at, n := x.parents[s.Account], 0; at != "" && n <= len(x.parents); at, n = x.parents[at], n+1 {
		if slices.ContainsFunc(x.shares, func(o guarantee.Share) bool { return o.Account == at }) {
			x.say(live.Warn, "", "[[share]] %q is below %q, which has a share of its own: its jobs draw on their own share alone", s.Account, at)
		}
	}
}

// size compares a share with the nodes, and with what its account may use at a time.
func (x *shareCheck) size(s *guarantee.Share) {
	all, up := s.On(x.nodes)
	owned := float64(s.GPUs)
	if s.GPUs == 0 {
		owned = math.Floor(s.Part * float64(all))
	}
	switch {
	case all == 0:
		x.say(live.Fail, "a GPU type and partitions of this cluster", "[[share]] %q: no node has %s", s.Account, s.Where())
	case owned < 1:
		x.say(live.Fail, "a larger part", "[[share]] %q: part = %g of %d %s is less than one GPU", s.Account, s.Part, all, s.Where())
	case up < all:
		x.say(live.Warn, "", "[[share]] %q: %d of %d %s are out of service: at present its share is %.4g of %g", s.Account, all-up, all, s.Where(), owned*float64(up)/float64(all), owned)
	}
	for at, n := s.Account, 0; at != "" && n <= len(x.parents); at, n = x.parents[at], n+1 {
		for _, gpuType := range slices.Compact([]string{"", s.GPUType}) {
			if most, limited := x.limits[at][gpuType]; limited && float64(most) < owned {
				tres := strings.TrimSuffix("gres/gpu:"+gpuType, ":")
				x.say(live.Warn, "sacctmgr modify account "+at+" set GrpTRES="+fmt.Sprintf("%s=%g", tres, owned),
					"[[share]] %q: its share of %g GPUs is above what account %s may use at a time (GrpTRES=%s=%d)", s.Account, owned, at, tres, most)
			}
		}
	}
}
