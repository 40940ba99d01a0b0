package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/config"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/view"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

// adviseOn reads a command line as eta does, with a script in the working
// directory.
func adviseOn(t *testing.T, script string, args ...string) (adviseJob, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile(filepath.Join(".", "train.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	grammar := sbatch.For(2205).With(prio.Exact(aboutWrapper...)...)
	cmd, err := grammar.ParseArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	return readAdviseJob(grammar, cmd)
}

const train = "#!/bin/bash\n#SBATCH --gres=gpu:1 --time=10\n#PRIO --prio-speed a100:1,v100:0.5\ntrue\n"

// The tag comes from where sbatchwrap finds it: script, variables, command line,
// the later before the earlier; or by hand in the comment.
func TestAdviseReadsTheTag(t *testing.T) {
	for _, c := range []struct {
		script, env string
		args        []string
		want        string
	}{
		{train, "", nil, "prio:speed=a100:1,v100:0.5&v=1"},
		{train, "t4:1", nil, "prio:speed=t4:1&v=1"},
		{train, "t4:1", []string{"--prio-speed=x:1", "--prio-type=te"}, "prio:speed=x:1&type=te&v=1"},
		{"#!/bin/sh\n#SBATCH --gpus=2\n", "", []string{"--comment=prio:v=1&type=be mine"}, "prio:v=1&type=be"},
		{"#!/bin/sh\n#SBATCH --gpus=2\n", "", nil, ""},
	} {
		t.Setenv("SBATCHWRAP_SPEED", c.env)
		j, err := adviseOn(t, c.script, append(c.args, "train.sh", "--prio-type=be")...)
		if err != nil || j.tag != c.want || j.request.Name != "train.sh" {
			t.Errorf("%q, %q: %v %q, name %q; want %q", c.env, c.args, err, j.tag, j.request.Name, c.want)
		}
	}
}

func TestAdviseTrouble(t *testing.T) {
	for script, want := range map[string]string{
		"#!/bin/sh\n#SBATCH --prio-type=te\n":                                     "write #PRIO",
		"#!/bin/sh\n#PRIO --prio-type=\x1b[2J\n":                                  "want te, be or none",
		"#!/bin/sh\n#SBATCH --gres=gpu:1\n#SBATCH hetjob\n#SBATCH --gres=gpu:2\n": "one component at a time",
		"#!/bin/sh\n":                  "requests no GPU",
		"true\n":                       "does not begin with #!",
		"#!/bin/sh\n#SBATCH --\x1b[2J": "line 2",
		"#!/bin/sh\n#SBATCH --comment=prio:x=1 -G1": "--comment: tag",
	} {
		_, err := adviseOn(t, script, "train.sh")
		if _, usage := err.(usageError); !usage || !strings.Contains(report.Safe(err.Error()), want) || strings.Contains(report.Safe(err.Error()), "\x1b") {
			t.Errorf("%q: %v; want %q", script, err, want)
		}
	}
}

// The line to copy is the user's own without what is about the wrapper, and with the type
// where it counts.
func TestAdviseSubmission(t *testing.T) {
	fast, slow := &advise.Answer{Answer: speed.Answer{GPUType: "a100"}, End: 10}, &advise.Answer{Answer: speed.Answer{GPUType: "v100"}, End: 20}
	for _, c := range []struct {
		args []string
		open []*advise.Answer
		want string
	}{
		{[]string{"--prio-print", "-c", "4", "train.sh", "--json"}, []*advise.Answer{slow}, "sbatchwrap -c 4 --gres=gpu:a100:1 train.sh --json"},
		{[]string{"--prio-type=te", "train.sh"}, []*advise.Answer{fast, slow}, "sbatchwrap --prio-type=te --gres=gpu:a100:1 train.sh"},
		{[]string{"--gpus=2", "train.sh"}, []*advise.Answer{slow}, "sbatchwrap --gpus=2 --gpus=a100:2 train.sh"},
		{[]string{"train.sh", "it's"}, []*advise.Answer{fast}, "sbatchwrap train.sh it's"},
		{[]string{"--", "train.sh"}, []*advise.Answer{slow}, "sbatchwrap --gres=gpu:a100:1 -- train.sh"},
	} {
		j, err := adviseOn(t, train, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		a := adviser{}
		advice := &advise.Advice{Best: fast, Open: c.open}
		if got := strings.Join(a.submission(&j, advice, advice.Typed()), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

// Where the site steers, a job that says its speeds leaves its type open; one
// whose speeds history knows may say them.
func TestAdviseWhereTheSiteSteers(t *testing.T) {
	advice := &advise.Advice{Partitions: []string{"gpu"}}
	for _, name := range []string{"a100", "v100"} {
		advice.Types = append(advice.Types, advise.Answer{Answer: speed.Answer{GPUType: name, Speed: 1 / float64(len(name)-3+len(advice.Types)*2), Source: speed.Past}, Fits: true})
	}
	const bare = "#!/bin/sh\n#SBATCH --gres=gpu:1\n"
	for _, c := range []struct {
		script string
		args   []string
		steers bool
		is     bool
		say    string
	}{
		{train, nil, true, true, ""},
		{train, nil, false, false, ""},
		{train, []string{"--gres=gpu:v100:1"}, true, false, ""},
		{bare, []string{"--prio-workload=x"}, true, true, ""},
		{bare, nil, true, false, "--prio-speed a100:1,v100:0.333"},
	} {
		j, err := adviseOn(t, c.script, append(c.args, "train.sh")...)
		if err != nil {
			t.Fatal(err)
		}
		a := adviser{cfg: &config.Config{}, site: &advise.Site{Ranking: &plan.Classes{}}}
		a.cfg.Steering.Enabled = c.steers
		if is, say := a.steers(&j, advice); is != c.is || say != c.say {
			t.Errorf("%+v: %v, %q", c, is, say)
		}
	}
}

// Whatever a user, a node or Slurm says, the terminal gets printable lines.
func TestAdviseIsSafe(t *testing.T) {
	const bad = "x\x1b[2J\n\u202e"
	best := &advise.Answer{Answer: speed.Answer{GPUType: bad, Speed: 1, Source: speed.Tag, Factor: 1}, Fits: true, Start: 90000, End: 90001, Rough: true}
	v := view.Advice{
		Script: bad, GPUs: 1, GPUType: bad, BestType: bad, OpenOn: []string{bad}, Submit: []string{"sbatch", bad},
		Advice: &advise.Advice{Best: best, Types: []advise.Answer{*best, {Why: bad}}, Partitions: []string{bad}, Notes: []string{bad}},
	}
	for _, open := range []string{bad, ""} {
		var out bytes.Buffer
		v.GPUType = open
		showAdvice(&out, &v, time.Now())
		if strings.ContainsAny(out.String(), "\x1b\u202e") || !strings.Contains(out.String(), "about in 1d01h") {
			t.Errorf("%q", out.String())
		}
	}
}
