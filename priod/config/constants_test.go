package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A file of an earlier version that sets constants is read, without effect and with one line of advice for each, whatever it holds.
func TestConstantsOfAFile(t *testing.T) {
	for _, k := range constants {
		table, key, _ := strings.Cut(k.key, ".")
		for _, value := range []string{"1", `"2m"`, "[]", "{a = 1}"} {
			c, err := load(t, fmt.Sprintf("[%s]\n%s = %s\n", table, key, value))
			if err != nil || len(c.Advice) != 1 || !strings.HasPrefix(c.Advice[0], k.key+" is a constant now ("+k.words()+"), ") || !strings.HasSuffix(c.Advice[0], ": remove it") {
				t.Errorf("%s = %s: %v, %q", k.key, value, err, c.Advice)
			}
		}
		if _, err := Load("/dev/null", k.key+"=1"); err == nil || err.Error() != "--set "+k.key+"=1: it is a constant ("+k.words()+")" {
			t.Errorf("%s: %v", k.key, err)
		}
	}
	for key, want := range map[string]string{"preemption.min_gain": "15s", "preemption.retry_after": "10m0s", "rounds.finish_bonus": "1d", "preemption.fitgpp_fallback": "node-set", "steering.depth": "500"} {
		if got := constantOf(key).words(); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

// Tests assign constants by their keys, each configuration its own.
func TestConstantsAreSettable(t *testing.T) {
	Settable = "yes"
	defer func() { Settable = "" }()
	c, err := load(t, "[preemption]\nretry_after = \"3s\"\nmin_gain = \"1s\"\nuser_gpu_minutes_per_day = 2\n[rounds]\nfinish_bonus = \"0s\"\n[speeds]\ninterval = \"1s\"\n")
	if err != nil || len(c.Advice) > 0 || c.Eviction().Retry != 3*time.Second || c.Eviction().Policy.MinGain != 1 || c.Eviction().Policy.Limits.UserGPUMinutesPerDay != 2 || c.Decide().Lead.Most != 0 || c.Constants.LearnEvery != time.Second {
		t.Errorf("%v: %+v", err, c)
	}
	set, err := Load("/dev/null", "steering.wait_weight=2", "rounds.finish_bonus=1h", "preemption.reserve_for=5s")
	if err != nil || set.Steer().Rule.Wait != 2 || set.Decide().Lead.Most != 3600 || set.Eviction().Hold != 5*time.Second {
		t.Errorf("%v: %+v", err, set)
	}
	if other, err := Defaults(); err != nil || other.Eviction().Retry != 10*time.Minute || other.Steer().Rule.Wait != 16 {
		t.Errorf("%v: %+v", err, other)
	}
	if _, err := load(t, "[preemption]\nretry_after = 3\n"); err == nil || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
	if _, err := Load("/dev/null", "steering.depth=many"); err == nil || !strings.Contains(err.Error(), "want a whole number") {
		t.Error(err)
	}
}
