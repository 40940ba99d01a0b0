package sbatch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryOption asks the sbatch of this machine about the arity and the
// names of every option of its release.
func TestEveryOption(t *testing.T) {
	o := newOracle(t)
	dir := t.TempDir()
	spellings := func(opt *Option) (words []string) {
		for _, n := range []string{opt.Name, opt.Alias} {
			if n != "" {
				words = append(words, "--"+n)
			}
		}
		if opt.Short != 0 {
			words = append(words, "-"+string(opt.Short))
		}
		return words
	}
	for _, opt := range o.grammar.options {
		for _, word := range spellings(opt) {
			// sbatch takes --version as the value of an option that needs one. The
			// value of --autocomplete makes it succeed, too.
			a := o.ask(t, dir, submission{args: []string{word, "--version"}})
			version := a.code == 0 && strings.HasPrefix(a.stdout, "slurm") && !strings.Contains(a.stderr, "requires an argument")
			if takes := opt.Arg == Required; takes == version && !(opt.Early && opt.Arg == NoArg) {
				t.Errorf("%s takes the next word: %v, sbatch says otherwise: %d %s", word, takes, a.code, a.stderr)
			}
			if !strings.HasPrefix(word, "--") {
				continue
			}
			a = o.ask(t, dir, submission{args: []string{word + "=1", "--version"}})
			if refused := strings.Contains(a.stderr, "doesn't allow an argument"); refused != (opt.Arg == NoArg) {
				t.Errorf("%s=1: sbatch refuses a value: %v, %s", word, refused, a.stderr)
			}
		}
	}
}

// TestOptionsOfHelp finds every option that the installed sbatch tells of in
// the table, so that a newer sbatch shows what the table lacks.
func TestOptionsOfHelp(t *testing.T) {
	o := newOracle(t)
	help, err := (Installed{Path: o.sbatch, Env: o.env(nil)}).run("--help")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for word := range strings.FieldsSeq(string(help)) {
		name, ok := strings.CutPrefix(strings.TrimRight(word, ","), "--")
		if !ok {
			continue
		}
		name = name[:len(name)-len(strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz0123456789-"))]
		if seen++; o.grammar.byName[name] == nil {
			// Since 24.05 the help tells of --power, which is gone (seen on 24.11.5 and 26.05.5).
			if a := o.ask(t, t.TempDir(), submission{args: []string{"--" + name + "=1", "--version"}}); !strings.Contains(a.stderr, "unrecognized option") {
				t.Errorf("sbatch --help tells of --%s", name)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d options in the help", seen)
	}
}

// spankSource is a plugin with one option of each kind, for whatever release
// is installed.
const spankSource = `
const char plugin_name[] = "prio_test"; const char plugin_type[] = "spank";
const unsigned int plugin_version = %d; const unsigned int spank_plugin_version = 1;
struct spank_option { char *name, *arginfo, *usage; int has_arg, val; int (*cb)(int, const char *, int); };
int spank_option_register(void *, struct spank_option *);
static int cb(int v, const char *a, int r) { return 0; }
static struct spank_option options[] = {
 { "spank-flag", 0, "takes none", 0, 1, cb }, { "spank-value", "v", "takes one", 1, 2, cb },
 { "spank-maybe", "v", "may take one", 2, 3, cb }, { "spank-silent", 0, "takes one, tells not", 1, 4, cb },
 { "comm", 0, "looks like an abbreviation", 0, 5, cb } };
int slurm_spank_init(void *sp, int argc, char **argv) {
 for (int i = 0; i < 5; i++) spank_option_register(sp, &options[i]);
 return 0;
}
`

// TestSpankPlugin asks an sbatch with a real SPANK plugin, when there is a C
// compiler to build one.
func TestSpankPlugin(t *testing.T) {
	o := newOracle(t)
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build a SPANK plugin with")
	}
	version, err := (Installed{Path: o.sbatch, Env: o.env(nil)}).run("--version")
	if err != nil {
		t.Fatal(err)
	}
	var major, minor, micro int
	fields := strings.Fields(string(version))
	if _, err := fmt.Sscanf(fields[len(fields)-1], "%d.%d.%d", &major, &minor, &micro); err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	source, plugin := filepath.Join(o.dir, "spank.c"), filepath.Join(o.dir, "spank.so")
	write(t, source, fmt.Sprintf(spankSource, major<<16|minor<<8|micro))
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", plugin, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write(t, filepath.Join(o.dir, "plugstack.conf"), "optional "+plugin+"\n")
	g, err := Installed{Path: o.sbatch, Env: o.env(nil)}.Grammar()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		script string
	}{
		{[]string{"--spank-flag", "s.sh"}, "s.sh"},
		{[]string{"--spank-value", "v", "s.sh"}, "s.sh"},
		{[]string{"--spank-value=v", "s.sh"}, "s.sh"},
		{[]string{"--spank-maybe", "s.sh"}, "s.sh"},
		{[]string{"--spank-silent", "v", "s.sh"}, "s.sh"},
		{[]string{"--spank-f", "s.sh"}, "s.sh"},
		{[]string{"--comm", "s.sh"}, "s.sh"},       // the plugin's, not --comment
		{[]string{"--comme", "v", "s.sh"}, "s.sh"}, // --comment
	} {
		cmd, err := g.ParseArgs(c.args)
		if err != nil || len(cmd.Script) != 1 || cmd.Script[0] != c.script {
			t.Errorf("%q: %+v, %v", c.args, cmd, err)
		}
		a := o.ask(t, t.TempDir(), submission{args: append(c.args[:len(c.args)-1:len(c.args)-1], "--wrap=true"), script: ""})
		if len(a.jobs) != 1 {
			t.Errorf("%q: sbatch takes it otherwise: %s", c.args, a.stderr)
		}
	}
	var bad *OptionError
	for _, args := range [][]string{{"--spank-"}, {"--spank-nothing"}, {"--spank-value"}} {
		if _, err := g.ParseArgs(args); !errors.As(err, &bad) {
			t.Errorf("%q: %v", args, err)
		}
		if a := o.ask(t, t.TempDir(), submission{args: args}); !refusal.MatchString(a.stderr) {
			t.Errorf("%q: sbatch takes it: %s", args, a.stderr)
		}
	}
	if _, err := AnyRelease().ParseArgs([]string{"--comm", "s.sh"}); !errors.Is(err, ErrInstalled) {
		t.Errorf("--comm without knowing the plugins: %v", err)
	}
}

func TestInstalledFails(t *testing.T) {
	var failed *InstalledError
	if _, err := (Installed{Path: "/nowhere/sbatch"}).Grammar(); !errors.As(err, &failed) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no sbatch: %v", err)
	}
	path, err := exec.LookPath("sbatch")
	if err != nil {
		missing(t, "no sbatch in PATH")
	}
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	write(t, conf, "Nonsense=1\n")
	_, err = (Installed{Path: path, Env: []string{"SLURM_CONF=" + conf}}).Grammar()
	if !errors.As(err, &failed) || failed.Stderr == "" {
		t.Errorf("no configuration: %v", err)
	}
}
