package config

import (
	"strings"
	"testing"
)

// A profile sets what it is measured with, and every key of the file overrides it.
func TestProfiles(t *testing.T) {
	for _, p := range Profiles {
		c, err := load(t, "profile = \""+p.Name+"\"\n")
		if err != nil {
			t.Fatal(err)
		}
		if on := p.Name != "order-only"; c.Steering.Enabled != on || c.Preemption.Enabled != on || c.Sizing.Enabled != on || c.Locality.Enabled != on || (c.Allocation.Policy != "") != on {
			t.Errorf("%s: %+v", p.Name, c)
		}
	}
	c, err := load(t, "profile = \"balanced\"\n[sizing]\nenabled = false\n[preemption]\nmax_evictions = 20\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Sizing.Enabled || !c.Steering.Enabled || c.Preemption.MaxEvictions != 20 {
		t.Errorf("%+v", c)
	}
	text, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"policy = \"max-min\"  # profile balanced\n", "max_evictions = 20  # priod.toml\n", "urgency = 5.0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if again, err := load(t, text); err != nil || again.Preemption != c.Preemption || again.Steering != c.Steering { // what is printed can be read again
		t.Errorf("%v: %+v", err, again)
	}
	// Rounds evict, and need steering: the profile's go with either.
	for text, want := range map[string]bool{"": true, "[steering]\nenabled = false\n": false, "[preemption]\nenabled = false\n": false, "[preemption]\nenabled = false\n[rounds]\nenabled = true\n": true} {
		if c, err := load(t, "profile = \"balanced\"\n"+text); err != nil || c.Rounds.Enabled != want {
			t.Errorf("%q: %v, rounds %v", text, err, c.Rounds.Enabled)
		} else if said, err := c.Effective(); err != nil || strings.Contains(said, "[rounds]\nenabled = false  # profile") {
			t.Errorf("%q: %v\n%s", text, err, said)
		}
	}
	if c, err := Load("/dev/null", "profile=balanced", "steering.enabled=false"); err != nil || c.Rounds.Enabled {
		t.Errorf("%v: %+v", err, c.Rounds)
	}
	short, err := load(t, "profile = \"short-waits\"\n") // of an earlier version
	if err != nil || short.Profile != "balanced" || !short.FromProfile("steering.enabled") || len(short.Advice) != 1 || len(c.Advice) != 0 {
		t.Errorf("%v: %+v", err, short)
	}
	if set, err := Load("/dev/null", "profile=short-waits"); err != nil || set.Profile != "balanced" || len(set.Advice) != 1 {
		t.Errorf("%v: %+v", err, set)
	}
	if _, err := load(t, "profile = \"fast\"\n"); err == nil || !strings.Contains(err.Error(), `profile = "fast": want order-only, balanced, or "" for none`) {
		t.Errorf("%v", err)
	}
	if on := strings.Join(short.On(), ", "); !strings.HasPrefix(on, "profile balanced, order of TE jobs, order of BE jobs (owed), allocation (max-min), steering, rounds, sizing") {
		t.Error(on)
	}
	if none, err := load(t, ""); err != nil || none.Steering.Enabled || none.Preemption.Enabled {
		t.Errorf("%v", err)
	}
}
