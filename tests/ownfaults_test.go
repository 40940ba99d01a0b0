package tests

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	_ "github.com/mattn/go-sqlite3"
)

// harmed is a running daemon whose state folder is harmed.
type harmed struct {
	scraper
	state   string // its state folder
	mount   string // the filesystem of that, "" without root
	release func() // ends what a fault keeps open
}

// tick asks for the next cycle now.
func (h *harmed) tick() {
	h.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		h.Fatal(err)
	}
}

// waitTicking waits for a condition and lets the daemon not sleep meanwhile.
func (h *harmed) waitTicking(what string, condition func() bool) {
	h.Helper()
	h.wait(what, func() bool {
		h.tick()
		return condition()
	})
}

func (h *harmed) do(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harmed) path(name string) string { return filepath.Join(h.state, name) }

// told is what /health says beside its status.
func (h *harmed) told() (s struct{ Trouble, Loss string }) {
	h.Helper()
	r, err := h.get("/health")
	h.do(err)
	defer r.Body.Close()
	h.do(json.NewDecoder(r.Body).Decode(&s))
	return s
}

// siteFactor is what a job carries, in words of sprio.
func (s *site) siteFactor(job string) string {
	s.Helper()
	return strings.TrimSpace(s.slurm("sprio", "--noheader", "--format=%S", "--jobs="+job))
}

func (s *site) trial() string {
	s.Helper()
	return s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
}

// scattered is a trial of many tasks, whose record takes kilobytes.
func (s *site) scattered() string {
	s.Helper()
	var tasks []string
	for i := range 1500 {
		tasks = append(tasks, strconv.Itoa(3*i+i%2))
	}
	return s.submit("--prio-type=te", "--array="+strings.Join(tasks, ","), "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
}

// ownFault is something that happens to priod's own files. One with words
// lasts until it ends; the others priod mends by itself.
type ownFault struct {
	name   string
	root   bool
	begin  func(*harmed)
	words  string // in the log while it lasts, a pattern
	end    func(*harmed)
	losses float64 // files made anew
	big    bool    // shows only when much is written
}

var ownFaults = []ownFault{
	{name: "folder moved away", words: "state folder .* is gone: put it back", begin: func(h *harmed) {
		h.do(os.Rename(h.state, h.state+".away"))
	}, end: func(h *harmed) {
		h.do(os.Rename(h.state+".away", h.state))
	}},
	{name: "folder deleted", words: "state folder .* is gone: put it back", begin: func(h *harmed) {
		h.do(os.RemoveAll(h.state))
	}, end: func(h *harmed) {
		h.do(os.Mkdir(h.state, 0o750))
	}, losses: 3},
	{name: "database locked", words: "another program keeps .* locked", begin: func(h *harmed) {
		db, err := sql.Open("sqlite3", "file:"+h.path("priod.db"))
		h.do(err)
		db.SetMaxOpenConns(1)
		_, err = db.Exec("PRAGMA busy_timeout = 20000")
		h.do(err)
		_, err = db.Exec("BEGIN EXCLUSIVE")
		h.do(err)
		h.release = func() { db.Close() }
	}},
	{name: "disk full", root: true, big: true, words: "no room for|no space left", begin: func(h *harmed) {
		err := os.WriteFile(filepath.Join(h.mount, "ballast"), make([]byte, 64<<20), 0o600)
		if !errors.Is(err, syscall.ENOSPC) {
			h.Fatalf("the disk is not full: %v", err)
		}
	}, end: func(h *harmed) {
		h.do(os.Remove(filepath.Join(h.mount, "ballast")))
	}},
	{name: "disk read-only", root: true, words: "cannot be written|read-only file system", begin: func(h *harmed) {
		h.do(syscall.Mount(h.state, h.state, "", syscall.MS_BIND, ""))
		h.do(syscall.Mount("", h.state, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	}, end: func(h *harmed) {
		h.do(syscall.Unmount(h.state, syscall.MNT_DETACH))
	}},
	{name: "journal read-only", root: true, words: "undo journal: .*read-only file system", begin: func(h *harmed) {
		h.do(syscall.Mount(h.path("undo.jsonl"), h.path("undo.jsonl"), "", syscall.MS_BIND, ""))
		h.do(syscall.Mount("", h.path("undo.jsonl"), "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	}, end: func(h *harmed) {
		h.do(syscall.Unmount(h.path("undo.jsonl"), syscall.MNT_DETACH))
	}},
	{name: "journal is a folder", words: "undo journal", begin: func(h *harmed) {
		h.do(os.Rename(h.path("undo.jsonl"), h.path("undo.away")))
		h.do(os.Mkdir(h.path("undo.jsonl"), 0o750))
	}, end: func(h *harmed) {
		h.do(os.Remove(h.path("undo.jsonl")))
		h.do(os.Rename(h.path("undo.away"), h.path("undo.jsonl")))
	}},
	{name: "database deleted", losses: 1, begin: func(h *harmed) { h.do(os.Remove(h.path("priod.db"))) }},
	{name: "database overwritten", begin: func(h *harmed) {
		h.overwrite("priod.db")
		h.overwrite("priod.db-wal")
	}},
	{name: "log of the database deleted", losses: 1, begin: func(h *harmed) { h.do(os.Remove(h.path("priod.db-wal"))) }},
	{name: "index of the database's log deleted", losses: 1, begin: func(h *harmed) { h.do(os.Remove(h.path("priod.db-shm"))) }},
	{name: "journal deleted", losses: 1, begin: func(h *harmed) { h.do(os.Remove(h.path("undo.jsonl"))) }},
	{name: "journal emptied", losses: 1, begin: func(h *harmed) { h.do(os.Truncate(h.path("undo.jsonl"), 0)) }},
	{name: "journal cut off", losses: 1, begin: func(h *harmed) {
		info, err := os.Stat(h.path("undo.jsonl"))
		h.do(err)
		h.do(os.Truncate(h.path("undo.jsonl"), info.Size()/2))
	}},
	{name: "journal overwritten", losses: 1, begin: func(h *harmed) { h.overwrite("undo.jsonl") }},
	{name: "lock deleted", losses: 1, begin: func(h *harmed) { h.do(os.Remove(h.path("lock"))) }},
}

// overwrite puts nonsense in the place of a file's bytes.
func (h *harmed) overwrite(name string) {
	h.Helper()
	info, err := os.Stat(h.path(name))
	h.do(err)
	f, err := os.OpenFile(h.path(name), os.O_WRONLY, 0)
	h.do(err)
	_, err = f.WriteAt([]byte(strings.Repeat("nonsense", int(info.Size()/8))), 0)
	h.do(errors.Join(err, f.Close()))
}

// newHarmed starts a daemon whose state lies on a small filesystem of its own.
func newHarmed(t *testing.T) *harmed {
	t.Helper()
	address := freePort(t)
	h := &harmed{}
	s := newSite(t, "")
	s.dir = t.TempDir()
	if os.Geteuid() == 0 {
		if err := syscall.Mount("tmpfs", s.dir, "tmpfs", 0, "size=16m"); err != nil {
			t.Logf("without a small filesystem: %v", err)
		} else {
			h.mount = s.dir
			t.Cleanup(func() {
				if err := syscall.Unmount(h.mount, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
		}
	}
	h.state = filepath.Join(s.dir, "state")
	s.configure(fmt.Sprintf("%s[te_budget.user]\ngpus = 0\n[metrics]\nlisten = %q\n", quick, address))
	s.fill()
	s.submit("--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	s.trial()
	h.scraper = scraper{s.daemon(), address}
	h.waitLog("wrote: cycle=")
	return h
}

// throw lets one fault happen while a trial comes, and checks what priod does.
func (h *harmed) throw(t *testing.T, f *ownFault) {
	h.running.TB = t
	mark := len(h.log.String())
	since := func() string { return h.log.String()[mark:] }
	const failedCycles, losses = "priod_cycles_total{result=failed}", "priod_state_losses_total"
	failed, lost := h.value(failedCycles), h.value(losses)
	f.begin(h)
	trial := ""
	if f.big {
		trial = h.scattered()
	} else {
		trial = h.trial()
	}
	if f.words != "" {
		h.waitTicking("three cycles to fail", func() bool { return h.value(failedCycles) >= failed+3 })
		if v := h.siteFactor(trial); v != "0" && v != "" {
			t.Errorf("SiteFactor %s was written", v)
		}
		if log := since(); !regexp.MustCompile(f.words).MatchString(log) || strings.Count(log, "cycle failed") > 2 {
			t.Errorf("the log says\n%s", log)
		}
		if told := h.told(); !regexp.MustCompile(f.words).MatchString(told.Trouble) {
			t.Errorf("health says %+v", told)
		}
		if rounds(0, 1) == 1 || f == &ownFaults[0] {
			h.wait("503", func() bool { code, _ := h.health(); return code == 503 })
		}
		if h.release != nil {
			h.release()
			h.release = nil
		} else {
			f.end(h)
		}
		h.waitTicking("the daemon to go on", func() bool { return strings.Contains(since(), "cycles succeed again") })
	}
	h.waitTicking("the trial's value", func() bool { v := h.siteFactor(trial); return v != "0" && v != "" })
	if got := h.value(losses) - lost; f.losses > 0 && got != f.losses {
		t.Errorf("%v losses are counted, want %v\n%s", got, f.losses, since())
	}
	if f.losses > 0 && h.told().Loss == "" {
		t.Error("health says nothing of the loss")
	}
	if _, errs, status := h.priod("run", "--once"); status != 1 || !strings.Contains(errs, fmt.Sprint(h.cmd.Process.Pid)) {
		t.Errorf("a second priod: exit status %d, %s", status, errs)
	}
}

// Whatever happens to the state folder under the running daemon: nothing that
// could not be undone is written, it says so once, goes on by itself, and the
// end is as if nothing had been.
func TestOwnFaultsOfTheStateFolder(t *testing.T) {
	h := newHarmed(t)
	defer func() { h.running.TB = t }()
	for i := range ownFaults {
		f := &ownFaults[i]
		t.Run(f.name, func(t *testing.T) {
			if f.root && h.mount == "" {
				t.Skip("needs root, to mount a small filesystem")
			}
			defer func() { h.running.TB = t }()
			h.throw(t, f)
			h.checkOrder()
		})
	}
	h.running.TB = t
	h.restartAndReset()
}

// restartAndReset kills the daemon, checks that the next one has nothing left to
// do, and that reset leaves nothing.
func (h *harmed) restartAndReset() {
	h.Helper()
	before := h.levers()
	h.cmd.Process.Kill()
	h.cmd.Wait()
	h.settle()
	if after := h.levers(); after != before {
		h.Errorf("after a restart\n%s\nbefore it was\n%s", after, before)
	}
	h.checkOrder()
	h.must("reset")
	for value := range strings.FieldsSeq(h.slurm("sprio", "--noheader", "--format=%S")) {
		if value != "0" {
			h.Fatalf("reset leaves a SiteFactor of %s\n%s", value, h.levers())
		}
	}
}

// The lock's file is deleted and another priod works on the folder while the
// first one hangs: the first one ends, and the second one's state is whole.
func TestOwnFaultsTaken(t *testing.T) {
	h := newHarmed(t)
	trial := h.trial()
	h.wait("another priod's cycle", func() bool {
		h.do(h.cmd.Process.Signal(syscall.SIGSTOP))
		if err := os.Remove(h.path("lock")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if _, _, status := h.priod("run", "--once"); status == 0 {
			return true
		}
		h.do(h.cmd.Process.Signal(syscall.SIGCONT)) // it was stopped while it wrote
		return false
	})
	if h.siteFactor(trial) == "0" {
		t.Error("the other one wrote nothing")
	}
	h.do(h.cmd.Process.Signal(syscall.SIGCONT))
	if err := h.cmd.Wait(); err == nil || h.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(h.log.String(), "another priod has been at the state folder") {
		t.Errorf("%v\n%s", err, h.log)
	}
	h.restartAndReset()
}
