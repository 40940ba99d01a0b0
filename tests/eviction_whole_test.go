package tests

import (
	"strings"
	"testing"
)

// A TE job that takes whole nodes, with a BE job on a part of each node: all of one
// node's leave and it starts there, and none of the other's hears of it. A node with a
// job that did not agree is none for it.
func TestEvictionForWholeNodes(t *testing.T) {
	longOnly(t)
	e := newEvictable(t, evicting)
	e.worker("cheap0", "t4:1", endless, 5, "save", "--nodelist=t4-1")
	e.worker("cheap1", "t4:1", endless, 5, "save", "--nodelist=t4-1")
	e.worker("dear0", "t4:2", endless, 5, "save", "--nodelist=t4-2")
	e.worker("dear1", "t4:1", endless, 5, "save", "--nodelist=t4-2")
	e.begun("cheap0", "cheap1", "dear0", "dear1")
	d := e.daemon()
	d.waitLog("started")
	trial := e.trial("t4:1", "--exclusive")
	e.completes(trial)
	for name, leaves := range map[string]bool{"cheap0": true, "cheap1": true, "dear0": false, "dear1": false} {
		if strings.Contains(e.log(name), "signal") != leaves {
			t.Errorf("%s was to leave: %v\n%s", name, leaves, e.log(name))
		}
	}
	all := e.settled()
	if len(all) != 2 || all[0].ClaimState != "started" || all[1].ClaimState != "started" || all[0].For.String() != trial || all[1].For.String() != trial {
		t.Errorf("%+v", all)
	}
	if on := strings.TrimSpace(e.slurm("squeue", "--noheader", "--states=all", "--jobs="+trial, "--format=%N")); on != "t4-1" {
		t.Errorf("it ran on %q", on)
	}
	e.clear()
	e.blocker("t4:1", "--nodelist=t4-1")
	e.blocker("t4:1", "--nodelist=t4-2")
	e.worker("w", "t4:1", endless, 5, "save", "--nodelist=t4-1")
	e.begun("w")
	trial = e.trial("t4:1", "--exclusive")
	d.stop()
	e.once(1, 2)
	e.looked()
	if out := e.must("explain", "--victims", trial); !strings.Contains(out, "no evictable jobs make room for it") {
		t.Errorf("explain --victims says\n%s", out)
	}
	if again := e.journal(); len(again) != 2 || strings.Contains(e.log("w"), "signal") {
		t.Errorf("for a place that does not come free: %+v\n%s", again, e.log("w"))
	}
}
