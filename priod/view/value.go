package view

import (
	"fmt"
	"math"

	"slurmprio/priod/store"
)

// ValueWords sum up what priod brought in a sentence, with its doubt.
func ValueWords(v *store.Value) string {
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
