package evict

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/slurmplug"
)

// A trial that waits behind a limit says when that opens: a second before it still waits for it, then it does not.
func TestGatesOpen(t *testing.T) {
	evicted := func(s *scene, ago time.Duration, cost float64) { // for bob
		n := int64(len(s.journal.Evictions) + 1)
		s.journal.Claims = append(s.journal.Claims, Claim{Number: n, Purpose: ForTrial, Job: slurmplug.Plain(500 + uint32(n)), User: "bob", State: Started, At: at.Add(-ago), Ended: at.Add(-ago)})
		s.journal.Evictions = append(s.journal.Evictions, Eviction{
			Number: n, Claim: n, Job: slurmplug.Plain(600 + uint32(n)), State: Done, At: at.Add(-ago), SignalledAt: at.Add(-ago), Ended: at.Add(-ago), Paid: cost,
		})
	}
	for _, c := range []struct {
		why   preemption.Why
		set   func(*scene)
		opens time.Duration
		words string
	}{
		{preemption.PerHour, func(s *scene) {
			s.set.Policy.Limits.MaxPerHour = 2
			for _, ago := range []time.Duration{70 * time.Minute, 50 * time.Minute, 40 * time.Minute, 5 * time.Minute} {
				evicted(s, ago, 60)
			}
		}, 20 * time.Minute, "preemption.max_per_hour is reached, until "},
		{preemption.PerDay, func(s *scene) {
			s.set.Policy.Limits.GPUHoursPerDay = 2
			evicted(s, 23*time.Hour, 3600)
			evicted(s, 20*time.Hour, 5400)
			evicted(s, time.Hour, 1800)
		}, 4 * time.Hour, "preemption.loss_share is reached, until "},
		{preemption.PerOwner, func(s *scene) {
			s.set.Policy.Limits.UserGPUMinutesPerDay = 30
			evicted(s, 20*time.Hour, 1200)
			evicted(s, 2*time.Hour, 1200)
		}, 4 * time.Hour, "preemption.user_loss_share, until "},
		{TooSoon, func(s *scene) {
			s.set.Retry = 5 * time.Minute
			s.journal.Claims = append(s.journal.Claims, Claim{Number: 1, Purpose: ForTrial, Job: slurmplug.Plain(10), User: "bob", State: Released, At: at.Add(-3 * time.Minute), Ended: at.Add(-2 * time.Minute)})
		}, 3 * time.Minute, "it did not start, until "},
	} {
		s := newScene(1)
		s.runs(1, 1, 4)
		s.waits(10, 2)
		c.set(s)
		look := func(after time.Duration) *Claimant {
			s.At = at.Add(after)
			return &s.choose().Claimants[0]
		}
		x := look(0)
		if x.Why != c.why || !x.Opens.Equal(at.Add(c.opens)) {
			t.Errorf("%s: %s, opens after %s, want %s", c.why, x.Why, x.Opens.Sub(at), c.opens)
			continue
		}
		if words := Reason(x.choice(ForTrial), s.At); !strings.Contains(words, c.words) {
			t.Errorf("%s: %q", c.why, words)
		}
		if x := look(c.opens - time.Second); x.Why != c.why {
			t.Errorf("%s: %s a second before", c.why, x.Why)
		}
		if x := look(c.opens); x.Why == c.why {
			t.Errorf("%s: it did not open", c.why)
		}
	}
}

// Two trials of several nodes that failed at once, in a row: no job leaves for the next one. Trials of one node fail at once as they may.
func TestNoRoomForWhatFailsAtOnce(t *testing.T) {
	for _, c := range []struct {
		nodes, failed int
		why           preemption.Why
	}{{2, 1, preemption.Evicts}, {2, 2, FailsSoon}, {1, 5, preemption.Evicts}} {
		s := newScene(2)
		s.runs(1, 1, 4)
		s.runs(2, 2, 4)
		s.waits(10, 4*c.nodes, func(j *cluster.Job) { j.Nodes = c.nodes })
		s.plan.MakeQueue(&s.Snapshot)
		q := s.question()
		q.FailedQuickly = func(*cluster.Job) int { return c.failed }
		if x := Choose(ForTrial, q).Claimants[0]; x.Why != c.why {
			t.Errorf("%d nodes after %d failures: %s, want %s", c.nodes, c.failed, x.Why, c.why)
		}
	}
}

// While jobs are leaving, the first of them opens preemption.grace_share; one that is overdue says nothing.
func TestGateOfThoseThatLeave(t *testing.T) {
	for ago, opens := range map[time.Duration]time.Time{10 * time.Second: at.Add(50 * time.Second), 2 * time.Minute: {}} {
		s := newScene(2)
		s.set.Policy.Limits.GraceGPUs = 4
		s.runs(1, 1, 4)
		s.runs(2, 2, 4)
		s.waits(10, 2)
		s.waits(11, 4)
		id, told := slurmplug.Plain(1), at.Add(-ago)
		s.journal.Claims = []Claim{{Number: 1, Purpose: ForTrial, Job: slurmplug.Plain(10), State: Planned, Shares: []ClaimShare{{Node: "n1", GPUs: 2, CPUs: 2, MemMB: 100}}}}
		s.journal.Evictions = []Eviction{{Number: 1, Claim: 1, Job: id, RawID: 1, State: Signalled, At: told, SignalledAt: told, Grace: time.Minute}}
		for _, x := range s.choose().Claimants {
			if x.Job == (cluster.JobID{ID: 11, Task: slurmplug.NoTask}) && (x.Why != preemption.GraceGPUs || !x.Opens.Equal(opens)) {
				t.Errorf("told %s ago: %s, opens %s", ago, x.Why, x.Opens)
			}
		}
	}
}
