package config

import "testing"

// A budget's key is the one whose value holds: of a number and a share the lesser, an exception's before that of all; it says
// whether the file, the profile or neither set it.
func TestBudgetKey(t *testing.T) {
	const balanced = "profile = \"balanced\"\n"
	for _, c := range []struct {
		text, of, name, limit string
		allowed               float64
		want                  string
	}{
		{"", "user", "ann", "gpus", 8, "te_budget.user.gpus = 8, the default"},
		{"", "user", "ann", "time_limit_s", 3600, "te_budget.user.time_limit = 1h0m0s, the default"},
		{balanced, "user", "ann", "gpus", 4, "te_budget.user.share = 0.1 of the GPUs that the job reaches, profile balanced"},
		{balanced, "user", "ann", "gpu_hours", 12, "te_budget.user.gpu_hours_share = 0.02 of what the GPUs give that the job reaches, profile balanced"},
		{balanced + "[te_budget.user]\ngpus = 6\n", "user", "ann", "gpus", 6, "te_budget.user.gpus = 6, priod.toml"},
		{balanced + "[te_budget.users.ann]\ngpus = 16\n", "user", "ann", "gpus", 16, "te_budget.users.ann.gpus = 16, priod.toml"},
		{balanced + "[te_budget.users.ann]\ngpus = 16\n", "user", "bob", "gpus", 4, "te_budget.user.share = 0.1 of the GPUs that the job reaches, profile balanced"},
		{"[te_budget.account]\ngpu_hours_per_day = 90.0\n", "account", "lab", "gpu_hours", 90, "te_budget.account.gpu_hours_per_day = 90, priod.toml"},
		{"[te_budget.accounts.lab]\ngpus = 3\n", "account", "lab", "gpus", 3, "te_budget.accounts.lab.gpus = 3, priod.toml"},
	} {
		cfg, err := load(t, c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.BudgetKey(c.of, c.name, c.limit, c.allowed); got != c.want {
			t.Errorf("%s %s, %s %v of %q: %q, want %q", c.of, c.name, c.limit, c.allowed, c.text, got, c.want)
		}
	}
}
