package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

func queueCommand() *cli.Command {
	return &cli.Command{
		Name: "queue", Usage: "show GPUs by type, evictions under way, and pending jobs in scheduling order with class and reason",
		Description: "CLASS: te, be, or - where priod leaves the job alone. WHY: the reason in one word, which\n" +
			"priod explain JOBID spells out. SLURM SAYS: squeue's reason. WAITS FOR: what keeps it from starting.\n" +
			"Slurm is read for the order, each time with --watch; --stored shows that of the last cycle, at no cost for slurmctld.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "most", Aliases: []string{"n"}, Usage: "only the first `ROWS`; 0: all"},
			&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "only jobs of `USER`"},
			&cli.BoolFlag{Name: "stored", Usage: "do not ask Slurm: the order of the last cycle"},
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "refresh on a terminal until Ctrl-C"},
			everyFlag(), jsonFlag(),
		},
		Before: checked(noArgs, validEvery, func(c *cli.Context) error {
			if c.Bool("watch") && c.Bool("json") {
				return usagef("queue: --watch shows a screen, --json an object: give one of them")
			}
			if n := c.Int("most"); n < 0 {
				return usagef("queue: --most %d: want 0 (all) or more", n)
			}
			return nil
		}),
		Action: reading(func(c *cli.Context, cfg *config.Config, r *store.Reader) error {
			if !c.Bool("watch") {
				v, err := asQueue(c.Context, c, cfg, r)
				if err != nil {
					return err
				}
				return answer(c, v, v.show)
			}
			return onScreen(c, func(ctx context.Context, w io.Writer, _ int) error {
				v, err := asQueue(ctx, c, cfg, r)
				if err == nil {
					sure := howSure(ctx, cfg, r)
					sure.show(w)
					v.show(w)
				}
				return err
			})
		}),
	}
}

// asQueue is what the options ask for.
func asQueue(ctx context.Context, c *cli.Context, cfg *config.Config, r *store.Reader) (*queueView, error) {
	v, err := readQueue(ctx, cfg, r, c.Bool("stored"))
	if err != nil {
		return nil, err
	}
	if u := c.String("user"); u != "" {
		v.Jobs = slices.DeleteFunc(v.Jobs, func(q queued) bool { return q.User != u })
	}
	if n := c.Int("most"); n > 0 && n < len(v.Jobs) {
		v.left, v.Jobs = len(v.Jobs)-n, v.Jobs[:n]
	}
	return v, nil
}

// queueView is the queue: Slurm's present order, priod's decisions; and the GPUs that it waits for.
type queueView struct {
	Cluster   string            `json:"cluster"`
	At        time.Time         `json:"at"` // of the last cycle
	AgeS      int64             `json:"age_s"`
	Cycle     int64             `json:"cycle"`
	Hold      string            `json:"hold,omitempty"`
	Notes     []string          `json:"notes"`
	Running   int               `json:"running"`
	Types     []*report.TypeUse `json:"gpu_types"`
	Evictions []store.Eviction  `json:"evictions_under_way"`
	Pending   int               `json:"pending"`
	TE        int               `json:"te"`
	Jobs      []queued          `json:"jobs"`

	left int // jobs that --most leaves out
}

type queued struct {
	Place     int           `json:"place"`
	Job       cluster.JobID `json:"job"`
	Tasks     string        `json:"tasks,omitempty"`
	User      string        `json:"user"`
	Account   string        `json:"account"`
	Partition string        `json:"partition"`
	Class     string        `json:"class"`
	GPUs      int           `json:"gpus"`
	GPUType   string        `json:"gpu_type,omitempty"`
	Features  string        `json:"features,omitempty"` // its constraint, as priod may have written it
	Steer     string        `json:"steer,omitempty"`    // which GPU type it gets, or none, and why
	WaitS     int64         `json:"wait_s"`
	Priority  int64         `json:"priority"`
	Value     int64         `json:"value"`
	Why       string        `json:"why"`
	Detail    string        `json:"detail,omitempty"`
	Reason    string        `json:"slurm_reason"`
	Cause     plan.Cause    `json:"cause,omitempty"` // of its wait
	Words     string        `json:"words,omitempty"`

	Start *store.ExpectedStart `json:"expected_start,omitempty"`
}

// mostLeaving is how many evictions under way are shown.
const mostLeaving = 100

func readQueue(ctx context.Context, cfg *config.Config, r *store.Reader, stored bool) (*queueView, error) {
	last, err := r.LastCycle(ctx)
	if err != nil {
		return nil, err
	}
	known, err := r.Queue(ctx)
	if err != nil {
		return nil, err
	}
	waits, err := r.OpenWaits(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	v := &queueView{
		Cluster: last.Cluster, At: last.Until, AgeS: seconds(time.Since(last.Until)), Cycle: last.Number, Hold: store.HoldNow(cfg.Journals(), last.Hold),
		Notes: append([]string{}, last.Notes...), Running: last.Running, Types: report.ByType(nodes), Jobs: []queued{},
	}
	if v.Evictions, err = r.Evictions(ctx, mostLeaving); err != nil { // those under way come first
		return nil, err
	}
	v.Evictions = slices.DeleteFunc(v.Evictions, func(e store.Eviction) bool { return !e.Ended.IsZero() })
	var now map[cluster.JobID]*slurmplug.Job
	if !stored {
		now = liveQueue(ctx, cfg, v)
	}
	causes := make(map[cluster.JobID]*plan.WaitSpan, len(waits))
	for _, x := range waits {
		if n := len(x.Spans); n > 0 {
			causes[x.Job] = &x.Spans[n-1]
		}
	}
	for i := range known {
		v.add(&known[i], now, causes[known[i].Job.ID])
	}
	slices.SortStableFunc(v.Jobs, func(a, b queued) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Job.Compare(b.Job))
	})
	for i := range v.Jobs {
		v.Jobs[i].Place = i + 1
	}
	return v, nil
}

// liveQueue is Slurm's queue now; priorities move by themselves, so priod does
// not store them. When Slurm does not answer, the last known order is shown.
func liveQueue(ctx context.Context, cfg *config.Config, v *queueView) map[cluster.JobID]*slurmplug.Job {
	jobs, err := newClient(cfg).Jobs(ctx)
	if err != nil {
		v.Notes = append(v.Notes, "Slurm does not answer; order of the last cycle: "+err.Error())
		return nil
	}
	now := make(map[cluster.JobID]*slurmplug.Job, len(jobs))
	for i := range jobs {
		if jobs[i].Unread != "" {
			v.Notes = append(v.Notes, fmt.Sprintf("job %s is shown as in the last cycle, because its record cannot be read: %s", jobs[i].ID, jobs[i].Unread))
		}
		now[jobs[i].ID] = &jobs[i]
	}
	return now
}

func (v *queueView) add(k *store.Queued, now map[cluster.JobID]*slurmplug.Job, waits *plan.WaitSpan) {
	j := &k.Job
	q := queued{
		Job: j.ID, Tasks: j.Tasks, User: j.User, Account: j.Account, Partition: j.Partition, GPUs: j.GPUs, GPUType: j.GPUType,
		Features: j.Features, Priority: j.Priority, Reason: j.Reason, Start: k.Start,
	}
	if n := now[j.ID]; now != nil && (n == nil || n.Unread == "") {
		if n == nil || n.State != "PENDING" {
			return // it started or left since the last cycle
		}
		q.Priority, q.Reason, q.Tasks, q.Features = int64(n.Priority), n.Reason, n.Tasks, n.Features
	} else if j.State != cluster.Pending.String() {
		return
	}
	since := j.Eligible
	if d := k.Decision; d != nil {
		q.Class, q.Value, q.Why, q.Detail = d.Class.String(), d.Value, d.Why, cmp.Or(d.Unmoved, d.Detail)
		q.Steer = d.Steer
		if !d.Since.IsZero() {
			since = d.Since
		}
		if !d.Ranked {
			q.Class = "-"
		}
		if d.Ranked && d.Class == cluster.TE {
			v.TE++
		}
	}
	if !since.IsZero() {
		q.WaitS = max(seconds(time.Since(since)), 0)
	}
	if waits != nil {
		q.Cause, q.Words = waits.Cause, waits.Words
	}
	v.Pending++
	v.Jobs = append(v.Jobs, q)
}

func (v *queueView) show(w io.Writer) {
	fmt.Fprintf(w, "cluster %s: %s pending, %d of them TE; %d running; decided in cycle %d, %s ago\n", report.Safe(v.Cluster), plural(v.Pending, "job", "jobs"), v.TE,
		v.Running, v.Cycle, report.Ago(time.Duration(v.AgeS)*time.Second))
	showHold(w, v.Hold)
	fmt.Fprintln(w)
	tabulate(w, []string{"TYPE", "NODES", "GPUS", "IN USE", "FREE", "STRANDED", ""}, v.Types, func(t **report.TypeUse) []any {
		return []any{cmp.Or((*t).GPUType, "no type"), (*t).Nodes, (*t).GPUs, (*t).InUse, (*t).Free, (*t).Stranded, bar(*t)}
	})
	if len(v.Evictions) > 0 {
		fmt.Fprintln(w)
		tabulate(w, []string{"LEAVES", "USER", "GPUS", "NODES", "FOR", "USER", "STATE"}, v.Evictions, func(e *store.Eviction) []any {
			return []any{e.Victim, e.VictimUser, e.GPUs, e.Nodes, e.For, e.ForUser, report.Mark{Text: fmt.Sprint(e.State), Meaning: report.Note}}
		})
	}
	fmt.Fprintln(w)
	header := []string{"PLACE", "JOB", "USER", "ACCOUNT", "PARTITION", "CLASS", "GPUS", "WAIT", "STARTS", "PRIORITY", "WHY", "SLURM SAYS", "WAITS FOR", ""}
	tabulate(w, header, v.Jobs, func(q *queued) []any {
		gpus := fmt.Sprint(q.GPUs)
		if q.GPUType != "" {
			gpus += " " + q.GPUType
		}
		if q.Steer != "" && q.Features != "" {
			gpus += " " + q.Features
		}
		return []any{q.Place, slurmplug.Update{Job: q.Job, Tasks: q.Tasks}.Target(), q.User, q.Account, q.Partition, classMark(q.Class), gpus,
			report.Ago(time.Duration(q.WaitS) * time.Second), report.StartsShort(q.Start), q.Priority, q.Why, q.Reason, q.Cause, q.Words}
	})
	if v.left > 0 {
		fmt.Fprintf(w, "and %d more\n", v.left)
	}
	for _, n := range v.Notes {
		fmt.Fprintln(w, "note:", report.Safe(n))
	}
}

// bar shows in 20 places what part of a type's GPUs is in use and what part is stranded.
func bar(t *report.TypeUse) report.Marks {
	parts := t.Parts()
	used, stranded := parts[0]/5, parts[2]/5
	return report.Marks{{Text: strings.Repeat("#", used), Meaning: report.Good}, {Text: strings.Repeat("x", stranded), Meaning: report.Bad}, {Text: strings.Repeat(".", 20-used-stranded)}}
}

func classMark(class string) any {
	if class == cluster.TE.String() {
		return report.Mark{Text: class, Meaning: report.TE}
	}
	return class
}

func showHold(w io.Writer, hold string) {
	if hold != "" {
		fmt.Fprintln(w, report.Mark{Text: "nothing is written: " + hold, Meaning: report.Bad})
	}
}
