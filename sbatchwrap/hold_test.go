package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/sbatch"
)

// TestHold holds which submissions begin later where the site wants it.
func TestHold(t *testing.T) {
	const held = "--begin=now+20"
	dir := t.TempDir()
	script := func(name, lines string) { writeFile(t, filepath.Join(dir, name), "#!/bin/sh\n"+lines) }
	script("gpu.sh", "#SBATCH --gres=gpu:2 --comment=mine\n#PRIO --prio-speed a100:1,v100:0.5\n")
	script("later.sh", "#SBATCH --gres=gpu:2 -b 16:00\n#PRIO --prio-speed a100:1,v100:0.5\n")
	script("pbs.sh", "#SBATCH --gres=gpu:2\n#PBS -a 1600\n#PRIO --prio-speed a100:1,v100:0.5\n")
	script("het.sh", "#SBATCH --gres=gpu:2\n#SBATCH hetjob\n#SBATCH --gres=gpu:1\n#PRIO --prio-speed a100:1,v100:0.5\n")
	script("broken.sh", "#SBATCH --gres=gpu:2 --job-name='x\n#PRIO --prio-speed a100:1,v100:0.5\n")
	script("plain.sh", "")
	const speed, workload = "--prio-speed=a100:1,v100:0.5", "--prio-workload=resnet50"
	for _, c := range []struct {
		args []string
		env  []string
		held bool
	}{
		{[]string{"gpu.sh"}, nil, true},
		{[]string{"gpu.sh", "--begin=now"}, nil, true}, // the script's own argument
		{[]string{"--prio-type=be", "gpu.sh"}, nil, true},
		{[]string{"--array=1-9", "--wait", "--exclude=n1", "--exclusive", "-C", "ssd&ib", "gpu.sh"}, nil, true},
		{[]string{"-C", "a100|v100", "gpu.sh"}, nil, true},
		{[]string{workload, "--gpus=4", "plain.sh"}, nil, true},
		{[]string{workload, "-G4", "plain.sh"}, nil, true},
		{[]string{workload, "--gpus-per-node=2", "plain.sh"}, nil, true},
		{[]string{workload, "--gpus-per-task=2", "plain.sh"}, nil, true},
		{[]string{workload, "--gpus-per-socket=2", "plain.sh"}, nil, true},
		{[]string{workload, "--tres-per-task=cpu=2,gres/gpu=2", "plain.sh"}, nil, true},
		{[]string{workload, "--gres=lustre:1,gpu", "--wrap=true"}, nil, true},
		{[]string{"plain.sh"}, []string{"SBATCH_GPUS=2", "SBATCHWRAP_WORKLOAD=resnet50"}, true},

		// priod gives it another size.
		{[]string{"--prio-cpu=a100:3x1-9x2.4", "--gres=gpu:1", "plain.sh"}, nil, true},
		{[]string{"--prio-mem=a100:3000x1-9000x2.4", "-N1", "--gres=gpu:a100:1", "plain.sh"}, nil, true},

		// Its user says when it starts.
		{[]string{"--begin=16:00", "gpu.sh"}, nil, false},
		{[]string{"--begin", "now", "gpu.sh"}, nil, false},
		{[]string{"-b", "now", "gpu.sh"}, nil, false},
		{[]string{"-Qbnow", "gpu.sh"}, nil, false},
		{[]string{"--begin=now+1", "--begin=now+2", "gpu.sh"}, nil, false},
		{[]string{"later.sh"}, nil, false},
		{[]string{"pbs.sh"}, nil, false},
		{[]string{"-H", "gpu.sh"}, nil, false},
		{[]string{"--dependency=singleton", "gpu.sh"}, nil, false},
		{[]string{"--deadline=now+1hour", "gpu.sh"}, nil, false},
		{[]string{"--test-only", "gpu.sh"}, nil, false},
		{[]string{"--prio-type=te", "gpu.sh"}, nil, false},
		{[]string{"gpu.sh"}, []string{"SBATCHWRAP_TYPE=te"}, false},

		// priod would leave it alone.
		{[]string{"--prio-type=be", "--gres=gpu:1", "plain.sh"}, nil, false},
		{[]string{"--prio-cpu=a100:3x1-9x2.4", "--exclusive", "--gres=gpu:1", "plain.sh"}, nil, false},
		{[]string{"--prio-cpu=a100:3x1-9x2.4", "-N2", "--gres=gpu:1", "plain.sh"}, nil, false},
		{[]string{"--prio-cpu=a100:3x1-9x2.4", "plain.sh"}, nil, false},
		{[]string{"--prio-cpu=a100:3x1-9x2.4", "--prio-type=te", "--gres=gpu:1", "plain.sh"}, nil, false},
		{[]string{"--comment=prio:speed=a100:1&v=1", "--gres=gpu:1", "plain.sh"}, nil, false},
		{[]string{workload, "plain.sh"}, nil, false},
		{[]string{workload, "--gres=lustre:1,shard:2", "plain.sh"}, nil, false},
		{[]string{workload, "--gpus=0", "plain.sh"}, nil, false},
		{[]string{workload, "--gres=gpu:a100:1", "plain.sh"}, nil, false},
		{[]string{workload, "--gpus=a100", "plain.sh"}, nil, false},
		{[]string{workload, "--gpus=2", "--gres=gpu:a100:1", "plain.sh"}, nil, false},
		{[]string{workload, "--tres-per-task=gres/gpu:a100=2", "plain.sh"}, nil, false},
		{[]string{"--gres=gpu:1", ":", "--gres=gpu:1", workload, "plain.sh"}, nil, false},
		{[]string{"het.sh"}, nil, false},
		{[]string{"-C", "[a100|v100]", "gpu.sh"}, nil, false},
		{[]string{"-C", "(a|b)&c", "gpu.sh"}, nil, false},
		{[]string{"-C", "a&b|c", "gpu.sh"}, nil, false},
		{[]string{"--prefer=a100", "gpu.sh"}, nil, false},
		{[]string{"-w", "n1", "gpu.sh"}, nil, false},
		{[]string{"--reservation=r", "gpu.sh"}, nil, false},

		// sbatch refuses it.
		{[]string{"broken.sh"}, nil, false},
		{[]string{"--hold=x", "gpu.sh"}, nil, false},
	} {
		plain := call{args: c.args, env: c.env, dir: dir}.run(t)
		if plain.record == nil || slices.Contains(plain.record.Args, held) {
			t.Fatalf("%q without a setting: %+v", c.args, plain)
		}
		want := slices.Clone(plain.record.Args)
		if at := slices.IndexFunc(want, func(w string) bool { return strings.HasPrefix(w, "--comment=prio:") }); c.held {
			want = slices.Insert(want, at+1, held)
		}
		got := call{args: c.args, env: append(c.env, "SBATCHWRAP_HOLD=20s"), dir: dir}.run(t)
		if got.record == nil || got.stderr != plain.stderr || got.code != plain.code {
			t.Fatalf("%q: %+v", c.args, got)
		}
		if d := cmp.Diff(want, got.record.Args); d != "" {
			t.Errorf("%q:\n%s", c.args, d)
		}
	}
	o := call{args: []string{"--prio-print", "gpu.sh"}, env: []string{"SBATCHWRAP_HOLD=20s"}, dir: dir}.run(t)
	if !strings.Contains(o.stdout, " "+held+" gpu.sh\n") {
		t.Errorf("--prio-print does not show it:\n%s", o.stdout)
	}
}

// steered is a submission that may be steered, parsed.
func steered(t testing.TB, args ...string) *parser {
	p := &parser{args: append([]string{"--gres=gpu:1"}, args...)}
	p.use(sbatch.For(2205))
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p
}

var speeds = jobtag.Tag{Speed: map[string]float64{"a100": 1}}

// The variable counts before the site's file; what is no duration holds nothing
// back, and an empty one says nothing.
func TestHoldSetting(t *testing.T) {
	defer func(file string) { siteHold = file }(siteHold)
	siteHold = filepath.Join(t.TempDir(), "hold")
	for _, c := range []struct{ file, variable, want string }{
		{"", "", ""},
		{"20s\n", "", "--begin=now+20"},
		{" 1m0s ", "", "--begin=now+60"},
		{"\n", "", ""},
		{"0", "", ""},
		{"20s", "0", ""},
		{"20s", "5s", "--begin=now+5"},
		{"20s", "soon", ""},
		{"20", "", ""},
		{"61s", "", ""},
		{"-5s", "", ""},
		{"1.5s", "", ""},
		{"20s 30s", "", ""},
		{"\x1b[2J", "", ""},
	} {
		os.Remove(siteHold)
		if c.file != "" {
			writeFile(t, siteHold, c.file)
		}
		t.Setenv("SBATCHWRAP_HOLD", c.variable)
		p := steered(t)
		got, err := tagged(p, &script{}, speeds, "T")
		want := []string{"--gres=gpu:1", "--comment=T"}
		if c.want != "" {
			want = append(want, c.want)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("file %q, variable %q: %q, %v", c.file, c.variable, got, err)
		}
	}
	const words = ": want whole seconds up to a minute, such as 20s, or 0; the job is not held back\n"
	for value, want := range map[string]string{
		"20s": "", "0": "", "": "",
		"20":       "SBATCHWRAP_HOLD says \"20\"" + words,
		"2m":       "SBATCHWRAP_HOLD says \"2m\"" + words,
		"\x1b[2Js": `SBATCHWRAP_HOLD says "\x1b[2Js"` + words,
	} {
		if want != "" {
			want = "sbatchwrap: warning: " + want
		}
		o := call{args: []string{"--prio-workload=x", "-G1", "--wrap=true"}, env: []string{"SBATCHWRAP_HOLD=" + value}}.run(t)
		if o.record == nil || o.stderr != want+"recorded\n" || o.code != 0 {
			t.Errorf("%q: %+v", value, o)
		}
	}
}

// However a user says when the job begins, and whatever else, the command is the
// one without a hold.
func TestOwnBeginIsNeverTouched(t *testing.T) {
	defer func(file string) { siteHold = file }(siteHold)
	siteHold = filepath.Join(t.TempDir(), "none")
	grammar := sbatch.For(2205)
	flags := [][]string{{"-N1"}, {"--array=1-3"}, {"-Q"}, {"-C", "ssd"}, {"--wait"}, {"--gpus", "2"}, {"--comment", "--begin=now"}, {"-kH"}, {"--parsable"}, {"-J", "-b"}}
	begins := [][]string{{"--begin=%"}, {"--begin", "%"}, {"--beg=%"}, {"--be", "%"}, {"-b", "%"}, {"-b%"}, {"-Qb%"}, {"-Qb", "%"}}
	lines := []string{"#SBATCH --begin=%", "#SBATCH -b %", "#SBATCH --beg %", "#SBATCH -Qb%", "#SLURM -b'%'", "#PBS -a %", "#SBATCH --gres=gpu:1 \\\n#SBATCH --begin=% # x"}
	rapid.Check(t, func(t *rapid.T) {
		where := rapid.IntRange(1, 3).Draw(t, "where") // 1: command line, 2: script, 3: both
		value := rapid.SampledFrom([]string{"now", "now+20", "16:00", "", ":", "--begin"}).Draw(t, "value")
		say := func(s string) string { return strings.ReplaceAll(s, "%", value) }
		args := []string{"--gres=gpu:1"}
		more := func() {
			for range rapid.IntRange(0, 3).Draw(t, "more") {
				args = append(args, rapid.SampledFrom(flags).Draw(t, "flag")...)
			}
		}
		more()
		if where&1 != 0 {
			for range rapid.IntRange(1, 2).Draw(t, "begins") {
				for _, w := range rapid.SampledFrom(begins).Draw(t, "begin") {
					args = append(args, say(w))
				}
				more()
			}
		}
		text := "#!/bin/sh\n"
		if where&2 != 0 {
			text += say(rapid.SampledFrom(lines).Draw(t, "line")) + "\n"
		}
		text += "true\n"
		submission := func(hold string) ([]string, error) {
			os.Setenv("SBATCHWRAP_HOLD", hold)
			defer os.Unsetenv("SBATCHWRAP_HOLD")
			p := &parser{args: append(args, "s.sh")}
			p.use(grammar)
			return tagged(p, &script{name: "s.sh", text: []byte(text)}, speeds, "T")
		}
		without, err1 := submission("0")
		with, err2 := submission("20s")
		if (err1 == nil) != (err2 == nil) || !slices.Equal(without, with) {
			t.Fatalf("%q\n%s\nbecomes %q, %v\nwith a hold %q, %v", args, text, without, err1, with, err2)
		}
	})
}

// FuzzSteerable: what the wrapper reads in a request for GPUs and in a constraint
// is what priod reads there.
func FuzzSteerable(f *testing.F) {
	f.Add("gpu:a100:2", "a100|v100")
	f.Add("gpu=2,lustre:1K", "a&b|c")
	f.Add("gpu:0", "(a|b)&c")
	f.Add("gres/gpu:2,gres:gpu:t4", "[a*2]")
	f.Add("gpu:3g.20gb:1", "a,b")
	f.Add("gpu=2TT", "a|b")
	f.Add("gpu:2e,gpu:0G", "")
	f.Fuzz(func(t *testing.T, gres, constraint string) {
		ofNodes := strings.ContainsAny(gres, "(.") || strings.Contains(gres, "no_consume")
		if all, err := slurmplug.ParseGres(gres); err == nil && !ofNodes {
			wantAsks, wantTyped := false, false
			for _, g := range all {
				wantAsks = wantAsks || g.Name == "gpu" && g.Type == "" && g.Count > 0
				wantTyped = wantTyped || g.Name == "gpu" && g.Type != ""
			}
			if asks, typed := gpus("gres", gres); typed != wantTyped || asks != wantAsks {
				t.Errorf("%q: asks %t, typed %t; %+v", gres, asks, typed, all)
			}
		}
		c, err := slurmplug.ParseConstraint(constraint)
		if err == nil {
			_, err = c.With("x")
		}
		if may := extensible(constraint); may != (err == nil) && err != slurmplug.ErrFeature {
			t.Errorf("constraint %q: %t, %v", constraint, may, err)
		}
	})
}
