package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/live"
	"slurmprio/priod/order"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

// leaving are the jobs that would leave for waiting ones now.
type leaving struct {
	Trials []*evictView     `json:"trials"` // the TE job that was asked about
	Gangs  []evict.Claimant `json:"gangs"`  // or the gang; all of them where no job was named
}

// explainVictims shows which jobs would leave for a job, and why others stay; without a job, which small jobs would leave for gangs.
func explainVictims(c *cli.Context) error {
	n, err := most(c)
	if err != nil {
		return err
	}
	name, err := optionalJob(c)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	v := leaving{Trials: []*evictView{}, Gangs: []evict.Claimant{}}
	if name != nil {
		err = v.ofJob(c, cfg, *name)
	} else {
		v.Gangs, err = gangVictims(c, cfg)
	}
	if err != nil {
		return err
	}
	return answer(c, v, func(w io.Writer) {
		for _, t := range v.Trials {
			t.show(w, n)
		}
		if len(v.Trials) == 0 {
			showGangs(w, v.Gangs, n)
		}
	})
}

// ofJob looks at a job that waits as a TE job or as a gang.
func (v *leaving) ofJob(c *cli.Context, cfg *config.Config, name slurmplug.JobName) error {
	id, err := view.Find(c.Context, cfg, nil, name)
	if err != nil {
		return err
	}
	trial, err := trialVictims(c, cfg, id)
	if err != nil {
		return err
	}
	if trial != nil {
		v.Trials = append(v.Trials, trial)
		return nil
	}
	gangs, err := gangVictims(c, cfg)
	if err != nil {
		return err
	}
	for _, g := range gangs {
		if isJob(g.Job, id) {
			v.Gangs = append(v.Gangs, g)
		}
	}
	switch {
	case len(v.Gangs) > 0:
		return nil
	case !mayEvict(cfg):
		return usagef("preemption.policy %q evicts no job", cfg.Preemption.Policy)
	}
	return fmt.Errorf("job %s waits neither as a TE job nor as a gang for which enough GPUs are free (priod explain %s says what it counts as)", name, name)
}

// mayEvict reports whether the configured policy evicts jobs at all.
func mayEvict(cfg *config.Config) bool {
	return slices.Contains([]preemption.Policy{preemption.LeastLoss, preemption.FitGpp}, preemption.Policy(cfg.Preemption.Policy))
}

// isJob reports whether a job is the one that was named; an array without a task names all of them.
func isJob(id, named cluster.JobID) bool { return id == named || id.ID == named.ID && named.Task < 0 }

// gangVictims are the small jobs that would move for gangs that wait though enough GPUs are free.
func gangVictims(c *cli.Context, cfg *config.Config) ([]evict.Claimant, error) {
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
	choice := evict.Choose(evict.ForGang, evict.Question{
		Snapshot: &result.Snapshot, Nodes: nodes, Holders: evict.FindHolders(&result.Snapshot, nodes, journal, &set), Plan: &result.Plan,
		Journal: journal, Settings: &set, Fragmented: waits,
	})
	return append([]evict.Claimant{}, choice.Claimants...), nil
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

func showGangs(w io.Writer, all []evict.Claimant, most int) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No job waits although enough GPUs are free.")
		return
	}
	left := max(len(all)-most, 0)
	for _, f := range all[:len(all)-left] {
		fmt.Fprintf(w, "Job %s of %s, %s (%d are free): %s.\n", f.Job, report.Safe(f.User), report.Plural(f.GPUs, "GPU", "GPUs"), f.Free, evict.Text(evict.ForGang, f.Why))
		if len(f.Victims) == 0 {
			continue
		}
		fmt.Fprintf(w, "It would lie on %s within %s; %.0f GPU-seconds of work would be lost, and its GPUs have waited %.0f for nodes of its shape.\n",
			strings.Join(f.Nodes, ","), report.Ago(time.Duration(f.WaitS*float64(time.Second))), f.Cost, float64(f.GPUs)*f.Waited)
		tabulate(w, []string{"LEAVES", "USER", "GPUS", "NODE", "COST"}, f.Victims, func(v *evict.Running) []any {
			return []any{v.Job.String(), v.User, v.GPUs, v.Node, fmt.Sprintf("%.0f", v.Cost)}
		})
	}
	if left > 0 {
		fmt.Fprintf(w, "%s not shown; --most shows more.\n", report.Plural(left, "job", "jobs"))
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
	Others  []evict.Running `json:"others"` // all jobs that hold GPUs, with why they stay
}

// trialVictims are those that the configured policy chooses for a TE job, even while preemption is off; nil: it does not wait as one.
func trialVictims(c *cli.Context, cfg *config.Config, id cluster.JobID) (*evictView, error) {
	if !mayEvict(cfg) {
		return nil, nil
	}
	set := cfg.Eviction()
	v := &evictView{Job: id, Enabled: set.Enabled, Policy: cfg.Preemption.Policy, Victims: []cluster.JobID{}, Others: []evict.Running{}}
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
	choice := result.Room.Of(evict.ForTrial)
	if choice == nil { // no TE job waits
		return nil, nil
	}
	at := slices.IndexFunc(choice.Claimants, func(x evict.Claimant) bool { return isJob(x.Job, id) })
	if at < 0 {
		return nil, nil
	}
	x := &choice.Claimants[at]
	v.Why, v.Words, v.Cost, v.WaitS = x.Why, evict.Text(evict.ForTrial, x.Why), x.Cost, x.WaitS
	v.Victims = append(v.Victims, x.Leaving()...)
	v.Others = append(v.Others, choice.Refusals(x)...)
	return v, nil
}

func (v *evictView) show(w io.Writer, most int) {
	fmt.Fprintf(w, "Job %s: %s.\n", v.Job, v.Words)
	if len(v.Victims) > 0 {
		fmt.Fprintf(w, "%s would leave within %s.\n", report.Plural(len(v.Victims), "job", "jobs"), report.Ago(time.Duration(v.WaitS*float64(time.Second))))
	}
	if !v.Enabled {
		fmt.Fprintln(w, "Preemption is off (preemption.enabled): nothing happens.")
	}
	rows := [][]any{}
	for _, victims := range []bool{true, false} {
		for _, o := range v.Others {
			if (o.Why == preemption.Victim) == victims {
				rows = append(rows, []any{o.Job.String(), o.User, o.GPUs, fmt.Sprintf("%.0f", o.Cost), string(o.Why), evict.Text(evict.ForTrial, o.Why)})
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	left := max(len(rows)-most, 0)
	report.Table(w, []string{"JOB", "USER", "GPUS", "COST", "WHY", "IN WORDS"}, rows[:len(rows)-left])
	if left > 0 {
		fmt.Fprintf(w, "%s not shown; --most shows more.\n", report.Plural(left, "job", "jobs"))
	}
}
