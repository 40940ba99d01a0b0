package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/plan"
	"slurmprio/priod/undo"
	"slurmprio/slurmplug"
)

// TestMain also plays the other processes of these tests.
func TestMain(m *testing.M) {
	switch job := os.Getenv("STORE_TEST_AS"); job {
	case "":
		os.Exit(m.Run())
	case "reader":
		os.Exit(playReader(os.Args[1], os.Args[2]))
	case "readers":
		playReaders(os.Args[1])
	case "daemon":
		playDaemon(os.Args[1])
	case "writer":
		_, journal := undo.Open(os.Args[1], "")
		_, open := Open(ctx, os.Args[1], Options{})
		fmt.Printf("%v\n%v\n", journal, open)
	}
}

// playReader reads the folder as the CLI does, n times, and prints the last
// cycle and how many jobs wait.
func playReader(dir, n string) int {
	times, _ := strconv.Atoi(n)
	r, err := OpenReader(ctx, dir)
	if err != nil {
		fmt.Println("open:", err)
		return 1
	}
	defer r.Close()
	for last := int64(0); times > 0; times-- {
		c, err := r.LastCycle(ctx)
		if err != nil {
			fmt.Println("last cycle:", err)
			return 1
		}
		if c.Number < last {
			fmt.Println("cycle", c.Number, "after", last)
			return 1
		}
		last = c.Number
		queue, err := r.Queue(ctx)
		if err != nil {
			fmt.Println("queue:", err)
			return 1
		}
		if len(queue) > 0 {
			if _, err := r.Job(ctx, queue[0].Job.ID, 10); err != nil {
				fmt.Println("job:", err)
				return 1
			}
		}
		h, err := r.History(ctx, dir)
		if err != nil {
			fmt.Println("history:", err)
			return 1
		}
		if times == 1 {
			fmt.Printf("cycle %d, %d jobs, %d written\n", c.Number, len(queue), len(h.Written))
		}
	}
	return 0
}

// playReaders opens the folder again and again until its standard input ends, and prints
// what goes wrong.
func playReaders(dir string) {
	done := make(chan error, 1)
	go func() {
		_, err := os.Stdin.Read(make([]byte, 1))
		done <- err
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		r, err := OpenReader(ctx, dir)
		if err == nil {
			_, err = r.LastCycle(ctx)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			fmt.Println(err)
		}
	}
}

// playDaemon runs a cycle that hangs while it writes to Slurm.
func playDaemon(dir string) {
	d := newDaemon(panicTB{}, dir, pending(1, "te"), pending(2, "te"), pending(3, "be"))
	d.answer = func(plan.Action) slurmplug.Status {
		fmt.Println("writing")
		select {}
	}
	d.cycle()
}

type panicTB struct{ testing.TB }

func (panicTB) Helper()                   {}
func (panicTB) Cleanup(func())            {}
func (panicTB) Fatal(a ...any)            { panic(fmt.Sprint(a...)) }
func (panicTB) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// asProcess starts this test program as another process.
func asProcess(t *testing.T, as string, uid uint32, args ...string) *osexec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if uid != 0 {
		program = publicCopy(t, program)
	}
	c := osexec.Command(program, args...)
	c.Env = append(os.Environ(), "STORE_TEST_AS="+as, "GORACE=atexit_sleep_ms=0")
	c.Dir = "/"
	if uid != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return c
}

// publicDir is a folder that every user may enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "priod-store-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func publicCopy(t *testing.T, program string) string {
	t.Helper()
	to := filepath.Join(publicDir(t), "store.test")
	if os.Link(program, to) == nil {
		return to
	}
	in := must[*os.File](t)(os.Open(program))
	defer in.Close()
	out := must[*os.File](t)(os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755))
	_, err := io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	return to
}

// crashedDaemon leaves a folder as a daemon that was killed while it wrote.
func crashedDaemon(t *testing.T, dir string) {
	t.Helper()
	c := asProcess(t, "daemon", 0, dir)
	out := must[io.ReadCloser](t)(c.StdoutPipe())
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "writing\n" {
		t.Errorf("the daemon said %q, %v", line, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
}

// listing is every file of a folder with owner, mode and size.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, f := range must[[]fs.DirEntry](t)(os.ReadDir(dir)) {
		info := must[fs.FileInfo](t)(f.Info())
		st := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %d:%d %s %d\n", f.Name(), st.Uid, st.Gid, info.Mode(), info.Size())
	}
	return b.String()
}

const (
	member   = 65534 // nobody, in the folder's group
	stranger = 65533
)

// Group members read while the daemon runs, when it is down and after it was
// killed, in a folder that they may not write to and in one that they may, and
// leave no file behind. Others get one clear error.
func TestReadersOfOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become other users")
	}
	for _, mode := range []os.FileMode{0o750, 0o770} {
		for _, state := range []string{"running", "down", "killed"} {
			t.Run(fmt.Sprintf("%o %s", mode, state), func(t *testing.T) {
				dir := filepath.Join(publicDir(t), "state")
				if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 0, member), os.Chmod(dir, mode|os.ModeSetgid)); err != nil {
					t.Fatal(err)
				}
				want := "cycle 2, 3 jobs, 2 written\n"
				switch state {
				case "killed":
					crashedDaemon(t, dir)
					want = "cycle 1, 3 jobs, 2 written\n"
				default:
					d := newDaemon(t, dir, pending(1, "te"), pending(2, "te"), pending(3, "be"))
					d.cycle()
					d.cycle()
					if state == "down" {
						if err := d.store.Close(); err != nil {
							t.Fatal(err)
						}
					}
				}
				before := listing(t, dir)
				out, err := asProcess(t, "reader", member, dir, "3").CombinedOutput()
				if err != nil || string(out) != want {
					t.Errorf("%v: %s\nfolder:\n%s", err, out, before)
				}
				if after := listing(t, dir); after != before {
					t.Errorf("the reader changed the folder\n%sto\n%s", before, after)
				}
				for _, more := range []os.FileMode{0, 0o5} { // the folder hides the files, or only they themselves are closed
					if err := os.Chmod(dir, mode|more|os.ModeSetgid); err != nil {
						t.Fatal(err)
					}
					out, err = asProcess(t, "reader", stranger, dir, "1").CombinedOutput()
					if err == nil || !bytes.Contains(out, []byte("is not for this user")) {
						t.Errorf("a stranger, %o: %v: %s", mode|more, err, out)
					}
					out, _ = asProcess(t, "writer", stranger, dir).CombinedOutput()
					journal, open, _ := strings.Cut(string(out), "\n")
					if !strings.Contains(journal, "journal.jsonl is not for this user: ask as") || !strings.HasPrefix(open, "state folder "+dir+" (run it as priod's own user or root): ") || strings.Count(open, dir) > 2 {
						t.Errorf("a stranger, %o, is told %q and %q", mode|more, journal, open)
					}
				}
				// The daemon comes back to a folder that it can use.
				if state != "running" {
					if _, h := openStore(t, dir, Options{}); len(h.Written) != 2 {
						t.Errorf("%d written", len(h.Written))
					}
				}
			})
		}
	}
}

// Readers of another user all see whole cycles while the daemon writes many.
func TestReadersBesideTheDaemon(t *testing.T) {
	uid := uint32(0)
	dir := filepath.Join(publicDir(t), "state")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		uid = member
		if err := errors.Join(os.Chown(dir, 0, member), os.Chmod(dir, 0o750|os.ModeSetgid)); err != nil {
			t.Fatal(err)
		}
	}
	var jobs []cluster.Job
	for i := range uint32(200) {
		jobs = append(jobs, pending(i+1, []string{"te", "be"}[i%2]))
	}
	d := newDaemon(t, dir, jobs...)
	exec(t, d.store, "PRAGMA wal_autocheckpoint = 20") // many resets of the -wal
	d.cycle()
	c := asProcess(t, "reader", uid, dir, "30")
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	for n := 0; ; n++ {
		select {
		case err := <-done:
			if err != nil || !strings.Contains(out.String(), "200 jobs, 100 written") {
				t.Fatalf("after %d cycles: %v: %s", n, err, &out)
			}
			return
		default:
			for i := range d.snapshot.Jobs {
				d.snapshot.Jobs[i].CPUs = n
			}
			d.cycle()
			if n%20 == 0 {
				if err := d.store.Prune(ctx, d.snapshot.At); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A reader that was open while the daemon was down sees what it does when it is
// back.
func TestReaderFollowsTheDaemon(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenReader(ctx, dir); err == nil || !strings.Contains(err.Error(), "no database in "+dir) {
		t.Errorf("without a database: %v", err)
	}
	d := newDaemon(t, dir, pending(1, "te"))
	r := reader(t, dir)
	if _, err := r.LastCycle(ctx); !errors.Is(err, ErrNone) {
		t.Errorf("before the first cycle: %v", err)
	}
	d.cycle()
	if err := d.store.Close(); err != nil { // r keeps the -wal
		t.Fatal(err)
	}
	if c := must[Cycle](t)(r.LastCycle(ctx)); c.Number != 1 {
		t.Errorf("the daemon is down: %+v", c)
	}
	d.store, d.history = openStore(t, dir, Options{})
	if err := errors.Join(r.Close(), d.store.Close()); err != nil {
		t.Fatal(err)
	}
	frozen := reader(t, dir)
	if !frozen.frozen || must[Cycle](t)(frozen.LastCycle(ctx)).Number != 1 {
		t.Error("the daemon is down")
	}
	d.store, d.history = openStore(t, dir, Options{})
	d.remove(1)
	d.cycle()
	r = reader(t, dir)
	for _, r := range []*Reader{frozen, r} {
		if c := must[Cycle](t)(r.LastCycle(ctx)); c.Number != 2 || c.Jobs != 0 {
			t.Errorf("sees cycle %+v", c)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.Queue(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read: %v", err)
	}
}

// Readers come while the daemon's last connection goes, which takes the -shm and the -wal
// away, and while it comes back: each sees the last cycle.
func TestReadersComeAsTheDaemonGoes(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"))
	d.cycle()
	c := asProcess(t, "readers", 0, dir)
	in := must[io.WriteCloser](t)(c.StdinPipe())
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		d.store, d.history = openStore(t, dir, Options{})
	}
	if err := errors.Join(in.Close(), c.Wait()); err != nil || out.Len() > 0 {
		t.Errorf("%v: %s", err, &out)
	}
}

// Names of folders that mean something in a URI.
func TestOddFolderNames(t *testing.T) {
	for _, name := range []string{"with space", "q?x=1", "hash#tag", "per%20cent", "ünï", "mode=memory", "a&b"} {
		dir := filepath.Join(t.TempDir(), name)
		d := newDaemon(t, dir, pending(1, "te"))
		d.cycle()
		if c := must[Cycle](t)(reader(t, dir).LastCycle(ctx)); c.Jobs != 1 {
			t.Errorf("%s: %+v", name, c)
		}
		if !journal.Exists(databasePath(dir)) {
			t.Errorf("%s: no file", name)
		}
	}
}

// Killed between the rows and the outcomes: the writes may have happened.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	crashedDaemon(t, dir)
	s, h := openStore(t, dir, Options{})
	for _, id := range []uint32{1, 2} {
		w := h.Written[slurmplug.Plain(id)]
		if w.Lever != slurmplug.SiteFactor || w.Tried == 0 || w.Value != 0 {
			t.Errorf("job %d: %+v", id, w)
		}
	}
	writes := must[[]Write](t)(reader(t, dir).Writes(ctx, 10))
	if len(writes) != 2 || writes[0].Status != slurmplug.Unknown || !strings.Contains(writes[0].Message, "ended before") {
		t.Errorf("writes %+v", writes)
	}
	// Killed again before anything else happened: still known.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, again := openStore(t, dir, Options{}); diffHistory(h, again) != "" {
		t.Error(diffHistory(h, again))
	}
}

// Damage in the midst of a database, which no reader meets, is found by a look at all of it.
func TestSound(t *testing.T) {
	dir := t.TempDir()
	d := newDaemon(t, dir, pending(1, "te"))
	d.cycle()
	var page int64
	err := d.store.db.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = 'jobs'").Scan(&page)
	if err = errors.Join(err, d.store.Close()); err != nil {
		t.Fatal(err)
	}
	look := func() (errs []error) {
		r, err := OpenReader(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		return []error{r.Sound(ctx, false), r.Sound(ctx, true)}
	}
	if errs := look(); errs[0] != nil || errs[1] != nil {
		t.Error(errs)
	}
	f, err := os.OpenFile(databasePath(dir), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 4096), (page-1)*4096)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, err := range look() {
		if err == nil || !strings.Contains(err.Error(), "is broken: ") {
			t.Error(err)
		}
	}
}

// A broken database is named as such, and nobody but the daemon moves it.
func TestReaderOfBrokenDatabase(t *testing.T) {
	for name, lose := range breakage {
		if strings.Contains(name, "deleted") {
			continue
		}
		dir := t.TempDir()
		d := newDaemon(t, dir, pending(1, "te"))
		d.cycle()
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		lose(t, databasePath(dir))
		r, err := OpenReader(ctx, dir)
		if err == nil {
			_, err = r.Queue(ctx)
			err = errors.Join(err, r.Close())
		}
		if err == nil || !strings.Contains(err.Error(), "is broken: the running daemon sets it aside") {
			t.Errorf("%s: %v", name, err)
		}
		if len(aside(t, dir)) != 0 {
			t.Errorf("%s: a reader moved the database", name)
		}
	}
}

// Killed while writing, then reset: what was tried has been taken back.
func TestKilledThenReset(t *testing.T) {
	dir := t.TempDir()
	crashedDaemon(t, dir)
	if err := openUndo(t, dir).TookBack(time.Now(), func(*undo.Change) bool { return false }); err != nil {
		t.Fatal(err)
	}
	s, h := openStore(t, dir, Options{})
	if len(h.Written) != 0 {
		t.Errorf("%+v", h.Written)
	}
	if n := count(t, s, "SELECT count(*) FROM writes WHERE status = 'unknown'"); n != 2 {
		t.Errorf("%d writes in doubt", n)
	}
}

// A reader that comes before the tables waits for them, and says so when they do not come.
func TestReaderBeforeTheTables(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(databasePath(dir), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := OpenReader(ctx, dir)
	if err == nil || !strings.Contains(err.Error(), "has no tables yet") || strings.Contains(err.Error(), "no such table") {
		t.Errorf("nobody makes them: %v", err)
	}
	opened := make(chan error)
	go func() {
		r, err := OpenReader(ctx, dir)
		if err == nil {
			err = r.Close()
		}
		opened <- err
	}()
	openStore(t, dir, Options{})
	if err := <-opened; err != nil {
		t.Errorf("while they are made: %v", err)
	}
}

// An array is told of as a whole, also once each of its tasks has a record of its own.
func TestArrayAfterItSplit(t *testing.T) {
	array, task := pending(7, "be"), func(n int32, state cluster.State) cluster.Job {
		j := pending(7, "be")
		j.ID.Task, j.State, j.RawID = n, state, 100+uint32(n)
		return j
	}
	array.Tasks, array.TaskCount = "3-9", 7
	d := newDaemon(t, t.TempDir(), array, task(1, cluster.Running), task(2, cluster.Running))
	d.cycle()
	story := must[Story](t)(reader(t, d.store.dir).Job(ctx, slurmplug.Plain(7), 10))
	want := &Array{Waiting: "3-9", Tasks: []TasksIn{{"running", 2, "1-2"}}}
	if diff := cmp.Diff(want, story.Array); diff != "" || story.Job.ID != slurmplug.Plain(7) {
		t.Errorf("%+v\n%s", story.Job, diff)
	}

	d = newDaemon(t, t.TempDir(), task(1, cluster.Running), task(2, cluster.Running), task(3, cluster.Pending), task(4, cluster.Running))
	d.cycle()
	d.snapshot.Jobs = d.snapshot.Jobs[1:]
	d.cycle()
	r := reader(t, d.store.dir)
	story = must[Story](t)(r.Job(ctx, slurmplug.Plain(7), 10))
	want = &Array{Tasks: []TasksIn{{"left", 1, "1"}, {"pending", 1, "3"}, {"running", 2, "2,4"}}}
	if diff := cmp.Diff(want, story.Array); diff != "" || story.Job.ID.Task != 3 {
		t.Errorf("%+v\n%s", story.Job, diff)
	}
	if story = must[Story](t)(r.Job(ctx, cluster.JobID{ID: 7, Task: 2}, 10)); story.Array != nil {
		t.Errorf("a task is an array: %+v", story.Array)
	}
}

// The components of a heterogeneous job are found as squeue names them.
func TestComponent(t *testing.T) {
	leader, second := pending(83, "be"), pending(84, "be")
	leader.HetLeader, second.HetLeader, second.HetOffset = 83, 83, 1
	d := newDaemon(t, t.TempDir(), leader, second)
	d.cycle()
	r := reader(t, d.store.dir)
	for offset, want := range []uint32{83, 84} {
		if id := must[cluster.JobID](t)(r.Component(ctx, 83, offset)); id != slurmplug.Plain(want) {
			t.Errorf("83+%d is %s", offset, id)
		}
	}
	if _, err := r.Component(ctx, 83, 2); !errors.Is(err, ErrNone) {
		t.Errorf("83+2: %v", err)
	}
}
