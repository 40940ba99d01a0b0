package tests

import (
	"os"
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
