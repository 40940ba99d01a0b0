package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
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
	if found := checkDaemon(t.Context(), cfg); found != nil {
		t.Errorf("%+v without an address", found)
	}
	for _, address := range []string{tcp.Listener.Addr().String(), "unix:" + socket} {
		cfg.Metrics.Listen = address
		for _, c := range []struct {
			state daemon.State
			level live.Level
			text  string
		}{
			{daemon.State{Healthy: true, ReadAge: 4}, live.Pass, "healthy; it read Slurm 4 s ago"},
			{daemon.State{Healthy: true, Blocked: daemon.Paused, Hold: "paused by ann"}, live.Warn, "it writes nothing (paused)"},
			{daemon.State{Healthy: true, StandBy: "the active slurmctld is on ctl2"}, live.Pass, "the active slurmctld is on ctl2"},
			{daemon.State{Reason: "no cycle has succeeded for 2m0s", Blocked: "disk-full", Trouble: "no room"}, live.Fail, "no cycle has succeeded for 2m0s (disk-full): no room"},
		} {
			state = c.state
			found := checkDaemon(t.Context(), cfg)
			if len(found) != 1 || found[0].Level != c.level || found[0].Text != c.text {
				t.Errorf("%s: %+v, want %s %s", address, found, c.level, c.text)
			}
		}
	}
	tcp.Close()
	cfg.Metrics.Listen = tcp.Listener.Addr().String()
	if found := checkDaemon(t.Context(), cfg); len(found) != 1 || found[0].Level != live.Warn || !strings.Contains(found[0].Text, "no answer on metrics.listen") {
		t.Errorf("%+v", found)
	}
}
