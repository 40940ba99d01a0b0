package evict

import (
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// signalledAt is a journal with one victim in a grace of a minute, and what Slurm shows of it.
func signalledAt(t time.Time) (*Journal, Observation) {
	j := NewJournal()
	id := slurmplug.Plain(1)
	start := epoch.Add(-time.Hour)
	j.Claims = []Claim{{Number: 1, Job: slurmplug.Plain(9), User: "bob", State: Planned, At: t}}
	j.Evictions = []Eviction{{Number: 1, Claim: 1, Job: id, User: "alice", Start: start, GPUs: 2, Grace: time.Minute, State: Signalled, At: t, SignalledAt: t}}
	sight := plan.JobStatus{Job: cluster.Job{ID: id, User: "alice", State: cluster.Running, Start: start}, CanRequeue: true}
	return j, Observation{At: t, Statuses: map[cluster.JobID]plan.JobStatus{id: sight}, Hold: time.Minute}
}

// A victim whose requeue had no answer left when Slurm says that it was submitted again,
// however late priod sees that, and paid for no longer.
func TestRequeuedWhilePriodWasDown(t *testing.T) {
	for submit, left := range map[time.Duration]time.Duration{70 * time.Second: 70 * time.Second, -time.Hour: 5 * time.Minute, time.Hour: 5 * time.Minute} {
		j, seen := signalledAt(epoch)
		seen.At = epoch.Add(5 * time.Minute)
		for id, s := range seen.Statuses {
			s.State, s.Restarts, s.Submit = cluster.Pending, 1, epoch.Add(submit)
			seen.Statuses[id] = s
		}
		turn := Advance(j, seen)
		if len(turn.Evictions) != 1 {
			t.Fatalf("%+v", turn)
		}
		if e := turn.Evictions[0]; e.How != Forced || !e.LeftAt.Equal(epoch.Add(left)) || e.Paid != 2*left.Seconds() {
			t.Errorf("submitted %s after the signal: left %s after it, %s, paid %v", submit, e.LeftAt.Sub(epoch), e.How, e.Paid)
		}
	}
}

// As long as the place is claimed a victim is requeued with a begin time ahead.
func TestRequeueWithABeginTime(t *testing.T) {
	for open, want := range map[bool]slurmplug.Value{true: beginLater, false: {}} {
		j, seen := signalledAt(epoch)
		seen.At = epoch.Add(24 * time.Hour)
		j.Claims = []Claim{{Number: j.Evictions[0].Claim, Job: slurmplug.Plain(99), State: Planned, At: epoch}}
		if !open {
			j.Claims[0].State = Released
		}
		turn := Advance(j, seen)
		if len(turn.Commands) != 1 || turn.Commands[0].Kind != plan.Requeue || turn.Commands[0].Value != want {
			t.Errorf("claim open: %v: %+v", open, turn.Commands)
		}
	}
}

// A clock that is set back lengthens a grace by no more than the grace.
func TestClockSetBack(t *testing.T) {
	j, seen := signalledAt(epoch)
	seen.At = epoch.Add(-24 * time.Hour)
	turn := Advance(j, seen)
	if len(turn.Commands) > 0 || len(turn.Evictions) != 1 || !turn.Evictions[0].SignalledAt.Equal(seen.At) {
		t.Fatalf("%+v", turn)
	}
	j.Update(&turn)
	seen.At = seen.At.Add(time.Minute)
	if turn = Advance(j, seen); len(turn.Commands) != 1 || turn.Commands[0].Kind != plan.Requeue {
		t.Errorf("%+v", turn)
	}
}

// A clock that goes ahead over a restart of priod ends a grace, and a hold, at once:
// the victim is requeued, and one whose signal is only recorded gets all of its grace.
func TestClockSetAhead(t *testing.T) {
	j, seen := signalledAt(epoch)
	seen.At = epoch.Add(24 * time.Hour)
	turn := Advance(j, seen)
	if len(turn.Commands) != 1 || turn.Commands[0].Kind != plan.Requeue || len(turn.Claims) > 0 {
		t.Errorf("%+v", turn)
	}
	j.Evictions[0].State = Recorded // after a crash: nobody knows whether it was sent
	turn = Advance(j, seen)
	if len(turn.Commands) != 1 || turn.Commands[0].Kind != plan.Signal {
		t.Fatalf("%+v", turn)
	}
	turn = ApplyResults(j, []plan.Result{{Command: turn.Commands[0], Status: slurmplug.Applied}}, seen.At)
	j.Update(&turn)
	seen.At = seen.At.Add(59 * time.Second)
	if turn = Advance(j, seen); len(turn.Commands) > 0 {
		t.Errorf("%+v", turn)
	}
}

// A place is kept for as long as promised, once more after each time that the clock is set back, and never for ever.
func TestPlaceUnderAClockThatJumps(t *testing.T) {
	j, seen := signalledAt(epoch)
	j.Claims[0].State, j.Claims[0].Room = Holding, epoch
	step := func(at time.Time, want ClaimState) {
		t.Helper()
		seen.At = at
		turn := Advance(j, seen)
		j.Update(&turn)
		if c := &j.Claims[0]; c.State != want {
			t.Errorf("at %s: %+v", at, c)
		}
	}
	back := epoch.Add(-24 * time.Hour)
	step(epoch.Add(50*time.Second), Holding)
	step(back, Holding)
	step(back.Add(60*time.Second), Holding)
	step(back.Add(61*time.Second), Released)
	j.Claims[0].State, j.Claims[0].Room = Holding, epoch
	step(epoch.Add(24*time.Hour), Released)
}

// Slurm gives ids again: another user's job with the victim's id is left alone.
func TestAnotherJobWithTheId(t *testing.T) {
	j, seen := signalledAt(epoch)
	for id, s := range seen.Statuses {
		s.User = "carol"
		seen.Statuses[id] = s
	}
	seen.At = epoch.Add(time.Hour)
	turn := Advance(j, seen)
	if len(turn.Commands) > 0 || len(turn.Evictions) != 1 || turn.Evictions[0].How != Forgotten {
		t.Errorf("%+v", turn)
	}
}

// While users' names cannot be found the jobs are still the same.
func TestNoNames(t *testing.T) {
	for _, shown := range []string{"nobody", "1001"} { // up to 23.02 and since 23.11
		j, seen := signalledAt(epoch)
		for id, s := range seen.Statuses {
			s.User = shown
			seen.Statuses[id] = s
		}
		if turn := Advance(j, seen); len(turn.Claims)+len(turn.Evictions) > 0 {
			t.Errorf("%s: %+v", shown, turn)
		}
	}
}

// What Slurm has forgotten while nobody looked is closed by what accounting says, or told as unknown; nothing is sent.
func TestForgottenVictims(t *testing.T) {
	begun, over := epoch.Add(-time.Hour), epoch.Add(5*time.Second)
	for name, c := range map[string]struct {
		sight plan.JobStatus
		how   How
		took  time.Duration
		why   string
	}{
		"nobody knows":     {plan.JobStatus{}, Forgotten, time.Hour, "accounting does not say"},
		"an earlier run":   {plan.JobStatus{Job: cluster.Job{Start: begun.Add(-time.Hour)}, Final: "FAILED", End: begun}, Forgotten, time.Hour, "accounting does not say"},
		"it left":          {plan.JobStatus{Job: cluster.Job{Start: begun}, Final: "FAILED", ExitCode: 99, End: over}, Forgotten, 5 * time.Second, "has to resubmit it"},
		"it finished":      {plan.JobStatus{Job: cluster.Job{Start: begun}, Final: "COMPLETED", End: over}, Finished, 5 * time.Second, ""},
		"it was cancelled": {plan.JobStatus{Job: cluster.Job{Start: begun}, Final: "CANCELLED", End: over}, Ended, 5 * time.Second, "CANCELLED"},
		"it ran again":     {plan.JobStatus{Job: cluster.Job{Start: over}, Final: "COMPLETED", End: over.Add(time.Minute)}, Returned, time.Hour, "ran again"},
		"another's job":    {plan.JobStatus{Job: cluster.Job{Start: begun, User: "carol"}, Final: "COMPLETED", End: over}, Forgotten, time.Hour, "accounting does not say"},
	} {
		j, seen := signalledAt(epoch)
		c.sight.Gone = true
		seen.Statuses[slurmplug.Plain(1)] = c.sight
		seen.At = epoch.Add(time.Hour)
		turn := Advance(j, seen)
		if len(turn.Commands) > 0 || len(turn.Evictions) != 1 {
			t.Fatalf("%s: %+v", name, turn)
		}
		e := &turn.Evictions[0]
		if e.How != c.how || e.State != Done || e.LeftAt.Sub(epoch) != c.took || (e.Reason == "") != (c.why == "") || !strings.Contains(e.Reason, c.why) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	j, seen := signalledAt(epoch)
	seen.Statuses[slurmplug.Plain(9)] = plan.JobStatus{Gone: true, Job: cluster.Job{User: "bob", Start: over, NodeList: "n1", State: cluster.Other}, Final: "COMPLETED"}
	if turn := Advance(j, seen); len(turn.Claims) != 1 || turn.Claims[0].State != Started || !turn.Claims[0].Ended.Equal(over) {
		t.Errorf("a TE job that ran meanwhile: %+v", turn)
	}
}

// Ten days of grace are kept; a grace of nothing ends at once.
func TestLongAndNoGrace(t *testing.T) {
	j, seen := signalledAt(epoch)
	j.Evictions[0].Grace = 240 * time.Hour
	seen.At = epoch.Add(239 * time.Hour)
	if turn := Advance(j, seen); len(turn.Commands) > 0 {
		t.Errorf("%+v", turn)
	}
	j, seen = signalledAt(epoch)
	j.Evictions[0].Grace = 0
	if turn := Advance(j, seen); len(turn.Commands) != 1 || turn.Commands[0].Kind != plan.Requeue {
		t.Errorf("%+v", turn)
	}
}

// How a run ended says whether it is requeued, and what it cost.
func TestHowVictimsLeave(t *testing.T) {
	for final, want := range map[string]struct {
		how     How
		requeue bool
		state   State
		paid    float64
	}{
		"FAILED": {Exited, true, Left, 20}, "NODE_FAIL": {Exited, true, Left, 20}, "COMPLETED": {Exited, true, Left, 20},
		"CANCELLED": {Ended, false, Done, 0}, "TIMEOUT": {Ended, false, Done, 0}, "OUT_OF_MEMORY": {Ended, false, Done, 0},
	} {
		j, seen := signalledAt(epoch)
		for id, s := range seen.Statuses {
			s.State, s.Final = cluster.Other, final
			seen.Statuses[id] = s
		}
		seen.At = epoch.Add(10 * time.Second)
		turn := Advance(j, seen)
		if len(turn.Evictions) != 1 || (len(turn.Commands) == 1) != want.requeue {
			t.Fatalf("%s: %+v", final, turn)
		}
		if e := turn.Evictions[0]; e.How != want.how || e.State != want.state || e.Paid != want.paid {
			t.Errorf("%s: %+v", final, e)
		}
	}
}

// A job that started where it was pinned and then fails, as a victim that exits by itself, comes back with the nodes in its request: they
// are taken out then. So it is where its place was given up in the moment in which it started.
func TestPinOutlivesARun(t *testing.T) {
	id := slurmplug.Plain(9)
	ended := cluster.Job{ID: id, User: "bob", State: cluster.Other, NodeList: "n1"}
	waits := cluster.Job{ID: id, User: "bob", State: cluster.Pending}
	for _, c := range []struct {
		what     string
		sight    plan.JobStatus
		pin      string
		commands int
	}{
		{"runs", plan.JobStatus{Job: cluster.Job{ID: id, User: "bob", State: cluster.Running, NodeList: "n1"}, ReqNodes: "n1"}, "n1", 0},
		{"has failed", plan.JobStatus{Job: ended, Final: "FAILED", ReqNodes: "n1"}, "n1", 0},
		{"waits again", plan.JobStatus{Job: waits, ReqNodes: "n1"}, "n1", 1},
		{"its owner names others", plan.JobStatus{Job: waits, ReqNodes: "n2"}, "", 0},
		{"was cancelled while it waited", plan.JobStatus{Job: cluster.Job{ID: id, User: "bob", State: cluster.Other}, Final: "CANCELLED", ReqNodes: "n1"}, "n1", 0},
		{"is forgotten", plan.JobStatus{Gone: true}, "", 0},
	} {
		for _, state := range []ClaimState{Started, Released} {
			j := NewJournal()
			j.Claims = []Claim{{Number: 1, Job: id, User: "bob", State: state, Pin: "n1", At: epoch, Ended: epoch}}
			if claims, _ := j.live(); len(j.Urgent()) != 0 || len(claims) != 1 {
				t.Errorf("%s: looked at between two cycles: %v, in a cycle: %v", state, j.Urgent(), claims)
			}
			turn := Advance(j, Observation{At: epoch.Add(time.Minute), Statuses: map[cluster.JobID]plan.JobStatus{id: c.sight}, Hold: time.Minute})
			j.Update(&turn)
			if j.Claims[0].Pin != c.pin || len(turn.Commands) != c.commands || c.commands > 0 && turn.Commands[0].Kind != plan.Unpin {
				t.Errorf("%s, %s: pin %q, %+v", c.what, state, j.Claims[0].Pin, turn.Commands)
			}
		}
	}
}

// A victim whose signal may have arrived is told again, ever more seldom, and requeued whenever it leaves.
func TestSignalThatMayHaveArrived(t *testing.T) {
	j, seen := signalledAt(epoch)
	e := &j.Evictions[0]
	e.State, e.SignalledAt, e.Grace = Recorded, time.Time{}, 2*time.Second
	id, sent := e.Job, 0
	for range 3600 {
		turn := Advance(j, seen)
		j.Update(&turn)
		for _, c := range turn.Commands {
			if c.Kind != plan.Signal {
				t.Fatalf("%+v", c)
			}
			sent++
			turn = ApplyResults(j, []plan.Result{{Command: c, Status: slurmplug.Unknown, Message: "timed out"}}, seen.At)
			j.Update(&turn)
		}
		s := seen.Statuses[id]
		s.State, s.Final, s.ExitCode = cluster.Other, "FAILED", 99
		left := Observation{At: seen.At, Statuses: map[cluster.JobID]plan.JobStatus{id: s}}
		if turn := Advance(j, left); len(turn.Commands) != 1 || turn.Commands[0].Kind != plan.Requeue || turn.Evictions[0].How != Exited {
			t.Fatalf("it leaves after %d signals: %+v", sent, turn)
		}
		seen.At = seen.At.Add(time.Second)
	}
	if sent != 12 || e.State != Recorded || !e.Counts() {
		t.Errorf("%d signals in an hour, %+v", sent, e)
	}
	seen.At = seen.At.Add(time.Hour)
	turn := Advance(j, seen)
	turn = ApplyResults(j, []plan.Result{{Command: turn.Commands[0], Status: slurmplug.Applied}}, seen.At)
	j.Update(&turn)
	seen.At = seen.At.Add(e.Grace)
	if turn := Advance(j, seen); len(turn.Commands) != 1 || turn.Commands[0].Kind != plan.Requeue {
		t.Errorf("after its grace: %+v", turn)
	}
}

// While a victim that may have been told is on its way out nothing is sent.
func TestNoSignalToOneThatLeaves(t *testing.T) {
	j, seen := signalledAt(epoch)
	j.Evictions[0].State = Recorded
	for id, s := range seen.Statuses {
		s.State = cluster.Completing
		seen.Statuses[id] = s
	}
	if turn := Advance(j, seen); len(turn.Commands)+len(turn.Evictions) > 0 {
		t.Errorf("%+v", turn)
	}
}

// A user changes what the waiting job asks of its nodes while nobody was told to leave yet: nobody is, and the place is taken out of the
// request. So it is, too, where Slurm finds no node for the job with it.
func TestNoVictimForAnEditedJob(t *testing.T) {
	trial := slurmplug.Plain(9)
	for name, c := range map[string]struct {
		change func(*plan.JobStatus)
		wants  bool
	}{
		"as it was":     {func(*plan.JobStatus) {}, true},
		"still allowed": {func(s *plan.JobStatus) { s.Features = "a100|t4" }, true},
		"other type":    {func(s *plan.JobStatus) { s.Features = "a100" }, false},
		"not read here": {func(s *plan.JobStatus) { s.Features = "[a100*1&t4*1]" }, false},
		"impossible":    {func(s *plan.JobStatus) { s.Reason, s.Priority = "BadConstraints", 0 }, false},
		"held":          {func(s *plan.JobStatus) { s.Reason, s.Priority = "JobHeldUser", 0 }, false},
	} {
		for _, pinned := range []bool{false, true} {
			j, seen := signalledAt(epoch)
			j.nodes = []cluster.Node{{Name: "n1", Features: []string{"t4"}}}
			j.Claims[0].Pin, j.Claims[0].Shares = "n1", []ClaimShare{{Node: "n1", GPUs: 2}}
			j.Evictions[0].State, j.Evictions[0].SignalledAt = Recorded, time.Time{}
			s := plan.JobStatus{Job: cluster.Job{ID: trial, User: "bob", State: cluster.Pending, Priority: 5, Features: "t4", Reason: "Resources"}}
			if pinned {
				s.ReqNodes = "n1"
			}
			c.change(&s)
			seen.Statuses[trial] = s
			turn := Advance(j, seen)
			sent := map[plan.CommandKind]bool{}
			for _, cmd := range turn.Commands {
				sent[cmd.Kind] = true
			}
			if sent[plan.Signal] != (c.wants && pinned) || sent[plan.Pin] != (c.wants && !pinned) || sent[plan.Unpin] != (!c.wants && pinned) {
				t.Errorf("%s, pinned %v: %+v", name, pinned, turn.Commands)
			}
			if !c.wants && (len(turn.Claims) != 1 || turn.Claims[0].State != Released || len(turn.Evictions) != 1 || turn.Evictions[0].State != CalledOff) {
				t.Errorf("%s, pinned %v: %+v", name, pinned, turn)
			}
		}
	}
}

// Slurm shows a host list in an order of its own: that is no edit of the owner's, and what priod wrote is taken out again.
func TestPinInAnotherOrder(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"v100-2,t4-1", "t4-1,v100-2", true}, {"t4-[1-2],a1", "a1,t4-2,t4-1", true}, {"a1", "a1", true}, {"a1", "a2", false},
		{"a1,a2", "a1", false}, {"", "a1", false}, {"a[", "a[", true}, {"a[", "a1", false},
	} {
		if plan.SameHosts(c.a, c.b) != c.same {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.same)
		}
	}
	n := &transition{Observation: Observation{At: epoch}}
	claim := &Claim{Number: 1, Job: slurmplug.Plain(9), State: Planned, Pin: "v100-2,t4-1"}
	sight := &plan.JobStatus{Job: cluster.Job{ID: slurmplug.Plain(9), State: cluster.Pending, Priority: 1}, ReqNodes: "t4-1,v100-2"}
	if n.unpin(claim, sight); len(n.commands) != 1 || n.commands[0].Kind != plan.Unpin || claim.Pin == "" {
		t.Errorf("%+v, %+v", n.commands, claim)
	}
}

// A victim that somebody holds would not come back.
func TestOnHoldStays(t *testing.T) {
	j, seen := signalledAt(epoch)
	s := seen.Statuses[slurmplug.Plain(1)]
	s.Tag.Type = "be"
	for hold, want := range map[bool]preemption.Why{false: "", true: Held} {
		if s.OnHold = hold; j.Evictions[0].Vet(s) != want {
			t.Errorf("on hold %v: %q, want %q", hold, j.Evictions[0].Vet(s), want)
		}
	}
}
