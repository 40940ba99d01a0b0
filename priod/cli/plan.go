package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

// planView is a plan as diff, run --once and run --dry-run show it.
type planView struct {
	At         time.Time       `json:"at"`
	Cluster    string          `json:"cluster"`
	Lever      slurmplug.Lever `json:"lever"`
	Step       int64           `json:"step"`
	BandLo     int64           `json:"band_lo"`
	BandHi     int64           `json:"band_hi"`
	Jobs       int             `json:"jobs"`
	Ranked     int             `json:"ranked"`
	TE         int             `json:"te"`
	Renumbered int             `json:"renumbered"`
	Hold       string          `json:"hold,omitempty"`
	Notes      []plan.Note     `json:"notes"`
	Writes     []writeView     `json:"writes"`
	Evictions  []leaveView     `json:"evictions"` // that this cycle begins
	Yields     []leaveView     `json:"yields"`    // that this cycle begins, or would were a round to end now
}

// leaveView is the jobs that leave for a job.
type leaveView struct {
	For     cluster.JobID   `json:"for"`
	Victims []cluster.JobID `json:"victims"`
	Cost    float64         `json:"cost_gpu_s"`
	WaitS   float64         `json:"wait_s"`
}

type writeView struct {
	plan.Outcome
	User  string        `json:"user"`
	Class cluster.Class `json:"class"`
	WaitS int64         `json:"wait_s"`
}

func viewPlan(r *cycle.Result) planView {
	p := &r.Plan
	v := planView{
		At: p.At, Cluster: r.Snapshot.Cluster, Lever: slurmplug.SiteFactor, Step: p.Band.Step, BandLo: p.Band.Lo, BandHi: p.Band.Hi,
		Jobs: len(r.Snapshot.Jobs), Renumbered: p.Renumbered, Hold: r.Hold,
		Notes: append([]plan.Note{}, p.Notes...), Writes: make([]writeView, len(p.Actions)), Evictions: []leaveView{}, Yields: []leaveView{},
	}
	for purpose, leave := range map[evict.Purpose]*[]leaveView{evict.ForTrial: &v.Evictions, evict.ForRound: &v.Yields} {
		choice := r.Room.Of(purpose)
		if choice == nil || choice.Changes.Empty() {
			continue
		}
		for i := range choice.Claimants {
			if x := &choice.Claimants[i]; x.Why == preemption.Evicts {
				*leave = append(*leave, leaveView{x.Job, x.Leaving(), x.Cost, x.WaitS})
			}
		}
	}
	decisions := make(map[cluster.JobID]*plan.Decision, len(p.Decisions))
	for i := range p.Decisions {
		d := &p.Decisions[i]
		decisions[d.Job] = d
		if d.Ranked {
			v.Ranked++
			if d.Class == cluster.TE {
				v.TE++
			}
		}
	}
	users := make(map[cluster.JobID]string, len(r.Snapshot.Jobs))
	for i := range r.Snapshot.Jobs {
		users[r.Snapshot.Jobs[i].ID] = r.Snapshot.Jobs[i].User
	}
	for i, a := range p.Actions {
		w := writeView{Outcome: plan.Outcome{Action: a}, User: users[a.Job]}
		if r.Outcomes != nil {
			w.Outcome = r.Outcomes[i]
		}
		if d := decisions[a.Job]; d != nil {
			w.Class = d.Class
			if !d.Since.IsZero() { // else it begins later
				w.WaitS = seconds(p.At.Sub(d.Since))
			}
		}
		v.Writes[i] = w
	}
	return v
}

// showPlan renders a plan that was carried out, or one that was not.
func showPlan(c *cli.Context, r *cycle.Result, done bool) error {
	v := viewPlan(r)
	return answer(c, v, func(w io.Writer) { v.show(w, done) })
}

func (v *planView) show(w io.Writer, done bool) {
	verb := "would be written"
	if v.Hold != "" {
		done = false
		fmt.Fprintln(w, "nothing is written:", report.Safe(v.Hold))
	}
	if done {
		verb = "written"
	}
	if len(v.Writes) == 0 {
		fmt.Fprintf(w, "%s, %d ranked, %d of them TE: the order is right, nothing to write.\n",
			report.Plural(v.Jobs, "job", "jobs"), v.Ranked, v.TE)
	} else {
		fmt.Fprintf(w, "%s, %d ranked, %d of them TE; %s %s:\n", report.Plural(v.Jobs, "job", "jobs"), v.Ranked, v.TE,
			report.Plural(len(v.Writes), "value", "values"), verb)
		header := []string{"JOB", "USER", "CLASS", "WAIT", "LEVER", "BEFORE", "AFTER", "WHY"}
		if done {
			header = append(header, "RESULT")
		}
		tabulate(w, header, v.Writes, func(x *writeView) []any {
			row := []any{view.Target(x.Action), x.User, x.Class.String(), report.Ago(time.Duration(x.WaitS) * time.Second),
				string(x.Lever), x.Before.Words(), x.After.Words(), x.Reason}
			if done {
				row = append(row, view.Result(x.Outcome))
			}
			return row
		})
	}
	leaves := "would leave"
	if done {
		leaves = "leave"
	}
	for _, x := range v.Evictions {
		fmt.Fprintf(w, "for TE job %s %s %s: %v (cost %.0f GPU-seconds).\n", x.For, report.Plural(len(x.Victims), "job", "jobs"), leaves, x.Victims, x.Cost)
	}
	ends := "were a round to end now"
	if done {
		ends = "at the end of the round"
	}
	for _, x := range v.Yields {
		fmt.Fprintf(w, "%s, for job %s %s %s: %v (%.0f GPU-seconds of work).\n", ends, x.For, report.Plural(len(x.Victims), "job", "jobs"), leaves, x.Victims, x.Cost)
	}
	for _, n := range v.Notes {
		fmt.Fprintln(w, "note:", report.Safe(n.Text))
	}
}
