package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// sureness is how old the figures of the state folder are, and whether newer ones come. A verb that shows some of
// them says it first; --json always has it.
type sureness struct {
	AsOf   time.Time `json:"as_of,omitzero"`   // the last cycle that was saved; zero: none yet
	Daemon string    `json:"daemon,omitempty"` // runs, starting, standby, not-running, none, no-answer, history-unrecorded, or why its last cycle failed: docs/alerts.md
	Doubt  string    `json:"doubt,omitempty"`  // the same for people; "": the daemon runs and its last cycle succeeded
	pid    int       // of the daemon, 0: not known
	state  *daemon.State
}

// What becomes of a daemon. Where its last cycle failed, Daemon is the word of docs/alerts.md for that.
const (
	daemonRuns       = "runs"
	daemonNew        = "starting"    // it has not ended a cycle yet
	daemonStandBy    = "standby"     // another host's priod has the cluster
	daemonGone       = "not-running" // one ran with this state folder, and ended or was killed
	daemonNone       = "none"        // none is known: priod run --once, or nothing yet
	daemonNoAnswer   = "no-answer"
	daemonUnrecorded = "history-unrecorded" // it decides and writes, but not into its database
)

// askPatience is for how long a daemon is given to say how it is.
const askPatience = 2 * time.Second

// howSure looks at the daemon of a state folder, and at its last cycle where that can be read; else r is nil.
func howSure(ctx context.Context, cfg *config.Config, r *store.Reader) sureness {
	s := sureness{Daemon: daemonNone}
	if r != nil {
		if last, err := r.LastCycle(ctx); err == nil {
			s.AsOf = last.Until
		}
	}
	s.look(ctx, cfg)
	return s
}

// look finds the daemon of a state folder, and asks it.
func (s *sureness) look(ctx context.Context, cfg *config.Config) {
	pid, runs, err := store.Running(cfg.State.Dir)
	switch s.pid = pid; {
	case err != nil || !runs && pid == 0:
	case !runs:
		s.Daemon, s.Doubt = daemonGone, fmt.Sprintf("priod is not running (process %d has ended)", pid)
	default:
		s.ask(ctx, cfg)
	}
}

// ask takes in what the daemon that holds the state folder says of itself.
func (s *sureness) ask(ctx context.Context, cfg *config.Config) {
	state, err := askState(ctx, cfg)
	late := 3*time.Duration(cfg.Cycle.Interval) + time.Minute // see healthyIntervals of the daemon
	owner := daemon.OwnerElsewhere(cfg)
	switch {
	case err == nil && state.Dir == cfg.State.Dir:
		s.of(state)
	case err != nil && !isUnasked(err):
		s.Daemon, s.Doubt = daemonNoAnswer, fmt.Sprintf("priod (process %d) does not answer", s.pid)
	case owner != "":
		s.of(&daemon.State{PID: s.pid, Healthy: true, StandBy: "the priod of " + owner + " owns the shared folder"})
	default: // the age of its last cycle alone is known
		if s.Daemon = daemonRuns; time.Since(s.AsOf) > late {
			s.Daemon, s.Doubt = daemonNoAnswer, fmt.Sprintf("priod (process %d) has saved no cycle since", s.pid)
		}
	}
}

// of takes in what a daemon says of itself.
func (s *sureness) of(state *daemon.State) {
	s.state, s.pid, s.Daemon = state, state.PID, daemonRuns
	words, fails := state.Blocked.Fails()
	switch {
	case fails:
		s.Daemon, s.Doubt = string(state.Blocked), words
	case state.StandBy != "":
		s.Daemon, s.Doubt = daemonStandBy, "this host's priod stands by: "+state.StandBy
		if !state.Healthy {
			s.Doubt += "; " + state.Reason
		}
	case state.Cycles == 0:
		s.Daemon, s.Doubt = daemonNew, "priod has just started"
	case !state.Healthy:
		s.Daemon, s.Doubt = daemonNoAnswer, state.Reason
	case state.Unrecorded != "":
		s.Daemon, s.Doubt = daemonUnrecorded, "history is not recorded: "+state.Unrecorded
	}
}

// show prints the doubt, if there is one.
func (s *sureness) show(w io.Writer) {
	if s.Doubt == "" {
		return
	}
	fmt.Fprintln(w, report.Mark{Text: s.old() + s.Doubt, Meaning: report.Bad})
}

// old says how old the figures are.
func (s *sureness) old() string {
	if s.AsOf.IsZero() {
		return ""
	}
	at := s.AsOf.Local().Format(time.DateTime)
	if now := time.Now(); now.Format(time.DateOnly) == at[:len(time.DateOnly)] {
		at = at[len(time.DateOnly)+1:]
	}
	return fmt.Sprintf("as of %s, %s ago: ", at, report.Ago(time.Since(s.AsOf)))
}

// stampOwn is stamp for what the daemon itself answered to a user who may not read the state folder.
func stampOwn(c *cli.Context, cfg *config.Config) {
	state, err := askState(c.Context, cfg)
	if err != nil {
		return // it answered just now
	}
	s := sureness{AsOf: time.Now().Add(-time.Duration(state.ReadAge * float64(time.Second)))}
	s.of(state)
	stamp(c, s)
}

type surenessKey struct{}

// stamp has answer say how sure what the verb shows is.
func stamp(c *cli.Context, s sureness) { c.Context = context.WithValue(c.Context, surenessKey{}, &s) }

// stamped is what stamp said, nil where it was not called.
func stamped(c *cli.Context) *sureness {
	s, _ := c.Context.Value(surenessKey{}).(*sureness)
	return s
}
