package guarantee

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// cycle lets a feature plan on a scene, and says what it wrote into which job; "now" and minutes ahead.
func (s *scene) cycle(f *Feature, paused string) map[uint32]string {
	f.Settings, f.Memory = s.set, s.memory
	for i := range s.Jobs {
		s.Jobs[i].Right = cluster.NoShares
	}
	f.Classify(&s.Snapshot, s.h)
	s.h.Observe(&s.Snapshot)
	c := &plan.Cycle{Snapshot: &s.Snapshot, History: s.h, Plan: &plan.Plan{}, Paused: paused}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.State == cluster.Pending {
			c.Plan.Decisions = append(c.Plan.Decisions, plan.Decision{Job: j.ID})
		}
	}
	if err := f.Plan(context.Background(), c); err != nil {
		panic(err)
	}
	wrote := map[uint32]string{}
	for _, a := range c.Plan.Actions {
		c.Outcomes = append(c.Outcomes, plan.Outcome{Action: a, Status: slurmplug.Applied})
		wrote[a.Job.ID] = a.After.String()
		for i := range s.Jobs {
			if j := &s.Jobs[i]; j.ID == a.Job {
				if at, later := a.After.Begin(); later {
					wrote[a.Job.ID] = fmt.Sprint(at.Sub(s.At).Minutes())
					j.Eligible, j.Reason = at, "BeginTime"
				} else {
					j.Eligible, j.Reason = s.At, "None"
				}
			}
		}
	}
	plan.Hear(c)
	s.decisions = c.Plan.Decisions
	return wrote
}

// The begin time of a job that may not borrow is written, moved on halfway, and taken back when the job may start; its user's
// own stays, and while priod is paused nothing is written.
func TestBeginTimes(t *testing.T) {
	s, f := newScene(2, Share{Account: "vision", GPUs: 8}), &Feature{}
	s.job(1, "chem", 8, true, "", time.Minute).Eligible = now.Add(-time.Minute)
	own := s.job(2, "chem", 8, true, "", time.Minute)
	own.Eligible, own.Reason = now.Add(time.Hour), "BeginTime"
	step := func(after time.Duration, paused, want string) {
		t.Helper()
		s.At = s.At.Add(after)
		if got := fmt.Sprint(s.cycle(f, paused)); got != want {
			t.Errorf("at %s: %s, want %s", s.At.Sub(now), got, want)
		}
	}
	step(0, "paused", "map[]")
	step(0, "", "map[1:30]")
	step(10*time.Minute, "", "map[]")
	step(6*time.Minute, "paused", "map[]")
	step(0, "", "map[1:30]")
	s.Jobs[0].Eligible = s.At.Add(20 * time.Minute) // its user's wish from now on
	step(10*time.Minute, "", "map[]")
	s.Jobs[0].Reason = "Resources"
	step(11*time.Minute, "", "map[1:30]") // that has passed
	step(24*time.Hour, "", "map[]")       // so has this one, and it has waited long enough
	s.set.After = 48 * time.Hour
	step(time.Minute, "", "map[1:30 2:30]")
	s.set.Shares = nil
	step(time.Minute, "", "map[1:now 2:now]")
	step(time.Minute, "", "map[]")
}

// What one cycle writes is limited, and jobs whose begin times pass soonest come first.
func TestBeginTimesOfOneCycle(t *testing.T) {
	s, f := newScene(2, Share{Account: "vision", GPUs: 8}), &Feature{}
	s.set.WritesPerCycle = 2
	for i := range uint32(5) {
		s.job(i+1, "chem", 8, true, "", time.Minute).Eligible = now.Add(-time.Duration(i+1) * time.Minute)
	}
	if got := fmt.Sprint(s.cycle(f, "")); got != "map[4:30 5:30]" {
		t.Error(got)
	}
	if got := fmt.Sprint(s.cycle(f, "")); got != "map[2:30 3:30]" {
		t.Error(got)
	}
}

// What each waiting job is told.
func TestWords(t *testing.T) {
	s, f := newScene(4, Share{Account: "vision", GPUs: 8}, Share{Account: "chem", GPUs: 8}), &Feature{}
	s.job(1, "vision", 4, false, "be", time.Hour)
	s.job(2, "vision", 4, true, "be", time.Minute)
	s.job(3, "vision", 4, true, "be", time.Minute)
	s.job(4, "vision", 4, true, "be", time.Minute).Tag.Grace = time.Hour
	s.job(5, "bio", 4, true, "", time.Minute)
	s.job(6, "vision", 4, true, "", time.Minute)
	s.cycle(f, "")
	for i, want := range []string{
		"entitled: account vision uses 4 of its share of 8 GPUs",
		"borrowing from chem: has to leave within 2m0s of notice (beyond account vision's share of 8 GPUs, of which 4 are used)",
		"beyond account vision's share of 8 GPUs, of which 4 are used; may not borrow: its grace of 1h0m0s is above 2m0s; starts at the latest from ",
		"account bio has no share; may not borrow: it did not agree to leave (--prio-type be); starts at the latest from ",
		"within account vision's share of 8 GPUs: it starts in free room, and jobs of the account that agree to leave borrow from then on",
	} {
		if got := s.decisions[i].Choices.Share.Words(); !strings.HasPrefix(got, want) {
			t.Errorf("job %s: %q, want %q", s.decisions[i].Job, got, want)
		}
	}
}
