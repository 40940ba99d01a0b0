package view

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/guarantee"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// statement is one of two accounts over two hours.
func statement(used map[string]float64) *Shares {
	since := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return since.Add(time.Duration(s) * time.Second) }
	hour := func(h int, account string, accounts []string, sums guarantee.Sums) guarantee.Hour {
		return guarantee.Hour{At: since.Add(time.Duration(h) * time.Hour), Account: account, Accounts: accounts, GPUs: 8, Sums: sums}
	}
	returned := func(id uint32, user string, took int, why string) guarantee.Return {
		return guarantee.Return{Job: slurmplug.Plain(id), Account: "vision", User: user, GPUs: 4, Tasks: 1, Since: at(60), Until: at(60 + took), Started: true, Promise: 2 * time.Minute, Why: why}
	}
	waits, left := returned(5, "bob", 0, ""), returned(6, "bob", 130, guarantee.Down)
	waits.Until, waits.Started, waits.Tasks, waits.Job = time.Time{}, false, 3, slurmplug.Plain(5)
	waits.Since, left.Started = at(7080), false
	return StatementOf(since, at(7200), []string{"chem", "vision"}, []guarantee.Hour{
		hour(0, "vision", []string{"robots", "vision"}, guarantee.Sums{Entitled: 28800, Within: 18000, Lent: 7200, Wanted: 360, Borrowed: 3600}),
		hour(1, "vision", []string{"vision"}, guarantee.Sums{Entitled: 28800, Within: 28800}),
	}, []guarantee.Return{returned(1, "ann", 10, ""), returned(2, "ann", 20, ""), returned(3, "eve\x1b[2J", 150, "claimed"), waits, left}, used)
}

func TestStatementOf(t *testing.T) {
	v := statement(map[string]float64{"vision": 9, "robots": 4.5, "bio": 99})
	v.addEvictions([]store.Eviction{
		{VictimAccount: "robots", ForAccount: "chem", GPUs: 4, Left: v.Since}, {VictimAccount: "bio", ForAccount: "vision", GPUs: 8, Left: v.Since}, {VictimAccount: "vision", ForAccount: "bio", GPUs: 2},
	})
	var out bytes.Buffer
	v.Page().Show(&out, 20)
	lines := strings.Split(out.String(), "\n")
	fields := func(prefix string) string {
		for _, l := range lines {
			if strings.HasPrefix(l, prefix) {
				return strings.Join(strings.Fields(l), " ")
			}
		}
		t.Errorf("no line %q in\n%s", prefix, out.String())
		return ""
	}
	for prefix, want := range map[string]string{
		"ACCOUNT": "ACCOUNT GPUS ENTITLED USED BORROWED LENT IDLE IDLE, WANTED RETURNED P50 P95 WORST MISSED WAIT GPUS EVICTED FOR IT",
		"chem":    "chem 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0 - - - 0 0 0 4",
		"vision":  "vision 8.0 16.0 13.5 1.0 2.0 1.0 0.1 3 20s 2m17s 2m30s 2 3 4 8",
		"3 ":      `3 eve\x1b[2J vision 4.0 1 ` + report.Clock(v.Missed[0].Since) + ` 2m30s 30s started jobs that leave for it were in their grace period, or its room was not yet whole`,
	} {
		if got := fields(prefix); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", prefix, got, want)
		}
	}
	if x := v.Missed[1]; x.Job != slurmplug.Plain(6) || x.Became != "left" || x.Late != 10 || x.Why != "no room, and nodes of the share are out of service" {
		t.Errorf("%+v", x)
	}
	if diff := cmp.Diff([]string{"robots", "vision"}, v.Accounts[1].Accounts); diff != "" {
		t.Error(diff)
	}
}

// Without accounting, in a simulation, what was used is what cycles saw.
func TestStatementOfCycles(t *testing.T) {
	x := statement(nil).Accounts[1]
	if x.Used != 14 || x.Evicted != nil || x.EvictedFor != nil {
		t.Errorf("%+v", x)
	}
}

func TestNoShares(t *testing.T) {
	var out bytes.Buffer
	StatementOf(time.Time{}, time.Time{}, nil, nil, nil, nil).Page().Show(&out, 20)
	if out.String() != "No account is guaranteed GPUs: priod.toml has no [[share]] table.\n" {
		t.Error(out.String())
	}
}

// A user sees the accounts that the user has jobs in, and no job of others.
func TestSharesOfAUser(t *testing.T) {
	for user, want := range map[string][2]int{"ann": {1, 0}, "bob": {1, 1}, "dan": {0, 0}} {
		v := statement(nil)
		if v.only(user); len(v.Accounts) != want[0] || len(v.Missed) != want[1] {
			t.Errorf("%s: %d accounts, %d missed", user, len(v.Accounts), len(v.Missed))
		}
	}
}

// Each word of why a return is late has words.
func TestWhyLateInWords(t *testing.T) {
	for _, word := range []string{guarantee.Paused, guarantee.Down, guarantee.GPUType, "claimed", "evicts", "no-victims", "fits", "starts-anyway", "limit-grace", "limit-per-hour", "released-recently", ""} {
		if words := whyLate(word); words == word || strings.Contains(words, "-") {
			t.Errorf("%q: %q", word, words)
		}
	}
}
