package report

import (
	"fmt"

	"slurmprio/priod/store"
)

// ValueWords sum up what priod brought in a sentence, with its doubt.
func ValueWords(v *store.Value) string {
	saved := 100 * v.Completion.Saved()
	doubt := "too few jobs for an interval"
	if v.Low != nil && v.High != nil {
		doubt = fmt.Sprintf("95 %%: %.0f to %.0f %%", 100**v.Low, 100**v.High)
	}
	if saved < 0 {
		return fmt.Sprintf("with priod jobs complete %.0f %% later in the mean than without (%s)", -saved, doubt)
	}
	return fmt.Sprintf("with priod jobs complete %.0f %% sooner in the mean than without (%s)", saved, doubt)
}
