package sbatch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptionTable(t *testing.T) {
	names, shorts, last := map[string]bool{}, map[byte]bool{}, ""
	for _, o := range options {
		for _, n := range []string{o.Name, o.Alias} {
			if n != "" && names[n] {
				t.Errorf("--%s stands twice", n)
			}
			names[n] = true
		}
		if o.Short != 0 && shorts[o.Short] {
			t.Errorf("-%c stands twice", o.Short)
		}
		shorts[o.Short] = true
		if o.Name < last {
			t.Errorf("--%s stands after --%s", o.Name, last)
		}
		last = o.Name
	}
	// What the releases differ in (research: slurm.md 3.1).
	for _, c := range []struct {
		name string
		has  string // releases that have it
	}{
		{"comment", "22.05 23.02 23.11 24.05 24.11 25.05 25.11 26.05"},
		{"extra", "23.02 23.11 24.05 24.11 25.05 25.11 26.05"},
		{"export-file", "22.05 23.02 24.05 24.11 25.05 25.11 26.05"},
		{"power", "22.05 23.02 23.11"},
		{"stepmgr", "24.05 24.11 25.05 25.11 26.05"},
		{"container-type", "26.05"},
	} {
		var has []string
		for _, r := range Releases {
			if For(r).byName[c.name] != nil {
				has = append(has, r.String())
			}
		}
		if got := strings.Join(has, " "); got != c.has {
			t.Errorf("--%s is in %s, want %s", c.name, got, c.has)
		}
	}
	if a, b := For(2505).byName["requeue"].Arg, For(2511).byName["requeue"].Arg; a != NoArg || b != Optional {
		t.Errorf("--requeue takes %d, then %d", a, b)
	}
	if For(2705).byName["container-type"] == nil || For(2705).byName["power"] != nil {
		t.Error("a release newer than the table is not as the newest one")
	}
}

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{"slurm-wlm 22.05.8\n": 2205, "slurm 23.11.10-2": 2311, "slurm 25.05.0-0rc1": 2505} {
		if got, err := ParseRelease(text); got != want || err != nil {
			t.Errorf("ParseRelease(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "slurm", "slurm 22", "slurm 2x.05.1", "sbatch: fatal: 1.2.3"} {
		if got, err := ParseRelease(text); err == nil {
			t.Errorf("ParseRelease(%q) = %v", text, got)
		}
	}
}

// show writes options as "name" or "name=value", a component in each element.
func show(c *Command) (out []string) {
	for _, part := range c.Components {
		var words []string
		for _, f := range part.Found {
			words = append(words, strings.TrimPrefix(f.Word(), "--"))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func TestParseArgs(t *testing.T) {
	for _, c := range []struct {
		args   []string
		want   []string
		script []string
	}{
		{nil, []string{""}, nil},
		{[]string{"s.sh", "-N", "5"}, []string{""}, []string{"s.sh", "-N", "5"}},
		{[]string{"-N2", "-n", "4", "--hold", "s.sh"}, []string{"nodes=2 ntasks=4 hold"}, []string{"s.sh"}},
		{[]string{"-Hb", "now+1day", "s.sh"}, []string{"hold begin=now+1day"}, []string{"s.sh"}},
		{[]string{"-HN2", "s.sh"}, []string{"hold nodes=2"}, []string{"s.sh"}},
		{[]string{"--nice", "5"}, []string{"nice"}, []string{"5"}},
		{[]string{"--nice=5", "-koff", "-k", "off"}, []string{"nice=5 no-kill=off no-kill"}, []string{"off"}},
		{[]string{"--exclusive=user", "--exclusive", "user"}, []string{"exclusive=user exclusive"}, []string{"user"}},
		{[]string{"--comment", "--hold", "--", "-x", "y"}, []string{"comment=--hold"}, []string{"-x", "y"}},
		{[]string{"--comment=", "-"}, []string{"comment="}, []string{"-"}},
		{[]string{"--depend=afterok:1", "--tasks-per-n=2"}, []string{"dependency=afterok:1 ntasks-per-node=2"}, nil},
		{[]string{"--cluster=a", "--clusters=b", "-Mc"}, []string{"clusters=a clusters=b clusters=c"}, nil},
		{[]string{"--prio=5"}, []string{"priority=5"}, nil},
		{[]string{"-N1", ":", "-N2", ":", "s.sh", ":", "x"}, []string{"nodes=1", "nodes=2", ""}, []string{"s.sh", "x"}},
		{[]string{":", ":"}, []string{"", "", ""}, nil},
		{[]string{"--prio-type", "te", "--prio-give-back", "s.sh", "--prio-type"}, []string{"prio-type=te prio-give-back"}, []string{"s.sh", "--prio-type"}},
	} {
		got, err := For(2205).With(own...).ParseArgs(c.args)
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if d := cmp.Diff(c.want, show(got)); d != "" {
			t.Errorf("%q:\n%s", c.args, d)
		}
		if d := cmp.Diff(c.script, got.Script); d != "" {
			t.Errorf("%q, script:\n%s", c.args, d)
		}
		if got.Tangled {
			t.Errorf("%q: passes disagree", c.args)
		}
	}
	if c, err := AnyRelease().ParseArgs([]string{"--plugin=1", ":", "--plugin=2", "s.sh"}); err != nil || c.Tangled {
		t.Errorf("an unknown option with a value: %+v, %v", c, err)
	}
	for _, args := range [][]string{{"--comment", ":", "s.sh"}, {"-N", ":", "--hold"}, {"--comment", ":", "x", ":", "y"}, {"-N1", "--", ":", "s.sh"}} {
		if c, err := For(2205).ParseArgs(args); err == nil && !c.Tangled {
			t.Errorf("%q: the passes of sbatch disagree and nobody says so", args)
		}
	}
}

func TestParseArgsRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
		any  string // from AnyRelease; "" when the same
	}{
		{[]string{"--par=x"}, "option --par is ambiguous: --parsable, --partition", "option --par depends on the installed sbatch"},
		{[]string{"-N1", "--nonsense"}, "unknown option --nonsense", "option --nonsense depends on the installed sbatch"},
		{[]string{"-z"}, "unknown option -z", ""},
		{[]string{"-\xff"}, `unknown option "-\xff"`, ""},
		{[]string{"--hold=1"}, "option --hold takes no value", ""},
		{[]string{"-H", "--comment"}, "option --comment needs a value", ""},
		{[]string{"-HJ"}, "option -J needs a value", ""},
		{[]string{"--=x"}, "", ""},
		{[]string{"--prio-typ", "te"}, "unknown option --prio-typ", "option --prio-typ depends on the installed sbatch"},
		{[]string{"--prio-type"}, "option --prio-type needs a value", ""},
	} {
		_, err := For(2205).With(own...).ParseArgs(c.args)
		if err == nil || c.want != "" && err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
		if c.any == "" {
			c.any = c.want
		}
		_, err = AnyRelease().With(own...).ParseArgs(c.args)
		if err == nil || c.any != "" && err.Error() != c.any {
			t.Errorf("%q: any release: %v, want %s", c.args, err, c.any)
		}
		if depends := strings.HasSuffix(c.any, "installed sbatch"); c.any != "" && errors.Is(err, ErrInstalled) != depends {
			t.Errorf("%q: ErrInstalled: %v", c.args, !depends)
		}
	}
}

// Releases read the same words differently; so does AnyRelease where it can't
// matter, and it says so where it does.
func TestReleases(t *testing.T) {
	parse := func(g *Grammar, args ...string) string {
		c, err := g.ParseArgs(args)
		if err != nil {
			return err.Error()
		}
		return strings.Join(show(c), " : ")
	}
	for _, c := range []struct {
		g    *Grammar
		args []string
		want string
	}{
		{For(2205), []string{"--extra=foo"}, "extra-node-info=foo"},
		{For(2302), []string{"--extra=foo"}, "extra=foo"},
		{For(2311), []string{"--export-file=x"}, "unknown option --export-file"},
		{For(2505), []string{"--get-user-env=5"}, "option --get-user-env takes no value"},
		{For(2411), []string{"--get-user-env=5"}, "get-user-env=5"},
		{AnyRelease(), []string{"--requeue=expedite", "--requeue", "x"}, "requeue=expedite requeue"},
		{AnyRelease(), []string{"--singularity=x.sif", "-N1"}, "singularity=x.sif nodes=1"},
	} {
		if got := parse(c.g, c.args...); got != c.want {
			t.Errorf("%v %q: %s, want %s", c.g.release, c.args, got, c.want)
		}
	}
}

func TestRewrite(t *testing.T) {
	for _, c := range []struct {
		args []string
		add  [][]string
		want []string
	}{
		{[]string{}, [][]string{{"T"}}, []string{"T"}},
		{[]string{"s.sh", "a"}, nil, []string{"s.sh", "a"}},
		{[]string{"-N1", "s.sh", "a"}, [][]string{{"T"}}, []string{"-N1", "T", "s.sh", "a"}},
		{[]string{"-N1", "--", "s.sh"}, [][]string{{"T"}}, []string{"-N1", "T", "--", "s.sh"}},
		{[]string{"--prio-type", "te", "-N1", "--prio-give-back", "s.sh", "--prio-type", "x"}, [][]string{{"T"}}, []string{"-N1", "T", "s.sh", "--prio-type", "x"}},
		{[]string{"-N1", ":", "-N2", ":", "s.sh"}, [][]string{{"T"}, {"U"}, {"V"}}, []string{"-N1", "T", ":", "-N2", "U", ":", "V", "s.sh"}},
		{[]string{"-N1", "s.sh"}, [][]string{{"T"}, {"T"}, {"T"}}, []string{"-N1", "T", "s.sh"}},
		{[]string{"-vHN1", "--prio-give-back", "-J", "x y", "--nice", "--", "s.sh"}, [][]string{{"T"}, {"U"}},
			[]string{"-vHN1", "-J", "x y", "--nice", "T", ":", "--hold", "--nodes=1", "--job-name=x y", "--nice", "U", "--", "s.sh"}},
		{[]string{"-N1", "s.sh", "T"}, [][]string{{"T", "U"}}, []string{"-N1", "T", "U", "s.sh", "T"}},
		{[]string{"-N1", "s.sh"}, [][]string{{"T"}, {"T", "U"}}, []string{"-N1", "T", ":", "--nodes=1", "T", "U", "s.sh"}},
		{[]string{"-N1", ":", "-N2", "s.sh"}, [][]string{{"T"}, {"U"}, {"V"}}, []string{"-N1", "T", ":", "-N2", "U", ":", "--nodes=2", "V", "s.sh"}},
	} {
		cmd, err := For(2205).With(own...).ParseArgs(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, cmd.Rewrite(c.add)); d != "" {
			t.Errorf("%q:\n%s", c.args, d)
		}
	}
}

func TestDirectives(t *testing.T) {
	for _, c := range []struct {
		name, script string
		release      Release
		want         [][]string
		lines        []int // of the first component
	}{
		{"plain", "#!/bin/sh\n#SBATCH -N 2 --hold\n#SBATCH -J x\ntrue\n#SBATCH late\n", 2205, [][]string{{"-N", "2", "--hold", "-J", "x"}}, []int{2, 2, 2, 3, 3}},
		{"one option over two lines", "#SBATCH -N\n\n# why\n#SBATCH 2", 2205, [][]string{{"-N", "2"}}, []int{1, 4}},
		{"not at the start of the line", "##SBATCH a\n #SBATCH b\n# SBATCH c\n#SBATCHd\n#SLURM e\n", 2205, [][]string{{"d", "e"}}, nil},
		{"quotes", `#SBATCH --comment="a 'b' # c" --x='d "e"' mid"d l"e`, 2205, [][]string{{"--comment=a 'b' # c", `--x=d "e"`, "midd le"}}, nil},
		{"backslash", `#SBATCH a\"b 'c\'d' "e\\f" g\h`, 2205, [][]string{{`a"b`, "c'd", `e\f`, "gh"}}, nil},
		{"backslash and blank, 22.05", `#SBATCH a\ b`, 2205, [][]string{{"a", "b"}}, nil},
		{"backslash and blank, 24.05", `#SBATCH a\ b`, 2405, [][]string{{"a b"}}, nil},
		{"comment in a word", "#SBATCH --job-name=x#y z\n#SBATCH a", 2205, [][]string{{"--job-name=x", "a"}}, nil},
		{"empty word ends the line", "#SBATCH a \"\" b\n#SBATCH c", 2205, [][]string{{"a", "c"}}, nil},
		{"het", "#SBATCH a\n#SBATCH hetjob b\n#SBATCH c HETJOB d\n#SBATCH packjob\n#SBATCH hetjobs", 2205, [][]string{{"a"}, {"c"}, {"hetjobs"}}, nil},
		{"no newline at the end", "#SBATCH a", 2205, [][]string{{"a"}}, nil},
		{"carriage return", "#SBATCH a\r\n", 2205, [][]string{{"a"}}, nil},
		{"not UTF-8", "#SBATCH \xff\xfe", 2205, [][]string{{"\xff\xfe"}}, nil},
		{"empty", "", 2205, [][]string{nil}, nil},
	} {
		components, err := Directives([]byte(c.script), c.release)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got [][]string
		for _, words := range components {
			var ws []string
			for _, w := range words {
				ws = append(ws, w.Text)
			}
			got = append(got, ws)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
		for i, line := range c.lines {
			if components[0][i].Line != line {
				t.Errorf("%s: word %d is on line %d, want %d", c.name, i, components[0][i].Line, line)
			}
		}
	}
	for _, c := range []struct{ script, want string }{
		{"#!/bin/sh\n#SBATCH --comment=\"x", "line 2: the quote \" is not closed"},
		{"#SBATCH -N1 : -N2", "line 1: \":\" begins a word"},
	} {
		if _, err := Directives([]byte(c.script), 2205); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.script, err, c.want)
		}
	}
	if _, err := Directives([]byte(`#SBATCH a\ b`), 0); !errors.Is(err, ErrInstalled) {
		t.Errorf("any release reads a backslash and a blank: %v", err)
	}
}

// TestResolve holds precedence; TestAgainstSbatch holds the same against sbatch.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name      string
		args, env []string
		script    string
		want      []string // comment, job name, account, whether held, requeue: for each job
	}{
		{"script", nil, nil, "#SBATCH --comment=s -J s -H --requeue", []string{"s s - H yes"}},
		{"PBS over SBATCH", nil, nil, "#PBS -N p -A p\n#SBATCH -J s --comment=s\n", []string{"s p p - unset"}},
		{"BSUB keeps PBS out", nil, nil, "#PBS -A p\n#BSUB -J b\n", []string{"- b - - unset"}},
		{"PBS in the body", nil, nil, "true\n#PBS -N p", []string{"- p - - unset"}},
		{"PBS too far down", nil, nil, strings.Repeat("true\n", 101) + "#PBS -N p", []string{"- - - - unset"}},
		{"--ignore-pbs", []string{"--ignore-pbs"}, nil, "#PBS -N p", []string{"- - - - unset"}},
		{"SBATCH_IGNORE_PBS", nil, []string{"SBATCH_IGNORE_PBS="}, "#PBS -N p", []string{"- - - - unset"}},
		{"variables over script", nil, []string{"SBATCH_JOB_NAME=e", "SBATCH_NO_REQUEUE=1"}, "#SBATCH -J s --requeue\n#PBS -N p", []string{"- e - - no"}},
		{"flag taken back", nil, []string{"SBATCH_REQUEUE=no"}, "#SBATCH --no-requeue", []string{"- - - - unset"}},
		{"command line over all", []string{"-Jc", "--requeue"}, []string{"SBATCH_JOB_NAME=e", "SBATCH_NO_REQUEUE="}, "#SBATCH -J s", []string{"- c - - yes"}},
		{"comment carries over", []string{"--comment=a", ":", "-N1"}, nil, "", []string{"a - - - unset", "a - - - unset"}},
		{"a later comment reaches back", []string{"-N1", ":", "--comment=b"}, nil, "", []string{"b - - - unset", "b - - - unset"}},
		{"unless the first has its own", nil, nil, "#SBATCH --comment=a\n#SBATCH hetjob\n#SBATCH --comment=b", []string{"a - - - unset", "b - - - unset"}},
		{"command line read again", []string{"-J", "c"}, nil, "#SBATCH -H\n#SBATCH hetjob\n#SBATCH --comment=b", []string{"- c - H unset", "b c - H unset"}},
	} {
		cmd, err := For(2205).ParseArgs(c.args)
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := For(2205).Resolve(cmd, []byte("#!/bin/sh\n"+c.script), c.env)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, j := range jobs {
			value := func(name string) string {
				if s, ok := j.Set[name]; ok {
					return s.Value
				}
				return "-"
			}
			held := "-"
			if _, ok := j.Set["hold"]; ok {
				held = "H"
			}
			got = append(got, strings.Join([]string{value("comment"), value("job-name"), value("account"), held,
				[]string{"unset", "yes", "no"}[j.Requeue]}, " "))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
	}
	for script, want := range map[string]string{
		"#SBATCH stray":        `line 1: "stray" is no option`,
		"\n#SBATCH --nonsense": "line 2: unknown option --nonsense",
		"#PBS -Z":              "line 1: unknown option -Z",
		"#BSUB -J a b":         `line 1: "b" is no option`,
	} {
		cmd, _ := For(2205).ParseArgs(nil)
		if _, err := For(2205).Resolve(cmd, []byte(script), nil); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", script, err, want)
		}
	}
}

func TestScriptPath(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"cwd/sub/s", "bin/t"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"cwd/a", "cwd/sub/a", "cwd/sub/b", "bin/a", "bin/c", "bin/t/d", "cwd/.hidden"} {
		write(t, filepath.Join(dir, f), "")
	}
	for _, c := range []struct{ name, chdir, want string }{
		{"a", "", "cwd/a"},
		{"a", "sub", "cwd/sub/a"},
		{"a", dir + "/cwd/sub", "cwd/sub/a"},
		{"b", "", "b"},
		{"c", "sub", "bin/c"},
		{"t/d", "", "bin/t/d"},
		{"sub/b", "", "cwd/sub/b"},
		{"s", "sub", "s"}, // a directory is no script
		{"t", "", "t"},
		{"./a", "sub", "./a"},
		{".hidden", "", ".hidden"},
		{"/abs", "", "/abs"},
		{"", "", ""},
	} {
		got := ScriptPath(c.name, dir+"/cwd", c.chdir, "::/nowhere:"+dir+"/bin")
		if rel, ok := strings.CutPrefix(got, dir+"/"); ok {
			got = rel
		}
		if got != c.want {
			t.Errorf("ScriptPath(%q, chdir %q) = %q, want %q", c.name, c.chdir, got, c.want)
		}
	}
}

func TestSpankOptions(t *testing.T) {
	help := "Usage: sbatch\n  -n, --ntasks=n  x\n      --wrap[=command]\n\nOptions provided by plugins:\n" +
		"      --renice=[prio]      Re-nice job tasks to priority\n                               [prio].\n" +
		"\n      --a-very-long-option-name=with-a-long-argument-too\n                               help\n" +
		"      --x11                forward --X11\n\nOther options:\n  -V, --version  output\n"
	got := map[string]bool{}
	for _, o := range spankOptions([]byte(help)) {
		got[o.Name] = true
	}
	for _, want := range []string{"renice", "a-very-long-option-name", "x11"} {
		if !got[want] {
			t.Errorf("--%s not seen in %v", want, got)
		}
	}
	if got["wrap"] || got["ntasks"] {
		t.Errorf("sbatch's own options taken for SPANK's: %v", got)
	}
}

// isShown reports whether an error is one short line that a terminal can bear.
func isShown(err error) bool {
	text := err.Error()
	return len(text) < 3000 && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

func FuzzDirectives(f *testing.F) {
	f.Add([]byte("#!/bin/sh\n#SBATCH -N1 --comment=\"a b\" # c\n#SBATCH hetjob\n#PBS -N x -l nodes=1\n"), 2205)
	f.Add([]byte("#SBATCH a\\ b 'c\n"), 0)
	f.Add([]byte("#BSUB -cwd x -n 1,2\n#SLURM \x00"), 2405)
	g := AnyRelease()
	cmd, err := g.ParseArgs([]string{"--comment=mine"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, script []byte, release int) {
		components, err := Directives(script, Release(release))
		if err != nil {
			if !isShown(err) {
				t.Fatalf("%q: %q", script, err)
			}
			return
		}
		lines := 1 + bytes.Count(script, []byte("\n"))
		for _, words := range components {
			for _, w := range words {
				if w.Text == "" || w.Line < 1 || w.Line > lines {
					t.Fatalf("%q: word %q on line %d", script, w.Text, w.Line)
				}
			}
		}
		jobs, err := g.Resolve(cmd, script, []string{"SBATCH_REQUEUE=1"})
		if err == nil && (len(jobs) != len(components) || jobs[0].Set["comment"].Value != "mine") {
			t.Fatalf("%q: %+v", script, jobs)
		}
	})
}

func FuzzParseArgs(f *testing.F) {
	f.Add("-N1\n:\n--comment=x\n--prio-type\nte\n--\ns.sh\n:\nx")
	f.Add("-vHJ\nx\n--nice\n5")
	f.Add(":\n--=\n-")
	g := For(2205).With(own...)
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\n")
		c, err := g.ParseArgs(args)
		if err != nil && !isShown(err) {
			t.Fatalf("%q: %q", args, err)
		}
		if err != nil || c.Tangled {
			return
		}
		// Adding options changes nothing but these options.
		var add [][]string
		for i := range c.Components {
			add = append(add, []string{fmt.Sprint("--comment=tag", i), "--begin=now"})
		}
		again, err := g.ParseArgs(c.Rewrite(add))
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		if !slices.Equal(c.Script, again.Script) || len(again.Components) != len(c.Components) {
			t.Fatalf("%q became %q", args, again.Args)
		}
		for i, part := range again.Components {
			var before, after []string
			for _, x := range c.Components[i].Found {
				if !x.Option.Exact {
					before = append(before, x.Word())
				}
			}
			for _, x := range part.Found {
				after = append(after, x.Word())
			}
			if !slices.Equal(append(before, add[i]...), after) {
				t.Fatalf("%q became %q: component %d is %q", args, again.Args, i, after)
			}
		}
	})
}

// FuzzForeign: what #PBS and #BSUB lines say stays within its option, and what
// stands on the command line still counts.
func FuzzForeign(f *testing.F) {
	f.Add([]byte("#!/bin/sh\n#PBS -N x -l nodes=1 -W umask=022 -v A,B\n"), 0)
	f.Add([]byte("#BSUB -cwd x -n 1,2 -m \"a b\" -M 5 -x\n#PBS -N y\n"), 3)
	f.Add([]byte("#PBS -h -m nab -d /tmp\n#SBATCH hetjob\n#PBS -z\n"), 1)
	f.Add([]byte("#PBS -v \x00\n#PBS -W =\n#PBS --job_name=\x1b[2J\n"), 7)
	grammars := make([]*Grammar, len(Releases))
	for i, r := range Releases {
		grammars[i] = For(r)
	}
	f.Fuzz(func(t *testing.T, script []byte, release int) {
		g := grammars[uint(release)%uint(len(grammars))]
		cmd, err := g.ParseArgs([]string{"--comment=mine", "-Jmine"})
		if err != nil {
			t.Fatal(err)
		}
		lines := 1 + bytes.Count(script, []byte("\n"))
		jobs, err := g.Resolve(cmd, script, nil)
		if err != nil {
			var bad *ScriptError
			if !errors.As(err, &bad) || bad.Line < 1 || bad.Line > lines || jobs != nil || !isShown(err) {
				t.Fatalf("%q: %v", script, err)
			}
			return
		}
		for _, job := range jobs {
			if job.Set["comment"].Value != "mine" || job.Set["job-name"].Value != "mine" {
				t.Fatalf("%q: %+v", script, job)
			}
			for name, s := range job.Set {
				if s.Source == FromForeign && (s.Line < 1 || s.Line > lines || strings.ContainsAny(s.Value, "\n\x00")) {
					t.Fatalf("%q: %s: %+v", script, name, s)
				}
			}
		}
	})
}

// FuzzInstalled: what an installed sbatch prints about itself.
func FuzzInstalled(f *testing.F) {
	f.Add("slurm-wlm 22.05.8", []byte("x\nOptions provided by plugins:\n      --renice=[prio]      Re-nice\n      --x11\n"))
	f.Add("slurm 99.99.1-pre", []byte("\nOptions provided by plugins:\n--\n--=\n--a b"))
	f.Fuzz(func(t *testing.T, version string, help []byte) {
		if r, err := ParseRelease(version); err == nil {
			if back, err := ParseRelease("slurm " + r.String() + ".0"); err != nil || back != r || r < 0 || r > 9999 {
				t.Fatalf("%q is %v, which reads back as %v, %v", version, r, back, err)
			}
		}
		for _, o := range spankOptions(help) {
			if o.Name == "" || strings.ContainsAny(o.Name, "= \n") {
				t.Fatalf("%q: option %q", help, o.Name)
			}
		}
	})
}
