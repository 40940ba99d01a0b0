package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/trial"
)

// TestTrialLeavesBlocksOut: of a trial each block is left out in which priod was started or another host took over, no cycle ended,
// priod.toml changed, priod was paused or nodes were in maintenance, and it is said why; a bound that cannot be looked at ends nothing.
func TestTrialLeavesBlocksOut(t *testing.T) {
	begin := time.Now().Truncate(time.Second)
	for _, shared := range []bool{false, true} {
		d, log := newDaemon(t, &fake{})
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.Config.State.Dir = t.TempDir()
		started := "priod was started"
		if shared {
			d.Config.State.Shared, started = t.TempDir(), "priod was started, or another host took over"
		}
		x := &trial.Trial{Settings: trial.Settings{Block: 12 * time.Hour, Length: 14 * 24 * time.Hour, Seed: 1, Bounds: trial.Bounds{TEWaitP95: time.Minute}}, Start: begin}
		if err := store.SaveTrial(d.Config.Journals(), x); err != nil {
			t.Fatal(err)
		}
		at := func(hours float64) time.Time { return begin.Add(time.Duration(hours * float64(time.Hour))) }
		cycled := func(hours float64, hold string, windows ...cluster.Window) {
			off, notes := d.trial(at(hours), hold)
			if off != x.Off(at(hours)) || len(notes) != 1 || notes[0].Kind != plan.TrialBlock {
				t.Errorf("after %v h: off %v, %+v", hours, off, notes)
			}
			d.tried(&cycle.Result{Snapshot: cluster.Snapshot{At: at(hours), Windows: windows}})
		}
		d.trying.begun, d.trying.last = true, at(13)
		cycled(37, "") // blocks 2 to 4
		cycled(37.1, "")
		d.Reload = func() (*config.Config, error) { return d.Config, nil }
		d.trying.last = at(49)
		d.reload()
		cycled(49, "")
		d.trying.last = at(61)
		cycled(61, "paused by ann")
		d.trying.last = at(73)
		cycled(73, store.OwnPause("too many errors").String())
		d.trying.last = at(85)
		for _, hours := range []float64{85, 85.05, 85.1, 85.15, 85.2, 85.25} { // cycles that fail
			d.trial(at(hours), "")
		}
		d.trying.last = at(97)
		cycled(97, "", cluster.Window{Start: at(98), End: at(99), Nodes: []string{"n1"}})
		cycled(97.1, "", cluster.Window{Start: at(97), End: at(99), Nodes: []string{"n1"}})
		d.trying.last = at(109)
		cycled(109, "") // nothing happens in block 10
		kept, err := store.Trial(d.Config.Journals())
		if err != nil {
			t.Fatal(err)
		}
		want := []trial.Touch{
			{Block: 2, Why: started}, {Block: 3, Why: started}, {Block: 4, Why: started}, {Block: 5, Why: "priod.toml was read again"}, {Block: 6, Why: "priod was paused"},
			{Block: 7, Why: "priod paused itself"}, {Block: 8, Why: "no cycle ended for more than ten minutes"}, {Block: 9, Why: "maintenance"},
		}
		if !slices.EqualFunc(kept.Touched, want, func(a, b trial.Touch) bool { return a.Block == b.Block && a.Why == b.Why }) {
			t.Errorf("left out are %+v", kept.Touched)
		}
		if !kept.Ended.IsZero() || !strings.Contains(log.String(), "the bounds of the trial are not looked at") {
			t.Errorf("without a database: %+v\n%s", kept, log)
		}
		kept.Ended, kept.Harms, kept.Why = at(110), true, "it harms"
		if err := store.SaveTrial(d.Config.Journals(), kept); err != nil {
			t.Fatal(err)
		}
		if off, notes := d.trial(at(500), ""); !off || len(notes) != 1 || notes[0].Kind != plan.TrialHarms {
			t.Errorf("after its bound, and its time: off %v, %+v", off, notes)
		}
	}
}
