package report

import (
	"fmt"
	"time"
)

// Starts says when a waiting job is expected to start: by time limits, and where past runs tell, in half and in nine of ten cases.
func Starts(at, median, p90 time.Time) string {
	left := time.Until(at).Round(time.Minute)
	switch {
	case left <= time.Minute:
		return "fits now"
	case median.IsZero():
		return fmt.Sprintf("starts within %s by time limits", Ago(left))
	}
	in := func(t time.Time) string { return Ago(max(time.Until(t), time.Minute).Round(time.Minute)) }
	return fmt.Sprintf("starts in about %s, nine of ten within %s (by time limits within %s)", in(median), in(p90), Ago(left))
}

// ByTimeLimits says what such an expectation is worth.
func ByTimeLimits(planned time.Time) string {
	return fmt.Sprintf("as planned at %s: sooner where jobs end before their time limits, as most do; later where others come before it",
		planned.Local().Format(time.DateTime))
}
