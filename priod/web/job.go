package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

const mostEvents = 60 // in a job's history

// Line is a line of an explanation: a name, "" where the last one continues, and a sentence.
type Line struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Alternative is what is expected of a job that asked for something else. The first of several is the job as it is. Times are s
// from now; null: not known.
type Alternative struct {
	Change  string `json:"change"` // "": none
	Try     string `json:"try,omitempty"`
	StartS  *int64 `json:"start_s"`
	P90S    *int64 `json:"start_p90_s"`
	EndS    *int64 `json:"end_s"`
	LimitsS *int64 `json:"start_by_limits_s,omitempty"` // where too few past jobs are known: by time limits alone
	Sooner  bool   `json:"sooner"`                      // it starts sooner than the job as it is, by more than a minute and a tenth
}

// In is a time from now in words; "": not known.
func (Alternative) In(s *int64) string {
	if s == nil {
		return ""
	}
	return report.Ago(time.Duration(*s) * time.Second)
}

// Event is one thing in a job's history.
type Event struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"` // zero: it took no time
	Kind  string    `json:"kind"`           // waited, ran, left, room (others left for it), wrote
	Words string    `json:"words"`
	Class string    `json:"class,omitempty"` // of what ran: te or be
}

// Explained is the page of one job.
type Explained struct {
	Name    string
	Answer  []Line // why, when, what helps
	Lines   []Line
	History []Event // the latest first
	Data    any     // as priod explain --json has it, without what Slurm says now

	Waits        bool
	Alternatives []Alternative // asked for with if=1
	Asked        bool          // that was asked for
	Trouble      string        // why they are not known

	terms *store.Decision
}

// MarshalJSON gives Data, and the history beside it.
func (v *Explained) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(v.Data)
	if err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	if all["history"], err = json.Marshal(v.History); err != nil {
		return nil, err
	}
	if v.Asked {
		if all["alternatives"], err = json.Marshal(v.Alternatives); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// Terms draws what its priority is made of; "": priod does not rank it.
func (v *Explained) Terms() (template.HTML, error) {
	if v.terms == nil || !v.terms.Ranked || !v.Waits {
		return "", nil
	}
	f := report.Figure{Title: "Terms of its priority", YLabel: "priority", XLabel: "term", Bars: []report.Bar{{Name: "Slurm's own factors", Value: float64(v.terms.Own)}, {Name: "priod", Value: float64(v.terms.Value)}}}
	return f.HTML()
}

// kinds of events in the order of their rows, with how they are drawn.
var kinds = []struct{ kind, label, drawn string }{
	{"waited", "waits", "waited"}, {"ran", "runs", "be"}, {"left", "evicted", "left"}, {"room", "room for it", "room"}, {"wrote", "priod wrote", "wrote"},
}

// Life draws the history as a line of time; "": nothing is stored.
func (v *Explained) Life() (template.HTML, error) {
	if len(v.History) == 0 {
		return "", nil
	}
	line := report.Timeline{Title: "Its life", From: v.History[0].From.Unix(), Now: time.Now().Unix()}
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
	return line.HTML()
}

func (p *Pages) job(ctx context.Context, r *store.Reader, last *store.Cycle, asked url.Values) (shown, error) {
	name, err := slurmplug.ParseJobName(asked.Get("id"))
	if err != nil {
		return nil, usage{err}
	}
	v := &Explained{Name: name.String()}
	if v.Data, v.Lines, err = p.Explain(ctx, r, v.Name, viewer(ctx)); err != nil {
		return nil, err
	}
	isAnswer := func(l Line) bool { return slices.Contains([]string{"Why", "Start", "Advice"}, l.Name) }
	for _, l := range v.Lines {
		if isAnswer(l) {
			v.Answer = append(v.Answer, l)
		}
	}
	v.Lines = slices.DeleteFunc(v.Lines, isAnswer)
	id := name.Job
	if name.Offset >= 0 {
		if id, err = r.Component(ctx, id.ID, name.Offset); err != nil {
			return nil, err
		}
	}
	story, err := r.Job(ctx, id, mostEvents)
	if err != nil {
		return nil, err
	}
	v.terms, v.Waits = story.Decision, story.Job.Left.IsZero() && story.Job.State == cluster.Pending.String()
	if v.Asked = asked.Get("if") == "1" && v.Waits && p.Alternatives != nil; v.Asked {
		if v.Alternatives, err = p.Alternatives(ctx, r, v.Name); err != nil {
			v.Trouble = err.Error()
		}
	}
	v.History, err = historyOf(ctx, r, id, &story, last)
	return v, err
}

// historyOf puts what is stored of a job in the order of time, the latest first.
func historyOf(ctx context.Context, r *store.Reader, id cluster.JobID, story *store.Story, last *store.Cycle) ([]Event, error) {
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
		events = append(events, Event{s.Start, s.End, "ran", fmt.Sprintf("on %s of type %s, as %s", counted(s.GPUs, "GPU"), cmp.Or(s.GPUType, "none"), s.Class), s.Class.String()})
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
