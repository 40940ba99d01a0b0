package tests

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	priod "slurmprio/priod/cli"
)

var (
	linked  = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	code    = regexp.MustCompile("(?ms)^```.*?^```$")
	mute    = regexp.MustCompile(`[^\p{L}\p{N}_ -]`) // what GitHub leaves out of a heading's anchor
)

// docPages are the README, the other pages at the top and all pages of the docs, with
// their text.
func docPages(t *testing.T) (pages []string, texts map[string]string) {
	t.Helper()
	texts = map[string]string{}
	for _, pattern := range []string{"../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../SECURITY.md", "../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, page := range found {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			pages, texts[page] = append(pages, page), string(text)
		}
	}
	return pages, texts
}

// The README or the index leads to every page of the docs, and no link between them is dead.
func TestDocsAreLinked(t *testing.T) {
	pages, texts := docPages(t)
	anchors := map[string]bool{}
	for page, text := range texts {
		for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			anchors[page+"#"+strings.ReplaceAll(mute.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
		}
	}
	from := map[string]bool{}
	for _, page := range pages {
		for _, m := range linked.FindAllStringSubmatch(texts[page], -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
			if m[2] != "" && !anchors[to+"#"+m[2]] {
				t.Errorf("%s links to %s#%s, and no heading there is called so", page, m[1], m[2])
			}
			if page == "../README.md" || page == "../docs/README.md" {
				from[to] = true
			}
		}
	}
	for _, page := range pages[1:] {
		if !from[page] {
			t.Errorf("neither README.md nor docs/README.md leads to %s", page)
		}
	}
}

var source = regexp.MustCompile("`((?:priod|slurmplug|sbatchwrap|sql|etc|tests|docs)/[a-zA-Z0-9_./-]+)`")

// Whoever follows ARCHITECTURE.md or CONTRIBUTING.md to a file or folder finds it.
func TestPagesNameFilesThatExist(t *testing.T) {
	for _, page := range []string{"../ARCHITECTURE.md", "../CONTRIBUTING.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range source.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil && !strings.Contains(m[1], "NAME") && !strings.Contains(m[1], "VERSION") {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
}

var pageName = regexp.MustCompile(`\bdocs/[a-zA-Z0-9_/-]+\.(?:md|toml|sh|py)\b`)

// What the code, the configuration and the man pages say of a page of the docs leads there.
func TestCodeNamesPagesThatExist(t *testing.T) {
	named := 0
	for _, folder := range []string{"../etc", "../priod", "../sbatchwrap", "../slurmplug", "../tests"} {
		err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "stray_test") || strings.Contains(path, "/testdata/") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, name := range pageName.FindAllString(string(text), -1) {
				named++
				if _, err := os.Stat("../" + name); err != nil {
					t.Errorf("%s names %s, which is not there", path, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if named < 20 {
		t.Errorf("only %d pages are named", named)
	}
}

// Every command of priod is shown or explained in the docs.
func TestDocsKnowEveryCommand(t *testing.T) {
	_, texts := docPages(t)
	all := strings.Join(slices.Collect(maps.Values(texts)), "\n")
	var check func(path string, commands []*cli.Command)
	check = func(path string, commands []*cli.Command) {
		for _, c := range commands {
			name := path + " " + c.Name
			if len(c.Subcommands) > 0 {
				check(name, c.Subcommands)
			} else if !regexp.MustCompile(regexp.QuoteMeta(name) + `\b`).MatchString(all) {
				t.Errorf("no page knows %s", name)
			}
		}
	}
	check("priod", priod.App("").Commands)
}

// One command makes the figures of docs/evidence/sizing.md: it knows every study, and
// says what is missing where the traces are not there.
func TestEvidenceOfSizing(t *testing.T) {
	script, err := filepath.Abs("../docs/evidence/sizing.sh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	studies, err := filepath.Glob("../docs/evidence/sizing-*.toml")
	if err != nil || len(studies) < 8 {
		t.Fatal(studies, err)
	}
	for _, s := range studies {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(s), "sizing-"), ".toml")
		if !regexp.MustCompile(`(?m)^for study in .*\b` + name + `\b.*; do$`).Match(text) {
			t.Errorf("%s does not run %s", script, s)
		}
	}
	for _, args := range [][]string{nil, {""}, {t.TempDir()}} {
		out, err := exec.Command(script, args...).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "sizing.sh: nothing was measured: no deploy_static_100job_6_3_1.csv in ") {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}
