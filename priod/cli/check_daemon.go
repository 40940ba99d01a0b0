package cli

import (
	"context"
	"fmt"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// checkDaemon says how the daemon of the state folder is; nothing where the folder is not for this user.
func checkDaemon(ctx context.Context, cfg *config.Config) []live.Finding {
	const see = "systemctl status priod; journalctl --unit priod"
	f := live.Finding{Level: live.Pass, Name: "daemon"}
	pid, runs, err := store.Running(cfg.State.Dir)
	state, asked := askState(ctx, cfg)
	switch {
	case err != nil:
		return nil // "state folder" says so
	case asked == nil && state.Dir != cfg.State.Dir && !runs:
		f.Level, f.Fix = live.Warn, "--config with the file of that one, or state.dir = "+fmt.Sprintf("%q", state.Dir)
		f.Text = fmt.Sprintf("none runs with the state folder %s; that of process %d has %s", cfg.State.Dir, state.PID, state.Dir)
	case pid == 0 && !runs:
		f.Text = "none has run with this state folder"
		if name, err := live.New(newClient(cfg)).Identity(ctx); err == nil { // else "slurmctld" says so
			if err := daemon.OtherPriod(name, cfg.State.Dir); err != nil {
				f.Level, f.Text, f.Fix = live.Warn, err.Error(), "--config with the file of that one"
			}
		}
	default:
		f = ofDaemon(ctx, cfg, f)
		if f.Level == live.Fail {
			f.Fix = see
		}
	}
	return []live.Finding{f}
}

// ofDaemon says how sure the figures of a daemon are that ran here.
func ofDaemon(ctx context.Context, cfg *config.Config, f live.Finding) live.Finding {
	r, err := store.OpenReader(ctx, cfg.State.Dir)
	if err == nil {
		defer r.Close()
	}
	s := howSure(ctx, cfg, r)
	state := s.state
	if state == nil {
		state = new(daemon.State)
	}
	switch {
	case s.Daemon == daemonStandBy && state.Healthy:
		f.Text = state.StandBy
	case s.Daemon == daemonNew:
		f.Text = s.Doubt
	case s.Doubt != "":
		f.Level, f.Text = live.Fail, s.old()+s.Doubt
	case !s.AsOf.IsZero():
		f.Text = fmt.Sprintf("process %d, last cycle %s ago", s.pid, report.Ago(time.Since(s.AsOf)))
	default:
		f.Text = fmt.Sprintf("process %d", s.pid)
	}
	if state.Blocked != "" {
		if f.Level == live.Pass {
			f.Level, f.Text = live.Warn, f.Text+", writes nothing"
		}
		f.Text += fmt.Sprintf(" (%s)", state.Blocked)
	}
	if state.Trouble != "" {
		f.Text += ": " + state.Trouble
	}
	return f
}
