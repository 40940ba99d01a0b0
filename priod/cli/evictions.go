package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

func evictionsCommand() *cli.Command {
	return &cli.Command{
		Name: "evictions", Usage: "show evictions, under way and past: the victims, for which job, at what cost", ArgsUsage: "[JOBID]",
		Description: "Costs are GPU-seconds of work lost: as promised when the victim was chosen, and as paid.\n" +
			"FOR is the reason: a TE job (te), a BE job that is owed its GPUs at the end of a round (round), or a gang (gang).\n" +
			"With a job, those of its own runs and those on its behalf.",
		Flags: []cli.Flag{
			mostFlag(50, "how many `ROWS`"),
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			all, err := readEvictions(c)
			if err != nil {
				return err
			}
			return answer(c, map[string]any{"evictions": all}, func(w io.Writer) { showEvictions(w, all) })
		},
	}
}

func readEvictions(c *cli.Context) ([]store.Eviction, error) {
	n, err := most(c)
	if err != nil {
		return nil, err
	}
	name, err := optionalJob(c)
	if err != nil {
		return nil, err
	}
	cfg, r, err := openReader(c)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if name == nil {
		return r.Evictions(c.Context, n)
	}
	id, err := view.Find(c.Context, cfg, r, *name)
	if err != nil {
		return nil, err
	}
	return r.EvictionsOf(c.Context, id, n)
}

func showEvictions(w io.Writer, all []store.Eviction) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No job was evicted.")
		return
	}
	header := []string{"#", "VICTIM", "USER", "GPUS", "FOR", "USER", "NODES", "RECORDED", "STATE", "GRACE", "TOOK", "PROMISED", "PAID", "PLACE", "WHY"}
	tabulate(w, header, all, func(x *store.Eviction) []any {
		took, paid := "", ""
		if x.TookS != nil {
			took, paid = fmt.Sprintf("%.0fs", *x.TookS), fmt.Sprintf("%.0f", *x.Paid)
		}
		state := x.State
		if x.How != "" {
			state += " (" + x.How + ")"
		}
		return []any{x.Number, x.Victim.String(), x.VictimUser, x.GPUs, x.Purpose + " " + x.For.String(), x.ForUser, x.Nodes, report.Clock(x.Recorded), state,
			fmt.Sprintf("%.0fs", x.GraceS), took, fmt.Sprintf("%.0f", x.Promised), paid, x.ClaimState, cmp.Or(x.Reason, x.ClaimReason)}
	})
}
