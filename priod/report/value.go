package report

import (
	"fmt"
	"math"

	"slurmprio/priod/store"
)

// ValueWords sum up what priod brought in a sentence, with its doubt.
func ValueWords(v *store.Value) string {
	saved, how := v.Completion.Saved(), "sooner"
	if saved < 0 {
		how = "later"
	}
	doubt := "one replay"
	if v.Replays > 1 {
		doubt = fmt.Sprintf("%.0f to %.0f %% in %d replays", 100*v.Low, 100*v.High, v.Replays)
	}
	if math.Abs(saved) < 0.005 {
		return "with priod jobs complete as soon in the mean as without (" + doubt + ")"
	}
	return fmt.Sprintf("with priod jobs complete %.0f %% %s in the mean than without (%s)", 100*math.Abs(saved), how, doubt)
}
