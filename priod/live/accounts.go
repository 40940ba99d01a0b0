package live

import (
	"context"

	"slurmprio/slurmplug"
)

// AccountShares reads which part of the cluster each account has by Slurm's
// associations: its Fairshare over the sum of its siblings', times its parent's part.
// Fairshare=parent counts as 1.
func (c *Cluster) AccountShares(ctx context.Context) (map[string]float64, error) {
	conf, err := c.client.Config(ctx)
	if err != nil {
		return nil, err
	}
	accounts, err := c.client.Accounts(ctx, conf.ClusterName())
	if err != nil {
		return nil, err
	}
	return partsOf(accounts), nil
}

func partsOf(accounts []slurmplug.Account) map[string]float64 {
	byName, siblings := make(map[string]*slurmplug.Account, len(accounts)), map[string]float64{}
	share := func(a *slurmplug.Account) float64 {
		if a.UseParent {
			return 1
		}
		return float64(a.Share)
	}
	for i := range accounts {
		a := &accounts[i]
		byName[a.Name] = a
		siblings[a.Parent] += share(a)
	}
	parts := make(map[string]float64, len(accounts))
	for i := range accounts {
		part := 1.0
		a := &accounts[i]
		for range accounts { // the tree is no deeper than that
			if all := siblings[a.Parent]; a.Parent != "" && all > 0 {
				part *= share(a) / all
			}
			parent := byName[a.Parent]
			if parent == nil {
				break
			}
			a = parent
		}
		parts[accounts[i].Name] = part
	}
	return parts
}
