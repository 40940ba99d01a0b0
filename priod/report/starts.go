package report

import (
	"fmt"
	"time"
)

// Starts says when a waiting job is expected to start.
func Starts(at time.Time) string {
	left := time.Until(at)
	if left <= time.Minute {
		return "about to start"
	}
	return fmt.Sprintf("in about %s (%s)", Ago(left), at.Local().Format(time.DateTime))
}

// ByTimeLimits says what such an expectation is worth.
func ByTimeLimits(planned time.Time) string {
	return fmt.Sprintf("planned at %s by the time limits of the jobs before it: sooner where they end early, later where others come before it",
		planned.Local().Format(time.DateTime))
}
