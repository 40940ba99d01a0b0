package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var linked = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)

// The README leads to every page of the docs, and no link between them is dead.
func TestDocsAreLinked(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../README.md", "../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		pages = append(pages, found...)
	}
	from := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			to := filepath.Join(filepath.Dir(page), m[1])
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
			if page == "../README.md" {
				from[to] = true
			}
		}
	}
	for _, page := range pages[1:] {
		if !from[page] {
			t.Errorf("README.md does not lead to %s", page)
		}
	}
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
