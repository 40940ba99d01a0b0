package slurmplug

import (
	"context"
	"fmt"
	"math"
	"strings"
)

// Accounts reads the accounts of a cluster and their fairshare from its
// associations. Without slurmdbd it is an error.
func (c *Client) Accounts(ctx context.Context, cluster string) ([]Account, error) {
	out, err := c.readLines(ctx, "sacctmgr", "--noheader", "--parsable2", "show", "assoc", "cluster="+cluster,
		"format=Account,ParentName,User,Partition,Fairshare")
	if err != nil {
		return nil, err
	}
	return parseAccounts(string(out))
}

// parseAccounts leaves out the associations of users. The root has no parent.
func parseAccounts(out string) ([]Account, error) {
	var all []Account
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(f) != 5 || f[0] == "" {
			return nil, doubtful("sacctmgr show assoc", "%q: %d fields, want 5, the first not empty", firstLine([]byte(line)), len(f))
		}
		if f[2] != "" {
			continue
		}
		a := Account{Name: f[0], Parent: f[1], UseParent: f[4] == "parent"}
		if !a.UseParent {
			share, err := parseUint(f[4], math.MaxUint32)
			if err != nil {
				return nil, doubtful("sacctmgr show assoc", "%q: %w", firstLine([]byte(line)), fmt.Errorf("field Fairshare: %w", err))
			}
			a.Share = int64(share)
		}
		if seen[a.Name] {
			return nil, doubtful("sacctmgr show assoc", "account %.40q comes twice", a.Name)
		}
		seen[a.Name] = true
		all = append(all, a)
	}
	return all, nil
}
