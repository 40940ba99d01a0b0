package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/store"
)

// What the daemon says of itself comes out in its own words, over TCP and a socket.
func TestCheckAsksTheDaemon(t *testing.T) {
	var state daemon.State
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(state)
	})
	tcp := httptest.NewServer(answer)
	defer tcp.Close()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	unix := &httptest.Server{Listener: l, Config: &http.Server{Handler: answer}}
	unix.Start()
	defer unix.Close()
	cfg := &config.Config{}
	cfg.State.Dir = t.TempDir()
	one := func() live.Finding {
		t.Helper()
		found := checkDaemon(t.Context(), cfg)
		if len(found) != 1 {
			t.Fatalf("%+v", found)
		}
		found[0].Text = regexp.MustCompile(`process \d+`).ReplaceAllString(found[0].Text, "process 4711")
		return found[0]
	}
	if f := one(); f.Level != live.Pass || f.Text != "none has run with this state folder" {
		t.Errorf("%+v before the first start", f)
	}
	st, err := store.Open(t.Context(), cfg.State.Dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := one(); f.Level != live.Fail || f.Text != "priod (process 4711) has saved no cycle since" {
		t.Errorf("%+v of a daemon that says nothing of itself", f)
	}
	cfg.State.Shared = t.TempDir()
	if err := os.WriteFile(filepath.Join(cfg.State.Shared, "owner.json"), []byte(`{"host":"ctl2","cluster":"c","key":"k"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := one(); f.Level != live.Pass || f.Text != "the priod of ctl2 owns the shared folder" {
		t.Errorf("%+v of one that stands by and says nothing of itself", f)
	}
	cfg.State.Shared = ""
	for _, address := range []string{tcp.Listener.Addr().String(), "unix:" + socket} {
		cfg.Metrics.Listen = address
		for _, c := range []struct {
			state daemon.State
			level live.Level
			text  string
		}{
			{daemon.State{Healthy: true, Cycles: 3}, live.Pass, "process 4711"},
			{daemon.State{Healthy: true}, live.Pass, "priod has just started"},
			{daemon.State{Healthy: true, Cycles: 3, Blocked: daemon.Paused, Hold: "paused by ann"}, live.Warn, "process 4711, writes nothing (paused)"},
			{daemon.State{Healthy: true, Cycles: 3, StandBy: "the active slurmctld is on ctl2"}, live.Pass, "the active slurmctld is on ctl2"},
			{daemon.State{Reason: "this host stands by and could not take over: no folder", Cycles: 3, StandBy: "the active slurmctld is on ctl2", Blocked: daemon.CannotTakeOver}, live.Fail,
				"this host's priod stands by: the active slurmctld is on ctl2; this host stands by and could not take over: no folder (cannot-take-over)"},
			{daemon.State{Reason: "no cycle has succeeded for 2m0s", Cycles: 3, Blocked: "disk-full", Trouble: "no room"}, live.Fail, "the disk of the state folder is full (disk-full): no room"},
			{daemon.State{Reason: "no cycle has succeeded for 2m0s", Cycles: 3}, live.Fail, "no cycle has succeeded for 2m0s"},
		} {
			state = c.state
			state.Dir, state.PID = cfg.State.Dir, os.Getpid()
			if f := one(); f.Level != c.level || f.Text != c.text {
				t.Errorf("%s: %+v, want %s %s", address, f, c.level, c.text)
			}
		}
	}
	state.Dir = "/elsewhere"
	if f := one(); f.Level != live.Fail {
		t.Errorf("%+v, where the daemon of another folder answers", f)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if f := one(); f.Level != live.Warn || !strings.Contains(f.Text, "none runs with the state folder "+cfg.State.Dir) || !strings.Contains(f.Text, "/elsewhere") {
		t.Errorf("%+v, where only that one runs", f)
	}
	unix.Close()
	if f := one(); f.Level != live.Fail || f.Text != "priod is not running (process 4711 has ended)" || f.Fix == "" {
		t.Errorf("%+v of a daemon that has ended", f)
	}
}
