package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

func pauseCommand() *cli.Command {
	return &cli.Command{
		Name: "pause", Usage: "stop all writing to Slurm until resume; priod goes on watching",
		Description: "Waits until a cycle that is writing has ended. What was written stays; priod reset takes it back. A pause\n" +
			"survives restarts.\n" +
			"    priod pause --why 'maintenance until noon'",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "why", Usage: "`REASON` that queue and explain show"},
			jsonFlag(),
		},
		Before: noArgs,
		Action: func(c *cli.Context) error {
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			p := store.Pause{Who: operator(), When: time.Now().UTC().Truncate(time.Second), Why: c.String("why")}
			release, err := holdWrites(c.Context, cfg.State.Dir, p)
			if err != nil {
				return err
			}
			release()
			if c.Bool("json") {
				return report.JSON(c.App.Writer, p)
			}
			_, err = fmt.Fprintln(c.App.Writer, report.Safe(p.String())+"; priod resume lets it go on")
			return err
		},
	}
}

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name: "resume", Usage: "end a pause", Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
		Action: func(c *cli.Context) error {
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			was, err := store.Resume(cfg.State.Dir)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return report.JSON(c.App.Writer, map[string]bool{"was_paused": was})
			}
			text := "priod goes on with its next cycle"
			if !was {
				text = "priod was not paused"
			}
			_, err = fmt.Fprintln(c.App.Writer, text)
			return err
		},
	}
}

// holdWrites pauses priod and waits until a cycle that is writing has ended.
func holdWrites(ctx context.Context, dir string, p store.Pause) (release func(), err error) {
	if err := store.SetPause(dir, p); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return store.LockActing(ctx, dir)
}

// operator is who runs this command, also behind sudo.
func operator() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
