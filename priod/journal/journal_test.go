package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// numbers are a part: those of each record, but for those that were dropped.
type numbers struct {
	kind string
	all  []int
}

func (p *numbers) Clear() { p.all = nil }

func (p *numbers) Take(kind string, body []byte) (bool, error) {
	n := 0
	if kind != p.kind {
		return false, nil
	}
	err := json.Unmarshal(body, &n)
	if err == nil && n < 0 {
		err = errors.New("negative")
	}
	if err == nil {
		p.all = append(p.all, n)
	}
	return true, err
}

func (p *numbers) Records() (all []Record) {
	for _, n := range p.all {
		all = append(all, Record{p.kind, n})
	}
	return all
}

// site is a folder and the two processes that append to its journal.
type site struct {
	t             testing.TB
	dir           string
	writes, turns numbers
	*Journal
}

func open(t testing.TB, dir string) *site {
	t.Helper()
	s := &site{t: t, dir: dir, writes: numbers{kind: Write}, turns: numbers{kind: Turn}}
	var err error
	if s.Journal, err = Open(dir, filepath.Join(dir, "lock"), &s.writes, &s.turns); err != nil {
		t.Fatal(err)
	}
	return s
}

// append adds numbers, as the rooms do: first to the file.
func (s *site) append(kind string, of ...int) error {
	var records []Record
	for _, n := range of {
		records = append(records, Record{kind, n})
	}
	if err := s.Append(records...); err != nil {
		return err
	}
	if kind == Write {
		s.writes.all = append(s.writes.all, of...)
	} else {
		s.turns.all = append(s.turns.all, of...)
	}
	return nil
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) text() string {
	s.t.Helper()
	text, err := os.ReadFile(Path(s.dir))
	s.must(err)
	return string(text)
}

func (s *site) is(writes, turns string) {
	s.t.Helper()
	if got := fmt.Sprint(s.writes.all, s.turns.all); got != writes+" "+turns {
		s.t.Fatalf("it tells %s, want %s %s", got, writes, turns)
	}
}

func aside(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.broken-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A record that a crash cut off is dropped, and the next append stands in its place.
func TestCutOffAnywhere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.must(s.append(Write, 1))
	s.must(s.append(Turn, 2, 3))
	whole := s.text()
	for cut := range len(whole) {
		s.must(os.WriteFile(Path(dir), []byte(whole[:cut]), 0o640))
		again, lines := open(t, dir), strings.Count(whole[:cut], "\n")
		if got := len(again.writes.all) + len(again.turns.all); got != max(lines-1, 0) || again.Damaged() != 0 {
			t.Fatalf("cut at %d: %d records of %d lines, %d damaged", cut, got, lines, again.Damaged())
		}
		again.must(again.append(Write, 9))
		last := open(t, dir)
		if last.is(fmt.Sprint(again.writes.all), fmt.Sprint(again.turns.all)); last.Damaged() != 0 || len(aside(t, dir)) != 0 {
			t.Fatalf("cut at %d: %d damaged", cut, last.Damaged())
		}
	}
}

// Lines that priod cannot have written cost those lines; the file is kept beside.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.must(s.append(Write, 1))
	bad := "{\"write\":-1}\n\x00\x00\n[]\n\n{\"write\":2,\"turn\":3}\n{\"time\":\"now\"}\n{}\n"
	s.must(os.WriteFile(Path(dir), []byte(s.text()+bad), 0o640))
	s = open(t, dir)
	if s.is("[1]", "[]"); s.Damaged() != 7 {
		t.Fatalf("%d damaged", s.Damaged())
	}
	s.must(s.append(Turn, 2)) // behind them: only the daemon replaces the file
	s.must(s.Rewrite())
	again := open(t, dir)
	again.is("[1]", "[2]")
	copies := aside(t, dir)
	if len(copies) != 1 || again.Damaged() != 0 {
		t.Fatalf("%d damaged, copies %v", again.Damaged(), copies)
	}
	if text, err := os.ReadFile(copies[0]); err != nil || !strings.Contains(string(text), bad) {
		t.Errorf("%v: %s", err, text)
	}
}

// An older copy has fewer records than were seen, also where it was rewritten since; a journal of an earlier format becomes one of
// this with the daemon's next append, and its records are counted on.
func TestBehind(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(Path(dir), []byte(`{"journal":{"format":1,"cluster":"c"}}`+"\n{\"write\":1}\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	s.Upgrade()
	s.must(s.append(Write, 2))
	if s.Number() != 2 || !strings.HasPrefix(s.text(), `{"journal":{"format":2,"cluster":"c","records":1,"kept":1}}`) {
		t.Fatalf("%d: %s", s.Number(), s.text())
	}
	copied := s.text()
	s.must(s.append(Turn, 3))
	s.writes.all = nil
	s.must(s.Rewrite())
	s.must(s.append(Turn, 4))
	seen := s.Number()
	if again := open(t, dir); seen != 4 || again.Behind(seen) != "" || again.Behind(0) != "" {
		t.Errorf("%d, %q", seen, again.Behind(seen))
	}
	s.must(os.WriteFile(Path(dir), []byte(copied), 0o640))
	if why := open(t, dir).Behind(seen); !strings.Contains(why, "older copy with 2 records of 4") {
		t.Error(why)
	}
	s.must(os.Remove(Path(dir)))
	if why := open(t, dir).Behind(seen); !strings.Contains(why, "is gone, and it had 4 records") {
		t.Error(why)
	}
}

// What a newer priod wrote is left to it.
func TestNewer(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(Path(dir), []byte(`{"journal":{"format":3}}`+"\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, ""); !errors.As(err, new(*NewerError)) {
		t.Error(err)
	}
}

// priod reset appends beside a daemon, which takes that in and goes on behind it. Of records of parts that it does not know it
// loses none.
func TestTwoWriters(t *testing.T) {
	dir := t.TempDir()
	daemon := open(t, dir)
	daemon.must(daemon.append(Write, 1))
	daemon.must(daemon.append(Turn, 2))
	part := numbers{kind: Write}
	reset, err := Open(dir, filepath.Join(dir, "lock"), &part)
	if err != nil {
		t.Fatal(err)
	}
	daemon.must(reset.Append(Record{Write, 3}))
	daemon.must(daemon.append(Turn, 4))
	daemon.is("[1 3]", "[2 4]")
	daemon.must(reset.Append(Record{Write, 5}))
	daemon.must(daemon.Follow())
	daemon.is("[1 3 5]", "[2 4]")
	daemon.must(reset.Rewrite())
	again := open(t, dir)
	if again.is("[1]", "[2 4]"); again.Damaged() != 0 { // the part took in no record of its own
		t.Errorf("%d damaged", again.Damaged())
	}
}

// A journal that was deleted, cut off, replaced or changed while its process runs is found lost, keeps what stands there
// aside, and is whole again.
func TestLost(t *testing.T) {
	for name, harm := range map[string]func(path, text string) error{
		"deleted":  func(path, _ string) error { return os.Remove(path) },
		"cut off":  func(path, text string) error { return os.WriteFile(path, []byte(text[:len(text)-5]), 0o640) },
		"changed":  func(path, text string) error { return os.WriteFile(path, bytes.ToUpper([]byte(text)), 0o640) },
		"extended": func(path, text string) error { return os.WriteFile(path, []byte(text+"junk\n"), 0o640) },
		"replaced": func(path, text string) error { return Replace(path, []byte(text)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			s.must(s.append(Write, 1))
			s.must(s.append(Turn, 2))
			s.must(s.Follow())
			s.must(harm(Path(dir), s.text()))
			if err := s.append(Write, 3); err == nil {
				t.Error("it appends")
			}
			if err := s.Follow(); !errors.Is(err, ErrLost) {
				t.Fatal(err)
			}
			to, err := s.Restore()
			if s.must(err); (to == "") != (name == "deleted") {
				t.Errorf("aside: %q", to)
			}
			s.must(s.append(Write, 3))
			open(t, dir).is("[1 3]", "[2]")
		})
	}
}

// A process that holds the lock file keeps a writer waiting for some seconds, not for ever.
func TestLockIsHeld(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.must(s.append(Write, 1))
	held, err := os.Open(filepath.Join(dir, "lock"))
	s.must(err)
	defer held.Close()
	s.must(syscall.Flock(int(held.Fd()), syscall.LOCK_SH))
	if err := s.append(Write, 2); err == nil || !strings.Contains(err.Error(), "lock "+dir) {
		t.Error(err)
	}
	s.must(syscall.Flock(int(held.Fd()), syscall.LOCK_UN))
	s.must(s.append(Write, 3))
	open(t, dir).is("[1 3]", "[]")
}

// A folder whose undo stands in the files of versions before 1.0.0 is refused.
func TestEarlierFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "undo.jsonl"), []byte("1\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, ""); err == nil || !strings.Contains(err.Error(), "start 1.0.0 once") {
		t.Error(err)
	}
}

// A full disk leaves the journal as it was.
func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small filesystem")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small filesystem here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s := open(t, dir)
	s.must(s.append(Write, 1))
	before := s.text()
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 1<<21), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	many := make([]int, 9000)
	if err := s.append(Write, many...); !errors.Is(err, syscall.ENOSPC) || s.text() != before {
		t.Fatal(err)
	}
	s.must(os.Remove(filepath.Join(dir, "ballast")))
	s.must(s.append(Write, many...))
	if len(open(t, dir).writes.all) != 9001 {
		t.Error("it is not whole")
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.tmp-*")); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
}

// Property: whatever two processes append and write anew, what a third one reads is what the daemon knows.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "journal")
		if err != nil {
			rt.Fatal(err)
		}
		s := open(t, dir)
		for step := range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0:
				s.must(s.Rewrite())
			case 1:
				s.writes.all = nil
				s.Outdate()
				s.must(s.append(Turn, step))
			case 2:
				was := s.Number()
				s.must(s.append(Write, step, step))
				if s.must(s.Rewrite()); s.Number() != was+2 || open(t, dir).Number() != was+2 {
					rt.Fatalf("%d records, %d before", s.Number(), was)
				}
			case 3:
				part := numbers{kind: Write}
				other, err := Open(dir, filepath.Join(dir, "lock"), &part)
				s.must(err)
				s.must(other.Append(Record{Write, step}))
				s.must(s.Follow())
			default:
				s.must(s.append(rapid.SampledFrom([]string{Write, Turn}).Draw(rt, "kind"), step, step+1))
			}
			open(t, dir).is(fmt.Sprint(s.writes.all), fmt.Sprint(s.turns.all))
		}
	})
}
