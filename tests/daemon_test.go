package tests

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// life is the time in which a test's daemons do what the test wants: its context
// ends, with the reason, when one of them ends by itself. All waits of a test, and
// of the sites that it has in parallel, end with it.
type life struct {
	context.Context
	end context.CancelCauseFunc
}

var lives sync.Map // life by the name of the test

func lifeOf(t testing.TB) life {
	known, shared := lives.LoadOrStore(t.Name(), newLife())
	if !shared {
		t.Cleanup(func() { lives.Delete(t.Name()) })
	}
	return known.(life)
}

func newLife() life {
	ctx, end := context.WithCancelCause(context.Background())
	return life{ctx, end}
}

// Context ends when a daemon of the test ends by itself.
func (s *site) Context() context.Context { return s.life }

// alive fails the test if one of its daemons has ended by itself.
func (s *site) alive() {
	s.Helper()
	if err := context.Cause(s.life); err != nil {
		s.Fatal(err)
	}
}

// sleep waits for so long, while the daemons live.
func (s *site) sleep(d time.Duration) {
	s.Helper()
	if rest(s.life, d) != nil {
		s.alive()
	}
}

// rest waits for so long, or until the context ends, and then says why that was.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// running is a priod daemon.
type running struct {
	*site
	cmd  *exec.Cmd
	log  *lockedBuffer
	done atomic.Int64 // cycles that succeeded

	gone    chan struct{} // closed once it has ended
	mu      sync.Mutex
	awaited bool // the test brings its end about
	doomed  bool // by what may make it crash
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// daemon starts priod run; the test's end stops it. Unless the test stops or kills
// it, it has to live: else the test fails at its next wait.
func (s *site) daemon(env ...string) *running {
	s.Helper()
	return s.launch(false, env)
}

// doomed starts a daemon whose end the test has prepared, and awaits by ends.
func (s *site) doomed(env ...string) *running {
	s.Helper()
	return s.launch(true, env)
}

func (s *site) launch(doomed bool, env []string) *running {
	s.Helper()
	d := &running{site: s, cmd: s.command("run"), log: &lockedBuffer{}, gone: make(chan struct{}), awaited: doomed, doomed: doomed}
	d.cmd.Env = append(append(d.cmd.Env, "NOTIFY_SOCKET="+d.hear()), env...)
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	var verdict error
	go func() {
		d.cmd.Wait()
		if verdict = d.verdict(); verdict != nil {
			s.life.end(verdict)
		}
		close(d.gone)
	}()
	t := s.TB // a test may lend its site to a subtest
	t.Cleanup(func() {
		t.Helper()
		d.await()
		d.cmd.Process.Kill()
		<-d.gone
		if verdict != nil {
			t.Error(verdict) // also when nothing waited for it any more
		}
		if t.Failed() {
			t.Logf("priod's log:\n%s", d.log)
		}
	})
	return d
}

// hear counts what the daemon tells systemd of its cycles, at the address that it returns.
func (d *running) hear() (address string) {
	d.Helper()
	address = "@slurmprio-test-" + rand.Text()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		d.Fatal(err)
	}
	d.TB.Cleanup(func() { socket.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			if bytes.HasPrefix(b[:n], []byte("STATUS=cycle ")) {
				d.done.Add(1)
			}
		}
	}()
	return address
}

// cycles waits until so many cycles that begin from now on have succeeded.
func (d *running) cycles(n int64) {
	d.Helper()
	n += d.done.Load() + 1 // one may be under way
	d.wait("cycles that succeed", func() bool { return d.done.Load() >= n })
}

// await makes the daemon's end from now on the test's own wish.
func (d *running) await() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaited = true
}

// doom makes a daemon one whose end the test brings about from now on.
func (d *running) doom() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaited, d.doomed = true, true
}

// crashed are the exit statuses of Go's own end of a process: 2 after a panic or a
// fatal error, 66 after a data race (GORACE's default).
func crashed(status int) bool { return status == 2 || status == 66 }

// verdict says why the end of the daemon is none that the test wanted.
func (d *running) verdict() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	state, text := d.cmd.ProcessState, d.log.String()
	switch {
	case strings.Contains(text, dataRace):
	case d.awaited && (d.doomed || !crashed(state.ExitCode())):
		return nil
	}
	return fmt.Errorf("priod (process %d) ended by itself: %v; its last words:\n%s", state.Pid(), state, lastWords(text))
}

const dataRace = "WARNING: DATA RACE"

// lastWords are a log's end, from the trouble on if Go wrote of one there.
func lastWords(text string) string {
	const most = 8 << 10
	for _, trouble := range []string{dataRace, "fatal error: ", "panic: ", "unexpected fault address"} {
		if _, after, found := strings.Cut(text, trouble); found {
			return trouble + after[:min(len(after), most)]
		}
	}
	lines := strings.SplitAfter(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "")
}

// stop ends the daemon as systemd does and returns its exit status.
func (d *running) stop() int {
	d.Helper()
	d.finish(syscall.SIGTERM)
	return d.cmd.ProcessState.ExitCode()
}

// kill ends the daemon as nothing should.
func (d *running) kill() {
	d.Helper()
	d.finish(syscall.SIGKILL)
}

func (d *running) finish(signal os.Signal) {
	d.Helper()
	d.alive()
	d.await()
	if err := d.cmd.Process.Signal(signal); err != nil {
		d.Fatal(err)
	}
	d.ends()
	d.alive()
}

// ends waits until the daemon has ended.
func (d *running) ends() {
	d.Helper()
	select {
	case <-d.gone:
	case <-time.After(lab.Patience):
		d.Fatal("priod does not end")
	}
}

func (d *running) waitLog(text string) {
	d.Helper()
	d.wait(fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(d.log.String(), text) })
}

// failing is a test that only takes down how it fails.
type failing struct {
	testing.TB
	said     string
	cleanups []func()
}

func (f *failing) Cleanup(c func())  { f.cleanups = append(f.cleanups, c) }
func (f *failing) Failed() bool      { return f.said != "" }
func (f *failing) Error(args ...any) { f.said += fmt.Sprintln(args...) }
func (f *failing) Logf(string, ...any) {
}

func (f *failing) Fatal(args ...any) {
	f.Error(args...)
	runtime.Goexit()
}

func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

// A daemon is killed under a test: whatever that test waits for next, however
// patiently, it fails there and then and says why; and if it waits for nothing, it
// fails in the end. After an end that the test wanted, it goes on.
func TestNoTestOutlivesItsDaemon(t *testing.T) {
	s := newSite(t, quick)
	never := func() bool { return false }
	for what, next := range map[string]func(d *running){
		"a condition":  func(d *running) { d.within(time.Hour, "what never comes", never) },
		"the log":      func(d *running) { d.waitLog("what priod never says") },
		"a pause":      func(d *running) { d.sleep(time.Hour) },
		"a submission": func(d *running) { <-d.gone; d.submit("--wrap", "true") },
		"a stop":       func(d *running) { <-d.gone; d.stop() },
		"a wait beside the test": func(d *running) {
			ctx, cancel := context.WithTimeout(d.Context(), time.Hour)
			defer cancel()
			d.Error(lab.WaitFor(ctx, "what never comes", func(context.Context) (bool, error) { return never(), nil }))
		},
		"nothing": func(d *running) { <-d.gone },
	} {
		fake := &failing{TB: t}
		own := *s
		own.TB, own.life = fake, newLife()
		d := own.daemon()
		d.waitLog("started")
		if err := syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { // which Fatal ends
			defer close(done)
			next(d)
		}()
		<-done
		if !strings.Contains(fake.said, "ended by itself: signal: killed") != (what == "nothing") {
			t.Errorf("%s: the test says %q", what, fake.said)
		}
		for _, c := range fake.cleanups {
			c()
		}
		if !strings.Contains(fake.said, "ended by itself: signal: killed; its last words:\n") || !strings.Contains(fake.said, "started: ") {
			t.Errorf("%s: in the end the test says %q", what, fake.said)
		}
	}
	s.daemon().kill()
	s.daemon().stop()
	s.alive()
}

func TestLastWords(t *testing.T) {
	log := strings.Repeat("a line\n", 100)
	for text, want := range map[string]string{
		"one\ntwo\n":                               "one\ntwo",
		log + "last\n":                             strings.Repeat("a line\n", 19) + "last",
		log + "fatal error: all\n" + log:           "fatal error: all\n" + log,
		log + "==\n" + dataRace + "\nRead\n" + log: dataRace + "\nRead\n" + log,
	} {
		if got := lastWords(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Only launch starts a priod beside a test.
func TestDaemonsAreStartedInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	places := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := strings.Count(string(text), "command(\"run\""+")")
		places += n
		if n > 0 && file != "daemon_test.go" {
			t.Errorf("%s starts a priod that nobody watches: site.daemon does", file)
		}
	}
	if places != 1 {
		t.Errorf("%d places", places)
	}
}
