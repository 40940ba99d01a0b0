package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slurmprio/slurmplug/prio"
	"slurmprio/tests/lab"
)

// built is the folder of the built programs, open to every user; made when a
// test asks, so that fuzzing leaves none behind.
var built string

var makeBuilt = sync.OnceValues(func() (dir string, err error) {
	if built, err = os.MkdirTemp("", "sbatchwrap-test-"); err != nil {
		return "", err
	}
	return built, os.Chmod(built, 0o755)
})

func TestMain(m *testing.M) {
	code := lab.Main(m, lab.Options{NoAccounting: true})
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

var (
	wrapperOnce = sync.OnceValues(func() (string, error) { return build("sbatchwrap") })
	recordOnce  = sync.OnceValues(func() (string, error) { return build("sbatchwrap/testdata/record") })
)

func build(program string) (string, error) {
	dir, err := makeBuilt()
	if err != nil {
		return "", err
	}
	return lab.Build(dir, program, "CGO_ENABLED=0")
}

func program(t testing.TB, once func() (string, error)) string {
	t.Helper()
	path, err := once()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// record is what reached the program that stands for sbatch.
type record struct {
	Name    string
	Args    words
	Env     words
	Cwd     string
	Umask   int
	Stdin   []byte
	Pid     int
	Blocked string
	Three   string // what descriptor 3 is
	Script  []byte // the file that RECORD_READ names
}

// words travel through JSON as base64: they may be no UTF-8.
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	var raw [][]byte
	err := json.Unmarshal(b, &raw)
	for _, r := range raw {
		*w = append(*w, string(r))
	}
	return err
}

// outcome is one run of the wrapper.
type outcome struct {
	record *record // nil: sbatch was not run
	stdout string
	stderr string
	code   int
	pid    int
}

// call is one run to be: the wrapper with the recorder as the real sbatch.
type call struct {
	args  []string
	env   []string
	stdin string
	dir   string
}

func (c call) run(t testing.TB) outcome {
	t.Helper()
	cmd := exec.Command(program(t, wrapperOnce), c.args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "SBATCHWRAP_SBATCH=" + program(t, recordOnce)}, c.env...)
	cmd.Dir = c.dir
	cmd.Stdin = strings.NewReader(c.stdin)
	return finish(t, cmd)
}

func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	o := outcome{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode(), pid: cmd.Process.Pid}
	if strings.HasPrefix(o.stdout, "{") {
		o.record = new(record)
		if err := json.NewDecoder(strings.NewReader(o.stdout)).Decode(o.record); err != nil {
			t.Fatalf("%s: %v", o.stdout, err)
		}
	}
	return o
}

func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBuild holds what the program may depend on: no cgo, this module's plug
// for Slurm, and small libraries.
func TestBuild(t *testing.T) {
	program(t, wrapperOnce) // built with CGO_ENABLED=0
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		switch {
		case pkg == "slurmprio/sbatchwrap", pkg == "slurmprio/slurmplug/jobtag", pkg == "slurmprio/slurmplug/sbatch", pkg == "slurmprio/slurmplug/prio", pkg == "slurmprio/slurmplug/wake":
		case strings.HasPrefix(pkg, "golang.org/x/sys/"):
		default:
			t.Errorf("sbatchwrap depends on %s", pkg)
		}
	}
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/plain.sh", "#!/bin/sh\ntrue\n")
	writeFile(t, dir+"/prio.sh", "#!/bin/sh\n#SBATCH --comment='from script'\n#PRIO --prio-type be --prio-grace 5:00\n\n# a comment\n#PRIO --prio-retry=infra # why\ntrue\n#PRIO --prio-type te\n")
	writeFile(t, dir+"/het.sh", "#!/bin/sh\n#SBATCH --comment=first -H\n#SBATCH hetjob\n#SBATCH --comment=second\n")
	writeFile(t, dir+"/prose.sh", "#!/bin/sh\n#PRIORITY high\n#PRIO\n# PRIO x\n ##PRIO y\n#PRIO --prio-retry=never\n")
	writeFile(t, dir+"/later.sh", "#!/bin/sh\n#SBATCH --comment='my own'\n#SBATCH hetjob\n#SBATCH stray\n")
	writeFile(t, dir+"/bad.sh", "#!/bin/sh\n#SBATCH --comment='open\n")
	for _, c := range []struct {
		name  string
		args  []string
		env   []string
		stdin string
		want  []string
	}{
		{"nothing said", []string{"-N1", "--comm=x", "plain.sh", "--prio-type", "te"}, nil, "", nil},
		{"one option", []string{"--prio-type", "te", "plain.sh"}, nil, "", []string{"--comment=prio:type=te&v=1", "plain.sh"}},
		{"every option", []string{"--prio-type=TE", "--prio-grace=90s", "-N1", "--prio-ckpt", "1:00:00", "--prio-signal=B:SIGUSR1", "--prio-workload", "resnet50",
			"--prio-speed=a100:1,v100:0.45", "--prio-cpu", "a100:3x1-9x2.4", "--prio-mem=a100:16000x1", "--prio-steps", "5e4", "--prio-retry", "always", "plain.sh"}, nil, "",
			[]string{"-N1", "--comment=prio:ckpt=3600&cpu=a100:3x1-9x2.4&grace=90&mem=a100:16000x1&retry=always&signal=B:USR1&speed=a100:1,v100:0.45&steps=50000&type=te&v=1&workload=resnet50", "plain.sh"}},
		{"comment on the command line", []string{"--comment", "my  words", "--prio-type=te", "--", "plain.sh"}, nil, "", []string{"--comment", "my  words", "--comment=prio:type=te&v=1 my  words", "--", "plain.sh"}},
		{"not UTF-8", []string{"--comment=\xff\xfe\x1b[2J", "--prio-type=te", "plain.sh"}, nil, "", []string{"--comment=\xff\xfe\x1b[2J", "--comment=prio:type=te&v=1 \xff\xfe\x1b[2J", "plain.sh"}},
		{"script", []string{"prio.sh", "a", "--prio-type=te"}, nil, "", []string{"--comment=prio:grace=300&retry=infra&type=be&v=1 from script", "prio.sh", "a", "--prio-type=te"}},
		{"variable over script", []string{"prio.sh"}, []string{"SBATCHWRAP_TYPE=te", "SBATCHWRAP_GRACE=", "SBATCHWRAP_STEPS=7"}, "", []string{"--comment=prio:grace=300&retry=infra&steps=7&type=te&v=1 from script", "prio.sh"}},
		{"command line over variable", []string{"--prio-type=be", "--comment=mine", "prio.sh"}, []string{"SBATCHWRAP_TYPE=te"}, "",
			[]string{"--comment=mine", "--comment=prio:grace=300&retry=infra&type=be&v=1 mine", "prio.sh"}},
		{"last one wins", []string{"--prio-type=be", "--prio-type=te", "plain.sh"}, nil, "", []string{"--comment=prio:type=te&v=1", "plain.sh"}},
		{"standard input", []string{"-N1"}, nil, "#!/bin/sh\n#PRIO --prio-type te\n#SBATCH --comment=x\ntrue\n", []string{"-N1", "--comment=prio:type=te&v=1 x"}},
		{"wrap", []string{"--prio-type=te", "--wrap=#SBATCH --comment=no\n#PRIO --prio-type be"}, nil, "", []string{"--wrap=#SBATCH --comment=no\n#PRIO --prio-type be", "--comment=prio:type=te&v=1"}},
		{"het on the command line", []string{"-N1", ":", "-N2", "--prio-type=te", "plain.sh", ":"}, nil, "", []string{"-N1", "--comment=prio:type=te&v=1", ":", "-N2", "--comment=prio:type=te&v=1", "plain.sh", ":"}},
		{"het in the script", []string{"--prio-type=te", "-J", "x", "het.sh"}, nil, "",
			[]string{"-J", "x", "--comment=prio:type=te&v=1 first", ":", "--job-name=x", "--comment=prio:type=te&v=1 second", "het.sh"}},
		{"prose after the magic word", []string{"prose.sh"}, nil, "", []string{"--comment=prio:retry=never&v=1", "prose.sh"}},
		{"directive that sbatch refuses", []string{"--prio-type=te", "bad.sh"}, nil, "", []string{"--comment=prio:type=te&v=1", "bad.sh"}},
		{"directive of a later component that sbatch refuses", []string{"--prio-type=te", "later.sh"}, nil, "", []string{"--comment=prio:type=te&v=1 my own", "later.sh"}},
		{"script that is not there", []string{"--prio-type=te", "nowhere.sh"}, nil, "", []string{"--comment=prio:type=te&v=1", "nowhere.sh"}},
		{"a directory as script", []string{"--prio-type=te", "/tmp"}, nil, "", []string{"--comment=prio:type=te&v=1", "/tmp"}},
		{"abbreviation of --priority", []string{"--prio-type=te", "--priority=5", "plain.sh"}, nil, "", []string{"--priority=5", "--comment=prio:type=te&v=1", "plain.sh"}},
		{"sbatch refuses it", []string{"--prio-type", "te", "-N1", "-Z", "plain.sh"}, nil, "", []string{"-N1", "--comment=prio:type=te&v=1", "-Z", "plain.sh"}},
		{"sbatch refuses it, nothing said", []string{"-N1", "--hold=x", "plain.sh"}, nil, "", nil},
		{"a tag written by hand", []string{"--comment=prio:v=1&type=be by hand", "plain.sh"}, nil, "", nil},
		{"a job without a script", []string{"--external", "--prio-type=te"}, nil, "", []string{"--external", "--comment=prio:type=te&v=1"}},
		{"usage", []string{"--usage", "--prio-type=te"}, nil, "", []string{"--usage"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if want == nil {
				want = c.args
			}
			if c.name == "nothing said" {
				want[1] = "--comment=x" // an abbreviation has to ask the real sbatch; see TestAbbreviation
				c.args[1] = want[1]
			}
			o := call{args: c.args, env: c.env, stdin: c.stdin, dir: dir}.run(t)
			if o.record == nil {
				t.Fatalf("sbatch was not run: %d %s", o.code, o.stderr)
			}
			if d := cmp.Diff(words(want), o.record.Args); d != "" {
				t.Error(d)
			}
			if o.stderr != "recorded\n" {
				t.Errorf("stderr: %s", o.stderr)
			}
			if o.record.Name != "sbatch" {
				t.Errorf("argv[0] is %q", o.record.Name)
			}
			if got := string(o.record.Stdin); got != c.stdin {
				t.Errorf("standard input is %q, was %q", got, c.stdin)
			}
		})
	}
}

// TestUntouched holds everything else that sbatch gets from its caller.
func TestUntouched(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\n#PRIO --prio-type te\n" + strings.Repeat("# filler\n", 20_000) // more than a pipe holds
	path := writeFile(t, dir+"/s.sh", script)
	env := []string{"PATH=/usr/bin:/bin", "SBATCHWRAP_SBATCH=" + program(t, recordOnce), "RECORD_EXIT=37", "ODD=a\nb=\xff", "EMPTY=", "SBATCHWRAP_TYPE=be"}
	for _, c := range []struct {
		name  string
		shell string // what runs "$W"
		stdin string // what reaches sbatch
	}{
		{"pipe", `cat s.sh | "$W" -N1`, script},
		{"file", `"$W" -N1 < s.sh`, script},
		{"file from the middle on", `{ head -n 1 > /dev/null; "$W"; } < s.sh`, ""},
		{"closed", `"$W" <&-`, ""},
		{"nothing", `"$W" < /dev/null`, ""},
		{"not for a script by name", `echo data | "$W" s.sh`, "data\n"},
		{"not for --wrap", `echo data | "$W" --wrap true`, "data\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(program string) outcome {
				cmd := exec.Command("bash", "-c", `umask 027; ulimit -n 512; exec 3<s.sh; trap '' HUP INT; `+c.shell)
				cmd.Env = append(slices.Clone(env), "W="+program)
				cmd.Dir = dir
				o := finish(t, cmd)
				if o.record == nil {
					t.Fatalf("%d %s", o.code, o.stderr)
				}
				return o
			}
			direct, wrapped := run(program(t, recordOnce)), run(program(t, wrapperOnce))
			if c.name != "file from the middle on" {
				if got := string(wrapped.record.Stdin); got != c.stdin {
					t.Errorf("%d bytes reach sbatch, want %d", len(got), len(c.stdin))
				}
			}
			same := cmpopts.IgnoreFields(record{}, "Args", "Name", "Pid")
			strip := func(o outcome) {
				o.record.Env = slices.DeleteFunc(o.record.Env, func(e string) bool { return strings.HasPrefix(e, "W=") || strings.HasPrefix(e, "_=") })
			}
			strip(direct)
			strip(wrapped)
			if d := cmp.Diff(direct.record, wrapped.record, same); d != "" {
				t.Errorf("-without +with the wrapper:\n%s", d)
			}
			if wrapped.code != 37 || wrapped.stderr != "recorded\n" {
				t.Errorf("exit status %d, stderr %q", wrapped.code, wrapped.stderr)
			}
		})
	}
	t.Run("process substitution", func(t *testing.T) {
		// The recorder reads the same /dev/fd path as sbatch would.
		cmd := exec.Command("bash", "-c", `f() { RECORD_READ=$1 "$W" "$1"; }; f <(cat s.sh)`)
		cmd.Env = append(slices.Clone(env), "W="+program(t, wrapperOnce))
		cmd.Dir = dir
		o := finish(t, cmd)
		if o.record == nil || string(o.record.Script) != script || !strings.HasPrefix(o.record.Args[0], "--comment=prio:type=be") {
			t.Fatalf("%d %s", o.code, o.stderr)
		}
	})
	t.Run("limits and signals", func(t *testing.T) {
		shell := writeFile(t, dir+"/limits", "#!/bin/sh\nulimit -Sn\nulimit -Hn\nulimit -c\numask\ngrep -E '^Sig(Ign|Blk)' /proc/self/status\n")
		run := func(program string) outcome {
			cmd := exec.Command("bash", "-c", `umask 027; ulimit -Sn 300; ulimit -c 0; trap '' HUP INT; exec "$W" --wrap=x`)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "SBATCHWRAP_SBATCH=" + shell, "W=" + program}
			return finish(t, cmd)
		}
		if direct, wrapped := run(shell), run(program(t, wrapperOnce)); direct.stdout != wrapped.stdout || !strings.HasPrefix(direct.stdout, "300\n") {
			t.Errorf("without the wrapper\n%swith it\n%s%s", direct.stdout, wrapped.stdout, wrapped.stderr)
		}
	})
	t.Run("same process", func(t *testing.T) {
		if o := (call{args: []string{"--prio-type=te", path}}).run(t); o.record == nil || o.record.Pid != o.pid {
			t.Errorf("sbatch is not the process that was started: %+v", o)
		}
	})
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	script := func(name, lines string) string { return writeFile(t, filepath.Join(dir, name), "#!/bin/sh\n"+lines) }
	script("plain.sh", "")
	script("type.sh", "# x\n#PRIO --prio-type tee\n")
	script("word.sh", "#PRIO this matters\n")
	script("foreign.sh", "#PRIO --gres=gpu:1\n")
	script("abbreviated.sh", "#PRIO --prio-typ te\n")
	script("quote.sh", "#PRIO --prio-type 'te\n")
	script("value.sh", "#PRIO --prio-type\n")
	script("wrong.sh", "#SBATCH -N1 --prio-type te\n")
	script("share.sh", "#PRIO --prio-share=yes --prio-type te\n")
	script("sharewrong.sh", "#SBATCH --prio-share\n")
	script("tagged.sh", "#SBATCH --comment='prio:v=1 x'\n")
	if out, err := exec.Command("mkfifo", dir+"/fifo").CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	speeds := "--prio-speed=a0:1"
	for i := range 90 {
		speeds += fmt.Sprintf(",gputype%d:1", i)
	}
	const time = "want a time such as 5 (minutes), 5:00, 1-12:00:00, 90s or 1h30m; whole seconds, not 0"
	for _, c := range []struct {
		args []string
		env  []string
		want string
	}{
		{[]string{"--prio-type", "tee", "plain.sh"}, nil, `command line: --prio-type "tee": want te, be or none`},
		{[]string{"--prio-type=", "plain.sh"}, nil, `command line: --prio-type "": want te, be or none`},
		{[]string{"--prio-type"}, nil, `command line: option --prio-type needs a value`},
		{[]string{"--prio-tpye=te", "plain.sh"}, nil, ``},
		{[]string{"--prio-print=x", "plain.sh"}, nil, `command line: option --prio-print takes no value`},
		{[]string{"--prio-grace=1.5s", "plain.sh"}, nil, `command line: --prio-grace "1.5s": ` + time},
		{[]string{"--prio-grace=0", "plain.sh"}, nil, `command line: --prio-grace "0": ` + time},
		{[]string{"--prio-ckpt=-5", "plain.sh"}, nil, `command line: --prio-ckpt "-5": ` + time},
		{[]string{"--prio-signal=KILL", "plain.sh"}, nil, `command line: --prio-signal "KILL": want a signal that a program can catch, such as USR1, or B:USR1 for the batch shell alone`},
		{[]string{"--prio-steps=many", "plain.sh"}, nil, `command line: --prio-steps "many": want a number, such as 50000 or 1e6`},
		{[]string{"--prio-steps=-1", "plain.sh"}, nil, `command line: --prio-steps "-1": want a plain number from 0.000001 to 1000000000000000`},
		{[]string{"--prio-give-back=maybe", "plain.sh"}, nil, `command line: --prio-give-back is gone and does nothing to a job: leave it out`},
		{[]string{"--prio-share", "plain.sh"}, nil, `command line: --prio-share is gone and never did anything to a job: leave it out`},
		{[]string{"--prio-share=no", "--prio-type=te", "plain.sh"}, nil, `command line: --prio-share is gone and never did anything to a job: leave it out`},
		{[]string{"--prio-share", "yes"}, nil, `command line: --prio-share is gone and never did anything to a job: leave it out`},
		{[]string{"--prio-canary=20m", "plain.sh"}, nil, `command line: --prio-canary is gone: submit a short run of the script, and the job with --dependency=afterok on it (docs/users/canary.md)`},
		{[]string{"plain.sh"}, []string{"SBATCHWRAP_CANARY=20m"}, `variable SBATCHWRAP_CANARY is gone: submit a short run of the script, and the job with --dependency=afterok on it (docs/users/canary.md)`},
		{[]string{"share.sh"}, nil, `script "share.sh", line 2: --prio-share is gone and never did anything to a job: leave it out`},
		{[]string{"sharewrong.sh"}, nil, `script "sharewrong.sh", line 2: --prio-share is gone and never did anything to a job: leave it out`},
		{[]string{"--prio-retry=sometimes", "plain.sh"}, nil, `command line: --prio-retry "sometimes": want never, infra or always`},
		{[]string{"--prio-workload=\x1b[2J\xff", "plain.sh"}, nil, `command line: --prio-workload "\x1b[2J\xff": want 1 to 64 letters, digits, '.', '-' or '_'`},
		{[]string{"--prio-workload=" + strings.Repeat("w", 10_000), "plain.sh"}, nil, `command line: --prio-workload "` + strings.Repeat("w", 80) + `"...: want 1 to 64 letters, digits, '.', '-' or '_'`},
		{[]string{speeds, "plain.sh"}, nil, `the --prio-* options don't fit into a tag: tag: 1089 bytes, at most 512 are allowed`},
		{[]string{"plain.sh"}, []string{"SBATCHWRAP_TYPE=x"}, `variable SBATCHWRAP_TYPE "x": want te, be or none`},
		{[]string{"--prio-type=te", "plain.sh"}, []string{"SBATCHWRAP_TYPE=x"}, `variable SBATCHWRAP_TYPE "x": want te, be or none`},
		{[]string{"type.sh"}, nil, `script "type.sh", line 3: --prio-type "tee": want te, be or none`},
		{[]string{"word.sh"}, nil, `script "word.sh", line 2: #PRIO takes --prio-* options only, not "this"`},
		{[]string{"foreign.sh"}, nil, `script "foreign.sh", line 2: #PRIO takes --prio-* options only, spelled in full, not "--gres=gpu:1"`},
		{[]string{"abbreviated.sh"}, nil, `script "abbreviated.sh", line 2: #PRIO takes --prio-* options only, spelled in full, not "--prio-typ"`},
		{[]string{"quote.sh"}, nil, `script "quote.sh", line 2: #PRIO: the quote ' is not closed`},
		{[]string{"value.sh"}, nil, `script "value.sh", line 2: option --prio-type needs a value`},
		{[]string{"wrong.sh"}, nil, `script "wrong.sh", line 2: --prio-type stands on an #SBATCH line, where sbatch refuses it: write #PRIO --prio-type`},
		{[]string{"--prio-type=te", "tagged.sh"}, nil, `the job's comment already begins with a tag, "prio:v=1": drop that word or the --prio-* options`},
		{[]string{"--prio-type=te", "--comment=" + strings.Repeat("c", 1009), "plain.sh"}, nil, `tag and comment are 1026 bytes, and Slurm keeps 1024: shorten the comment by 2`},
		{[]string{"--prio-type=te", "--comment", ":", "plain.sh"}, nil, `a ":" on the command line is the value of an option or stands behind "--", and sbatch takes it for a separator as well: write it as --OPTION=:`},
		{[]string{"--prio-type=te", "fifo"}, nil, `script "fifo" is a named pipe, and both sbatchwrap and sbatch have to read it: give the script on standard input or as a file`},
		{[]string{"--prio-print", "-Z", "plain.sh"}, nil, `command line: unknown option -Z`},
	} {
		if c.want == "" {
			continue // needs the installed sbatch: TestAbbreviation
		}
		o := call{args: c.args, env: c.env, dir: dir}.run(t)
		if o.record != nil {
			t.Errorf("%q: sbatch was run", c.args)
		}
		if want := "sbatchwrap: " + c.want + "\n"; o.stderr != want || o.code != 2 || o.stdout != "" {
			t.Errorf("%q: exit status %d\n got %swant %s", c.args, o.code, o.stderr, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/s.sh", "#!/bin/sh\n#SBATCH --no-requeue\n")
	for _, c := range []struct {
		args []string
		env  []string
		want string
	}{
		{[]string{"--prio-type=be", "s.sh"}, nil, "--no-requeue (script \"s.sh\", line 2) keeps a be job from being requeued, so it is never stopped to make room either\n"},
		{[]string{"--prio-type=te", "s.sh"}, nil, ""},
		{[]string{"--prio-type=be", "--requeue", "s.sh"}, nil, ""},
		{[]string{"--prio-type=be", "--no-requeue", "--wrap=x"}, nil, "--no-requeue keeps a be job from being requeued, so it is never stopped to make room either\n"},
		{[]string{"--prio-retry=infra", "--wrap=x"}, []string{"SBATCH_NO_REQUEUE="}, "--prio-retry infra asks for a requeue, which SBATCH_NO_REQUEUE forbids\n"},
		{[]string{"--prio-retry=never", "--wrap=x"}, []string{"SBATCH_NO_REQUEUE="}, ""},
		{[]string{"--wrap=x"}, []string{"SBATCHWRAP_SHARE=1"}, "\"SBATCHWRAP_SHARE\" is no variable of sbatchwrap (see sbatchwrap --prio-help)\n"},
		{[]string{"--wrap=x"}, []string{"SBATCHWRAP_TPYE=te"}, "\"SBATCHWRAP_TPYE\" is no variable of sbatchwrap (see sbatchwrap --prio-help)\n"},
	} {
		o := call{args: c.args, env: c.env, dir: dir}.run(t)
		want := c.want
		if want != "" {
			want = "sbatchwrap: warning: " + want
		}
		if o.record == nil || o.stderr != want+"recorded\n" || o.code != 0 {
			t.Errorf("%q: %d\n got %swant %s", c.args, o.code, o.stderr, want)
		}
	}
}

func TestPrintAndHelp(t *testing.T) {
	o := call{args: []string{"--prio-print", "--prio-type=te", "--comment=it's\x1b[2J", "--wrap=true"}}.run(t)
	want := "tag: prio:type=te&v=1\nruns: " + program(t, recordOnce) + ` $'--comment=it\'s\x1b[2J' --wrap=true $'--comment=prio:type=te&v=1 it\'s\x1b[2J'` + "\n"
	if o.stdout != want || o.code != 0 {
		t.Errorf("%d %s\n got %swant %s", o.code, o.stderr, o.stdout, want)
	}
	if o := (call{args: []string{"--prio-print", "--wrap=true"}}).run(t); !strings.HasPrefix(o.stdout, "tag: none\nruns: ") {
		t.Errorf("%q", o.stdout)
	}
	// Our own help needs no sbatch.
	o = call{args: []string{"--prio-help"}, env: []string{"SBATCHWRAP_SBATCH=/nowhere"}}.run(t)
	for _, opt := range prio.Options {
		if !strings.Contains(o.stdout, "--"+opt.Name) {
			t.Errorf("--prio-help says nothing about --%s", opt.Name)
		}
	}
	if strings.Contains(strings.ToLower(o.stdout), "share") {
		t.Errorf("--prio-help offers --prio-share: %s", o.stdout)
	}
	if o.code != 0 || o.stderr != "" {
		t.Errorf("%d %s", o.code, o.stderr)
	}
	o = call{args: []string{"--prio-version"}, env: []string{"SBATCHWRAP_SBATCH=/nowhere"}}.run(t)
	if !strings.HasPrefix(o.stdout, "sbatchwrap "+prio.Release) || o.code != 0 || o.stderr != "" {
		t.Errorf("--prio-version: %d %q %s", o.code, o.stdout, o.stderr)
	}
	// sbatch's help, then ours; its exit status.
	o = call{args: []string{"--help", "--version"}, env: []string{"RECORD_EXIT=0"}}.run(t)
	if o.record == nil || !slices.Equal(o.record.Args, []string{"--help", "--version"}) || !strings.Contains(o.stdout, "--prio-type") {
		t.Errorf("--help prints %s", o.stdout)
	}
	if o := (call{args: []string{"--help"}, env: []string{"RECORD_EXIT=3"}}).run(t); o.code != 3 {
		t.Errorf("exit status %d", o.code)
	}
}

// What does not arrive, on a full disk, is no success.
func TestOutputLost(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"--prio-help"}, {"--prio-print", "--prio-type=te", "--wrap=true"}, {"--help"}} {
		var errs bytes.Buffer
		cmd := exec.Command(program(t, wrapperOnce), args...)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "SBATCHWRAP_SBATCH="+program(t, recordOnce))
		if err := os.WriteFile(filepath.Join(cmd.Dir, "job.sh"), []byte("#!/bin/sh\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = full, &errs
		_ = cmd.Run()
		if status := cmd.ProcessState.ExitCode(); status != exitProblem || !strings.Contains(errs.String(), "sbatchwrap: the output is incomplete: ") {
			t.Errorf("%q: %d, %s", args, status, &errs)
		}
	}
}

// TestGuide finds every option and variable in the users' guide.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/reference/sbatchwrap.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"--" + optionHelp, "--" + optionPrint, prio.SbatchVariable, prio.WakeVariable, prio.HoldVariable, prio.GuardVariable, siteSbatch, siteHold}
	for _, o := range prio.Options {
		names = append(names, "--"+o.Name, o.Variable())
	}
	for _, name := range names {
		if !strings.Contains(string(guide), "`"+name+"`") {
			t.Errorf("docs/reference/sbatchwrap.md does not explain `%s`", name)
		}
	}
}
