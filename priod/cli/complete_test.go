package cli

import (
	"bytes"
	"strings"
	"testing"
)

// A shell that completes a line gets words, and no command runs: not behind "--" either,
// where priod profile would submit jobs.
func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"evi":                          "evictions",
		"report ":                      "classes eta failures goodput history learning nodes preemptions shares sizing trial usage value waits windows",
		"report w":                     "waits windows",
		"--conf":                       "--config",
		"--config /etc/x res":          "resume reset",
		"--config ":                    "",
		"resume --":                    "--json --help",
		"explain 17 ":                  "",
		"explain 17 --js":              "--json",
		"explain --s":                  "--state --schema",
		"simulate --comp":              "--compare",
		"eta -- --":                    "",
		"profile -- --gres=gpu:1 x.s":  "",
		"profile -- --gres=gpu:1 -- ":  "",
		"reset --no-such --generate-b": "",
	} {
		var out, errs bytes.Buffer
		args := append([]string{"priod"}, strings.Split(line, " ")...)
		if status := Main("v", append(args, completeWord), &out, &errs); status != exitDone || errs.Len() > 0 {
			t.Errorf("%q: exit status %d, %s", line, status, &errs)
		}
		var have []string
		for l := range strings.Lines(out.String()) {
			word, usage, _ := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
			if have = append(have, word); usage == "" {
				t.Errorf("%q: %s has no explanation", line, word)
			}
		}
		if got := strings.Join(have, " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
