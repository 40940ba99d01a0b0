package cli

import (
	"fmt"
	"testing"

	"slurmprio/priod/config"
)

// A share that has no effect is named: above the cluster, or of an account that is gone. What is unknown is not judged.
func TestCheckBudgets(t *testing.T) {
	cfg, err := config.Load(write(t, "priod.toml", `
[te_budget.user]
gpus = 13
[te_budget.users.ann]
gpu_hours_per_day = 289.0
[te_budget.users.bob]
gpus = 12
gpu_hours_per_day = 288.0
[te_budget.accounts.gone]
share = 0.5
[te_budget.accounts.there]
gpus = 0
`))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range idleBudgets(cfg, 12, map[string]float64{"there": 1, "root": 1}) {
		texts = append(texts, f.Text)
	}
	want := []string{
		"te_budget.user.gpus = 13 is above the 12 GPUs of this cluster: it limits no job",
		"te_budget.users.ann.gpu_hours_per_day = 289 is above the 288 GPU-hours that this cluster has in a day: it limits no job",
		"te_budget.accounts.gone: this cluster has no account gone in slurmdbd; the table has no effect",
	}
	if fmt.Sprintf("%q", texts) != fmt.Sprintf("%q", want) {
		t.Errorf("%q", texts)
	}
	if findings := idleBudgets(cfg, 0, nil); len(findings) > 0 {
		t.Errorf("%+v", findings)
	}
}
