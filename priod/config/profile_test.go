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
	c, err := load(t, "profile = \"balanced\"\n[sizing]\nenabled = false\n[preemption]\nmax_at_once = 20\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Sizing.Enabled || !c.Steering.Enabled || c.Preemption.MaxAtOnce != 20 {
		t.Errorf("%+v", c)
	}
	text, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"policy = \"max-min\"  # profile balanced\n", "max_at_once = 20  # priod.toml\n", "urgency = 5.0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if again, err := load(t, text); err != nil || again.Preemption != c.Preemption || again.Steering != c.Steering { // what is printed can be read again
		t.Errorf("%v: %+v", err, again)
	}
	short, err := load(t, "profile = \"short-waits\"\n") // what balanced sets, and over it its own
	if err != nil || short.Preemption.LossShare != 0.05 || short.Preemption.MaxPerHour != 0 || !short.FromProfile("preemption.loss_share") || !short.FromProfile("steering.enabled") {
		t.Errorf("%v: %+v", err, short)
	}
	if _, err := load(t, "profile = \"fast\"\n"); err == nil || !strings.Contains(err.Error(), `profile = "fast": want order-only, balanced, short-waits, or "" for none`) {
		t.Errorf("%v", err)
	}
	if on := strings.Join(short.On(), ", "); !strings.HasPrefix(on, "profile short-waits, order of TE jobs, order of BE jobs (owed), allocation (max-min), steering, sizing") {
		t.Error(on)
	}
	const numbers = "profile = \"balanced\"\n[te_budget.user]\ngpus = 8\n[te_budget.users.ann]\ngpu_hours_per_day = 90.0\n[preemption]\ngpu_hours_per_day = 50.0\n"
	own, err := load(t, numbers) // the site's number counts, not the smaller share of the profile
	if err != nil {
		t.Fatal(err)
	}
	user, ann := &own.TEBudget.User, own.TEBudget.Users["ann"]
	if *user.GPUs != 8 || *user.Share != 0 || *user.GPUHoursShare != 0.02 || ann.GPUHoursShare == nil || *ann.GPUHoursShare != 0 || own.Preemption.LossShare != 0 || own.Preemption.UserLossShare != 0.005 {
		t.Errorf("%+v, %+v, %+v", user, ann, own.Preemption)
	}
	if both, err := load(t, numbers+"loss_share = 0.2\n"); err != nil || both.Preemption.LossShare != 0.2 {
		t.Errorf("%v, %+v", err, both)
	}
	if none, err := load(t, ""); err != nil || none.Steering.Enabled || none.Preemption.Enabled {
		t.Errorf("%v", err)
	}
}
