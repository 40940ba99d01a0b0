package slurmplug

import (
	"context"
	"fmt"
	"math"
)

// Accounts reads the accounts of a cluster and their fairshare from its
// associations. Without slurmdbd it is an error.
func (c *Client) Accounts(ctx context.Context, cluster string) ([]Account, error) {
	out, err := c.sacctmgr(ctx, "assoc", "cluster="+cluster, "format=Account,ParentName,User,Partition,Fairshare")
	if err != nil {
		return nil, err
	}
	return parseAccounts(out)
}

// parseAccounts leaves out the associations of users. The root has no parent.
func parseAccounts(out string) (all []Account, err error) {
	seen := map[string]bool{}
	err = eachRow("assoc", out, 5, func(f []string) error {
		if f[2] != "" {
			return nil
		}
		a := Account{Name: f[0], Parent: f[1], UseParent: f[4] == "parent"}
		if !a.UseParent {
			share, err := parseUint(f[4], math.MaxUint32)
			if err != nil {
				return fmt.Errorf("field Fairshare: %w", err)
			}
			a.Share = int64(share)
		}
		if seen[a.Name] {
			return fmt.Errorf("account %.40q comes twice", a.Name)
		}
		seen[a.Name] = true
		all = append(all, a)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
