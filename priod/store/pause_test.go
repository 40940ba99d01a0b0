package store

import (
	"strings"
	"testing"
)

// Who asks just after a pause or its end is told what holds now, not what the last
// cycle found.
func TestHoldNow(t *testing.T) {
	dir := t.TempDir()
	pause := Pause{Who: "ann", Why: "maintenance"}
	const standby = "the active slurmctld is on ctl2"
	if got := HoldNow(dir, ""); got != "" {
		t.Errorf("%q", got)
	}
	if got := HoldNow(dir, standby); got != standby {
		t.Errorf("%q", got)
	}
	if err := SetPause(dir, pause); err != nil {
		t.Fatal(err)
	}
	for _, last := range []string{"", standby, OwnPause("a rival").String()} {
		if got := HoldNow(dir, last); !strings.HasPrefix(got, "paused by ann") {
			t.Errorf("%q", got)
		}
	}
	if _, err := Resume(dir); err != nil {
		t.Fatal(err)
	}
	if got := HoldNow(dir, pause.String()); got != "" {
		t.Errorf("after resume: %q", got)
	}
}
