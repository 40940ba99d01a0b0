package sbatch

import (
	"os/exec"
	"strings"
	"testing"
)

// What a shell makes of a quoted word is the word, and a terminal sees no
// control character of it.
func TestShellWord(t *testing.T) {
	words := []string{"", "plain-1.sh", "a b", "it's", `\`, "$HOME `id` $(id)", "\x1b[31m\n\t'\\", "ä", "--gres=gpu:1", "*?[x]~", "a\xffb", "#x;&|<>"}
	script := "printf '%s\\0'"
	for _, w := range words {
		q := shellWord(w)
		if strings.ContainsFunc(q, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q is quoted as %q", w, q)
		}
		script += " " + q
	}
	out, err := exec.Command("bash", "-c", script).Output()
	if got := strings.Split(string(out), "\x00"); err != nil || strings.Join(got[:len(got)-1], "\x00") != strings.Join(words, "\x00") {
		t.Errorf("%v: bash reads %q, want %q", err, got, words)
	}
}
