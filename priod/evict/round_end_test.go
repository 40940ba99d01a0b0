package evict

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/steer"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// A round ends once at each whole multiple of its length that the cycles pass, and
// none when the first of them looks or the clock is set back.
func TestWhenRoundsEnd(t *testing.T) {
	r, length := &Rounds{}, 30*time.Minute
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		after time.Duration
		ends  bool
	}{
		{time.Minute, false}, {29 * time.Minute, false}, {30 * time.Minute, true}, {31 * time.Minute, false}, {59 * time.Minute, false},
		{3 * time.Hour, true}, {time.Hour, false}, {61 * time.Minute, false}, {90 * time.Minute, true},
	} {
		ends := r.hasEnded(noon.Add(c.after), length)
		if ends != c.ends {
			t.Errorf("cycle %d, %s after noon: %v", i, c.after, ends)
		}
		if ends && !r.hasEnded(noon.Add(c.after), length) {
			t.Errorf("cycle %d: nobody was asked, and it is not due any more", i)
		}
		r.due = false
	}
}

// Rounds that are switched on again end at the next boundary, not for the time between; what the last one brought is told no more.
func TestRoundsOffAndOn(t *testing.T) {
	f, set, _, turn := turning(t)
	set.Rounds.due, set.Rounds.lastCycle, set.Rounds.explained = false, start.Add(-24*time.Hour), explanations{}
	set.Rounds.explained.Set(slurmplug.Plain(9), &plan.EvictionChoice{For: string(ForRound), Why: "of yesterday"})
	set.Settings.Rounds.Enabled = false
	if _, err := turn(); err != nil {
		t.Fatal(err)
	}
	set.Settings.Rounds.Enabled = true
	if r, err := turn(); err != nil || r.Round != nil || set.Rounds.due || r.Plan.Decisions[0].Choices.Eviction != nil && r.Plan.Decisions[0].Choices.Eviction.Why == "of yesterday" {
		t.Errorf("%+v, due %v, %v; %v", r.Round, set.Rounds.due, err, f.log)
	}
}

// turning is a node held by two BE jobs that have had more than their due, and a BE
// job bound to its type that is owed it. More are like the first of them.
func turning(t *testing.T, more ...uint32) (*fakeSlurm, *atEnd, *cluster.History, func() (*ended, error)) {
	f, e, s, _ := newCluster()
	for _, id := range more {
		sight, n := f.jobs[slurmplug.Plain(1)], &s.Nodes[0]
		sight.ID, sight.RawID = slurmplug.Plain(id), id
		s.Jobs, f.jobs[sight.ID] = slices.Insert(s.Jobs, 0, sight.Job), sight
		n.GPUs, n.GPUsUsed, n.CPUs, n.CPUsUsed, n.MemMB, n.MemUsedMB = n.GPUs+2, n.GPUsUsed+2, n.CPUs+2, n.CPUsUsed+2, n.MemMB+200, n.MemUsedMB+200
	}
	id := slurmplug.Plain(9)
	s.Nodes[0].Features, s.Nodes[0].State = []string{"a100"}, "ALLOCATED"
	h := cluster.NewHistory()
	shares := &plan.Shares{Types: []string{"a100"}}
	for i := range s.Jobs {
		j, owed, left := &s.Jobs[i], -9*3600.0, 8*3600.0
		if j.ID == id {
			j.Tag, j.Features, j.Eligible, j.Submit, owed, left = jobtag.Tag{Workload: "x"}, "a100", start, start, 9*3600, 7*3600
			h.Asked(id, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, s.At)
			f.change(9, func(s *plan.JobStatus) { s.Job = *j })
		} else {
			j.GPUType = "a100"
		}
		shares.Jobs.Set(j.ID, &plan.Share{Speed: []float64{1}, Time: []float64{.5}, Received: []float64{0}, Owed: []float64{owed}, Run: []float64{left}})
	}
	set := &atEnd{Feature: e, steering: steer.Feature{Settings: steer.Settings{Enabled: true, Rule: steer.Defaults}, Memory: &steer.Memory{}}}
	set.Rounds, set.Settings.Rounds = &Rounds{due: true}, RoundSettings{Enabled: true, Length: 30 * time.Minute, Pay: 20}
	return f, set, h, func() (*ended, error) {
		t.Helper()
		h.Observe(s)
		e.Journal.MarkHistory(h, time.Time{})
		r := &ended{}
		c := &plan.Cycle{Snapshot: s, History: h, Plan: &r.Plan, Paused: set.Hold, DryRun: set.DryRun, Pinned: e.Journal.Pins}
		e.Choices, e.failed = set.earlier, false
		first := order.Feature{Settings: order.Settings{Top: 2_000_000_000, Ranking: plan.Classes{Partitions: []string{"gpu"}}}}
		first.Rank(c, func() *plan.Shares { return shares })
		err := errors.Join(set.steering.Plan(t.Context(), c), e.For(ForRound).Plan(t.Context(), c))
		first.Again(c)
		r.Round = e.Choices.Of(ForRound)
		return r, err
	}
}

// atEnd is what the end of a round goes by, ended what it comes to.
type atEnd struct {
	*Feature
	steering steer.Feature
	Hold     string
	DryRun   bool
	earlier  Choices // of the same cycle
}

type ended struct {
	Round *Choice
	Plan  plan.Plan
}

// At the end of a round one job makes room for the one that is owed, which stands
// before the others in the same cycle, and keeps its constraint.
func TestRoundEnds(t *testing.T) {
	_, set, _, turn := turning(t)
	r, err := turn()
	if err != nil || r.Round == nil || len(r.Round.Changes.Claims) != 1 || len(r.Round.Changes.Evictions) != 1 {
		t.Fatalf("%+v, %v", r.Round, err)
	}
	d := r.Plan.Decisions[0]
	if d.Why != string(plan.Round) || d.Value <= 0 || !strings.Contains(Words(d.Choices.Eviction, start), "others yield to it") || !strings.Contains(d.Choices.GPUType.Words(), "waits") {
		t.Errorf("%+v", d)
	}
	if len(r.Plan.Actions) != 1 || r.Plan.Actions[0].Lever != slurmplug.SiteFactor {
		t.Errorf("%+v", r.Plan.Actions)
	}
	if err := set.save(t.Context(), &r.Round.Changes, "none was begun"); err != nil {
		t.Fatal(err)
	}
	r, err = turn()
	if err != nil || r.Round != nil || len(r.Plan.Actions) != 1 || r.Plan.Decisions[0].Why != string(plan.Round) {
		t.Errorf("in the next cycle: %+v and %+v, %v", r.Round, r.Plan, err)
	}
	if e := set.Journal.Evictions; len(e) != 1 || set.Journal.Claims[0].Purpose != ForRound {
		t.Errorf("%+v", e)
	}
}

// A closer look, a hold, and TE jobs that come first.
func TestRoundsGiveWay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeSlurm, *atEnd)
		rows   int
		due    bool // in the next cycle
	}{
		"none":                {func(*fakeSlurm, *atEnd) {}, 1, false},
		"no victim can leave": {func(f *fakeSlurm, _ *atEnd) { f.change(1, norequeue); f.change(2, norequeue) }, 0, false},
		"one can":             {func(f *fakeSlurm, _ *atEnd) { f.change(1, norequeue) }, 1, false},
		"it names a node":     {func(f *fakeSlurm, _ *atEnd) { f.change(9, func(s *plan.JobStatus) { s.ReqNodes = "n1" }) }, 0, false},
		"paused":              {func(_ *fakeSlurm, set *atEnd) { set.Hold = "paused by ann" }, 0, false},
		"off":                 {func(_ *fakeSlurm, set *atEnd) { set.Settings.Rounds.Enabled = false }, 0, false},
		"within a round":      {func(_ *fakeSlurm, set *atEnd) { set.Rounds.due = false }, 0, false},
		"shown":               {func(_ *fakeSlurm, set *atEnd) { set.Rounds.due, set.DryRun = false, true }, 1, false},
	} {
		f, set, _, turn := turning(t)
		c.change(f, set)
		r, err := turn()
		rows := 0
		if r.Round != nil {
			rows = len(r.Round.Changes.Claims)
		}
		if err != nil || rows != c.rows || set.Rounds.due != c.due {
			t.Errorf("%s: %+v, due %v, %v", name, r.Round, set.Rounds.due, err)
		}
	}
	f, set, _, turn := turning(t)
	set.earlier = Choices{{For: ForTrial, Changes: Changes{Claims: []Claim{{}}}}}
	if r, err := turn(); err != nil || r.Round != nil || !set.Rounds.due {
		t.Errorf("beside a trial: %+v, %v", r.Round, err)
	}
	f.odd[slurmplug.Plain(9)] = true
	_, set, _, turn = turning(t)
	set.Slurm = f
	if r, err := turn(); err == nil || r.Round != nil && !r.Round.Changes.Empty() || !set.Rounds.due {
		t.Errorf("with a record that cannot be believed: %+v, %v", r.Round, err)
	}
}

// Jobs that a closer look rules out do not end the round for the others: it goes on in the next cycle.
func TestRoundsAndManyVetoes(t *testing.T) {
	odd := []uint32{11, 12, 13, 14, 15, 16}
	f, set, _, turn := turning(t, odd...)
	for _, id := range odd {
		f.change(id, norequeue)
	}
	if r, err := turn(); err != nil || r.Round != nil || !set.Rounds.due || r.Plan.Decisions[0].Choices.Eviction != nil {
		t.Errorf("with many surprises: %+v, due %v, %v", r.Round, set.Rounds.due, err)
	}
	if r, err := turn(); err != nil || r.Round == nil || len(r.Round.Changes.Evictions) != 1 || set.Rounds.due {
		t.Errorf("in the next cycle: %+v, due %v, %v", r.Round, set.Rounds.due, err)
	}
}

func norequeue(s *plan.JobStatus) { s.CanRequeue = false }

// A round that ends while priod is started again is dealt with by the first cycle.
func TestRoundEndsOverARestart(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Duration]bool{-time.Second: true, time.Minute: false} {
		r := &Rounds{}
		r.Restore(noon.Add(at))
		if got := r.hasEnded(noon.Add(2*time.Minute), 30*time.Minute); got != want {
			t.Errorf("last cycle %s after the end of a round: %t", at, got)
		}
	}
}
