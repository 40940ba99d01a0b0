package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/live"
	"slurmprio/priod/order"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
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
	id, err := lookUp(c.Context, cfg, r, *name)
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
		return []any{x.Number, x.Victim.String(), x.VictimUser, x.GPUs, x.Purpose + " " + x.For.String(), x.ForUser, x.Nodes, clock(x.Recorded), state,
			fmt.Sprintf("%.0fs", x.GraceS), took, fmt.Sprintf("%.0f", x.Promised), paid, x.ClaimState, cmp.Or(x.Reason, x.ClaimReason)}
	})
}

func evictCommand() *cli.Command {
	return &cli.Command{
		Name: "evict", Usage: "show the victims that a TE job would have, and why others stay", ArgsUsage: "JOBID",
		Description: "Uses the configured policy, even while preemption is off.\n" +
			"Only the daemon evicts: --dry-run is required.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "show, and do nothing"},
			mostFlag(50, "how many `ROWS`"),
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if !c.Bool("dry-run") {
				return usagef("evict: only with --dry-run: the daemon alone evicts")
			}
			n, err := most(c)
			if err != nil {
				return err
			}
			name, err := jobArg(c)
			if err != nil {
				return err
			}
			v, err := evictDryRun(c, name)
			if err != nil {
				return err
			}
			return answer(c, v, func(w io.Writer) { v.show(w, n) })
		},
	}
}

// evictView is the jobs that would leave for a TE job.
type evictView struct {
	Job     cluster.JobID   `json:"job"`
	Enabled bool            `json:"enabled"`
	Policy  string          `json:"policy"`
	Why     preemption.Why  `json:"why"`
	Words   string          `json:"words"`
	Cost    float64         `json:"cost_gpu_s"`
	WaitS   float64         `json:"wait_s"` // until the last victim would have left
	Victims []cluster.JobID `json:"victims"`
	Others  []evict.Refusal `json:"others"` // all jobs that hold GPUs, with why they stay
}

func evictDryRun(c *cli.Context, name slurmplug.JobName) (*evictView, error) {
	cfg, err := loadConfig(c)
	if err != nil {
		return nil, err
	}
	id, err := lookUp(c.Context, cfg, nil, name)
	if err != nil {
		return nil, err
	}
	set := cfg.Eviction()
	v := &evictView{Job: id, Enabled: set.Enabled, Policy: cfg.Preemption.Policy, Victims: []cluster.JobID{}, Others: []evict.Refusal{}}
	if err := set.Policy.Check(); err != nil {
		return nil, usagef("preemption.policy %q evicts no job", cfg.Preemption.Policy)
	}
	set.Enabled = true
	h, err := history(c.Context, cfg, newLogger(cfg, c.App.ErrWriter))
	if err != nil {
		return nil, err
	}
	journal, err := store.OpenEvictions(cfg.Journals())
	if err != nil {
		return nil, err
	}
	slurm := live.New(newClient(cfg))
	result, err := cycle.Step(c.Context, slurm, nil, h, cycle.Settings{
		Consent: cfg.ConsentRules(), Order: order.Feature{Settings: cfg.Decide()}, DryRun: true, Evictions: evict.Feature{Settings: set, Slurm: slurm, Journal: journal},
	})
	if err != nil {
		return nil, err
	}
	var trials []evict.Trial
	if result.Choice != nil { // nil when no TE job waits
		trials = result.Choice.Trials
	}
	at := slices.IndexFunc(trials, func(t evict.Trial) bool { return t.Job == id || t.Job.ID == id.ID && id.Task < 0 })
	if at < 0 {
		return nil, fmt.Errorf("job %s does not wait as a TE job (priod explain %s says what it counts as)", name, name)
	}
	t := &trials[at]
	v.Why, v.Words, v.Cost, v.WaitS = t.Why, evict.ReasonText(t.Why), t.Cost, t.Wait.Seconds()
	v.Victims = append(v.Victims, t.Victims...)
	v.Others = append(v.Others, result.Choice.Refusals(t)...)
	return v, nil
}

func (v *evictView) show(w io.Writer, most int) {
	fmt.Fprintf(w, "Job %s: %s.\n", v.Job, v.Words)
	if len(v.Victims) > 0 {
		fmt.Fprintf(w, "%s would leave within %s.\n", plural(len(v.Victims), "job", "jobs"), report.Ago(time.Duration(v.WaitS*float64(time.Second))))
	}
	if !v.Enabled {
		fmt.Fprintln(w, "Preemption is off (preemption.enabled): nothing happens.")
	}
	rows := [][]any{}
	for _, victims := range []bool{true, false} {
		for _, o := range v.Others {
			if (o.Why == preemption.Victim) == victims {
				rows = append(rows, []any{o.Job.String(), o.User, o.GPUs, fmt.Sprintf("%.0f", o.Cost), string(o.Why), evict.ReasonText(o.Why)})
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	left := max(len(rows)-most, 0)
	report.Table(w, []string{"JOB", "USER", "GPUS", "COST", "WHY", "IN WORDS"}, rows[:len(rows)-left])
	if left > 0 {
		fmt.Fprintf(w, "%s not shown; --most shows more.\n", plural(left, "job", "jobs"))
	}
}
