package evict

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

const hour = 3600.0

// bout is a scene with what its jobs are owed.
type bout struct {
	*scene
	owing plan.Owing
}

func newBout(nodes int) *bout {
	b := &bout{scene: newScene(nodes)}
	b.set.Rounds = RoundSettings{Enabled: true, Length: 30 * time.Minute, Pay: 20}
	return b
}

// has adds a job that runs and is owed so many hours.
func (b *bout) has(id uint32, node, gpus int, owed float64, change ...func(*cluster.Job)) {
	b.runs(id, node, gpus, change...)
	b.owing.Running.Set(slurmplug.Plain(id), plan.Owed{Job: slurmplug.Plain(id), Owed: owed * hour, Run: 9 * hour})
}

// wants adds a BE job that waits for GPUs of type a100.
func (b *bout) wants(id uint32, gpus int, owed float64, change ...func(*cluster.Job)) {
	b.waits(id, gpus, append([]func(*cluster.Job){func(j *cluster.Job) { j.Tag, j.Features = jobtag.Tag{Workload: "x"}, "a100" }}, change...)...)
	b.plan.Decisions[len(b.plan.Decisions)-1].Class = cluster.BE
	b.owing.Waiting = append(b.owing.Waiting, plan.Owed{Job: slurmplug.Plain(id), Owed: owed * hour, Start: 8 * hour, Run: 5 * hour})
}

func (b *bout) end() *Choice {
	q := b.question()
	q.Owing = &b.owing
	return Choose(ForRound, q)
}

// why is what became of a claimant.
func (c *Choice) why(id uint32) preemption.Why {
	return c.Claimants[slices.IndexFunc(c.Claimants, func(x Claimant) bool { return x.Job.ID == id })].Why
}

// standing is what becomes of a job that holds GPUs.
func (c *Choice) standing(i int) preemption.Why {
	if slices.ContainsFunc(c.Changes.Evictions, func(e Eviction) bool { return e.Job == c.running[i].ID }) {
		return preemption.Victim
	}
	if c.decision.Standing == nil {
		return preemption.Allowed
	}
	return c.decision.Standing[i]
}

// The row of a claim and that of its victim say all that the state machine needs.
func TestRoundsRows(t *testing.T) {
	b := newBout(2)
	b.has(1, 1, 4, -1)
	b.has(2, 2, 4, -9) // has had most
	b.wants(10, 2, 3)
	r := b.end()
	b.journal.Number(&r.Changes)
	r.Changes.Claims[0].Shares[0].Kind = ""
	wants := []Claim{{
		Number: 1, Purpose: ForRound, Job: slurmplug.Plain(10), RawID: 10, User: "bob", GPUs: 2, Wait: time.Minute, State: Planned, Pin: "n2", At: at,
		Changed: at, Shares: []ClaimShare{{Node: "n2", GPUs: 2, CPUs: 2, MemMB: 100}},
	}}
	if !reflect.DeepEqual(r.Changes.Claims, wants) {
		t.Errorf("%+v", r.Changes.Claims)
	}
	leaves := []Eviction{{
		Number: 1, Claim: 1, Job: slurmplug.Plain(2), RawID: 2, User: "alice", Start: at.Add(-time.Hour), GPUs: 4, Signal: "USR1",
		Grace: time.Minute, Eligible: at.Add(-2 * time.Hour), Restart: time.Second, Promised: 4 * 61, State: Recorded, At: at,
	}}
	if !reflect.DeepEqual(r.Changes.Evictions, leaves) {
		t.Errorf("%+v", r.Changes.Evictions)
	}
	if x := r.Claimants[0]; x.Why != preemption.Evicts || len(x.Victims) != 1 || x.Cost != 4*61 {
		t.Errorf("%+v", x)
	}
	if r.standing(0) != preemption.Allowed || r.standing(1) != preemption.Victim {
		t.Errorf("%+v", r.decision)
	}
}

// Who must not yield does not, and who is not owed enough, or cannot use the place, gets none.
func TestRoundsLeaveAlone(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		change  func(*bout)
		waiting preemption.Why
		running preemption.Why
	}{
		"owed":            {func(*bout) {}, preemption.Evicts, preemption.Victim},
		"saves nothing":   {func(b *bout) { b.Jobs[0].Tag.Signal = "" }, preemption.Impossible, preemption.Ending},
		"soon":            {func(b *bout) { b.owing.Waiting[0].Start = 600 }, preemption.Soon, preemption.Allowed},
		"no consent":      {func(b *bout) { b.Jobs[0].Tag.Type = "" }, preemption.Impossible, preemption.NoConsent},
		"uncounted":       {func(b *bout) { b.owing.Running = cluster.JobMap[plan.Owed]{} }, preemption.Impossible, Uncounted},
		"min_run":         {func(b *bout) { b.set.Policy.MinRun = 2 * hour }, preemption.Impossible, preemption.Young},
		"long grace":      {func(b *bout) { b.Jobs[0].Tag.Grace = time.Hour }, preemption.Impossible, LongGrace},
		"too often":       {func(b *bout) { b.set.Policy.MaxEvictions, b.journal.Times[b.Jobs[0].ID] = 3, 3 }, preemption.Impossible, preemption.Capped},
		"vetoed":          {func(b *bout) { b.vetoed = map[cluster.JobID]preemption.Why{b.Jobs[0].ID: Vetoed} }, preemption.Impossible, Vetoed},
		"refused nodes":   {func(b *bout) { b.vetoed = map[cluster.JobID]preemption.Why{b.Jobs[0].ID: Constraint} }, preemption.Evicts, preemption.Victim},
		"other nodes":     {func(b *bout) { b.Jobs[1].Prefer = "new" }, preemption.Impossible, preemption.Allowed},
		"another type":    {func(b *bout) { b.Jobs[1].Features = "v100" }, preemption.Impossible, preemption.Allowed},
		"partition":       {func(b *bout) { b.Jobs[1].Partition = "other" }, preemption.Impossible, preemption.Allowed},
		"refuses nodes":   {func(b *bout) { b.vetoed = map[cluster.JobID]preemption.Why{b.Jobs[1].ID: Constraint} }, Constraint, preemption.Allowed},
		"its own words":   {func(b *bout) { b.Jobs[1].Features = "[a100*1]" }, Constraint, preemption.Allowed},
		"has a place":     {func(b *bout) { b.journal.Claims = []Claim{{Number: 1, Job: b.Jobs[1].ID, State: Planned}} }, preemption.Claimed, preemption.Allowed},
		"failed lately":   {func(b *bout) { b.journal.Claims = []Claim{{Number: 1, Job: b.Jobs[1].ID, State: Released, Ended: at}} }, TooSoon, preemption.Allowed},
		"took over":       {func(b *bout) { b.set.Since = at }, TookOver, preemption.Allowed},
		"gpu_hours":       {func(b *bout) { b.set.Policy.Limits.GPUHoursPerDay = 0.01 }, preemption.PerDay, preemption.Allowed},
		"the user's part": {func(b *bout) { b.set.Policy.Limits.UserGPUMinutesPerDay = 0.06 }, preemption.Evicts, preemption.Victim},
		"max_per_hour": {func(b *bout) {
			b.set.Policy.Limits.MaxPerHour = 1
			b.journal.Evictions = []Eviction{{Number: 1, State: Done, SignalledAt: at.Add(-time.Minute), At: at.Add(-time.Minute), Ended: at}}
		}, preemption.PerHour, preemption.Allowed},
		"a day later": {func(b *bout) {
			b.set.Policy.Limits.MaxPerHour = 1
			b.journal.Evictions = []Eviction{{Number: 1, State: Done, SignalledAt: at.Add(-day), At: at.Add(-day), Ended: at}}
		}, preemption.Evicts, preemption.Victim},
	} {
		b := newBout(1)
		b.has(1, 1, 4, -9)
		b.wants(10, 2, 3)
		c.change(b)
		r := b.end()
		if r.Claimants[0].Why != c.waiting || r.standing(0) != c.running || (len(r.Changes.Claims) == 1) != (c.running == preemption.Victim) {
			t.Errorf("%s: %+v and %s, want %s and %s", name, r.Claimants, r.standing(0), c.waiting, c.running)
		}
		if Text(ForRound, c.waiting) == string(c.waiting) {
			t.Errorf("%s has no words", name)
		}
	}
}

// Two that are owed share a hole, or one of them gets it; room that is claimed, or made for somebody else, is nobody's.
func TestRoundsHoles(t *testing.T) {
	b := newBout(1)
	b.has(1, 1, 4, -9)
	b.wants(10, 2, 3)
	b.wants(11, 2, 5)
	if r := b.end(); r.why(10) != preemption.Soon || r.why(11) != preemption.Evicts || len(r.Changes.Evictions) != 1 {
		t.Errorf("two halves: %+v", r.Claimants)
	}
	b = newBout(1)
	b.has(1, 1, 4, -9)
	b.wants(10, 3, 3)
	b.wants(11, 3, 5)
	r := b.end()
	if r.why(10) != preemption.Impossible || r.why(11) != preemption.Evicts || len(r.Changes.Claims) != 1 {
		t.Errorf("one hole: %+v", r.Claimants)
	}
	b.journal.Number(&r.Changes)
	b.journal.Update(&r.Changes)
	if r = b.end(); r.why(10) != preemption.Impossible || r.why(11) != preemption.Claimed || !r.Changes.Empty() {
		t.Errorf("asked again: %+v", r.Claimants)
	}
	b.waits(12, 4) // TE
	if why, victims := b.why(12); why != preemption.Impossible || len(victims) > 0 {
		t.Errorf("the trial: %s, %v", why, victims)
	}
}

// Nobody yields for a place that Slurm would give to a TE job, which stands before the one that is owed.
func TestRoundsAndTrials(t *testing.T) {
	for name, c := range map[string]struct {
		gpus   int
		change func(*cluster.Job)
		want   preemption.Why
	}{
		"it takes the place":         {4, func(*cluster.Job) {}, preemption.Behind},
		"it takes too much of it":    {3, func(*cluster.Job) {}, preemption.Behind},
		"there is room for both":     {2, func(*cluster.Job) {}, preemption.Evicts},
		"there is none for an array": {1, func(j *cluster.Job) { j.ID.Task, j.Tasks, j.TaskCount = -1, "0-2", 3 }, preemption.Behind},
		"it is too large":            {5, func(*cluster.Job) {}, preemption.Evicts},
		"it wants another type":      {4, func(j *cluster.Job) { j.GPUType = "v100" }, preemption.Evicts},
		"it waits for a licence":     {4, func(j *cluster.Job) { j.Reason = "Licenses" }, preemption.Evicts},
		"nobody knows where it runs": {4, func(j *cluster.Job) { j.Features = "[a100*2]" }, preemption.Evicts},
	} {
		b := newBout(1)
		b.has(1, 1, 4, -9)
		b.wants(10, 2, 3)
		b.waits(12, c.gpus, c.change)
		b.owing.First = []cluster.JobID{b.Jobs[2].ID}
		r := b.end()
		if r.Claimants[0].Why != c.want || r.Changes.Empty() != (c.want != preemption.Evicts) || Text(ForRound, c.want) == string(c.want) {
			t.Errorf("%s: %+v, want %s", name, r.Claimants, c.want)
		}
	}
}

// Of an array one task after the other gets a place.
func TestRoundsArray(t *testing.T) {
	b := newBout(2)
	b.has(1, 1, 4, -9)
	b.has(2, 2, 4, -9)
	b.wants(10, 4, 3, func(j *cluster.Job) { j.ID.Task, j.Tasks, j.TaskCount = -1, "3-9%4", 7 })
	next := cluster.JobID{ID: 10, Task: 3}
	b.owing.Waiting[0].Job = next
	r := b.end()
	if len(r.Changes.Claims) != 1 || r.Changes.Claims[0].Job != next || r.Changes.Claims[0].RawID != 10 || r.Changes.Claims[0].GPUs != 4 || len(r.Changes.Evictions) != 1 {
		t.Fatalf("%+v", r.Changes)
	}
	b.journal.Number(&r.Changes)
	b.journal.Update(&r.Changes)
	if r = b.end(); r.Claimants[0].Why != preemption.Claimed || !r.Changes.Empty() {
		t.Errorf("asked again: %+v", r.Claimants)
	}
}

// The place of a round is kept for a job that is no TE job, released when that goes
// away, and those who made it go back to their own place in the order.
func TestRoundsClaim(t *testing.T) {
	j, seen := signalledAt(epoch)
	j.Claims[0].Purpose = ForRound
	id := j.Claims[0].Job
	seen.Waiting = map[cluster.JobID]bool{id: false}
	seen.Statuses[id] = plan.JobStatus{Job: cluster.Job{ID: id, User: "bob", State: cluster.Pending, Priority: 1}}
	turn := Advance(j, seen)
	if len(turn.Claims) > 0 {
		t.Errorf("%+v", turn.Claims)
	}
	h := cluster.NewHistory()
	j.Evictions[0].State = Requeued
	if j.MarkHistory(h, time.Time{}); !h.Claiming[id] || len(h.Returning) > 0 {
		t.Errorf("%v first, %v back", h.Claiming, h.Returning)
	}
	j.Claims[0].Purpose = ForTrial
	if j.MarkHistory(h, time.Time{}); !h.Returning[slurmplug.Plain(1)] {
		t.Error("the victim of a trial does not come back first")
	}
	if turn = Advance(j, seen); len(turn.Claims) != 1 || turn.Claims[0].State != Released {
		t.Errorf("the claim of a trial: %+v", turn.Claims)
	}
	j.Claims[0].Purpose, seen.Waiting = ForRound, map[cluster.JobID]bool{} // for its user gave it a dependency, say
	if turn = Advance(j, seen); len(turn.Claims) != 1 || turn.Claims[0].State != Released {
		t.Errorf("of a job that waits for something else: %+v", turn.Claims)
	}
	seen.Statuses[id] = plan.JobStatus{Gone: true}
	if turn = Advance(j, seen); len(turn.Claims) != 1 || turn.Claims[0].State != Released {
		t.Errorf("of a job that is gone: %+v", turn.Claims)
	}
}

// Who yielded goes back to its own place however long it waits there: its claim is remembered as long as its eviction.
func TestRoundsVictimWaitsLong(t *testing.T) {
	week := Memory + time.Hour
	j := NewJournal()
	j.Claims = []Claim{{Number: 1, Purpose: ForRound, State: Started, Ended: at.Add(-week)}, {Number: 2, Purpose: ForRound, State: Started, Ended: at.Add(-week)}}
	j.Evictions = []Eviction{{Number: 1, Claim: 1, Job: slurmplug.Plain(1), State: Restored}, {Number: 2, Claim: 2, State: Done, Ended: at.Add(-week)}}
	j.Forget(at, func(cluster.JobID) bool { return true })
	h := cluster.NewHistory()
	if j.MarkHistory(h, time.Time{}); len(h.Returning) > 0 || j.Claim(1) == nil || j.Claim(2) != nil || j.Eviction(2) != nil {
		t.Errorf("%v stand first; %+v", h.Returning, j)
	}
}

// Which rows are forgotten does not depend on which cycles were before: simulations leave some out.
func TestForgottenAlike(t *testing.T) {
	often, once := NewJournal(), NewJournal()
	for i := range int64(100) {
		row := Eviction{Number: i + 1, Claim: i + 1, State: Done, Ended: at.Add(time.Duration(i*37%100) * time.Minute)}
		often.Evictions, once.Evictions = append(often.Evictions, row), append(once.Evictions, row)
	}
	for minutes := range 50 {
		often.Forget(at.Add(Memory+time.Duration(minutes)*time.Minute), func(cluster.JobID) bool { return true })
	}
	once.Forget(at.Add(Memory+49*time.Minute), func(cluster.JobID) bool { return true })
	if len(once.Evictions) == 100 || !slices.Equal(often.Evictions, once.Evictions) {
		t.Errorf("%d rows are left by one call, %d by many", len(once.Evictions), len(often.Evictions))
	}
}

// One that has had a place by an earlier round still carries the value that gave it
// that: it may start again only after a whole cycle, which takes the value back.
func TestRoundsVictimLosesItsPlaceFirst(t *testing.T) {
	for _, purpose := range []Purpose{ForRound, ForTrial} {
		j, seen := signalledAt(epoch)
		e, id := &j.Evictions[0], slurmplug.Plain(1)
		j.Claims[0].Purpose, j.Claims[0].State = purpose, Started
		e.State, e.RequeuedAt = Requeued, epoch
		seen.Statuses[id] = plan.JobStatus{Job: cluster.Job{ID: id, User: "alice", State: cluster.Pending, Reason: "BeginTime", Restarts: 1, Eligible: epoch.Add(2 * time.Minute)}}
		if turn := Advance(j, seen); len(turn.Commands) > 0 == (purpose == ForRound) {
			t.Errorf("%s, between two cycles: %+v", purpose, turn.Commands)
		}
		seen.Waiting = map[cluster.JobID]bool{}
		if turn := Advance(j, seen); len(turn.Commands) != 1 || turn.Commands[0].Value != beginSoon {
			t.Errorf("%s, in a cycle: %+v", purpose, turn.Commands)
		}
	}
}
