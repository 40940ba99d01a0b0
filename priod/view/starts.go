package view

import (
	"fmt"
	"strings"
	"time"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Starts says when a waiting job is expected to start: by time limits, and where past runs tell, in half and in nine of ten cases.
func Starts(at, median, p90 time.Time) string {
	left := time.Until(at).Round(time.Minute)
	switch {
	case left <= time.Minute:
		return "now"
	case median.IsZero():
		return fmt.Sprintf("within %s by time limits", report.Ago(left))
	}
	in := func(t time.Time) string { return report.Ago(max(time.Until(t), time.Minute).Round(time.Minute)) }
	return fmt.Sprintf("in about %s, nine of ten within %s (by time limits within %s)", in(median), in(p90), report.Ago(left))
}

// StartsShort is the times by which half and nine of ten of such jobs start, for tables; "-": not known.
func StartsShort(s *store.ExpectedStart) string {
	switch {
	case s == nil:
		return "-"
	case time.Until(s.At) <= 90*time.Second:
		return "now"
	case s.Median.IsZero():
		return "< " + minutes(time.Until(s.At))
	}
	in := func(t time.Time) string { return minutes(max(time.Until(t), time.Minute)) }
	if in(s.Median) == in(s.P90) {
		return in(s.Median)
	}
	return in(s.Median) + "-" + in(s.P90)
}

// minutes is a time rounded to minutes.
func minutes(d time.Duration) string {
	return strings.TrimSuffix(report.Ago(d.Round(time.Minute)), "00s")
}

// ByTimeLimits says what such an expectation is worth.
func ByTimeLimits(planned time.Time) string {
	return fmt.Sprintf("as planned at %s: sooner if jobs end before their time limits, as most do; later if others come ahead of it",
		planned.Local().Format(time.DateTime))
}

// Moved says that an expected start has moved to and fro while the job waited, by more than what is left and ten minutes; "": it has not.
func Moved(s *store.ExpectedStart) string {
	if s.Least.IsZero() || s.Median.IsZero() || s.Most.Sub(s.Least) <= max(10*time.Minute, time.Until(s.Median)) {
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
