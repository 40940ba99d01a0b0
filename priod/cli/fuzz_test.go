package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"slurmprio/priod/config"
)

// A record of the log is one line of JSON, or one line of text with what goes
// on indented: nothing that is logged begins a record of its own or reaches the
// terminal raw.
func FuzzLog(f *testing.F) {
	f.Add("wrote", "x\n2026-11-21T01:02:03.000Z [INFO]  priod: forged: job=1\x1b[2J\xff")
	f.Add("a\x7f\u009b", "\u202e\U000e0001\u2028\r\n  | y")
	f.Add("", "\",\"@level\":\"error\",\"x\":\"\x00")
	var text, lines bytes.Buffer
	plain, object := &config.Config{}, &config.Config{}
	plain.Log.Level, object.Log.Level = "info", "info"
	plain.Log.Format, object.Log.Format = "text", "json"
	asText, asJSON := newLogger(plain, &text), newLogger(object, &lines)
	f.Fuzz(func(t *testing.T, job, message string) {
		text.Reset()
		lines.Reset()
		asText.Warn("not written", "job", job, "error", errors.New(message))
		asJSON.Warn("not written", "job", job, "error", errors.New(message))
		for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
			if i == 0 && !strings.Contains(line, "[WARN]  priod: not written:") || i > 0 && line != "" && !strings.HasPrefix(line, "  ") {
				t.Fatalf("%q", text.String())
			}
		}
		for _, out := range []string{text.String(), lines.String()} {
			if !utf8.ValidString(out) || strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Fatalf("%q", out)
			}
		}
		var got map[string]string
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil || strings.Count(lines.String(), "\n") != 1 {
			t.Fatalf("%v in %q", err, lines.String())
		}
		valid := func(s string) string { return string([]rune(s)) } // U+FFFD for each bad byte
		if got["job"] != valid(job) || got["error"] != valid(message) || got["@level"] != "warn" || len(got) != 6 {
			t.Fatalf("%q, %q: %q", job, message, got)
		}
	})
}

// A command line keeps its words, and what follows "--" stays behind it.
func FuzzInterleave(f *testing.F) {
	f.Add("priod\nexplain\n17_4\n--json\n-c\nx.toml")
	f.Add("priod\nhistory\n-n\n--\n--config\nrun\n-")
	f.Add("priod\npause\n--why\nrun\n--json=\x1b[2J\n\n-")
	app := App("test")
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\n")
		got := interleave(app, args)
		a, b := slices.Sorted(slices.Values(args)), slices.Sorted(slices.Values(got))
		if !slices.Equal(a, b) || got[0] != args[0] {
			t.Fatalf("%q became %q", args, got)
		}
	})
}
