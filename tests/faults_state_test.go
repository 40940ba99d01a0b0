package tests

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	_ "github.com/mattn/go-sqlite3"
)

// harmed is a running daemon whose state folder is harmed.
type harmed struct {
	scraper
	test    testing.TB // outlives those of the faults
	state   string     // its state folder
	mount   string     // the filesystem of that, "" without root
	release func()     // ends what a fault keeps open
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
func (h *harmed) told() (s struct{ Trouble, Loss, Unrecorded string }) {
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

// scattered submits trials of many tasks, whose records take kilobytes.
func (s *site) scattered() (ids []string) {
	s.Helper()
	var tasks []string
	for i := range 700 {
		tasks = append(tasks, strconv.Itoa(3*i+i%2))
	}
	for range 8 {
		ids = append(ids, s.submit("--prio-type=te", "--array="+strings.Join(tasks, ","), "--gres=gpu:1", "--time=5", "--wrap", "sleep 600"))
	}
	return ids
}

// stateFault is something that happens to priod's own files. One with words
// lasts until it ends; the others priod mends by itself.
type stateFault struct {
	name   string
	root   bool
	begin  func(*harmed)
	words  string // in the log while it lasts, a pattern
	end    func(*harmed)
	losses float64 // files rebuilt
	big    bool    // shows only when much is written
	notes  string  // what the plan notes while it lasts, a pattern: cycles go on
	anew   bool    // the database is started over, which priod does once a minute at most
}

var stateFaults = []stateFault{
	{name: "folder moved away", words: "state folder .* is gone: put it back", begin: func(h *harmed) {
		h.do(os.Rename(h.state, h.state+".away"))
	}, end: func(h *harmed) {
		h.do(os.Rename(h.state+".away", h.state))
	}},
	{name: "folder deleted", words: "state folder .* is gone: put it back", begin: func(h *harmed) {
		h.do(os.RemoveAll(h.state))
	}, end: func(h *harmed) {
		h.do(os.Mkdir(h.state, 0o750))
	}, losses: 3, anew: true},
	{name: "database locked", notes: "another program keeps .* locked", begin: func(h *harmed) {
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
	{name: "journal read-only", root: true, words: "journal: .*read-only file system", begin: func(h *harmed) {
		h.do(syscall.Mount(h.path("journal.jsonl"), h.path("journal.jsonl"), "", syscall.MS_BIND, ""))
		h.do(syscall.Mount("", h.path("journal.jsonl"), "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	}, end: func(h *harmed) {
		h.do(syscall.Unmount(h.path("journal.jsonl"), syscall.MNT_DETACH))
	}},
	{name: "journal is a folder", words: "journal: ", begin: func(h *harmed) {
		h.do(os.Rename(h.path("journal.jsonl"), h.path("journal.away")))
		h.do(os.Mkdir(h.path("journal.jsonl"), 0o750))
	}, end: func(h *harmed) {
		h.do(os.Remove(h.path("journal.jsonl")))
		h.do(os.Rename(h.path("journal.away"), h.path("journal.jsonl")))
	}},
	{name: "database deleted", losses: 1, anew: true, begin: func(h *harmed) { h.do(os.Remove(h.path("priod.db"))) }},
	{name: "database overwritten", anew: true, begin: func(h *harmed) {
		h.overwrite("priod.db")
		h.overwrite("priod.db-wal")
	}},
	{name: "log of the database deleted", losses: 1, begin: func(h *harmed) { h.do(os.Remove(h.path("priod.db-wal"))) }},
	{name: "index of the database's log deleted", losses: 1, begin: func(h *harmed) { h.do(os.Remove(h.path("priod.db-shm"))) }},
	{name: "journal deleted", losses: 1, begin: func(h *harmed) { h.do(os.Remove(h.path("journal.jsonl"))) }},
	{name: "journal emptied", losses: 1, begin: func(h *harmed) { h.do(os.Truncate(h.path("journal.jsonl"), 0)) }},
	{name: "journal cut off", losses: 1, begin: func(h *harmed) {
		info, err := os.Stat(h.path("journal.jsonl"))
		h.do(err)
		h.do(os.Truncate(h.path("journal.jsonl"), info.Size()/2))
	}},
	{name: "journal overwritten", losses: 1, begin: func(h *harmed) { h.overwrite("journal.jsonl") }},
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

// newHarmed makes a site whose state lies on a small filesystem of its own.
func newHarmed(t *testing.T) *harmed {
	t.Helper()
	return harmedOn(t, newSite(t, ""))
}

func harmedOn(t *testing.T, s *site) *harmed {
	t.Helper()
	h := &harmed{test: t}
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
	address := freePort(t)
	s.configure(fmt.Sprintf("%s%s[metrics]\nlisten = %q\n", quick, roomy, address))
	h.scraper = scraper{&running{site: s}, address}
	return h
}

// journalled reports whether a value can be undone: what priod wrote before the journal found no room any more.
func (h *harmed) journalled(job uint32, value int64) bool {
	text, err := os.ReadFile(h.path("journal.jsonl"))
	return err == nil && regexp.MustCompile(fmt.Sprintf(`"job":"%d".*"to":"?%d\b`, job, value)).Match(text)
}

// start starts a daemon, in the place of the one that runs.
func (h *harmed) start() {
	h.Helper()
	if h.cmd != nil {
		h.stop()
	}
	tb := h.TB
	h.site.TB = h.test
	h.running = h.daemon()
	h.site.TB = tb
	h.waitLog("started")
}

// throw lets one fault happen while a user's step comes, and checks what priod
// does.
func (h *harmed) throw(f *stateFault, q *queue, want endState) {
	h.Helper()
	if f.anew {
		h.start()
		h.cycles(1)
	}
	mark := len(h.log.String())
	since := func() string { return h.log.String()[mark:] }
	const failedCycles, losses = "priod_cycles_total{result=failed}", "priod_state_losses_total"
	failed, lost := h.value(failedCycles), h.value(losses)
	f.begin(h)
	before := h.siteFactors()
	q.step()
	var big []string
	if f.big {
		big = h.scattered()
	}
	if f.words != "" {
		h.waitTicking("three cycles to fail", func() bool { return h.value(failedCycles) >= failed+3 })
		for job, v := range h.siteFactors() {
			if v != before[job] && !h.journalled(job, v) {
				h.Errorf("SiteFactor %d was written to job %d", v, job)
			}
		}
		if log := since(); !regexp.MustCompile(f.words).MatchString(log) || strings.Count(log, "cycle failed") > 2 {
			h.Errorf("the log says\n%s", log)
		}
		if told := h.told(); !regexp.MustCompile(f.words).MatchString(told.Trouble) {
			h.Errorf("health says %+v", told)
		}
		if f.name == stateFaults[0].name && long() {
			h.wait("503", func() bool { code, _ := h.health(); return code == 503 })
		}
		f.end(h)
		h.waitTicking("the daemon to go on", func() bool { return strings.Contains(since(), "cycles succeed again") })
	}
	if f.notes != "" {
		h.cycles(2)
		if said := regexp.MustCompile(f.notes); !said.MatchString(since()) || !said.MatchString(h.told().Unrecorded) || h.value(failedCycles) > failed {
			h.Errorf("%+v; the log says\n%s", h.told(), since())
		}
		h.sameQueue(want)
		h.release()
		h.release = nil
		h.waitTicking("history to be recorded", func() bool { return h.told().Unrecorded == "" })
	}
	if big != nil {
		h.slurm("scancel", big...)
	}
	h.cycles(2)
	if got := h.value(losses) - lost; f.losses > 0 && got != f.losses {
		h.Errorf("%v losses are counted, want %v\n%s", got, f.losses, since())
	}
	if f.losses > 0 && h.told().Loss == "" {
		h.Error("health says nothing of the loss")
	}
	if _, errs, status := h.priod("run", "--once"); status != 1 || !strings.Contains(errs, fmt.Sprint(h.cmd.Process.Pid)) {
		h.Errorf("a second priod: exit status %d, %s", status, errs)
	}
}

// cycles waits for n cycles that succeed.
func (h *harmed) cycles(n int64) {
	h.Helper()
	n += h.done.Load() + 1 // one may be under way
	h.waitTicking("cycles that succeed", func() bool { return h.done.Load() >= n })
}

// Whatever happens to the state folder under the running daemon: nothing that
// could not be undone is written, it says so once, goes on by itself, and the
// end is as if nothing had been.
func TestStateFolderFaults(t *testing.T) {
	seed := seedOf(t)
	h := harmedOn(t, newOwnSite(t, ""))
	faults := slices.DeleteFunc(slices.Clone(stateFaults), func(f stateFault) bool { return f.root && h.mount == "" })
	if len(faults) < len(stateFaults) {
		t.Log("some faults need root, to mount a small filesystem")
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	faults = faults[:rounds(3, len(faults))]

	want := undisturbed(newSiteOn(t, h.lab, roomy), seed, len(faults), nil)
	h.clear()
	h.start()
	q := newQueue(h.site, seed)
	h.cycles(1)
	h.sameQueue(want[0])
	for i := range faults {
		h.sub(t, faults[i].name, func() {
			h.throw(&faults[i], q, want[i+1])
			h.sameQueue(want[i+1])
		})
	}
	h.restart()
	h.checkReset(want[len(faults)])
}

// restart kills the daemon and checks that the next one has nothing left to do.
func (h *harmed) restart() {
	h.Helper()
	before := h.levers()
	h.kill()
	h.settle()
	if after := h.levers(); after != before {
		h.Errorf("after a restart\n%s\nbefore it was\n%s", after, before)
	}
}

// The lock's file is deleted while its daemon hangs: another priod of this host
// finds the cluster claimed and writes nothing, and the first one goes on. (From
// another host it could come: TestLockDeleted of package store.)
func TestLockDeletedUnderAHangingDaemon(t *testing.T) {
	h := newHarmed(t)
	h.fill()
	h.start()
	h.cycles(1)
	h.do(h.cmd.Process.Signal(syscall.SIGSTOP))
	h.do(os.Remove(h.path("lock")))
	trial := h.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	h.eligible(1)
	if _, errs, status := h.priod("run", "--once"); status != 1 || h.siteFactor(trial) != "0" {
		t.Errorf("exit status %d, SiteFactor %s, %s", status, h.siteFactor(trial), errs)
	}
	h.do(h.cmd.Process.Signal(syscall.SIGCONT))
	h.waitTicking("the trial's value", func() bool { return h.siteFactor(trial) != "0" })
	h.restart()
	h.checkReset(nil)
}
