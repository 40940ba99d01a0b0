package slurmplug

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A job that accounting has no index for costs slurmctld 5 s each time: it is left for longer and longer, by all levers, and other
// jobs are written to. Once it takes an update, it is as others.
func TestJobsWithoutAnIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		indexed := false
		c := NewClient(runnerFunc(func(cmd Command) (Output, error) {
			if cmd.Name == "sdiag" {
				return Output{Stdout: []byte(quietDiag)}, nil
			}
			said := strings.Join(cmd.Args, " ") + string(cmd.Stdin)
			sent = append(sent, said)
			if !indexed && strings.Contains(said, "50_[0-5]") {
				time.Sleep(5 * time.Second)
				return Output{Stdout: []byte("Job update not available right now, the DB index is being set, try again in a bit for job 50_0-5\n")}, &CommandError{Command: "scontrol", Kind: ErrExit, Status: 1}
			}
			return Output{}, nil
		}), Options{})
		updates := []Update{{Job: Plain(50), Tasks: "0-5", Lever: SiteFactor, Value: Number(9)}, {Job: Plain(50), Tasks: "0-5", Lever: Features, Value: Text("a100")}, site(Plain(7), 3)}
		slow := 0
		var at []time.Duration
		began := time.Now()
		for range 24 * 60 {
			sent = nil
			results := c.Update(t.Context(), updates)
			if n := len(slices.DeleteFunc(sent, func(s string) bool { return !strings.Contains(s, "50_") })); n > 0 {
				at, slow = append(at, time.Since(began).Round(time.Minute)), slow+n
			}
			if r := results[2]; r.Status != Applied {
				t.Fatalf("the other job: %s %s", r.Status, r.Message)
			}
			for _, r := range results[:2] {
				if r.Status != Postponed || !strings.Contains(r.Message, "the DB index is being set") || CauseOf(r.Message) != ForJob {
					t.Fatalf("%s %s", r.Status, r.Message)
				}
			}
			time.Sleep(time.Minute)
		}
		if slow != len(at) || slow < 7 || slow > 12 {
			t.Errorf("sent %d times in a day, after %v", slow, at)
		}
		indexed = true
		time.Sleep(unindexedMost)
		for range 2 {
			for _, r := range c.Update(t.Context(), updates) {
				if r.Status != Applied {
					t.Errorf("%s %s", r.Status, r.Message)
				}
			}
		}
		if len(c.unindexed) != 0 {
			t.Error("it is kept in mind")
		}
	})
}
