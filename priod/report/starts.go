package report

import (
	"fmt"
	"time"
)

// Starts says when a waiting job is expected to start.
func Starts(at time.Time) string {
	left := time.Until(at).Round(time.Minute)
	if left <= time.Minute {
		return "fits now"
	}
	return fmt.Sprintf("starts within %s by time limits", Ago(left))
}

// ByTimeLimits says what such an expectation is worth.
func ByTimeLimits(planned time.Time) string {
	return fmt.Sprintf("as planned at %s: sooner where jobs end before their time limits, as most do; later where others come before it",
		planned.Local().Format(time.DateTime))
}
