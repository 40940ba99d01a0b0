package config

import (
	"testing"
	"time"

	"slurmprio/priod/plan"
)

// A share's key is the one whose value holds: a number in place of the share beside it, an exception's before that of all; it
// says whether the file or neither set it.
func TestBudgetKey(t *testing.T) {
	for _, c := range []struct{ text, of, name, limit, want string }{
		{"", "user", "ann", "gpus", "te_budget.user.share = 0.1 of the GPUs that the job reaches, the default"},
		{"", "user", "ann", "time_limit_s", "te_budget.user.time_limit = 1h0m0s, the default"},
		{"", "user", "ann", "gpu_hours", "te_budget.user.gpu_hours_share = 0.02 of what the GPUs give that the job reaches, the default"},
		{"[te_budget.user]\ngpus = 6\n", "user", "ann", "gpus", "te_budget.user.gpus = 6, priod.toml"},
		{"[te_budget.users.ann]\ngpus = 16\n", "user", "ann", "gpus", "te_budget.users.ann.gpus = 16, priod.toml"},
		{"[te_budget.user]\ngpus = 6\n[te_budget.users.ann]\nshare = 0.5\n", "user", "ann", "gpus", "te_budget.users.ann.share = 0.5 of the GPUs that the job reaches, priod.toml"},
		{"[te_budget.users.ann]\ngpus = 16\n", "user", "bob", "gpus", "te_budget.user.share = 0.1 of the GPUs that the job reaches, the default"},
		{"[te_budget.account]\ngpu_hours_per_day = 90.0\n", "account", "lab", "gpu_hours", "te_budget.account.gpu_hours_per_day = 90, priod.toml"},
		{"[te_budget.accounts.lab]\ngpus = 3\n", "account", "lab", "gpus", "te_budget.accounts.lab.gpus = 3, priod.toml"},
	} {
		cfg, err := load(t, c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.BudgetKey(c.of, c.name, c.limit); got != c.want {
			t.Errorf("%s %s, %s of %q: %q, want %q", c.of, c.name, c.limit, c.text, got, c.want)
		}
	}
}

// A number takes the place of the share beside it, 0 too, in the table where it stands and in those that inherit from it.
func TestNumbersTakeThePlaceOfShares(t *testing.T) {
	for text, want := range map[string]plan.Budget{
		"":                             {Share: 0.1, HourShare: 0.02, TimeLimit: time.Hour},
		"[te_budget.user]\ngpus = 0\n": {HourShare: 0.02, TimeLimit: time.Hour},
		"[te_budget.user]\ngpus = 8\nshare = 0.5\n":                                       {GPUs: 8, HourShare: 0.02, TimeLimit: time.Hour},
		"[te_budget.user]\ngpu_hours_per_day = 5.0\n[te_budget.users.ann]\nshare = 0.3\n": {Share: 0.3, GPUHours: 5, TimeLimit: time.Hour},
		"[te_budget.user]\ngpus = 8\n[te_budget.users.ann]\nshare = 0.3\n":                {Share: 0.3, HourShare: 0.02, TimeLimit: time.Hour},
		"[te_budget.users.ann]\ngpus = 3\n":                                               {GPUs: 3, HourShare: 0.02, TimeLimit: time.Hour},
	} {
		cfg, err := load(t, text)
		if err != nil {
			t.Fatal(err)
		}
		set := cfg.Decide().Ranking
		if got := set.OfUser("ann"); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
