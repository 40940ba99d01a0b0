package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

const mostEvents = 60 // in a job's history

// Event is one thing in a job's history.
type Event struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"` // zero: it took no time
	Kind  string    `json:"kind"`           // waited, ran, left, room (others left for it), wrote
	Words string    `json:"words"`
	Class string    `json:"class,omitempty"` // of what ran: te or be
}

// JobPage is the page of one job: its explanation, without what Slurm says now, and its history.
type JobPage struct {
	*Explanation
	Alternatives *[]Alternative `json:"alternatives,omitempty"` // what would come of another request; nil: that is not asked

	Name    string `json:"-"`
	Trouble string `json:"-"` // why the alternatives are not known
}

// Answer are the lines that say why, when and what helps.
func (v *JobPage) Answer() []Line { return v.lines(true) }

// Details are the other lines.
func (v *JobPage) Details() []Line { return v.lines(false) }

func (v *JobPage) lines(answer bool) []Line {
	return slices.DeleteFunc(v.Lines(true), func(l Line) bool { return slices.Contains([]string{"Why", "Start", "Advice"}, l.Name) != answer })
}

// Pending reports whether it waits.
func (v *JobPage) Pending() bool { return v.waits() }

// Terms draw what its priority is made of; nil: priod does not rank it.
func (v *JobPage) Terms() *report.Figure {
	if v.Decision == nil || !v.Decision.Ranked || !v.waits() {
		return nil
	}
	return &report.Figure{Title: "Terms of its priority", YLabel: "priority", XLabel: "term", Bars: []report.Bar{{Name: "Slurm's own factors", Value: float64(v.Decision.Own)}, {Name: "priod", Value: float64(v.Decision.Value)}}}
}

// kinds of events in the order of their rows, with how they are drawn.
var kinds = []struct{ kind, label, drawn string }{
	{"waited", "waits", "waited"}, {"ran", "runs", "be"}, {"left", "evicted", "left"}, {"room", "room for it", "room"}, {"wrote", "priod wrote", "wrote"},
}

// Life draws the history as a line of time; nil: nothing is stored.
func (v *JobPage) Life() *report.Timeline {
	if len(v.History) == 0 {
		return nil
	}
	line := &report.Timeline{Title: "Its life", From: v.History[0].From.Unix(), Now: store.AsOf(v.Moment).Unix()}
	for _, e := range v.History {
		line.From, line.Until = min(line.From, e.From.Unix()), max(line.Until, e.From.Unix()+60, e.Until.Unix())
	}
	for _, k := range kinds {
		row := report.TimelineRow{Label: k.label, Bars: []report.TimelineBar{}}
		for _, e := range slices.Backward(v.History) {
			if e.Kind == k.kind {
				drawn := k.drawn
				if e.Class == cluster.TE.String() {
					drawn = "te"
				}
				row.Bars = append(row.Bars, report.TimelineBar{From: e.From.Unix(), Until: max(e.From.Unix(), e.Until.Unix()), Kind: drawn, Words: e.Words})
			}
		}
		if len(row.Bars) > 0 {
			line.Rows = append(line.Rows, row)
		}
	}
	return line
}

func (a *Asked) job(ctx context.Context) (shown, error) {
	name, err := slurmplug.ParseJobName(a.Values.Get("id"))
	if err != nil {
		return nil, Wrong{err}
	}
	v := &JobPage{Name: name.String()}
	all, err := ExplainStored(ctx, a.Config, a.Store, &a.Kept.times, []string{v.Name}, a.User)
	if err != nil {
		return nil, err
	}
	v.Explanation = all[0]
	if a.Values.Get("if") == "1" && v.waits() && a.Store.Moment().IsZero() {
		all, err := a.Kept.forecasts.alternatives(ctx, a.Config, a.Store, v.Name)
		if v.Alternatives = &all; err != nil {
			v.Trouble = err.Error()
		}
	}
	v.History, err = historyOf(ctx, a.Store, v.Job.ID, a.Last)
	return v, err
}

func (v *JobPage) only(string) {} // ExplainStored knows no job of others

// historyOf puts what is stored of a job in the order of time, the latest first.
func historyOf(ctx context.Context, r *store.Reader, id cluster.JobID, last *store.Cycle) ([]Event, error) {
	story, err := r.Job(ctx, id, mostEvents)
	if err != nil {
		return nil, err
	}
	waits, err := r.WaitsOf(ctx, id, story.Job.FirstSubmit, last.Until, mostEvents)
	if err != nil {
		return nil, err
	}
	left, err := r.EvictionsOf(ctx, id, mostEvents)
	if err != nil {
		return nil, err
	}
	events := []Event{}
	for _, w := range waits {
		for i := range w.Spans {
			s := &w.Spans[i]
			words := cmp.Or(s.Words, string(s.Cause))
			if s.Words == plan.SummedUp {
				words = string(s.Cause) + ", " + words
			}
			events = append(events, Event{s.From, s.From.Add(w.Length(i)), "waited", words, ""})
		}
	}
	for i := range story.Stays {
		s := &story.Stays[i]
		events = append(events, Event{s.Start, s.End, "ran", fmt.Sprintf("on %s of type %s, as %s", report.Count(s.GPUs, "GPU"), cmp.Or(s.GPUType, "none"), s.Class), s.Class.String()})
	}
	for i := range story.Writes {
		x := &story.Writes[i]
		events = append(events, Event{x.At, time.Time{}, "wrote", fmt.Sprintf("%s %s -> %s (%s), %s", x.Field(), x.Before.Words(), x.After.Words(), x.Reason, x.Status), ""})
	}
	for i := range left {
		x := &left[i]
		kind, words := "left", fmt.Sprintf("evicted for %s, %s", x.For, x.State)
		if x.Victim != id {
			kind, words = "room", fmt.Sprintf("%s leaves for it, %s", x.Victim, x.State)
		}
		events = append(events, Event{x.Recorded, x.Left, kind, words, ""})
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.From.Compare(a.From) })
	return events[:min(len(events), mostEvents)], nil
}
