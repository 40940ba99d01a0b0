package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/live"
	"slurmprio/priod/store"
)

// reached is the priod that a verb stops or lets continue: the one with the state folder of the configuration.
type reached struct {
	PID  int    `json:"pid"` // of the daemon; 0: none runs with that folder on this host
	Dir  string `json:"state_dir"`
	Host string `json:"host,omitempty"` // of the priod that owns the shared folder, where that is another one

	unsure error // why it is not known whether another priod is active
}

// reach finds the priod that a configuration is of. It refuses where another priod is active on the cluster: what
// is written into this state folder would stop and start nothing.
func reach(ctx context.Context, cfg *config.Config) (r reached, err error) {
	host, _ := os.Hostname()
	r.Dir = cfg.State.Dir
	if _, err := os.Stat(cfg.Journals()); errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s has no state folder %s: run this on the daemon's host, with the daemon's configuration", host, cfg.Journals())
	}
	pid, runs, err := store.Running(cfg.State.Dir)
	if err != nil {
		return r, fmt.Errorf("state folder %s (run it as priod's own user or root): %w", cfg.State.Dir, err)
	}
	if runs {
		r.PID = pid
		return r, nil
	}
	if r.Host = daemon.OwnerElsewhere(cfg); r.Host != "" {
		return r, nil
	}
	slurm := live.New(newClient(cfg))
	name, err := slurm.Identity(ctx)
	if err != nil {
		r.unsure = fmt.Errorf("whether another priod is active on this host is not known, because Slurm does not say: %w", err)
		return r, nil
	}
	return r, daemon.OtherPriod(name, cfg.State.Dir)
}

// does says in words what the priod that is reached does from now on.
func (r *reached) does(what string) string {
	host, _ := os.Hostname()
	switch {
	case r.PID != 0:
		return fmt.Sprintf("priod (process %d, state folder %s) %s", r.PID, r.Dir, what)
	case r.Host != "":
		return fmt.Sprintf("the priod of %s %s", r.Host, what)
	}
	return fmt.Sprintf("no priod runs on %s with the state folder %s; one that starts %s", host, r.Dir, what)
}

// actPatience is how long a pause waits for a cycle that is writing.
const actPatience = 5 * time.Minute

// holdWrites pauses priod and waits until a cycle that is writing has ended. say is told when that takes long.
func holdWrites(ctx context.Context, cfg *config.Config, p store.Pause, say func(string)) (release func(), err error) {
	if err := store.SetPause(cfg.Journals(), p); err != nil {
		return nil, err
	}
	release, err = lockActing(ctx, cfg, 2*time.Second)
	if errors.As(err, new(*store.HeldError)) {
		say(fmt.Sprintf("the pause is set; waiting for a cycle that is writing (%v)", err))
		release, err = lockActing(ctx, cfg, actPatience)
	}
	if err != nil {
		err = fmt.Errorf("the pause is set, but a cycle still writes: %w; if that process hangs, kill -9 ends it, and priod reset reverts what it wrote", err)
	}
	return release, err
}

func lockActing(ctx context.Context, cfg *config.Config, patience time.Duration) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return store.LockActing(ctx, cfg.State.Dir)
}
