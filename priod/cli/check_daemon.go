package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
)

// checkDaemon says what the daemon says of itself, where it serves that.
func checkDaemon(ctx context.Context, cfg *config.Config) []live.Finding {
	if cfg.Metrics.Listen == "" {
		return nil
	}
	f := live.Finding{Level: live.Pass, Name: "daemon"}
	state, err := askHealth(ctx, cfg.Metrics.Listen)
	switch {
	case err != nil:
		f.Level, f.Fix = live.Warn, "systemctl status priod"
		f.Text = fmt.Sprintf("no answer on metrics.listen: %v", err)
	case !state.Healthy:
		f.Level, f.Text = live.Fail, state.Reason
	case state.StandBy != "":
		f.Text = state.StandBy
	case state.Blocked != "":
		f.Level, f.Text = live.Warn, "it writes nothing"
	default:
		f.Text = fmt.Sprintf("healthy; it read Slurm %.0f s ago", state.ReadAge)
	}
	if err == nil && state.Blocked != "" {
		f.Text += fmt.Sprintf(" (%s)", state.Blocked)
		if state.Trouble != "" {
			f.Text += ": " + state.Trouble
		}
	}
	return []live.Finding{f}
}

// askHealth reads /health.
func askHealth(ctx context.Context, address string) (*daemon.State, error) {
	network := "tcp"
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		network, address = "unix", path
	}
	var dial net.Dialer
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial.DialContext(ctx, network, address)
		},
	}}
	asks, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/health", nil)
	if err != nil {
		return nil, err
	}
	r, err := client.Do(asks)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	state := new(daemon.State)
	if err := json.NewDecoder(r.Body).Decode(state); err != nil {
		return nil, fmt.Errorf("the program on %s is not priod: %w", address, err)
	}
	return state, nil
}
