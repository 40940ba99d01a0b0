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
)

// leaving are the jobs that would leave for waiting ones now.
type leaving struct {
	Trials []*evictView     `json:"trials"` // the TE job that was asked about
	Gangs  []evict.Claimant `json:"gangs"`  // or the gang; all of them where no job was named
}

// room is a cycle that decides, even while preemption is off, who leaves for whom, and writes nothing.
type room struct {
	cycle.Result
	journal *evict.Journal
	set     evict.Settings
}

func newRoom(c *cli.Context, cfg *config.Config) (r room, err error) {
	h, err := history(c.Context, cfg, newLogger(cfg, c.App.ErrWriter))
	if err != nil {
		return r, err
	}
	if r.journal, err = store.OpenEvictions(cfg.Journals()); err != nil {
		return r, err
	}
	r.set = cfg.Eviction()
	on, slurm := r.set, live.New(newClient(cfg))
	on.Enabled = mayEvict(cfg)
	r.Result, err = cycle.Step(c.Context, slurm, nil, h, cycle.Settings{
		Consent: cfg.ConsentRules(), Order: order.Feature{Settings: cfg.Decide()}, DryRun: true, Evictions: evict.Feature{Settings: on, Slurm: slurm, Journal: r.journal},
	})
	return r, err
}

// explainVictims shows which jobs would leave for a job, and why others stay; without a job, which small jobs would leave for gangs.
func explainVictims(c *cli.Context) error {
	n := c.Int("most")
	name, err := optionalJob(c)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	var id cluster.JobID
	if name != nil {
		if id, err = view.Find(c.Context, cfg, nil, *name); err != nil {
			return err
		}
	}
	r, err := newRoom(c, cfg)
	if err != nil {
		return err
	}
	v := leaving{Trials: []*evictView{}, Gangs: []evict.Claimant{}}
	if name != nil {
		v.Trials = r.trial(cfg, id)
	}
	if len(v.Trials) == 0 {
		waits, err := waitedFor(c.Context, cfg, r.Snapshot.At)
		if err != nil {
			return err
		}
		v.Gangs = append(v.Gangs, r.gangs(waits)...)
	}
	if name != nil {
		v.Gangs = slices.DeleteFunc(v.Gangs, func(g evict.Claimant) bool { return !isJob(g.Job, id) })
	}
	switch {
	case name == nil || len(v.Trials)+len(v.Gangs) > 0:
	case !mayEvict(cfg):
		return usagef("preemption.policy %q evicts no job", cfg.Preemption.Policy)
	default:
		return fmt.Errorf("job %s waits neither as a TE job nor as a gang for which enough GPUs are free (priod explain %s says what it counts as)", *name, *name)
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

// mayEvict reports whether the configured policy evicts jobs at all.
func mayEvict(cfg *config.Config) bool {
	return slices.Contains([]preemption.Policy{preemption.LeastLoss, preemption.FitGpp}, preemption.Policy(cfg.Preemption.Policy))
}

// isJob reports whether a job is the one that was named; an array without a task names all of them.
func isJob(id, named cluster.JobID) bool { return id == named || id.ID == named.ID && named.Task < 0 }

// gangs are those that wait though enough GPUs are free, with the small jobs that would move for them.
func (r *room) gangs(waits func(cluster.JobID) time.Duration) []evict.Claimant {
	nodes := nodemap.New(&r.Snapshot)
	return evict.Choose(evict.ForGang, evict.Question{
		Snapshot: &r.Snapshot, Nodes: nodes, Holders: evict.FindHolders(&r.Snapshot, nodes, r.journal, &r.set), Plan: &r.Plan,
		Journal: r.journal, Settings: &r.set, Fragmented: waits,
	}).Claimants
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

// trial is a TE job with those that the configured policy chooses for it; none: it does not wait as one.
func (r *room) trial(cfg *config.Config, id cluster.JobID) []*evictView {
	choice := r.Room.Of(evict.ForTrial)
	if choice == nil { // no TE job waits
		return []*evictView{}
	}
	at := slices.IndexFunc(choice.Claimants, func(x evict.Claimant) bool { return isJob(x.Job, id) })
	if at < 0 {
		return []*evictView{}
	}
	x := &choice.Claimants[at]
	return []*evictView{{
		Job: id, Enabled: r.set.Enabled, Policy: cfg.Preemption.Policy, Why: x.Why, Words: evict.Text(evict.ForTrial, x.Why), Cost: x.Cost, WaitS: x.WaitS,
		Victims: append([]cluster.JobID{}, x.Leaving()...), Others: append([]evict.Running{}, choice.Refusals(x)...),
	}}
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
