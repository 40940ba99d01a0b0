package simulate

import (
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
)

// On the side of a recording on which priod does not run, no feature plans anything: a page would show it, and it takes a third of the time.
func TestWatchingPlansNothing(t *testing.T) {
	c, err := config.Load("/dev/null", "profile=balanced", "sizing.enabled=true", "locality.enabled=true", "locality.slow_nodes=true")
	if err != nil {
		t.Fatal(err)
	}
	with, without := daemonOf(c, nil, cycle.NewState(), false, true).Settings, idle(c, &Input{}, cycle.NewState()).Settings
	if !with.Steering.Settings.Enabled || !with.Evictions.Settings.Enabled || !with.Headroom.Settings.Enabled {
		t.Fatal("profile balanced has these on")
	}
	if s := &without; s.Steering.Settings.Enabled || s.Evictions.Settings.Enabled || s.Evictions.Settings.Defrag || s.Evictions.Settings.Rounds.Enabled || s.Headroom.Settings.Enabled ||
		s.Locality.Settings.Enabled || s.Refusals.Settings.Enabled || s.Windows.Settings.Enabled || s.Allocation.Ledger != nil || s.Waits.Tracker == nil || s.Hold != WithoutPriod {
		t.Errorf("%+v", s)
	}
}
