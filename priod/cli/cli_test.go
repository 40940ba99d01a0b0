package cli

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

func TestFlagsMayFollowArguments(t *testing.T) {
	for in, want := range map[string]string{
		"priod explain 17 --json":            "priod explain --json 17",
		"priod explain --json 17":            "priod explain --json 17",
		"priod evictions 17_4 -n 5 --json":   "priod evictions -n 5 --json 17_4",
		"priod evictions -n 5":               "priod evictions -n 5",
		"priod queue --config x.toml --json": "priod --config x.toml queue --json",
		"priod queue --config=x.toml":        "priod --config=x.toml queue",
		"priod -c x.toml config show --json": "priod -c x.toml config show --json",
		"priod explain -- --json":            "priod explain -- --json",
		"priod pause --why run --json":       "priod pause --why run --json",
		"priod explain run":                  "priod explain run",
		"priod":                              "priod",
		"priod eta --slurm -- -c 4 x.sh -n":  "priod eta --slurm -- -c 4 x.sh -n",
		"priod -c x.toml eta --json -- run":  "priod -c x.toml eta --json -- run",
		"priod frob --json":                  "priod --json frob",
	} {
		got := interleave(App("test"), strings.Fields(in))
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("%s:\n%s", in, diff)
		}
	}
}

// What is said of wrong usage names the option, what it wants and where to read on;
// the status is 2, nothing stands on standard output.
func TestWrongUsage(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // nothing here needs Slurm
	for in, want := range map[string]string{
		"frobnicate":                    `no command "frobnicate"; see priod --help`,
		"quee":                          `no command "quee", did you mean "queue"?; see priod --help`,
		"help frob":                     `no command "frob"; see priod --help`,
		"--frob":                        "no option --frob; see priod --help",
		"queue --frob":                  "no option --frob; see priod queue --help",
		"explain -5":                    "no option -5; see priod explain --help",
		"report sizing --sinc 3d":       "no option --sinc; see priod report sizing --help",
		"queue -n":                      "-n: its value is missing; see priod queue --help",
		"queue -n x":                    `-n "x": want a whole number`,
		"queue --watch --json":          "queue: --watch shows a screen, --json an object: give one of them",
		"queue --every 10ms":            "queue: --every 10ms: want 1s or more",
		"queue --every 0s":              "queue: --every 0s: want 1s or more",
		"queue now":                     `queue takes no arguments, and got "now"`,
		"queue --most -1":               "queue: --most -1: want 0 (all) or more",
		"report history --most 0":       "history: --most 0: want at least 1",
		"profile --budget x -- a":       `--budget "x": want a time such as 90s, 5m or 1h30m`,
		"explain 17 --frob x":           "no option --frob; see priod explain --help",
		"eta --gres=gpu:1 a.sh":         "no option --gres; options of sbatch stand behind --; see priod eta --help",
		"simulate --seed -1":            `--seed "-1": want a whole number from 0`,
		"queue --json=maybe":            `--json "maybe": want no value, or true or false`,
		"report":                        "report: say which: classes, eta, failures, goodput, history, learning, nodes, preemptions, shares, sizing, trial, usage, value, waits",
		"report frob":                   "report: say which: classes, eta, failures, goodput, history, learning, nodes, preemptions, shares, sizing, trial, usage, value, waits",
		"--config /x trace generate":    "trace is gone: the papers' generators are go run ./tests/papers generate in a checkout",
		"explain":                       "explain: name one job, such as 17, 17_4 or 17+0",
		"explain 17_[1-3":               `job id "17_[1-3": want one as squeue prints it: 17, 17_4, 17_[1-3], 17+0, or a SLUID`,
		"explain 17 x":                  `job id "x": want one as squeue prints it`,
		"explain --schema 17":           "explain: --schema is the same for all jobs: name none",
		"explain x":                     `job id "x": want one as squeue prints it`,
		"explain --history 17_[x]":      `job id "17_[x]": want one as squeue prints it`,
		"explain --history 17+":         `job id "17+": want one as squeue prints it`,
		"evictions 17_3+1":              `job id "17_3+1": want one as squeue prints it`,
		"evictions s":                   `job id "s": want one as squeue prints it`,
		"explain --victims 0+1":         `job id "0+1": want one as squeue prints it`,
		"allocate --policy frob":        "allocate is gone: ",
		"top --every 0s":                "top is gone: use priod queue",
		"history 17":                    "history is gone: use priod report history, or priod explain --history JOBID",
		"sweep x.toml --show":           "sweep is gone: use priod tune",
		"advise --gres=gpu:1 x.sh":      "advise is gone: use priod eta SCRIPT",
		"evict --dry-run 17":            "evict is gone: use priod explain --victims JOBID",
		"defrag --json":                 "defrag is gone: use priod explain --victims",
		"explain --history --victims 1": "explain: --history or --victims, not both",
		"explain --history":             "explain: name one job, such as 17, 17_4 or 17+0",
		"eta --user x a.sh":             "eta: --user is for waiting jobs, not for scripts",
		"simulate --nodes 1:v100:4 --from-slurm --mtbf -1s": "--mtbf -1s: want 0s or more",
		"simulate --compare --order las":                    `--order "las": want one of fifo, multifactor, fair-share, quotas, owners, priod`,
	} {
		var out, errs bytes.Buffer
		status := Main("", append([]string{"priod"}, strings.Fields(in)...), &out, &errs)
		if status != exitUsage || out.Len() > 0 || !strings.HasPrefix(errs.String(), "priod: "+want) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("priod %s: status %d, %q, %q; want %q", in, status, out.String(), errs.String(), want)
		}
	}
}

// Help needs neither Slurm nor a configuration, wherever it is asked for.
func TestHelpNeedsNothing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("PRIOD_CONFIG", "/nonexistent/priod.toml")
	for in, want := range map[string]string{
		"--help":                  "priod - ",
		"help":                    "priod - ",
		"help queue":              "priod queue - ",
		"queue -h":                "priod queue - ",
		"explain 17 --help":       "priod explain - ",
		"workloads export --help": "priod workloads export - ",
		"--version":               "priod v1 go",
		"version":                 "priod v1 go",
	} {
		var out, errs bytes.Buffer
		status := Main("v1", append([]string{"priod"}, strings.Fields(in)...), &out, &errs)
		if status != exitDone || errs.Len() > 0 || !strings.Contains(out.String(), want) {
			t.Errorf("priod %s: status %d, %q, %q; want %q", in, status, out.String(), errs.String(), want)
		}
	}
}

// A file that cannot be written is called by the name that was given.
func TestOutNamesTheFile(t *testing.T) {
	var out, errs bytes.Buffer
	status := Main("", strings.Fields("priod workloads export --out /nonexistent/x"), &out, &errs)
	if want := "priod: open /nonexistent/x: no such file or directory\n"; status != exitProblem || errs.String() != want {
		t.Errorf("%d, %q; want %q", status, errs.String(), want)
	}
}

// A job may be named as squeue and priod queue show it.
func TestJobsAreNamedAsTheQueueShowsThem(t *testing.T) {
	plain := slurmplug.JobName{Job: slurmplug.Plain(17), Offset: -1}
	for word, want := range map[string]slurmplug.JobName{
		"17": plain, "17_4": {Job: cluster.JobID{ID: 17, Task: 4}, Offset: -1}, "17_[1-3,7%2]": plain, "17_[0]": plain, "17_[1,3,5,...]": plain,
		"17_[1-5%2]": plain, "17+0": {Job: slurmplug.Plain(17)}, "17+12": {Job: slurmplug.Plain(17), Offset: 12}, "s4C5M81FV4NT00": {Offset: -1, SLUID: "s4C5M81FV4NT00"},
	} {
		set := flag.NewFlagSet("", flag.ContinueOnError)
		if err := set.Parse([]string{word}); err != nil {
			t.Fatal(err)
		}
		c := cli.NewContext(App("test"), set, nil)
		c.Command = &cli.Command{Name: "explain"}
		if got, err := oneJob(c); err != nil || got != want {
			t.Errorf("%s is %v, %v", word, got, err)
		}
	}
}

// One question, one verb.
func TestVerbsAreFew(t *testing.T) {
	if all := App("test").Commands; len(all) > 17 {
		t.Errorf("%d verbs; want at most 17", len(all))
	}
}

// Every verb that shows something has --json; what writes a file says where to, what serves pages where.
func TestEveryVerbHasJSON(t *testing.T) {
	var check func(commands []*cli.Command)
	check = func(commands []*cli.Command) {
		for _, c := range commands {
			check(c.Subcommands)
			if len(c.Subcommands) == 0 && !isFlag(c.Flags, "--json") && !isFlag(c.Flags, "--out") && !isFlag(c.Flags, "--listen") {
				t.Errorf("%s has no --json", c.Name)
			}
		}
	}
	check(App("test").Commands)
}

func TestEveryReasonHasWords(t *testing.T) {
	for _, w := range plan.Reasons {
		if view.Reason(string(w)) == string(w) {
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
	r.Plan.Notes = []plan.Note{{Text: "account \x1b[2J\u202e"}}
	if err := showPlan(cli.NewContext(app, flag.NewFlagSet("", flag.ContinueOnError), nil), r, false); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") || !strings.Contains(out.String(), `note: account \x1b`) {
		t.Errorf("%q", out.String())
	}
}
