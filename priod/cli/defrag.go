package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/evict"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

func defragCommand() *cli.Command {
	return &cli.Command{
		Name: "defrag", Usage: "show which small jobs would move for gangs that wait though enough GPUs are free",
		Description: "Small jobs are running ones that consented to evictions (type=be), hold part of a node and have room elsewhere;\n" +
			"those that lose least work move, within the limits of [preemption]. This only shows them:\n" +
			"with preemption.defrag = true the daemon moves them, once the gang's GPUs have waited as long as the work lost.",
		Flags: []cli.Flag{mostFlag(20, "how many waiting `JOBS`"), jsonFlag()}, Before: noArgs,
		Action: configured(func(c *cli.Context, cfg *config.Config) error {
			n, err := most(c)
			if err != nil {
				return err
			}
			all, err := defragDryRun(c, cfg)
			if err != nil {
				return err
			}
			return answer(c, map[string]any{"jobs": all}, func(w io.Writer) { showDefrag(w, all, n) })
		}),
	}
}

func defragDryRun(c *cli.Context, cfg *config.Config) ([]evict.Fragmented, error) {
	journal, err := store.OpenEvictions(cfg.Journals())
	if err != nil {
		return nil, err
	}
	result, err := preview(c.Context, cfg, newLogger(cfg, c.App.ErrWriter))
	if err != nil {
		return nil, err
	}
	waits, err := waitedFor(c.Context, cfg, result.Snapshot.At)
	if err != nil {
		return nil, err
	}
	set := cfg.Eviction()
	nodes := nodemap.New(&result.Snapshot)
	held := evict.FindHolders(&result.Snapshot, nodes, journal, &set)
	return evict.Defragment(&result.Snapshot, nodes, held, &result.Plan, journal, &set, waits, nil).Gangs, nil
}

// waitedFor is how long jobs have waited for nodes of another shape, as the daemon has seen
// it; nil without a daemon.
func waitedFor(ctx context.Context, cfg *config.Config, now time.Time) (func(cluster.JobID) time.Duration, error) {
	r, err := store.OpenReader(ctx, cfg.State.Dir)
	if err != nil {
		return nil, nil // history has said why
	}
	defer r.Close()
	open, err := r.OpenWaits(ctx)
	if err != nil {
		return nil, err
	}
	waited := map[cluster.JobID]time.Duration{}
	for _, w := range open {
		waited[w.Job] = w.Fragmented(now)
	}
	return func(id cluster.JobID) time.Duration { return waited[id] }, nil
}

func showDefrag(w io.Writer, all []evict.Fragmented, most int) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No job waits although enough GPUs are free.")
		return
	}
	left := max(len(all)-most, 0)
	for _, f := range all[:len(all)-left] {
		fmt.Fprintf(w, "Job %s of %s, %s (%d are free): %s.\n", f.Job, report.Safe(f.User), plural(f.GPUs, "GPU", "GPUs"), f.Free, evict.GangReasonText(f.Why))
		if len(f.Victims) == 0 {
			continue
		}
		fmt.Fprintf(w, "It would lie on %s within %s; %.0f GPU-seconds of work would be lost, and its GPUs have waited %.0f for nodes of its shape.\n",
			strings.Join(f.Nodes, ","), report.Ago(time.Duration(f.WaitS*float64(time.Second))), f.Cost, float64(f.GPUs)*f.Waited)
		tabulate(w, []string{"LEAVES", "USER", "GPUS", "NODE", "COST"}, f.Victims, func(v *evict.Leaver) []any {
			return []any{v.Job.String(), v.User, v.GPUs, v.Node, fmt.Sprintf("%.0f", v.Cost)}
		})
	}
	if left > 0 {
		fmt.Fprintf(w, "%s not shown; --most shows more.\n", plural(left, "job", "jobs"))
	}
}
