package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// persons are words for people, which jobs, hosts and values are not. nobody is also a user of Unix.
var persons = regexp.MustCompile(`\b([Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody|[Ww]hoever)\b`)

// plain are phrases that stand for plainer ones.
var plain = map[string]string{
	"hangs on": "depends on", "written anew": "rewritten", "made anew": "rebuilt", "begun anew": "started over", "begins anew": "starts over", "begin anew": "start over",
	"reckon": "estimate, or take into account", "tells whether": "reports whether", "stands before all": "ranks ahead of all", "stand before all": "rank ahead of all",
	"comes free": "becomes free", "come free": "become free", "less in the mean": "less on average", "knows it no more": "no longer knows it",
}

// unixNobody are the files that speak of the user nobody, and "anybody", a value of a key.
var unixNobody = map[string]bool{
	"priod/cli/explain_own.go": true, "priod/cluster/identity.go": true, "slurmplug/replies.go": true, "slurmplug/sight.go": true, "docs/reference/faults.md": true, "docs/reference/versions.md": true,
	"docs/evidence/preemption.md": true,
}

// unread are kinds of files that hold no words of ours.
var unread = map[string]bool{".png": true, ".svg": true, ".csv": true, ".sum": true, ".txt": true}

// Code and pages name the job, the host or the user that they mean, in plain words.
func TestWordsForPeople(t *testing.T) {
	list, err := exec.Command("git", "-C", "..", "ls-files", "priod", "slurmplug", "sbatchwrap", "docs", "etc", "sql", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md").Output()
	if err != nil {
		t.Skipf("git ls-files: %v", err)
	}
	read := 0
	for name := range strings.SplitSeq(strings.TrimSpace(string(list)), "\n") {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") || unread[filepath.Ext(name)] || unixNobody[name] {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			continue // removed, and not committed yet
		}
		read++
		for i, line := range strings.Split(string(text), "\n") {
			if word := persons.FindString(line); word != "" {
				t.Errorf("%s:%d: %q: name what is meant", name, i+1, word)
			}
			for phrase, better := range plain {
				if at := strings.Index(" "+line, phrase); at > 0 && !strings.ContainsAny((" " + line)[at-1:at], "abcdefghijklmnopqrstuvwxyz") {
					t.Errorf("%s:%d: %q: write %q", name, i+1, phrase, better)
				}
			}
		}
	}
	if read < 300 {
		t.Errorf("%d files are read", read)
	}
}
