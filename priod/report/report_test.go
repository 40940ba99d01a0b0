package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain name-1":         "plain name-1",
		"größe":                "größe",
		"a\x1b[31mred":         `a\x1b[31mred`,
		"two\nlines":           `two\nlines`,
		"bad\xffutf8":          `bad\xffutf8`,
		"a\u202egnp.exe":       `a\u202egnp.exe`,
		"tab\tbell\a\x00":      `tab\tbell\a\x00`,
		"real \uFFFD stays ok": `real \ufffd stays ok`,
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[2J\xff\u2066")
	f.Fuzz(func(t *testing.T, s string) {
		got := Safe(s)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}

func TestTableEscapesCells(t *testing.T) {
	var b bytes.Buffer
	Table(&b, []string{"JOB", "USER"}, [][]any{{17, "eve\x1b[2J\nJOB"}})
	if got := b.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "\x1b") {
		t.Fatalf("%q", got)
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 2*time.Hour + 5*time.Minute: "2h05m",
		50 * time.Hour: "2d02h", -61 * time.Second: "-1m01s",
	} {
		if got := Ago(d); got != want {
			t.Errorf("Ago(%v) = %q, want %q", d, got, want)
		}
	}
}
