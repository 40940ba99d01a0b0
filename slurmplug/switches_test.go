package slurmplug

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A value of the lever reads back as it was written.
func TestSwitchesText(t *testing.T) {
	for _, c := range []struct {
		count int
		wait  time.Duration
		text  string
	}{
		{0, 20 * time.Minute, NoSwitches}, // 22.05 leaves the wait where the count is 0
		{1, 20 * time.Minute, "1@20"},
		{2, 26 * time.Hour, "2@1560"},
		{1, 90 * time.Second, "1@1:30"}, // cut at max_switch_wait=90
	} {
		if got := SwitchesText(c.count, c.wait); got != c.text {
			t.Errorf("%d for %s: %q, want %q", c.count, c.wait, got, c.text)
		}
		count, wait, err := ParseSwitches(c.text)
		if whole := c.wait%time.Minute == 0; whole != (err == nil) || whole && c.count > 0 && (count != c.count || wait != c.wait) {
			t.Errorf("%q reads as %d, %s, %v", c.text, count, wait, err)
		}
		u := Update{Job: Plain(1), Lever: Switches, Value: Text(c.text)}
		if err := u.Validate(); (err == nil) != (c.wait%time.Minute == 0) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	for _, text := range []string{"", "1", "1@", "@5", "1@x", "-1@5", "1@5@5", "99999999999@1"} {
		if _, _, err := ParseSwitches(text); err == nil {
			t.Errorf("%q is a value", text)
		}
		if (Update{Job: Plain(1), Lever: Switches, Value: Text(text)}).Validate() == nil {
			t.Errorf("%q may be written", text)
		}
	}
}

// As squeue of 22.05 prints it, and with NO_VAL for a job that asks for none.
func TestParseSwitches(t *testing.T) {
	s := RecordedSeparators
	line := func(fields ...string) string { return strings.Join(fields, s.field) + s.end + "\n" }
	out := line("3", "1", "20:00") + line("4", "0", "1:00:00") + line("5", "2", "1-01:00:00") + line("6", noVal, "0:00") + line("5", "2", "1-01:00:00")
	got, err := parseSwitches([]byte(out), s, new(table))
	want := map[uint32]string{3: "1@20", 4: NoSwitches, 5: "2@1500", 6: NoSwitches}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{line("3", "x", "0:00"), line("3", "1", "soon"), line("3", "1"), line("x", "1", "0:00"), "3"} {
		if _, err := parseSwitches([]byte(bad), s, new(table)); !errors.Is(err, ErrDoubtful) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// As scontrol of 22.05 prints it.
func TestParseTopology(t *testing.T) {
	out := "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=a[1-2]\nSwitchName=s2 Level=0 LinkSpeed=1 Nodes=b3\nSwitchName=top Level=1 LinkSpeed=1 Nodes=a[1-2],b3 Switches=s[1-2]\n"
	got, err := parseTopology([]byte(out), new(table))
	if diff := cmp.Diff(map[string]string{"a1": "s1", "a2": "s1", "b3": "s2"}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{"", "SwitchName=top Level=1 Nodes=a1\n", "SwitchName=s1 Level=0 Nodes=a[1-\n"} {
		if _, err := parseTopology([]byte(bad), new(table)); !errors.Is(err, ErrDoubtful) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestMaxSwitchWait(t *testing.T) {
	for params, want := range map[string]time.Duration{"": 5 * time.Minute, "bf_continue,max_switch_wait=7200": 2 * time.Hour, "max_switch_wait=x": 5 * time.Minute} {
		if got := (Config{map[string]string{"SchedulerParameters": params}}).MaxSwitchWait(); got != want {
			t.Errorf("%q: %s, want %s", params, got, want)
		}
	}
}
