package view

import (
	"fmt"
	"math"
	"time"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// valueWords sum up what priod brought in a sentence, with its doubt.
func valueWords(v *store.Value) string {
	saved := v.Completion.Saved()
	if math.Abs(saved) < 0.005 {
		return "mean completion is the same with priod as without (" + doubtOf(v) + ")"
	}
	return fmt.Sprintf("with priod jobs complete %s on average than without (%s)", ValueShort(v), doubtOf(v))
}

// ValueShort is the part of the mean completion time that priod saved.
func ValueShort(v *store.Value) string {
	saved := v.Completion.Saved()
	switch {
	case math.Abs(saved) < 0.005:
		return "as soon as without"
	case saved < 0:
		return fmt.Sprintf("%.0f %% later", -100*saved)
	}
	return fmt.Sprintf("%.0f %% sooner", 100*saved)
}

// ValueDoubt says what that rests on.
func ValueDoubt(v *store.Value) string {
	return fmt.Sprintf("mean completion against a replay without priod: %s, %d GPU jobs since %s", doubtOf(v), v.Jobs, v.Since.Local().Format("Jan 2"))
}

func doubtOf(v *store.Value) string {
	if v.Replays > 1 {
		return fmt.Sprintf("%.0f to %.0f %% in %d replays", 100*v.Low, 100*v.High, v.Replays)
	}
	return "one replay"
}

// Value is what priod brought.
type Value struct{ *store.Value }

// Page says first what priod brought, then to whom, then how sure that is.
func (v Value) Page() *report.Page {
	p := &report.Page{Title: "What priod brought", Words: []string{fmt.Sprintf("%s, %s: %s.", report.Between(v.Since, v.Until), report.Count(v.Jobs, "GPU job"), valueWords(v.Value))}}
	figures := report.TableOf("", []string{"", "HAPPENED", "WITHOUT PRIOD", "CHANGE"}, broughtBy(v.Value), func(b *Brought) []any { return []any{b.Name, b.With, b.Without, b.Change} })
	p.Tables = []report.PageTable{figures}
	for _, t := range []struct {
		title string
		users []store.ValueOwner
	}{{"GAINED MOST", v.Gained}, {"LOST MOST", v.Lost}} {
		p.Tables = append(p.Tables, report.TableOf("", []string{t.title, "JOBS", "WITH", "WITHOUT PRIOD", "CHANGE"}, t.users, func(u *store.ValueOwner) []any {
			return []any{u.User, u.Jobs, report.Seconds(u.With), report.Seconds(u.Without), change(u.ValueOf)}
		}))
	}
	p.Notes = []string{fmt.Sprintf("The replay with priod misses the mean completion that happened by %+.0f %%.", 100*v.Off), "priod was not paused for " + report.Ago(LeastPause) +
		" on end: the replay without priod cannot be checked against what happened.", "Users: mean completion in the two replays. Made at " + report.Clock(v.Made) + " in " + report.Seconds(v.TookS) + "."}
	if x := v.Paused; x != nil {
		p.Notes[1] = fmt.Sprintf("While priod was paused (%s to %s, %s): mean wait %s, in the replay without priod %s.", report.Clock(x.Since), report.Clock(x.Until), report.Count(x.Jobs, "job"),
			report.Seconds(x.Happened), report.Seconds(x.Replayed))
	}
	return p
}

// Brought is a figure with priod beside a replay without it.
type Brought struct{ Name, With, Without, Change string }

func broughtBy(v *store.Value) (all []Brought) {
	add := func(name string, x store.ValueOf, words func(float64) string) {
		all = append(all, Brought{name, words(x.With), words(x.Without), change(x)})
	}
	add("mean completion", v.Completion, report.Seconds)
	add("mean wait", v.Wait, report.Seconds)
	if v.TEWaitP95 != nil {
		add("TE wait p95", *v.TEWaitP95, report.Seconds)
	}
	add("GPU-hours held, lost work included", v.GPUHours, tenths)
	return all
}

// change is by what part a figure is another one with priod; "": there is nothing to change.
func change(x store.ValueOf) string {
	p := x.Saved()
	if math.IsNaN(p) {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", -math.Round(100*p)+0) // no minus before 0
}

// LeastPause is the shortest pause that says something of a replay.
const LeastPause = 6 * time.Hour
