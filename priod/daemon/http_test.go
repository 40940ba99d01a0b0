package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/plan"
)

func ask(t *testing.T, d *Daemon, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	d.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func healthOf(t *testing.T, d *Daemon) (int, State) {
	t.Helper()
	code, body := ask(t, d, "/health")
	var s State
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return code, s
}

// outage is a cluster that does not answer for some time.
type outage struct {
	*fake
	from, until time.Time
}

func (o outage) Observe(ctx context.Context) (cluster.Snapshot, error) {
	if now := time.Now(); now.After(o.from) && now.Before(o.until) {
		return cluster.Snapshot{}, errors.New("slurmctld is away \x1b[2J\u009b2J")
	}
	return o.fake.Observe(ctx)
}

// In fake time: healthy through a short trouble, not through a long one, and
// again after it.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{jobs: []cluster.Job{trialJob()}, hold: "paused by ann"}
		d, _ := newDaemon(t, f)
		begin := time.Now()
		d.Connect = func(*config.Config) Slurm { return outage{f, begin, begin.Add(35 * time.Second)} }
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if code, s := healthOf(t, d); code != http.StatusServiceUnavailable || s.Reason != "no cycle has succeeded yet" {
			t.Errorf("before the first cycle: %d, %+v", code, s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx, nil) }()
		synctest.Wait()
		if code, s := healthOf(t, d); code != http.StatusOK || !s.Healthy || s.Limit != 30 || s.Hold != "paused by ann" || s.Cycles != 1 {
			t.Errorf("after a cycle: %d, %+v", code, s)
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if code, s := healthOf(t, d); code != http.StatusOK || !strings.Contains(s.Trouble, "slurmctld is away") || strings.ContainsAny(s.Trouble, "\x1b\u009b") {
			t.Errorf("within three intervals: %d, %+v", code, s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if code, s := healthOf(t, d); code != http.StatusServiceUnavailable || !strings.Contains(s.Reason, "longer than a cycle and 3 intervals (30s)") || s.ReadAge != 31 {
			t.Errorf("after three intervals: %d, %+v", code, s)
		}
		has(t, d, "priod_healthy{} 0\npriod_read_age_seconds{} 31")
		time.Sleep(patience)
		synctest.Wait()
		if code, s := healthOf(t, d); code != http.StatusOK || s.Trouble != "" {
			t.Errorf("after the trouble: %d, %+v", code, s)
		}
		has(t, d, "priod_healthy{} 1")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// slow is a cluster whose writes take long, and which does not answer after some time.
type slow struct {
	*fake
	write time.Duration
	until time.Time
}

func (s slow) Apply(ctx context.Context, actions []plan.Action) []plan.Outcome {
	time.Sleep(s.write)
	return s.fake.Apply(ctx, actions)
}

func (s slow) Observe(ctx context.Context) (cluster.Snapshot, error) {
	if time.Now().After(s.until) {
		time.Sleep(10 * time.Minute) // no command ever ends
	}
	return s.fake.Observe(ctx)
}

// In fake time: what is known may be as old as one cycle and three intervals, not as three
// cycles, and a cycle that never ends does not stay healthy.
func TestHealthGoesByTheAgeOfTheRead(t *testing.T) {
	for _, c := range []struct{ write, limit time.Duration }{
		{38 * time.Second, 68 * time.Second}, {5 * time.Minute, 90 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{jobs: []cluster.Job{trialJob()}}
			d, _ := newDaemon(t, f)
			begin := time.Now()
			d.Connect = func(*config.Config) Slurm { return slow{f, c.write, begin.Add(c.write)} }
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- d.Run(ctx, nil) }()
			time.Sleep(c.write) // the first cycle reads at once and writes until now
			synctest.Wait()
			if code, s := healthOf(t, d); s.Limit != c.limit.Seconds() || (code == http.StatusOK) != (c.write <= c.limit) {
				t.Errorf("%s: after the first cycle: %d, %+v", c.write, code, s)
			}
			time.Sleep(max(c.limit, c.write) - c.write + time.Second)
			synctest.Wait()
			if code, s := healthOf(t, d); code != http.StatusServiceUnavailable || !strings.Contains(s.Reason, "Slurm could not be read") || s.CycleAge >= s.Limit {
				t.Errorf("%s: with an old read: %d, %+v", c.write, code, s)
			}
			has(t, d, "priod_healthy{} 0")
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPages(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	d.Version = "v1.2.3"
	turn(t, d)
	for _, c := range []struct {
		path, want string
		code       int
	}{
		{"/", "/health", http.StatusOK},
		{"/", "v1.2.3", http.StatusOK},
		{"/metrics", `priod_build_info{goversion="go`, http.StatusOK},
		{"/metrics", `version="v1.2.3"} 1`, http.StatusOK},
		{"/metrics", "process_open_fds ", http.StatusOK},
		{"/elsewhere", "", http.StatusNotFound},
	} {
		if code, body := ask(t, d, c.path); code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d\n%s", c.path, code, body)
		}
	}
	w := httptest.NewRecorder()
	d.handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/health", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func get(address string) (string, error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		if path, unix := strings.CutPrefix(address, "unix:"); unix {
			return d.DialContext(ctx, "unix", path)
		}
		return d.DialContext(ctx, "tcp", address)
	}}}
	r, err := c.Get("http://localhost/")
	if err != nil {
		return "", err
	}
	return r.Status, r.Body.Close()
}

// Pages and the answers to users are those of the configuration that holds, on the same address: a reload that is
// accepted changes them at once, one that is refused does not.
func TestAnswersFollowReload(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	folder := t.TempDir()
	said := func(c *config.Config) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200 + c.Preemption.MaxPerHour) })
	}
	d.Pages = func(c *config.Config, _ func() State) http.Handler { return said(c) }
	d.OwnJobs = said
	d.Config.Web.Listen, d.Config.Preemption.MaxPerHour = "unix:"+filepath.Join(folder, "pages"), 1
	d.Config.Wake.Listen = []string{"unix:" + filepath.Join(folder, "wake")}
	turn(t, d)
	if err := d.serve(d.Config); err != nil {
		t.Fatal(err)
	}
	defer d.endpoint.close()
	defer d.pages.close()
	defer d.ownJobs.close()
	check := func(when, want string) {
		t.Helper()
		for _, address := range []string{d.Config.Web.Listen, "unix:" + d.Config.OwnJobsSocket()} {
			if status, err := get(address); !strings.HasPrefix(status, want+" ") {
				t.Errorf("%s: %s answers %q, %v, want %s", when, address, status, err, want)
			}
		}
	}
	check("at start", "201")
	to := func(writes int, metrics string) {
		next := *d.Config
		next.Preemption.MaxPerHour, next.Metrics.Listen = writes, metrics
		d.Reload = func() (*config.Config, error) { return &next, nil }
		d.reload()
	}
	to(2, d.Config.Metrics.Listen)
	check("reloaded", "202")
	to(3, taken(t))
	check("refused", "202")
}

// taken is a loopback address on which somebody else listens.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestTakenAddress(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	address := taken(t)
	d.Config.Metrics.Listen = address
	err := d.Run(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "metrics.listen: ") || !strings.Contains(err.Error(), address) || !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("at start: %v", err)
	}

	socket := "unix:" + filepath.Join(t.TempDir(), "m.sock")
	d, log := newDaemon(t, &fake{})
	turn(t, d)
	defer d.endpoint.close()
	to := func(address string) {
		next := *d.Config
		next.Metrics.Listen = address
		d.Reload = func() (*config.Config, error) { return &next, nil }
		d.reload()
	}
	to(socket)
	old := d.Config
	to(address)
	if d.Config != old || !strings.Contains(log.String(), "the old one stays") {
		t.Errorf("on reload:\n%s", log)
	}
	if status, err := get(socket); err != nil || status != "200 OK" {
		t.Errorf("the old address: %s, %v", status, err)
	}
	to("")
	if status, err := get(socket); err == nil {
		t.Errorf("switched off, and it answers %s", status)
	}
}

func TestSocketFiles(t *testing.T) {
	d, _ := newDaemon(t, &fake{})
	turn(t, d)
	path := filepath.Join(t.TempDir(), "m.sock")
	serve := func() (*endpoint, error) {
		e := &endpoint{}
		return e, e.move("metrics.listen", "unix:"+path, d.handler(), Listen, d.Log)
	}

	// A file of somebody's is left alone.
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := serve(); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("over a file: %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Fatalf("%q, %v", text, err)
	}
	os.Remove(path)

	// What a killed daemon left is not.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	first, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := serve(); err == nil || !strings.Contains(err.Error(), "another program answers") {
		t.Errorf("a second one: %v", err)
	}
	if status, err := get("unix:" + path); err != nil || status != "200 OK" {
		t.Errorf("%s, %v", status, err)
	}
	first.close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(fmt.Sprint("the socket stays: ", err))
	}
}
