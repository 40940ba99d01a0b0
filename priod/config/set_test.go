package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(path, []byte("[preemption]\nurgency = 3.0\nmax_evictions = 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, "profile=balanced", "preemption.urgency=5", "preemption.min_run=2m", "ranking.order=slurm", "ranking.te_qos=a, b",
		"locality.costs=[0.1, 0.2]", "te_budget.users.ann.gpus=4", "sizing.enabled=false", "allocation.weights.ml=2", "cycle.interval=\"30s\"")
	if err != nil {
		t.Fatal(err)
	}
	if c.Preemption.Urgency != 5 || c.Preemption.MaxEvictions != 7 || time.Duration(c.Preemption.MinRun) != 2*time.Minute || c.Ranking.Order != "slurm" ||
		strings.Join(c.Ranking.TEQOS, "|") != "a|b" || len(c.Locality.Costs) != 2 || *c.TEBudget.Users["ann"].GPUs != 4 || c.Sizing.Enabled || !c.Steering.Enabled ||
		c.Allocation.Weights["ml"] != 2 || time.Duration(c.Cycle.Interval) != 30*time.Second {
		t.Errorf("%+v", c)
	}
	if text, err := c.Effective(); err != nil || !strings.Contains(text, "urgency = 5.0  # --set\n") || !strings.Contains(text, "max_evictions = 7  # priod.toml\n") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, c := range []struct{ set, want string }{
		{"preemption.urgancy=5", `unknown key "preemption.urgancy"; did you mean "preemption.urgency"?`},
		{"preemption=5", "--set preemption=5: want a key of this table"},
		{"preemption.urgency.x=5", `unknown key "preemption.urgency.x"`},
		{"preemption.urgency=fast", "--set preemption.urgency=fast: want a number"},
		{"preemption.min_run=soon", "--set preemption.min_run=soon: want a time such as 90s"},
		{"preemption.max_evictions=1.5", "want a whole number"},
		{"preemption.enabled=yes", "want true or false"},
		{"preemption.enabled", `--set "preemption.enabled": want KEY=VALUE`},
		{"preemption.urgency=6,preemption.urgency=7", "want a number"},
		{"ranking.order=best", "ranking.order"},
		{"profile=fast", `profile = "fast": want order-only`},
		{"path=x", `unknown key "path"`},
		{".=x", `unknown key "."`},
		{"sizing.enabled=true\n[slurm]\nuntried=true", "want KEY=VALUE"},
	} {
		if _, err := Load(path, c.set); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.set, err, c.want)
		}
	}
	if _, err := Load(path, "preemption.urgency=6", "preemption.urgency=7"); err == nil || !strings.Contains(err.Error(), "--set preemption.urgency: given twice") {
		t.Error(err)
	}
}
