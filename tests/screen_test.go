package tests

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"slurmprio/tests/lab"
)

// On a terminal queue --watch shows a job that comes while it runs, within the
// terminal's width, and leaves the terminal as it was; into a pipe it prints once, without colours.
func TestScreens(t *testing.T) {
	s := newSite(t, quick)
	s.fill()
	first := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.eligible(1)
	s.daemon()
	s.wait("the first cycle", func() bool {
		out, _, status := s.priod("queue", "--stored")
		return status == 0 && strings.Contains(out, first)
	})
	for _, verb := range [][]string{{"queue", "--watch", "--stored"}, {"queue", "--watch"}} {
		if out := s.must(verb...); strings.Contains(out, "\x1b") || !strings.Contains(out, "te") {
			t.Errorf("%v into a pipe: %q", verb, out)
		}
		c := s.command(append(verb, "--every=1s")...)
		c.Env = append(c.Env, "TERM=xterm", "NO_COLOR=", "FORCE_COLOR=1")
		terminal, err := pty.StartWithSize(c, &pty.Winsize{Rows: 30, Cols: 60})
		if err != nil {
			t.Fatal(err)
		}
		var seen lockedBuffer
		over := make(chan struct{})
		go func() {
			_, _ = io.Copy(&seen, terminal) // ends with an error when the program does
			close(over)
		}()
		late := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
		s.wait("a screen with job "+late, func() bool { return strings.Contains(seen.String(), late) })
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %v", verb, err)
		}
		select {
		case <-over:
		case <-time.After(lab.Patience):
			t.Fatal("the terminal stays open")
		}
		terminal.Close()
		out := seen.String()
		if !strings.HasPrefix(out, "\x1b[?1049h") || !strings.HasSuffix(out, "\x1b[?25h\x1b[?1049l") {
			t.Errorf("%v: %q", verb, out)
		}
		if !strings.Contains(out, "\x1b[36mte\x1b[0m") {
			t.Errorf("%v: TE has no colour in %q", verb, out)
		}
	}
}
