// Package example follows five jobs through one cycle of priod: what Slurm says of them
// goes in, what priod writes and how it explains it comes out. README.md tells their story.
package example

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"slurmprio/priod/cli"
)

var update = flag.Bool("update", false, "write priod.txtar anew")

// commands are those of Slurm's that priod runs. Their names lead to this test's own
// binary, which answers in the place of Slurm: see TestMain.
var commands = []string{"sacct", "sacctmgr", "scancel", "scontrol", "sdiag", "sprio", "squeue"}

// writes are the calls that change something in Slurm.
var writes = regexp.MustCompile(`^(scancel|scontrol (update|requeue|release|create|delete)) `)

// explained are the jobs that the example explains.
var explained = []string{"1", "3", "4", "5"}

// TestMain runs the tests; under the name of a command of Slurm's the binary is that command.
func TestMain(m *testing.M) {
	dir, name := filepath.Split(os.Args[0])
	for _, c := range commands {
		if c != name {
			continue
		}
		if err := answer(dir, name, os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: error: %v\n", name, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestExample runs one cycle at the time of the recording, and explains some jobs then.
func TestExample(t *testing.T) {
	slurm := read(t, "slurm.txtar")
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(slurm.Comment)))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.write("answers", txtar.Format(slurm))
	time.Local = time.UTC
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM) // what Go keeps of signals begins outside the bubble
	defer signal.Stop(signals)
	var got *txtar.Archive
	synctest.Test(t, func(*testing.T) {
		time.Sleep(time.Until(at)) // its clock begins in the year 2000, and waits for nothing
		got = s.story()
	})
	if *update {
		if err := os.WriteFile("priod.txtar", txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(txtar.Format(read(t, "priod.txtar"))), string(txtar.Format(got))); diff != "" {
		t.Errorf("priod.txtar says otherwise (-update writes it anew):\n%s", diff)
	}
}

func read(t *testing.T, file string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// site is a configuration and a folder of Slurm's commands.
type site struct {
	*testing.T
	bin, config string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t, t.TempDir(), filepath.Join(t.TempDir(), "priod.toml")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if err := os.Symlink(self, filepath.Join(s.bin, c)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("priod.toml")
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.NewReplacer("BIN", s.bin, "STATE", t.TempDir()).Replace(string(text)))
	if err := os.WriteFile(s.config, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// story runs the cycle and explains jobs; the result holds what priod printed and sent.
func (s *site) story() *txtar.Archive {
	story := &txtar.Archive{}
	tell := func(name string, text []byte) {
		story.Files = append(story.Files, txtar.File{Name: name, Data: text})
	}
	tell("priod run --once", s.priod("run", "--once"))
	tell("what it sent to Slurm", s.sent())
	for _, job := range explained {
		tell("priod explain "+job, s.priod("explain", job))
	}
	return story
}

// write puts a file beside Slurm's commands.
func (s *site) write(file string, text []byte) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.bin, file), text, 0o644); err != nil {
		s.Fatal(err)
	}
}

// priod runs one command line of priod's, and returns what it printed.
func (s *site) priod(args ...string) []byte {
	s.Helper()
	var out, errs bytes.Buffer
	if status := cli.Main("example", append([]string{"priod", "--config", s.config}, args...), &out, &errs); status != 0 || errs.Len() > 0 {
		s.Errorf("priod %s: exit status %d\n%s%s", strings.Join(args, " "), status, &out, &errs)
	}
	return out.Bytes()
}

// sent are the calls since the beginning that write to Slurm.
func (s *site) sent() (sent []byte) {
	s.Helper()
	calls, err := os.ReadFile(filepath.Join(s.bin, "calls"))
	if err != nil {
		s.Fatal(err)
	}
	for line := range bytes.Lines(calls) {
		if writes.Match(line) {
			sent = append(sent, line...)
		}
	}
	return sent
}

// answer is a command of Slurm's: it prints what the recording has of this call. Where the
// recording has several answers the first call gets the first, and the last one is repeated.
func answer(dir, name string, args []string) error {
	line, marks := readable(name, args)
	if err := appendTo(filepath.Join(dir, "calls"), line+"\n"); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "recording")); err == nil {
		return recordAnswer(dir, name, args)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		return err
	}
	recording, err := txtar.ParseFile(filepath.Join(dir, "answers"))
	if err != nil {
		return err
	}
	answers := slices.DeleteFunc(recording.Files, func(f txtar.File) bool { return f.Name != line })
	if len(answers) == 0 {
		return fmt.Errorf("the recording has no %s: TestRecord with -record makes it anew", line)
	}
	n := min(strings.Count("\n"+string(calls), "\n"+line+"\n"), len(answers))
	text := strings.ReplaceAll(string(answers[n-1].Data), "PORT", strconv.Itoa(os.Getppid())) // a cluster of this test's own
	_, err = os.Stdout.WriteString(marks.into(text))
	return err
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// marks stand between the fields and at the ends of the records of one call; priod draws
// new ones for each. The recording has | and ¶ in their place.
type marks struct{ field, end string }

var (
	fieldMark = regexp.MustCompile("\x1f[A-Za-z0-9_-]{6}")
	endMark   = regexp.MustCompile("\x1e[A-Za-z0-9_-]{22}")
	since     = regexp.MustCompile(`=uts[0-9]+`)
	as        = regexp.MustCompile(`--uid=[0-9]+ `) // only root writes in another one's name
)

// readable is a call as the recording names it, and the marks that it asks for.
func readable(name string, args []string) (string, marks) {
	line := strings.Join(append([]string{name}, args...), " ")
	m := marks{fieldMark.FindString(line), endMark.FindString(line)}
	return as.ReplaceAllString(since.ReplaceAllString(m.outOf(line), "=TIME"), ""), m
}

func (m marks) outOf(text string) string {
	if m.field != "" {
		text = strings.ReplaceAll(text, m.field, "|")
	}
	if m.end != "" {
		text = strings.ReplaceAll(text, m.end, "¶")
	}
	return text
}

func (m marks) into(text string) string {
	if m.field != "" {
		text = strings.ReplaceAll(text, "|", m.field)
	}
	if m.end != "" {
		text = strings.ReplaceAll(text, "¶", m.end)
	}
	return text
}
