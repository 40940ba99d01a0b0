package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

func pauseCommand() *cli.Command {
	return &cli.Command{
		Name: "pause", Usage: "stop all writing to Slurm until resume; priod keeps watching",
		Description: "Waits until a cycle that is writing has ended. What was written stays; priod reset reverts it. A pause\n" +
			"survives restarts.\n" +
			"    priod pause --why 'maintenance until noon'",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "why", Usage: "`REASON` that queue and explain show"},
			jsonFlag(),
		},
		Before: noArgs,
		Action: configured(func(c *cli.Context, cfg *config.Config) error {
			p := store.PauseBy(operator(), c.String("why"))
			release, err := holdWrites(c.Context, cfg, p)
			if err != nil {
				return err
			}
			release()
			return answer(c, p, func(w io.Writer) { fmt.Fprintln(w, report.Safe(p.String())+"; priod resume ends it") })
		}),
	}
}

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name: "resume", Usage: "end a pause", Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
		Action: configured(func(c *cli.Context, cfg *config.Config) error {
			was, err := store.Resume(cfg.Journals())
			if err != nil {
				return err
			}
			text := "priod continues with its next cycle"
			if !was {
				text = "priod was not paused"
			}
			return answer(c, map[string]bool{"was_paused": was}, func(w io.Writer) { fmt.Fprintln(w, text) })
		}),
	}
}

// holdWrites pauses priod and waits until a cycle that is writing has ended.
func holdWrites(ctx context.Context, cfg *config.Config, p store.Pause) (release func(), err error) {
	if err := store.SetPause(cfg.Journals(), p); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return store.LockActing(ctx, cfg.State.Dir)
}

// operator is the user of this command, also behind sudo.
func operator() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
