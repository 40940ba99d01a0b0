package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/guarantee"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

// Without a share, and of an account that nothing is known of, the report says so; an account without a table any more keeps
// what it had.
func TestReportShares(t *testing.T) {
	dir := t.TempDir()
	state, cfg := filepath.Join(dir, "state"), filepath.Join(dir, "priod.toml")
	write := func(more string) {
		if err := os.WriteFile(cfg, []byte("[state]\ndir = \""+state+"\"\n"+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fillWaits(t, state)
	report := func(args ...string) string {
		t.Helper()
		status, out, errs := run(append([]string{"--config", cfg, "report", "shares"}, args...)...)
		if status != 0 {
			t.Fatalf("exit status %d: %s", status, errs)
		}
		return out
	}
	write("")
	if out := report(); out != "No account is guaranteed GPUs: priod.toml has no [[share]] table.\n" {
		t.Error(out)
	}
	write("[preemption]\nenabled = true\n[[share]]\naccount = \"gone\"\ngpus = 4\n")
	if out := report(); !strings.Contains(out, "\ngone ") || strings.Contains(out, "Promises missed") {
		t.Error(out)
	}
	st, err := store.Open(t.Context(), state, store.Options{Once: true})
	if err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(-2 * time.Hour).Truncate(time.Hour)
	late := guarantee.Return{Job: slurmplug.Plain(9), Account: "lab", User: "eve", GPUs: 8, Tasks: 1, Since: hour, Until: hour.Add(3 * time.Minute), Started: true, Promise: 2 * time.Minute, Why: "claimed"}
	if err := st.SaveStatement(t.Context(), &guarantee.Taken{
		Hours: []guarantee.Hour{{At: hour, Account: "lab", Accounts: []string{"lab"}, GPUs: 8, Sums: guarantee.Sums{Entitled: 28800, Within: 7200, Lent: 3600}}}, Ended: []guarantee.Return{late},
	}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	var v view.Shares
	if err := json.Unmarshal([]byte(report("--json")), &v); err != nil || len(v.Accounts) != 2 || len(v.Missed) != 1 {
		t.Fatalf("%v: %+v", err, v)
	}
	x := v.Accounts[1] // what was used are the runs of fillWaits, in the last hour
	if x.Account != "lab" || x.Entitled != 8 || x.Within != 2 || x.Lent != 1 || x.Idle != 5 || x.Returns != 1 || x.Missed != 1 || *x.P50 != 180 || x.Used <= 0 || x.Used > 1 {
		t.Errorf("%+v", x)
	}
	if v.Missed[0].Late != 60 || !strings.Contains(v.Missed[0].Why, "grace period") {
		t.Errorf("%+v", v.Missed[0])
	}
}
