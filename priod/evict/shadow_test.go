package evict

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/slurmplug"
)

// That trials begin to look where the one before with the same request starts changes no start; a place is free again where the
// limit of its job ends within the horizon.
func TestShadowTimesAreTheirDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(most int) placement.Amount {
			n := int32(rapid.IntRange(1, most).Draw(t, "gpus"))
			return placement.Amount{GPUs: n, CPUs: n * int32(rapid.IntRange(1, 3).Draw(t, "cpus")), MemMB: int64(n)}
		}
		nodes := rapid.IntRange(1, 6).Draw(t, "nodes")
		size := make([]placement.Node, nodes)
		for i := range size {
			size[i] = placement.Node{Type: int32(rapid.IntRange(0, 1).Draw(t, "type")), Amount: placement.Amount{GPUs: 4, CPUs: 12, MemMB: 16}}
		}
		m := &nodemap.Map{Nodes: placement.New(placement.Packed, size)}
		c := &Choice{}
		c.search.Nodes = m.Nodes
		for range rapid.IntRange(0, 12).Draw(t, "running") {
			r := placement.Request{Types: 3, Nodes: int32(rapid.IntRange(1, 2).Draw(t, "on")), Amount: amount(4)}
			shares, fits := m.Nodes.Fit(r, nil)
			if !fits {
				continue
			}
			m.Nodes.Take(shares)
			x := preemption.Candidate{Shares: slices.Clone(shares), Grace: 60, Remaining: float64(10 * rapid.IntRange(0, 14).Draw(t, "remaining"))}
			if x.Leaving = rapid.Bool().Draw(t, "leaves"); x.Leaving { // for a trial that takes its place
				c.search.Claims = append(c.search.Claims, preemption.Claim{Of: len(c.search.Claims), Shares: x.Shares, Ready: x.Remaining})
				c.search.Claimants = append(c.search.Claimants, preemption.Claimant{Request: r, Start: math.Inf(1), Limit: limit(t)})
			}
			c.search.Candidates = append(c.search.Candidates, x)
		}
		requests := make([]placement.Request, rapid.IntRange(1, 4).Draw(t, "requests"))
		for i := range requests {
			requests[i] = placement.Request{Types: placement.Types(rapid.IntRange(1, 3).Draw(t, "types")), Nodes: int32(rapid.IntRange(0, 2).Draw(t, "on")), Amount: amount(8)}
		}
		for range rapid.IntRange(1, 20).Draw(t, "trials") {
			c.search.Claimants = append(c.search.Claimants, preemption.Claimant{Request: rapid.SampledFrom(requests).Draw(t, "request"), Start: math.Inf(1), Limit: limit(t)})
		}
		line, want := placement.NewTimeline(0, m.Nodes), make([]float64, len(c.search.Claimants))
		horizon := c.horizon()
		reserve := func(shares []placement.Share, from, until float64) {
			if until > horizon {
				until = math.Inf(1)
			}
			line.Reserve(shares, from, until)
		}
		for _, x := range c.search.Candidates {
			if x.Leaving {
				line.Free(x.Shares, 0, math.Inf(1))
			} else if x.Remaining <= horizon {
				line.Free(x.Shares, x.Remaining, math.Inf(1))
			}
		}
		for i, x := range c.search.Claims {
			reserve(x.Shares, 0, x.Ready+c.search.Claimants[i].Limit)
		}
		for i := range want {
			want[i] = math.Inf(1)
			if i < len(c.search.Claims) {
				continue
			}
			if start, shares, fits := line.Earliest(c.search.Claimants[i].Request, 0, math.Inf(1)); fits {
				want[i] = start
				reserve(shares, start, start+c.search.Claimants[i].Limit)
			}
		}
		c.setShadowTimes()
		for i, x := range c.search.Claimants {
			if x.Start != want[i] {
				t.Fatalf("trial %d starts at %v, want %v", i, x.Start, want[i])
			}
		}
	})
}

// limit is a time limit, s.
func limit(t *rapid.T) float64 {
	if rapid.Bool().Draw(t, "unlimited") {
		return math.Inf(1)
	}
	return float64(10 * rapid.IntRange(1, 14).Draw(t, "limit"))
}

// A trial waits for a job that is likely to end, for a minute at most, behind those ahead of it, and only where one job's end makes room.
func TestLikelyEnds(t *testing.T) {
	priced := func(trials, gpus int, waited time.Duration) *scene {
		s := newScene(2)
		s.set.Policy.Urgency, s.set.Policy.Each = 5, 3000
		for i := range uint32(8) {
			s.runs(i+1, int(i/4)+1, 1, func(j *cluster.Job) { j.TimeLimit = time.Hour + 10*time.Minute }) // one ends in 75 s
		}
		for i := range uint32(trials) {
			s.waits(10+i, gpus, func(j *cluster.Job) { j.Eligible = at.Add(-waited) })
		}
		return s
	}
	for _, c := range []struct {
		trials, gpus int
		waited       time.Duration
		want         []preemption.Why
	}{
		{1, 1, 0, []preemption.Why{preemption.Anyway}},
		{1, 1, 59 * time.Second, []preemption.Why{preemption.Anyway}},
		{1, 1, 61 * time.Second, []preemption.Why{preemption.Evicts}},
		{2, 1, 0, []preemption.Why{preemption.Anyway, preemption.Evicts}},
		{1, 2, 0, []preemption.Why{preemption.Evicts}},
	} {
		for i, x := range priced(c.trials, c.gpus, c.waited).choose().Claimants {
			if x.Why != c.want[i] {
				t.Errorf("%+v: trial %d: %s", c, i, x.Why)
			}
		}
	}
	s := priced(1, 1, 0)
	for i := range 8 {
		s.Jobs[i].TimeLimit = slurmplug.Unlimited
	}
	if why, _ := s.why(10); why != preemption.Evicts {
		t.Errorf("%s, while no job has a limit", why)
	}
}

// The place that is made for a short trial is the next one's after it, where that comes within the same minute.
func TestTrialsShareVictims(t *testing.T) {
	for limit, want := range map[time.Duration]preemption.Why{20 * time.Second: preemption.Anyway, time.Hour: preemption.Evicts} {
		s := newScene(2)
		s.set.Policy.Urgency, s.set.Policy.Each, s.set.Policy.MinGain = 5, 3000, 15
		s.runs(1, 1, 4)
		s.runs(2, 2, 4)
		s.waits(10, 4, func(j *cluster.Job) { j.TimeLimit, j.Eligible = limit, at })
		made := s.choose()
		s.journal.Number(&made.Changes)
		s.journal.Update(&made.Changes)
		s.At = at.Add(3 * time.Second)
		for id := range uint32(2) {
			s.waits(11+id, 4, func(j *cluster.Job) { j.TimeLimit, j.Eligible = limit, at })
		}
		if why, victims := s.why(12); limit < time.Minute && why != preemption.Evicts { // no place is handed on sooner than after a minute
			t.Errorf("behind two trials of %v: %s, victims %v", limit, why, victims)
		}
		if why, victims := s.why(11); len(made.Changes.Claims) != 1 || why != want {
			t.Errorf("after a trial of %v: %s, victims %v, want %s", limit, why, victims, want)
		}
		s.journal, s.At = NewJournal(), at // in one cycle
		if why, victims := s.why(11); why != want {
			t.Errorf("with a trial of %v: %s, victims %v, want %s", limit, why, victims, want)
		}
	}
}
