package view

import (
	"fmt"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// When is when a waiting job is expected to start: the one answer that explain, eta, the queue and the pages give, each in
// words of its own length.
type When struct {
	Now  bool                 // it fits, and no job ahead of it is planned to start there first
	Room time.Time            // others leave for it, and the last one is to have left by then; zero: none leaves
	Plan *store.ExpectedStart // nil: no plan reaches it
}

// soonAfter is how long Slurm's next pass may take.
const soonAfter = time.Minute

// whenOf is when a job starts that waits for a cause, as planned; room is that of When.
func whenOf(s *store.ExpectedStart, cause plan.Cause, room time.Time) When {
	w := When{Room: room, Plan: s}
	fits := cause == plan.Starting || cause == "" && s != nil // why it waits may not be known
	w.Now = room.IsZero() && fits && (s == nil || w.at().Sub(cluster.Later(s.Planned, s.Now())) <= soonAfter)
	return w
}

// at is the planned time, by past runs where these tell.
func (w *When) at() time.Time {
	if w.Plan.Median.IsZero() {
		return w.Plan.At
	}
	return w.Plan.Median
}

// Times are by when half and nine of ten of such jobs start, and the time by limits alone; zero: not known.
func (w *When) Times() (median, p90, limits time.Time) {
	switch now := w.Plan.Now(); {
	case !w.Room.IsZero():
		return w.Room, w.Room, limits
	case w.Now:
		return now, now, limits
	case w.Plan != nil:
		return w.Plan.Median, w.Plan.P90, w.Plan.At
	}
	return median, p90, limits
}

// Known reports whether there is any time.
func (w *When) Known() bool { return w.Now || !w.Room.IsZero() || w.Plan != nil }

// Words say when it starts; "": not known.
func (w *When) Words() string {
	s := w.Plan
	switch {
	case !w.Room.IsZero():
		return fmt.Sprintf("about %s, once the last victim has left", report.Clock(w.Room))
	case w.Now:
		return "now"
	case s == nil:
		return ""
	}
	in := func(t time.Time) string { return report.Ago(max(t.Sub(s.Now()), time.Minute).Round(time.Minute)) }
	text := fmt.Sprintf("within %s by time limits, as planned at %s: sooner if jobs end before their time limits, as most do; later if others come ahead of it", in(s.At), report.Clock(s.Planned))
	if !s.Median.IsZero() {
		text = fmt.Sprintf("in about %s, nine of ten within %s (by time limits within %s)", in(s.Median), in(s.P90), in(s.At))
	}
	if moved := Moved(s); moved != "" {
		text += "; " + moved
	}
	return text
}

// Short is the times by which half and nine of ten of such jobs start, for tables; "-": not known.
func (w *When) Short() string {
	in := func(t time.Time) string { // in minutes
		return strings.TrimSuffix(report.Ago(max(t.Sub(w.Plan.Now()), time.Minute).Round(time.Minute)), "00s")
	}
	median, p90, limits := w.Times()
	switch {
	case w.Now:
		return "now"
	case median.IsZero() && limits.IsZero():
		return "-"
	case median.IsZero():
		return "< " + in(limits)
	case in(median) == in(p90):
		return in(median)
	}
	return in(median) + "-" + in(p90)
}

// Moved says that an expected start has moved to and fro while the job waited, by more than what is left and ten minutes; "": it has not.
func Moved(s *store.ExpectedStart) string {
	if s.Least.IsZero() || s.Median.IsZero() || s.Most.Sub(s.Least) <= max(10*time.Minute, s.Median.Sub(s.Now())) {
		return ""
	}
	return fmt.Sprintf("earlier estimates: between %s and %s", TimeOfDay(s.Least), TimeOfDay(s.Most))
}

// TimeOfDay is a time of day, with its date where that is not today's.
func TimeOfDay(at time.Time) string {
	at = at.Local()
	if y, m, d := at.Date(); y == time.Now().Year() && m == time.Now().Month() && d == time.Now().Day() {
		return at.Format("15:04")
	}
	return at.Format("2006-01-02 15:04")
}
