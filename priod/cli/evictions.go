package cli

import (
	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

func evictionsCommand() *cli.Command {
	return &cli.Command{
		Name: "evictions", Usage: "show evictions, under way and past: the victims, for which job, at what cost", ArgsUsage: "[JOBID]",
		Description: "Costs are GPU-seconds of work lost: as promised when the victim was chosen, and as paid.\n" +
			"FOR is the reason: a TE job (te), a BE job that is owed its GPUs at the end of a round (round), or a gang (gang).\n" +
			"With a job, those of its own runs and those on its behalf.",
		Flags: append(stateFlags(),
			mostFlag(50, "how many `ROWS`"),
			jsonFlag(),
		),
		Before: checked(validMost, func(c *cli.Context) error { _, err := optionalJob(c); return err }),
		Action: reading(func(c *cli.Context, cfg *config.Config, r *store.Reader) error {
			var of *cluster.JobID
			if name, err := optionalJob(c); err != nil {
				return err
			} else if name != nil {
				id, err := view.Find(c.Context, cfg, r, *name)
				if err != nil {
					return err
				}
				if _, err := r.Job(c.Context, id, 1); err != nil { // as explain has it
					return err
				}
				of = &id
			}
			v, err := view.ReadEvictions(c.Context, r, of, c.Int("most"))
			if err != nil {
				return err
			}
			return show(c, v)
		}),
	}
}
