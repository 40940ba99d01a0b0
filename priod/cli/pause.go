package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/user"

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
			r, err := reach(c.Context, cfg)
			if err != nil {
				return err
			}
			p := store.PauseBy(operator(), c.String("why"))
			release, err := holdWrites(c.Context, cfg, p, sayTo(c))
			if err != nil {
				return err
			}
			release()
			err = answer(c, struct {
				store.Pause
				reached
			}{p, r}, func(w io.Writer) {
				fmt.Fprintf(w, "%s\n%s\n", report.Safe(p.String()), report.Safe(r.does(silence)))
			})
			return cmp.Or(err, r.unsure)
		}),
	}
}

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name: "resume", Usage: "end a pause", Flags: []cli.Flag{jsonFlag()}, Before: noArgs,
		Action: configured(func(c *cli.Context, cfg *config.Config) error {
			r, err := reach(c.Context, cfg)
			if err != nil {
				return err
			}
			was, err := store.Resume(cfg.Journals())
			if err != nil {
				return err
			}
			text := "the pause is over: " + r.does("writes from its next cycle on")
			if !was {
				text = "there was no pause: " + r.does("writes")
			}
			err = answer(c, struct {
				Was bool `json:"was_paused"`
				reached
			}{was, r}, func(w io.Writer) { fmt.Fprintln(w, report.Safe(text)) })
			return cmp.Or(err, r.unsure)
		}),
	}
}

// silence is what a paused priod does.
const silence = "writes nothing until priod resume"

// sayTo tells what a verb waits for.
func sayTo(c *cli.Context) func(string) {
	return func(line string) { fmt.Fprintln(c.App.ErrWriter, "priod:", report.Safe(line)) }
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
