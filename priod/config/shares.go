package config

import (
	"fmt"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/guarantee"
)

// Share is one [[share]] table: see guarantee.Share.
type Share struct {
	Account      string   `toml:"account" json:"account"`
	GPUs         int      `toml:"gpus" json:"gpus,omitempty"`
	Part         float64  `toml:"part" json:"part,omitempty"`
	GPUType      string   `toml:"gpu_type" json:"gpu_type,omitempty"`
	Partitions   []string `toml:"partitions" json:"partitions,omitempty"`
	ReturnWithin Duration `toml:"return_within" json:"return_within,omitempty"`
}

// returnWithin is how soon an entitled job starts where its share does not say.
const returnWithin = 2 * time.Minute

// Guarantees are the shares of accounts; leaving says which jobs agree to leave, and how long they take.
func (c *Config) Guarantees(leaving *evict.Settings) guarantee.Settings {
	ranking := leaving.Ranking
	set := c.Constants.Guarantee
	set.Lend, set.After, set.Leaves = guarantee.Lend(c.Lending.Lend), time.Duration(c.Lending.After), leaving.Leaves
	set.Trial = func(j *cluster.Job) bool { return ranking.Class(j.Tag.Type, j.QOS) == cluster.TE }
	for _, s := range c.Shares {
		within := time.Duration(s.ReturnWithin)
		if within == 0 {
			within = returnWithin
		}
		set.Shares = append(set.Shares, guarantee.Share{Account: s.Account, GPUs: s.GPUs, Part: s.Part, GPUType: s.GPUType, Partitions: s.Partitions, ReturnWithin: within})
	}
	return set
}

// checkShares refuses shares that make no sense.
func (c *Config) checkShares() error {
	switch guarantee.Lend(c.Lending.Lend) {
	case guarantee.Returnable, guarantee.All, guarantee.None:
	default:
		return fmt.Errorf("shares.lend: want %s, %s or %s%s", guarantee.Returnable, guarantee.All, guarantee.None, c.not("shares.lend"))
	}
	if c.Lending.After < 0 {
		return fmt.Errorf("shares.lend_after: want 0s or more%s", c.not("shares.lend_after"))
	}
	type piece struct{ account, gpuType string }
	seen := map[piece]int{}
	for i, s := range c.Shares {
		at := fmt.Sprintf("[[share]] %d", i+1)
		if s.Account != "" {
			at = fmt.Sprintf("[[share]] %.40q", s.Account)
		}
		before := seen[piece{s.Account, s.GPUType}]
		for _, r := range []rule{
			{"account", s.Account != "" && single([]string{s.Account}), "the name of an account"},
			{"gpus, part", s.GPUs >= 0 && s.Part >= 0 && s.Part <= 1 && (s.GPUs > 0) != (s.Part > 0), "one of them: gpus a number above 0, part above 0 and at most 1"},
			{"partitions", single(s.Partitions), "names of partitions, each in quotes of its own"},
			{"return_within", s.ReturnWithin == 0 || s.ReturnWithin >= Duration(10*time.Second), "at least 10s"},
			{"account", before == 0, fmt.Sprintf("each account once for a GPU type: table %d has it, too", before)},
		} {
			if !r.ok {
				return fmt.Errorf("%s: %s: want %s", at, r.key, r.want)
			}
		}
		seen[piece{s.Account, s.GPUType}] = i + 1
	}
	return nil
}
