package cli

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"slurmprio/priod/cycle"
	"slurmprio/priod/policy/ranking"
	"slurmprio/priod/report"
)

func TestFlagsMayFollowArguments(t *testing.T) {
	for in, want := range map[string]string{
		"priod explain 17 --json":            "priod explain --json 17",
		"priod explain --json 17":            "priod explain --json 17",
		"priod history 17_4 -n 5 --json":     "priod history -n 5 --json 17_4",
		"priod history -n 5":                 "priod history -n 5",
		"priod queue --config x.toml --json": "priod --config x.toml queue --json",
		"priod queue --config=x.toml":        "priod --config=x.toml queue",
		"priod -c x.toml config show --json": "priod -c x.toml config show --json",
		"priod explain -- --json":            "priod explain -- --json",
		"priod pause --why run --json":       "priod pause --why run --json",
		"priod explain run":                  "priod explain run",
		"priod":                              "priod",
		"priod advise -c 4 x.sh --json":      "priod advise -c 4 x.sh --json",
		"priod -c x.toml advise -c 4 -- run": "priod -c x.toml advise -c 4 -- run",
		"priod frob --json":                  "priod --json frob",
	} {
		got := interleave(App("test"), strings.Fields(in))
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("%s:\n%s", in, diff)
		}
	}
}

func TestVersion(t *testing.T) {
	var out, errs bytes.Buffer
	if status := Main("v1.2", []string{"priod", "version", "--json"}, &out, &errs); status != 0 || !strings.Contains(out.String(), `"version": "v1.2"`) {
		t.Fatal(status, out.String(), errs.String())
	}
}

// Every verb that shows something has --json; what writes a file says where to.
func TestEveryVerbHasJSON(t *testing.T) {
	var check func(commands []*cli.Command)
	check = func(commands []*cli.Command) {
		for _, c := range commands {
			check(c.Subcommands)
			if len(c.Subcommands) == 0 && !isFlag(c.Flags, "--json") && !isFlag(c.Flags, "--out") {
				t.Errorf("%s has no --json", c.Name)
			}
		}
	}
	check(App("test").Commands)
}

func TestEveryReasonHasWords(t *testing.T) {
	for _, w := range ranking.Reasons {
		if report.Reason(string(w)) == string(w) {
			t.Errorf("%q has no sentence", w)
		}
	}
}

func TestLogIsSafe(t *testing.T) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: lineSafe{w: &out}})
	log.Info("wrote", "job", "x\n2026 [INFO] forged\x1b[2J\xff")
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "2026 [INFO] forged") || strings.Contains(line, "\x1b") {
			t.Errorf("%q", out.String())
		}
	}
}

func TestPlanNotesAreSafe(t *testing.T) {
	var out bytes.Buffer
	app := App("test")
	app.Writer = &out
	r := &cycle.Result{Hold: "paused\x1b[2J"}
	r.Plan.Notes = []string{"account \x1b[2J\u202e"}
	if err := showPlan(cli.NewContext(app, flag.NewFlagSet("", flag.ContinueOnError), nil), r, false); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") || !strings.Contains(out.String(), `note: account \x1b`) {
		t.Errorf("%q", out.String())
	}
}
