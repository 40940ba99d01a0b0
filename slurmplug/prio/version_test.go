package prio

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every build says a version: the linker's, or the release with the revision; the newest heading of CHANGELOG.md is the release.
func TestVersion(t *testing.T) {
	for want, got := range map[string]string{
		"v9": Version("v9"), Release: versionOf("", false), Release + "+g0123456789ab": versionOf("0123456789abcdef", false), Release + "+gabc.dirty": versionOf("abc", true),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Version(""); !strings.HasPrefix(got, Release) {
		t.Errorf("%q", got)
	}
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(headings) == 0 || headings[0][1] != "Unreleased" && headings[0][1] != Release || headings[len(headings)-1][1] != "1.0.0" {
		t.Errorf("CHANGELOG.md has the headings %v, the release is %s", headings, Release)
	}
}
