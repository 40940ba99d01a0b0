package view

import (
	"fmt"
	"strings"
	"time"

	"slurmprio/priod/report"
	"slurmprio/priod/retry"
)

// Failures is why jobs failed, and what was done about it.
type Failures struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`

	Count    int     `json:"failures"`
	GPUHours float64 `json:"gpu_h"`    // of the runs that failed
	Requeued int     `json:"requeued"` // back into the queue
	Held     int     `json:"held"`     // the same, held

	ByClass  []FailuresOf    `json:"by_class"`
	ByUser   []FailuresOf    `json:"by_user"`
	Latest   []retry.Failure `json:"latest"` // of each job the last one, the latest first
	Suspects []retry.Suspect `json:"suspects"`
	Drained  []retry.Drained `json:"drained"`

	Notes []string `json:"-"` // what the figures lack
}

// FailuresOf are those of one class or one user.
type FailuresOf struct {
	Name     string   `json:"name"`
	Text     string   `json:"text,omitempty"` // what the class means
	Count    int      `json:"failures"`
	Jobs     int      `json:"jobs"`
	Users    int      `json:"users"`
	GPUHours float64  `json:"gpu_h"`
	P50      *float64 `json:"ran_p50_s"` // until it failed
	P90      *float64 `json:"ran_p90_s"`
	Repeats  int      `json:"repeats"` // the same signature of the same job again
	Requeued int      `json:"requeued"`
}

// OfFailures sums up the failures of a span of time. nodes is how many nodes there are.
func OfFailures(since, until time.Time, t *retry.Changes, set *retry.Settings, nodes int) *Failures {
	f := &Failures{Since: since, Until: until, Count: len(t.Failures), Drained: append([]retry.Drained{}, t.Drained...), Latest: []retry.Failure{}}
	class, user := map[string][]*retry.Failure{}, map[string][]*retry.Failure{}
	last := map[string]bool{}
	for i := len(t.Failures) - 1; i >= 0; i-- {
		x := &t.Failures[i]
		class[x.Class], user[x.User] = append(class[x.Class], x), append(user[x.User], x)
		f.GPUHours += gpuHours(x)
		if !x.Requeued.IsZero() {
			f.Requeued++
			if x.Do == retry.Hold {
				f.Held++
			}
		}
		if key := x.Job.String() + " " + x.User; !last[key] {
			last[key], f.Latest = true, append(f.Latest, *x)
		}
	}
	f.ByClass, f.ByUser = failuresOf(class), failuresOf(user)
	for i := range f.ByClass {
		if c := set.Rules.Classes[f.ByClass[i].Name]; c != nil {
			f.ByClass[i].Text = c.Text
		}
	}
	f.Suspects = append([]retry.Suspect{}, retry.Suspects(set, t.Failures, t.Drained, nodes, until)...)
	return f
}

func gpuHours(x *retry.Failure) float64 { return x.End.Sub(x.Start).Hours() * float64(x.GPUs) }

func failuresOf(groups map[string][]*retry.Failure) []FailuresOf {
	all := map[string]*FailuresOf{}
	for name, failures := range groups {
		o := groupOf(all, name, FailuresOf{Name: name, Count: len(failures)})
		jobs, users, seen := map[string]bool{}, map[string]bool{}, map[string]bool{}
		var ran []float64
		for _, x := range failures {
			jobs[x.Job.String()], users[x.User] = true, true
			seen[x.Job.String()+" "+x.User+" "+x.Signature] = true
			o.GPUHours += gpuHours(x)
			ran = append(ran, x.End.Sub(x.Start).Seconds())
			if !x.Requeued.IsZero() {
				o.Requeued++
			}
		}
		o.Jobs, o.Users, o.Repeats = len(jobs), len(users), o.Count-len(seen)
		o.P50, o.P90 = percentile(ran, 50), percentile(ran, 90)
	}
	return ranked(all, func(x *FailuresOf) float64 { return x.GPUHours })
}

// DoneAbout says what became of a job that failed.
func DoneAbout(x *retry.Failure) string {
	text := map[retry.Do]string{
		retry.Elsewhere: "requeued, on other nodes", retry.Later: "requeued", retry.Hold: "put back, held until scontrol release " + x.Job.String(), retry.Nothing: "nothing",
	}[x.Do]
	switch {
	case x.State == retry.Delayed:
		text = "to be requeued"
	case x.Do != retry.Nothing && x.Requeued.IsZero() && x.State != retry.Requeued:
		text = "not requeued"
	}
	if x.Why != retry.ByClass || x.Do == retry.Nothing { // else nothing needs to be said
		text += ": " + x.Why.Words()
	}
	if x.Exclude != "" {
		text += "; refuses " + x.Exclude
	}
	return text
}

// Page shows them with a plot.
func (f *Failures) Page() *report.Page {
	p := &report.Page{Title: "Why jobs failed", Tables: f.tables(), Notes: f.Notes, Words: []string{fmt.Sprintf("%s: %s, %.2f GPU-hours; %d requeued, %d of them held.", report.Between(f.Since, f.Until),
		report.Count(f.Count, "failure"), f.GPUHours, f.Requeued, f.Held)}}
	for _, d := range f.Drained {
		p.Notes = append(p.Notes, fmt.Sprintf("Drained: %s for %s at %s.", d.Node, d.Class, report.Clock(d.At)))
	}
	bars := report.Figure{Title: "GPU-hours of the runs that failed, by class", YLabel: "GPU-hours"}
	for _, c := range f.ByClass[:min(len(f.ByClass), mostBars)] {
		bars.Bars = append(bars.Bars, report.Bar{Name: c.Name, Value: c.GPUHours})
	}
	p.Plot(bars)
	return p
}

// mostBars is how many bars one plot has at most: more names would not be read.
const mostBars = 20

func (f *Failures) tables() []report.PageTable {
	sums := func(title string, all []FailuresOf) report.PageTable {
		return report.TableOf("", []string{title, "FAILURES", "JOBS", "USERS", "GPU-HOURS", "RAN P50", "P90", "THE SAME AGAIN", "REQUEUED", ""}, all, func(x *FailuresOf) []any {
			return []any{x.Name, x.Count, x.Jobs, x.Users, fmt.Sprintf("%.2f", x.GPUHours), report.Known(x.P50, report.Seconds), report.Known(x.P90, report.Seconds), x.Repeats, x.Requeued, x.Text}
		})
	}
	return []report.PageTable{
		sums("CLASS", f.ByClass), sums("USER", f.ByUser),
		report.TableOf("", []string{"JOB", "USER", "ENDED", "NODES", "CLASS", "THEN", "ADVICE"}, f.Latest, func(x *retry.Failure) []any {
			return []any{x.Job.String(), x.User, report.Clock(x.End), strings.Join(x.Nodes, ","), x.Class, DoneAbout(x), x.Advice}
		}),
		report.TableOf("Suspect nodes: jobs of several users failed alike there, and less elsewhere", []string{"NODE", "CLASS", "FAILURES", "USERS"}, f.Suspects, func(s *retry.Suspect) []any {
			return []any{s.Node, s.Class, s.Failures, strings.Join(s.Users, ",")}
		}),
	}
}
