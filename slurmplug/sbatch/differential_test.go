package sbatch

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// verbatim are the options whose value sbatch reports as it was given; of the
// others only whether they are set is compared.
var verbatim = map[string]bool{
	"account": true, "acctg-freq": true, "array": true, "comment": true, "constraint": true, "cpus-per-task": true,
	"dependency": true, "export": true, "extra-node-info": true, "gpus": true, "gpus-per-node": true,
	"job-name": true, "licenses": true, "mail-user": true, "mcs-label": true, "nodes": true,
	"ntasks": true, "partition": true, "prefer": true, "qos": true, "reservation": true, "wckey": true,
	"wrap": true,
}

// comparable makes a Job look as the oracle reports it.
func comparable(j Job, cwd string) map[string]string {
	out := map[string]string{}
	for name, s := range j.Set {
		value := s.Value
		switch {
		case name == "requeue" || name == "no-requeue":
			value = [...]string{"unset", "requeue", "no-requeue"}[j.Requeue]
		case name == "nice" && !s.HasValue:
			value = "100"
		case name == "nice":
		case name == "gres":
			value = "gres:" + strings.TrimPrefix(value, "gres:")
		case name == "chdir" && !filepath.IsAbs(value):
			value = cwd + "/" + value
		case name == "chdir":
		case !verbatim[name]:
			value = "set"
		}
		out[name] = value
	}
	return out
}

func blur(job map[string]string) map[string]string {
	keep := map[string]bool{"requeue": true, "no-requeue": true, "nice": true, "gres": true, "chdir": true}
	for name := range job {
		if !verbatim[name] && !keep[name] {
			job[name] = "set"
		}
	}
	return job
}

// refusal is how sbatch words its errors about grammar.
var refusal = regexp.MustCompile(`unrecognized option|is ambiguous|requires an argument|doesn't allow an argument|invalid option --|` +
	"Invalid directive|Unmatched `|Unexpected `:`|Invalid argument:|Script arguments not permitted")

// submission is one random case.
type submission struct {
	args, env []string
	script    string
}

var (
	words = []string{"a", "b1", "x#y", "two words", "it's", `say "hi"`, `back\slash`, "-N", "--hold", "=", "a=b", ":x", "é", "*", "$HOME", "\ttab", "hetjob", "#"}
	// flags and options whose values sbatch takes as they are.
	flagNames  = []string{"hold", "contiguous", "overcommit", "requeue", "no-requeue", "parsable", "reboot", "spread-job", "use-min-nodes", "wait", "verbose", "oversubscribe", "test-only", "ignore-pbs"}
	freeNames  = []string{"account", "comment", "comment", "comment", "constraint", "error", "job-name", "mail-user", "output", "partition", "prefer", "qos", "reservation", "wckey", "licenses", "mcs-label"}
	countNames = []string{"nodes", "ntasks", "cpus-per-task", "mincpus", "tmp", "mem", "time", "nice", "array", "priority"}
	variablesN = []string{"SBATCH_ACCOUNT", "SBATCH_JOB_NAME", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_CONSTRAINT", "SBATCH_WCKEY"}
	variablesF = []string{"SBATCH_REQUEUE", "SBATCH_NO_REQUEUE", "SBATCH_WAIT", "SBATCH_OVERCOMMIT", "SBATCH_SPREAD_JOB", "SBATCH_IGNORE_PBS"}
)

func drawValue(t *rapid.T, name string) string {
	for _, n := range countNames {
		if n == name {
			return rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "count")
		}
	}
	return rapid.SampledFrom(words).Draw(t, "value")
}

// drawOption draws one option in one of its spellings, as one or two words.
func drawOption(t *rapid.T) []string {
	o := For(Releases[0]).byName[rapid.OneOf(rapid.SampledFrom(flagNames), rapid.SampledFrom(freeNames), rapid.SampledFrom(freeNames),
		rapid.SampledFrom(countNames)).Draw(t, "option")]
	name := o.Name
	if rapid.IntRange(0, 7).Draw(t, "abbreviate") == 0 {
		name = name[:rapid.IntRange(min(4, len(name)), len(name)).Draw(t, "letters")]
	}
	short := o.Short != 0 && rapid.Bool().Draw(t, "short")
	if o.Arg == NoArg {
		if !short {
			if rapid.IntRange(0, 40).Draw(t, "excess") == 0 {
				name += "=1"
			}
			return []string{"--" + name}
		}
		cluster := "-"
		for range rapid.IntRange(0, 2).Draw(t, "cluster") {
			cluster += rapid.SampledFrom([]string{"H", "O", "v", "W", "s", "k"}).Draw(t, "flag")
			if strings.HasSuffix(cluster, "k") {
				return []string{cluster}
			}
		}
		return []string{cluster + string(o.Short)}
	}
	value := drawValue(t, o.Name)
	switch {
	case o.Arg == Optional && rapid.Bool().Draw(t, "bare"):
		return []string{"--" + name}
	case short && rapid.Bool().Draw(t, "glued"):
		return []string{"-" + string(o.Short) + value}
	case short:
		return []string{"-" + string(o.Short), value}
	case o.Arg == Optional || rapid.Bool().Draw(t, "equals"):
		return []string{"--" + name + "=" + value}
	}
	return []string{"--" + name, value}
}

func drawOptions(t *rapid.T, most int) (out []string) {
	for range rapid.IntRange(0, most).Draw(t, "options") {
		out = append(out, drawOption(t)...)
	}
	return out
}

// quoteWord writes a word so that a directive holds it, in one of three ways,
// or leaves it bare for sbatch to take apart.
func quoteWord(t *rapid.T, w string) string {
	switch rapid.IntRange(0, 9).Draw(t, "quoting") {
	case 0:
		return w
	case 1:
		return `'` + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(w) + `'`
	case 2:
		return regexp.MustCompile(`[^A-Za-z0-9=-]`).ReplaceAllString(w, `\$0`)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + `"`
}

func drawScript(t *rapid.T) string {
	s := "#!/bin/sh\n"
	for range rapid.IntRange(0, 6).Draw(t, "lines") {
		switch rapid.IntRange(0, 24).Draw(t, "line") {
		case 0:
			s += "\n"
		case 1:
			s += rapid.SampledFrom([]string{"# comment", " #SBATCH --hold", "##SBATCH --hold", "# SBATCH --hold", "#", "#PRIO --prio-type te", "   \t"}).Draw(t, "comment") + "\n"
		case 2:
			s += rapid.SampledFrom([]string{"echo hi", " true", "exit 0"}).Draw(t, "command") + "\n"
		case 3, 4:
			s += rapid.SampledFrom([]string{"#SBATCH hetjob", "#SBATCH packjob", "#SBATCH HetJob --hold", "#SBATCH -H hetjob --hold"}).Draw(t, "separator") + "\n"
		case 5:
			s += "#PBS " + rapid.SampledFrom([]string{"-N pbsname", "-A pbsacct", "-q pbsqueue", "-h", "-V -j oe", "-p 5", "-W depend=afterok:5", "-o out -e err"}).Draw(t, "pbs") + "\n"
		case 6:
			s += "#BSUB " + rapid.SampledFrom([]string{"-J bsubname", "-q bsubqueue", "-n 2,4", "-cwd /tmp", "-o out", "-x"}).Draw(t, "bsub") + "\n"
		case 7:
			s += "#SBATCH" + rapid.StringMatching(`(-J|--comment=|[ "'\\#:ab\t-]|hetjob){0,6}`).Draw(t, "chaos") + "\n"
		default:
			s += rapid.SampledFrom([]string{"#SBATCH ", "#SBATCH ", "#SBATCH", "#SLURM "}).Draw(t, "magic")
			for _, w := range drawOptions(t, 2) {
				s += quoteWord(t, w) + rapid.SampledFrom([]string{" ", " ", "\t"}).Draw(t, "blank")
			}
			s += rapid.SampledFrom([]string{"", "", "", "", "", "", "", "# why", "#why", "stray"}).Draw(t, "tail") + "\n"
		}
	}
	return s + rapid.SampledFrom([]string{"", "true\n", "true\n#SBATCH --hold\n#PBS -N late\n", strings.Repeat("true\n", 101) + "#PBS -N toolate\n"}).Draw(t, "body")
}

func drawSubmission(t *rapid.T, dir string) submission {
	s := submission{script: drawScript(t), args: drawOptions(t, 4)}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "components") {
		s.args = append(append(s.args, ":"), drawOptions(t, 2)...)
	}
	if rapid.IntRange(0, 5).Draw(t, "chdir") == 0 {
		s.args = append(s.args, "-D", rapid.SampledFrom([]string{"sub", dir + "/sub"}).Draw(t, "dir"))
	}
	if rapid.IntRange(0, 9).Draw(t, "wrap") == 0 {
		s.args = append(s.args, "--wrap", rapid.SampledFrom(words).Draw(t, "wrapped"))
	}
	if rapid.IntRange(0, 9).Draw(t, "dashes") == 0 {
		s.args = append(s.args, "--")
	}
	if rapid.IntRange(0, 3).Draw(t, "stdin") > 0 {
		s.args = append(s.args, rapid.SampledFrom([]string{"s.sh", "./s.sh", "sub/d.sh", "d.sh", "p.sh", dir + "/s.sh"}).Draw(t, "script"))
		s.args = append(s.args, rapid.SliceOfN(rapid.SampledFrom([]string{"x", "--hold", "-N5", ":", "--", "--comment=script"}), 0, 3).Draw(t, "scriptargs")...)
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(variablesF), 0, 2, rapid.ID[string]).Draw(t, "flags") {
		s.env = append(s.env, name+"="+rapid.SampledFrom([]string{"", "yes", "YES", "1", "0", "no", "-2", " 3", "3x"}).Draw(t, "v"))
	}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(variablesN), 0, 1, rapid.ID[string]).Draw(t, "variables") {
		s.env = append(s.env, name+"="+rapid.SampledFrom(words).Draw(t, "v"))
	}
	return s
}

// TestAgainstSbatch holds the whole grammar against the sbatch of this machine,
// over random command lines, variables and scripts.
func TestAgainstSbatch(t *testing.T) {
	o := newOracle(t)
	if checks := flag.Lookup("rapid.checks").Value; checks.String() == "100" && os.Getenv("SLURMPRIO_LONG") == "1" {
		checks.Set("1000")
		t.Cleanup(func() { checks.Set("100") })
	}
	var cases, refused, components atomic.Int64
	t.Run("random", func(t *testing.T) {
		for worker := range 2 {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				bin := filepath.Join(o.dir, "bin", fmt.Sprint(worker))
				for _, d := range []string{filepath.Join(dir, "sub"), bin} {
					if err := os.MkdirAll(d, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				rapid.Check(t, func(t *rapid.T) {
					s := drawSubmission(t, dir)
					for _, f := range []string{"s.sh", "sub/d.sh"} {
						if err := os.WriteFile(filepath.Join(dir, f), []byte(s.script), 0o644); err != nil {
							t.Fatal(err)
						}
					}
					if err := os.WriteFile(filepath.Join(bin, "p.sh"), []byte(s.script), 0o644); err != nil {
						t.Fatal(err)
					}
					s.env = append(s.env, "PATH=/nowhere:"+bin)
					jobs, refuse := o.compare(t, dir, s)
					cases.Add(1)
					components.Add(int64(jobs))
					if refuse {
						refused.Add(1)
					}
				})
			})
		}
	})
	t.Logf("%d submissions with %d jobs, of which sbatch refused %d", cases.Load(), components.Load(), refused.Load())
}

// tb is what testing.TB and rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(string, ...any)
}

// compare asks sbatch and this package about one submission.
func (o *oracle) compare(t tb, dir string, s submission) (jobs int, refused bool) {
	t.Helper()
	a := o.ask(t, dir, s)
	mine, argv, err := resolve(o.grammar, dir, s)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("args %q\nenv %q\nscript:\n%s\nsbatch exits with %d: %s\n%s", s.args, s.env, s.script, a.code, a.stderr, fmt.Sprintf(format, args...))
	}
	var unread *os.PathError
	switch {
	case strings.Contains(a.stderr, "are mutually exclusive"): // since 24.11: --exclusive beside --oversubscribe
		return 0, true // two values that are not looked at here; it reads no further
	case errors.As(err, &unread):
		if len(a.jobs) > 0 {
			fail("here: %v", err)
		}
		return 0, true
	case err != nil:
		if !refusal.MatchString(a.stderr) && a.code != 255 { // it may stop at a value before it comes so far
			fail("sbatch does not refuse it; here: %v", err)
		}
		for i := range min(len(a.jobs), len(mine)) { // of the components before the one that is wrong
			if got := mine[i].Set["comment"].Value; got != a.jobs[i]["comment"] {
				fail("component %d: comment %q, here %q", i, a.jobs[i]["comment"], got)
			}
		}
		return 0, true
	case refusal.MatchString(a.stderr):
		fail("only sbatch refuses it")
	case a.code == 255:
		return 0, true // sbatch does not like a value, which is not looked at here
	}
	var got []map[string]string
	for _, j := range mine {
		got = append(got, comparable(j, dir))
	}
	for i := range a.jobs {
		blur(a.jobs[i])
	}
	if d := cmp.Diff(a.jobs, got); d != "" {
		fail("-sbatch +here:\n%s", d)
	}
	if d := cmp.Diff(a.argv, argv); d != "" && len(a.argv)+len(argv) > 0 {
		fail("script and arguments, -sbatch +here:\n%s", d)
	}

	// Without knowing the release: the same, or the admission that it matters.
	any, _, err := resolve(AnyRelease(), dir, s)
	switch {
	case errors.Is(err, ErrInstalled):
	case err != nil:
		fail("any release: %v", err)
	default:
		if d := cmp.Diff(mine, any); d != "" {
			fail("-installed +any release:\n%s", d)
		}
	}
	o.rewrite(t, dir, s, a)
	return len(mine), false
}

// own stands for the options of a wrapper.
var own = []*Option{{Name: "prio-type", Arg: Required, Exact: true}, {Name: "prio-give-back", Arg: Optional, Exact: true}}

// rewrite adds a comment of its own to each job and asks sbatch again: nothing
// but the comment may change. Before, options of our own are strewn in, and
// have to be gone again.
func (o *oracle) rewrite(t tb, dir string, s submission, before answer) {
	t.Helper()
	g := o.grammar.With(own...)
	plain, err := g.ParseArgs(s.args)
	if err != nil || plain.Tangled {
		return
	}
	strewn := s
	strewn.args = nil
	next := 0
	for i, f := range plain.First {
		if f.At >= next { // once for a word with several short options
			strewn.args = append(append(strewn.args, s.args[next:f.At]...), []string{"--prio-give-back", "--prio-type=te"}[i%2])
			next = f.At
		}
	}
	strewn.args = append(strewn.args, s.args[next:]...)
	c, err := g.ParseArgs(strewn.args)
	if err != nil {
		t.Fatalf("%q: %v", strewn.args, err)
	}
	if d := cmp.Diff(s.args, c.Rewrite(nil), cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("%q\n-as it was +own options removed:\n%s", strewn.args, d)
	}
	var want []map[string]string
	var add [][]string
	for i, j := range before.jobs {
		j := maps.Clone(j)
		j["comment"] = "tag " + j["comment"]
		if i%3 == 0 {
			j["comment"] = "tag"
		}
		j["begin"] = "set"
		want = append(want, j)
		add = append(add, []string{"--comment=" + j["comment"], "--begin=now+20"})
	}
	rewritten := s
	rewritten.args = c.Rewrite(add)
	after := o.ask(t, dir, rewritten)
	for i := range after.jobs {
		blur(after.jobs[i])
	}
	if d := cmp.Diff(want, after.jobs); d != "" {
		t.Fatalf("args %q\nrewritten %q\nscript:\n%s\n-wanted +sbatch says:\n%s\n%s", s.args, rewritten.args, s.script, d, after.stderr)
	}
	if d := cmp.Diff(before.argv, after.argv); d != "" {
		t.Fatalf("rewritten %q: script and arguments changed:\n%s", rewritten.args, d)
	}
}

func resolve(g *Grammar, dir string, s submission) (jobs []Job, argv []string, err error) {
	c, err := g.ParseArgs(s.args)
	if err != nil {
		return nil, nil, err
	}
	var script []byte
	switch _, wrapped := c.Last("wrap"); {
	case wrapped && c.Script != nil:
		return nil, nil, errors.New("script and --wrap")
	case wrapped:
	case c.Script == nil:
		script = []byte(s.script)
	default:
		path := "/nowhere"
		for _, e := range s.env {
			if p, ok := strings.CutPrefix(e, "PATH="); ok {
				path = p
			}
		}
		chdir, _ := c.Last("chdir")
		argv = append([]string{ScriptPath(c.Script[0], dir, chdir, path)}, c.Script[1:]...)
		name := argv[0]
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if script, err = os.ReadFile(name); err != nil {
			return nil, argv, err
		}
	}
	jobs, err = g.Resolve(c, script, s.env)
	return jobs, argv, err
}
