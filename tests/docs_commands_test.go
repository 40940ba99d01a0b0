package tests

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"slurmprio/priod/cli"
	"slurmprio/priod/config"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
	"slurmprio/tests/papers/verbs"
)

// A block is what stands between two fences of a page.
type block struct {
	page, heading string
	kind          string // what stands behind the first fence
	text          string // without the indent of a list
}

var (
	fenced   = regexp.MustCompile("(?ms)^( *)```(\\w*)\n(.*?)^ *```$")
	inline   = regexp.MustCompile("`([^`]+)`")
	indented = regexp.MustCompile(`(?m)^[^*\s\d].*\n(?:\n)+ {4}(.*)$`) // behind no item of a list
	typed    = regexp.MustCompile(`(?m)^ *(?:\$ |(?:\w+=\S* )*(?:priod|sbatchwrap|make|go|sbatch|squeue|scancel|scontrol|sacctmgr|sacct|systemctl|curl) )`)
)

// blocks are the fenced blocks of a page.
func blocks(page, text string) (found []block) {
	for _, m := range fenced.FindAllStringSubmatchIndex(text, -1) {
		b := block{page: strings.TrimPrefix(page, "../"), kind: text[m[4]:m[5]], text: text[m[6]:m[7]]}
		if all := heading.FindAllStringSubmatch(code.ReplaceAllString(text[:m[0]], ""), -1); len(all) > 0 {
			b.heading = all[len(all)-1][1]
		}
		b.text = strings.TrimPrefix(strings.ReplaceAll("\n"+b.text, "\n"+text[m[2]:m[3]], "\n"), "\n")
		found = append(found, b)
	}
	return found
}

// commands are the lines of a block that somebody types, those that go on behind a
// backslash as one; none for a block that holds something else.
func (b block) commands() (lines []string) {
	if b.kind != "sh" && b.kind != "console" {
		return nil
	}
	for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", "")) {
		line, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if line != "" && !strings.HasPrefix(line, "#") && (prompt || b.kind == "sh") {
			lines = append(lines, line)
		}
	}
	return lines
}

// pageBlocks are the blocks of the README and all pages of the docs.
func pageBlocks(t *testing.T) (found []block) {
	t.Helper()
	pages, texts := docPages(t)
	for _, page := range pages {
		if page == "../README.md" || strings.HasPrefix(page, "../docs/") {
			found = append(found, blocks(page, texts[page])...)
		}
	}
	return found
}

// Every block says what it holds, and no command hides where none is looked for.
func TestDocsBlocksSayWhatTheyHold(t *testing.T) {
	pages, texts := docPages(t)
	for _, page := range pages {
		if page != "../README.md" && !strings.HasPrefix(page, "../docs/") {
			continue
		}
		for _, m := range indented.FindAllStringSubmatch(fenced.ReplaceAllString(texts[page], ""), -1) {
			t.Errorf("%s: the block that begins with %q has no fence, which would say what it holds", page, m[1])
		}
		for _, b := range blocks(page, texts[page]) {
			switch b.kind {
			case "sh", "console":
				if len(b.commands()) == 0 {
					t.Errorf("%s: no command in the block %.60q", page, b.text)
				}
			case "toml", "conf", "csv", "nginx", "bash", "python", "yaml":
			case "text":
				if m := typed.FindString(b.text); m != "" {
					t.Errorf("%s: %q in a block of text: sh or console", page, m)
				}
			default:
				t.Errorf("%s: a block of %q: want sh, console, text, toml, conf, csv, nginx, bash, python or yaml", page, b.kind)
			}
		}
	}
}

// appKnows tells what a command tree says against such words, without doing anything.
func appKnows(app *ucli.App, args []string) error {
	app.Writer, app.ErrWriter = io.Discard, io.Discard
	var idle func(commands []*ucli.Command)
	idle = func(commands []*ucli.Command) {
		for _, c := range commands {
			if len(c.Subcommands) == 0 {
				c.Before, c.Action = nil, func(*ucli.Context) error { return nil }
			}
			idle(c.Subcommands)
		}
	}
	idle(app.Commands)
	return app.Run(append([]string{app.Name}, args...))
}

// Every command of ours that a page shows is known as it stands there: verbs and options
// of priod, targets of make, packages and names of tests. A shell reads the blocks, so that
// quotes and variables mean what they say; it runs nothing.
func TestDocsCommandsAreKnown(t *testing.T) {
	t.Parallel()
	for _, b := range pageBlocks(t) {
		var script strings.Builder
		for _, line := range b.commands() {
			if typed.MatchString(line+" ") || regexp.MustCompile(`^\w+="`).MatchString(line) {
				script.WriteString(line + "\n")
			}
		}
		for _, words := range words(t, script.String()) {
			if err := known(words); err != nil {
				t.Errorf("%s: %s: %v", b.page, strings.Join(words, " "), err)
			}
		}
	}
	pages, texts := docPages(t)
	for _, page := range pages {
		var said strings.Builder
		for _, m := range inline.FindAllStringSubmatch(code.ReplaceAllString(texts[page], ""), -1) {
			line := strings.Join(strings.Fields(m[1]), " ")
			if typed.MatchString(line+" ") && !strings.ContainsAny(line, "|<") && !strings.Contains(line, "...") && !strings.Contains(line, "COMMAND") {
				said.WriteString(line + "\n")
			}
		}
		for _, words := range words(t, said.String()) {
			if err := known(words); err != nil && (page != "../CHANGELOG.md" || !isGone(words)) {
				t.Errorf("%s: %s: %v", page, strings.Join(words, " "), err)
			}
		}
		for _, name := range regexp.MustCompile("[`= ]--(prio-[a-z-]+)").FindAllStringSubmatch(texts[page], -1) {
			if !slices.ContainsFunc(prio.Exact("prio-print", "prio-help", "prio-version"), func(o *sbatch.Option) bool { return o.Name == name[1] }) {
				t.Errorf("%s: sbatchwrap has no option --%s", page, name[1])
			}
		}
	}
}

// words are the commands that a shell would run, which runs none of them.
func words(t *testing.T, script string) (commands [][]string) {
	t.Helper()
	const handler = "command_not_found_handle() { printf '%s\\0' \"$@\" $'\\n' >&3; }; exec 3>&1 >/dev/null; PATH=/nowhere\n"
	cmd := exec.Command("/bin/bash", "-c", handler+script)
	cmd.Dir, cmd.Env = t.TempDir(), nil
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, script)
	}
	for c := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n\x00"), "\n\x00") {
		if c != "" {
			commands = append(commands, strings.Split(strings.TrimSuffix(c, "\x00"), "\x00"))
		}
	}
	return commands
}

// isGone reports whether priod says of a command that it was a verb of an earlier version, of which CHANGELOG.md tells.
func isGone(words []string) bool {
	var said strings.Builder
	return len(words) > 1 && cli.Main("", words[:2], io.Discard, &said) == 2 && strings.Contains(said.String(), words[1]+" is gone: ")
}

// known tells what is wrong with a command of ours.
func known(words []string) error {
	args := words[1:]
	switch words[0] {
	case "priod":
		return appKnows(cli.App("v1"), args)
	case "make":
		if _, err := exec.LookPath("make"); err != nil {
			return nil // the roots of other Slurms have none
		}
		if out, err := exec.Command("make", append([]string{"-C", "..", "-n"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	case "go":
		return goKnows(args)
	}
	return nil
}

// goKnows reports whether the packages have tests or benchmarks of these names.
func goKnows(args []string) error {
	if len(args) > 1 && args[0] == "run" && args[1] == "./tests/papers" {
		return appKnows(verbs.App(), args[2:])
	}
	if len(args) == 0 || args[0] != "test" {
		return nil
	}
	var functions, patterns []string
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "./"):
			found, err := testFunctions("../" + a)
			if err != nil {
				return err
			}
			functions = append(functions, found...)
		case i+1 < len(args) && (a == "-run" && slices.ContainsFunc(args, func(b string) bool { return b == "-bench" })):
		case i+1 < len(args) && (a == "-run" || a == "-bench"):
			patterns = append(patterns, args[i+1])
		}
	}
	if len(functions) == 0 {
		return fmt.Errorf("no package")
	}
	for _, p := range patterns {
		first, _, _ := strings.Cut(p, "/")
		re, err := regexp.Compile(first)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(functions, re.MatchString) {
			return fmt.Errorf("no test is called %s", p)
		}
	}
	return nil
}

// testFunctions are the tests and benchmarks of a package, and of those below it for "/...".
func testFunctions(folder string) (found []string, err error) {
	folder, all := strings.CutSuffix(folder, "/...")
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w*)\(`)
	err = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != filepath.Clean(folder) && path != folder && !all:
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			found = append(found, string(m[1]))
		}
		return err
	})
	return found, err
}

// Every table of priod.toml, every cluster and every file of workloads that a page shows is
// taken by the code that reads such files.
func TestDocsConfigurationsAreRead(t *testing.T) {
	t.Parallel()
	for _, b := range pageBlocks(t) {
		if b.kind != "toml" {
			continue
		}
		path := filepath.Join(t.TempDir(), "file.toml")
		if err := os.WriteFile(path, []byte(b.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case strings.HasPrefix(b.text, "[[nodes]]"):
			_, err = trace.ReadCluster(path)
		case strings.HasPrefix(b.text, "[[events]]"), strings.HasPrefix(b.text, "events = "):
			c, _ := trace.ParseNodes([]string{"24:v100:8", "4:h100:8"})
			_, err = trace.ReadNodeEvents(path, &c)
		case strings.HasPrefix(b.text, "[[workload]]"):
			_, err = workload.Load(path)
		default:
			_, err = config.Load(path)
		}
		if err != nil {
			t.Errorf("%s: %v in\n%s", b.page, err, b.text)
		}
	}
}
