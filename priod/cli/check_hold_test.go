package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slurmprio/etc"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/slurmplug/prio"
)

// check warns where jobs start before a cycle sees them, and says which line to write.
func TestCheckHold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hold")
	for _, c := range []struct {
		hold     string // "-": no file
		interval time.Duration
		steering bool
		level    live.Level
		text     string
	}{
		{"-", 10 * time.Second, false, "", ""},
		{"-", 10 * time.Second, true, live.Warn, "sets no hold:"},
		{"0", 10 * time.Second, true, live.Warn, "sets no hold:"},
		{"# 20s", 10 * time.Second, true, live.Warn, "sets no hold:"},
		{"5s", 10 * time.Second, true, live.Warn, "shorter than cycle.interval and a cycle (12s)"},
		{"20s", 10 * time.Second, true, live.Pass, "for 20s"},
		{"20", 10 * time.Second, true, live.Warn, "want whole seconds"},
		{"1m", 90 * time.Second, true, live.Warn, "longer than any hold"},
	} {
		os.Remove(file)
		if c.hold != "-" {
			if err := os.WriteFile(file, []byte(c.hold), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg := &config.Config{}
		cfg.Cycle.Interval, cfg.Steering.Enabled = config.Duration(c.interval), c.steering
		found := checkHold(cfg, file, 0)
		switch {
		case c.level == "":
			if len(found) > 0 {
				t.Errorf("%+v: %+v", c, found)
			}
		case len(found) != 1 || found[0].Level != c.level || !strings.Contains(found[0].Text, c.text):
			t.Errorf("%+v: %+v", c, found)
		case c.level == live.Warn && c.interval < prio.LongestHold && !strings.Contains(found[0].Fix, "echo 20s >"+file):
			t.Errorf("%+v: fix %q", c, found[0].Fix)
		}
	}
}

// The line that check names is one with which it passes.
func TestCheckHoldNamesEnough(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hold")
	for _, interval := range []time.Duration{2 * time.Second, 2100 * time.Millisecond, 10 * time.Second, 29500 * time.Millisecond, 57 * time.Second} {
		os.Remove(file)
		cfg := &config.Config{}
		cfg.Cycle.Interval, cfg.Steering.Enabled = config.Duration(interval), true
		_, named, _ := strings.Cut(checkHold(cfg, file, 0)[0].Fix, "echo ")
		named, _, _ = strings.Cut(named, " ")
		if err := os.WriteFile(file, []byte(named), 0o600); err != nil {
			t.Fatal(err)
		}
		if found := checkHold(cfg, file, 0); found[0].Level != live.Pass {
			t.Errorf("interval %s: %s: %+v", interval, named, found)
		}
	}
}

// The packaged file holds nothing back until its last line is uncommented, and then long enough
// for the shipped interval.
func TestPackagedHold(t *testing.T) {
	if d, err := prio.ParseHold(etc.Hold); err != nil || d != 0 {
		t.Errorf("as packaged: %v, %v", d, err)
	}
	d, err := prio.ParseHold(strings.ReplaceAll(etc.Hold, "\n#2", "\n2"))
	cfg, failed := config.Load("")
	if failed != nil {
		t.Fatal(failed)
	}
	if err != nil || d < time.Duration(cfg.Cycle.Interval)+cycleTakes {
		t.Errorf("uncommented: %v, %v", d, err)
	}
}
