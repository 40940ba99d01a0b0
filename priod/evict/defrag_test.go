package evict

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// gang adds a waiting BE job that wants whole nodes of four GPUs.
func (s *scene) gang(id uint32, nodes int, change ...func(*cluster.Job)) {
	s.waits(id, 4*nodes, append([]func(*cluster.Job){func(j *cluster.Job) {
		j.Nodes, j.Tag.Type, j.TagText = nodes, "be", "prio:type=be&v=1"
	}}, change...)...)
	s.plan.Decisions[len(s.plan.Decisions)-1].Class = cluster.BE
}

// after is how long all jobs have waited for fragmentation.
func after(waited time.Duration) func(cluster.JobID) time.Duration {
	return func(cluster.JobID) time.Duration { return waited }
}

func (s *scene) moves(waited time.Duration) *Choice {
	s.plan.MakeQueue(&s.Snapshot)
	q := s.question()
	q.Fragmented = after(waited)
	return Choose(ForGang, q)
}

func (s *scene) defragment() []Claimant { return s.moves(time.Hour).Claimants }

// The small jobs leave whose leaving loses least; those that do not agree, hold whole nodes or have just started stay.
func TestDefragment(t *testing.T) {
	s := newScene(5)
	s.runs(1, 1, 1)
	s.runs(2, 2, 1, func(j *cluster.Job) { j.Tag.Grace = 9 * time.Minute })
	s.runs(3, 3, 1, func(j *cluster.Job) { j.Tag.Type = "" })
	s.runs(4, 4, 2)
	s.runs(5, 5, 4) // holds a whole node, and would lose less for each GPU
	s.gang(10, 2)
	r := s.moves(time.Hour)
	got := r.Claimants
	if len(got) != 1 || got[0].Why != preemption.Evicts || got[0].Free != 11 || len(got[0].Victims) != 2 || len(got[0].Nodes) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []Running{{Node: "n1", GPUs: 1}, {Node: "n4", GPUs: 2}} {
		if v := got[0].Victims[i]; v.Node != want.Node || v.GPUs != want.GPUs || v.Cost <= 0 {
			t.Errorf("%+v", v)
		}
	}
	if c := r.Changes.Claims; len(c) != 1 || c[0].Purpose != ForGang || c[0].Job != slurmplug.Plain(10) || c[0].Pin != "n[1,4]" || c[0].Resv == "" || len(r.Changes.Evictions) != 2 {
		t.Errorf("%+v", r.Changes)
	}
	s.gang(11, 4) // too few are free
	s.Jobs[4].Tag.Type = "te"
	if got := s.defragment(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	s.set.Policy.MinRun = 7200
	if got := s.defragment(); len(got) != 1 || got[0].Why != preemption.Impossible && got[0].Why != preemption.Anyway || len(got[0].Victims) != 0 {
		t.Errorf("all have just started: %+v", got)
	}
}

// Nobody leaves for a job that fits, waits for something else, or is not ranked.
func TestNothingToDefragment(t *testing.T) {
	s := newScene(3)
	s.runs(1, 1, 1)
	s.runs(2, 2, 1)
	s.gang(10, 1)
	if got := s.defragment(); len(got) != 0 {
		t.Errorf("it fits on n3: %+v", got)
	}
	for what, change := range map[string]func(*cluster.Job, *plan.Decision){
		"held":         func(j *cluster.Job, _ *plan.Decision) { j.Reason = "JobHeldUser" },
		"not ranked":   func(_ *cluster.Job, d *plan.Decision) { d.Ranked = false },
		"without GPUs": func(j *cluster.Job, _ *plan.Decision) { j.GPUs = 0 },
		"TE":           func(_ *cluster.Job, d *plan.Decision) { d.Class = cluster.TE },
	} {
		s := newScene(2)
		s.runs(1, 1, 1)
		s.runs(2, 2, 1)
		s.gang(10, 1)
		if got := s.defragment(); len(got) != 1 {
			t.Fatalf("%+v", got)
		}
		change(&s.Jobs[2], &s.plan.Decisions[0])
		if got := s.defragment(); len(got) != 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// What decides whether others move for a gang that one job on each of two nodes blocks.
func TestJobsMovedForAGang(t *testing.T) {
	all := func(s *scene, change func(*cluster.Job)) {
		for i := range s.Jobs {
			if s.Jobs[i].State == cluster.Running {
				change(&s.Jobs[i])
			}
		}
	}
	// One victim loses 61 GPU-seconds, the gang has four GPUs.
	for what, x := range map[string]struct {
		change func(*scene)
		waited time.Duration
		want   preemption.Why
	}{
		"long enough":    {nil, 16 * time.Second, preemption.Evicts},
		"not yet":        {nil, 15 * time.Second, NotYet},
		"costly restart": {func(s *scene) { s.set.Restart = time.Minute }, 16 * time.Second, NotYet},
		"nobody's jobs share no limit": {func(s *scene) {
			s.Jobs[2].User, s.set.Policy.Limits.UserGPUMinutesPerDay = "", 1
			s.journal.Claims = []Claim{{Number: 1, Purpose: ForGang, State: Started}}
			s.journal.Evictions = []Eviction{{Number: 1, Claim: 1, Job: slurmplug.Plain(99), State: Done, SignalledAt: at, At: at, Paid: 60}}
		}, time.Hour, preemption.Evicts},
		"no tag":       {func(s *scene) { s.Jobs[2].TagText = "" }, time.Hour, NoTag},
		"a bad tag":    {func(s *scene) { s.Jobs[2].TagErr = "no v=" }, time.Hour, NoTag},
		"moved before": {func(s *scene) { s.journal.Times = map[cluster.JobID]int{slurmplug.Plain(1): 1, slurmplug.Plain(2): 1} }, time.Hour, preemption.Impossible},
		"they name nodes": {func(s *scene) {
			s.vetoed = map[cluster.JobID]preemption.Why{slurmplug.Plain(1): Bound, slurmplug.Plain(2): Bound}
		}, time.Hour, preemption.Impossible},
		"it asks for switches": {func(s *scene) { s.vetoed = map[cluster.JobID]preemption.Why{slurmplug.Plain(10): Constraint} }, time.Hour, Constraint},
		"no room elsewhere": {func(s *scene) {
			s.Nodes[0].Features, s.Nodes[1].Features = []string{"a100", "old"}, []string{"a100", "new"}
			s.Jobs[0].Features, s.Jobs[1].Features = "old", "new"
		}, time.Hour, preemption.Impossible},
		"memory elsewhere is short": {func(s *scene) {
			all(s, func(j *cluster.Job) { j.MemMB = 1501 })
			s.Nodes[0].MemUsedMB, s.Nodes[1].MemUsedMB = 1501, 1501
		}, time.Hour, preemption.Impossible},
		"a waiting job takes what is free": {func(s *scene) {
			for id := range uint32(3) {
				s.waits(20+id, 1)
			}
			for id := range uint32(3) {
				s.waits(30+id, 1)
			}
		}, time.Hour, preemption.Impossible},
		"they have just started": {func(s *scene) {
			all(s, func(j *cluster.Job) { j.Start = at.Add(-time.Second) })
			s.set.Policy.MinRun = 60
		}, time.Hour, preemption.Impossible},
		"the hour's evictions are used up": {func(s *scene) {
			s.set.Policy.Limits.MaxPerHour = 1
			s.journal.Evictions = []Eviction{{Number: 1, Job: slurmplug.Plain(99), State: Done, SignalledAt: at, At: at}}
		}, time.Hour, preemption.PerHour},
		"its user's day is used up": {func(s *scene) {
			s.set.Policy.Limits.UserGPUMinutesPerDay = 1
			s.journal.Claims = []Claim{{Number: 1, Purpose: ForGang, User: "bob", State: Started}}
			s.journal.Evictions = []Eviction{{Number: 1, Claim: 1, Job: slurmplug.Plain(99), State: Done, SignalledAt: at, At: at, Paid: 60}}
		}, time.Hour, preemption.PerOwner},
	} {
		s := newScene(2)
		s.runs(1, 1, 1)
		s.runs(2, 2, 1)
		s.gang(10, 1)
		if x.change != nil {
			x.change(s)
		}
		r := s.moves(x.waited)
		if len(r.Claimants) != 1 || r.Claimants[0].Why != x.want || (len(r.Changes.Claims) == 1) != (x.want == preemption.Evicts) {
			t.Errorf("%s: %+v, want %s", what, r, x.want)
		}
		if x.want == NotYet && len(r.Claimants[0].Victims) != 1 {
			t.Errorf("%s: who would move is not said: %+v", what, r.Claimants)
		}
	}
}

// Nobody counts on the free GPUs that victims on their way will take.
func TestVictimsKeepTheirRoom(t *testing.T) {
	s := newScene(3)
	s.runs(1, 1, 2)
	s.runs(2, 2, 2)
	s.runs(3, 3, 1)
	s.gang(10, 1)
	r := s.moves(time.Hour)
	if len(r.Changes.Evictions) != 1 || r.Changes.Evictions[0].Job != slurmplug.Plain(3) {
		t.Fatalf("%+v", r)
	}
	s.gang(11, 1) // four GPUs are free beside the claim, but one of them is to be job 3's
	if r := s.moves(time.Hour); len(r.Claimants) != 2 || len(r.Changes.Claims) != 1 {
		t.Errorf("in one cycle: %+v", r)
	}
	s.journal.Number(&r.Changes)
	for i := range r.Changes.Evictions {
		r.Changes.Evictions[i].State, r.Changes.Evictions[i].SignalledAt = Signalled, at
	}
	s.journal.Update(&r.Changes)
	if r := s.moves(time.Hour); len(r.Claimants) != 0 {
		t.Errorf("in the next one: %+v", r)
	}
}

// However many small jobs cannot move, the one that can is found.
func TestOneOfManyCanMove(t *testing.T) {
	s := newScene(30)
	for node := 1; node <= 30; node++ {
		s.Nodes[node-1].Features = append(s.Nodes[node-1].Features, fmt.Sprint("only", node))
		s.runs(uint32(node), node, 2, func(j *cluster.Job) {
			if j.Features = fmt.Sprint("only", node); node == 30 {
				j.Features, j.Tag.Signal = "", "" // loses most
			}
		})
	}
	s.gang(100, 1)
	if r := s.moves(time.Hour); len(r.Changes.Evictions) != 1 || r.Changes.Evictions[0].Job != slurmplug.Plain(30) {
		t.Errorf("%+v", r)
	}
}

// Whatever the cluster and the queue: all that a cycle has move agreed to it, was never evicted, and has a place once the gangs have
// theirs; the gangs have theirs once those have left; it has paid to wait; and caps hold.
func TestMovesKeepTheirPromises(t *testing.T) {
	begun := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 17))
		s := newScene(2 + r.IntN(6))
		s.set.Policy.Limits.MaxPerHour = 1 + r.IntN(6)
		id := uint32(1)
		for node := range s.Nodes {
			for free := 4; free > 0 && r.IntN(5) > 0; id++ {
				gpus := min(1+r.IntN(2), free)
				free -= gpus
				s.runs(id, node+1, gpus, func(j *cluster.Job) {
					if r.IntN(4) == 0 {
						j.Tag.Type = ""
					}
					if r.IntN(3) == 0 {
						j.Tag.Signal = ""
					}
				})
				if r.IntN(6) == 0 {
					s.journal.Times[slurmplug.Plain(id)] = 1
				}
			}
		}
		for range 1 + r.IntN(3) {
			s.gang(100+id, 1+r.IntN(2))
			id++
		}
		waited := time.Duration(r.IntN(3600)) * time.Second
		got := s.moves(waited)
		m := nodemap.New(&s.Snapshot)
		free := m.Nodes.Clone()
		at := func(id cluster.JobID) *cluster.Job {
			return &s.Jobs[slices.IndexFunc(s.Jobs, func(j cluster.Job) bool { return j.ID == id })]
		}
		if len(got.Changes.Evictions) > s.set.Policy.Limits.MaxPerHour {
			t.Errorf("seed %d: %d leave for %d gangs, %d may", seed, len(got.Changes.Evictions), len(got.Changes.Claims), s.set.Policy.Limits.MaxPerHour)
		}
		for _, e := range got.Changes.Evictions {
			begun++
			job := at(e.Job)
			if job.Tag.Type != "be" || s.journal.Times[e.Job] > 0 {
				t.Errorf("seed %d: %+v leaves", seed, job)
			}
			free.Release(m.Shares(job))
		}
		for i := range got.Changes.Claims {
			c := &got.Changes.Claims[i]
			if !free.Hold(c.places(m)) {
				t.Errorf("seed %d: no room for %+v", seed, c)
			}
			free.Take(c.places(m))
			lost := 0.0
			for _, e := range got.Changes.Evictions {
				if e.Claim == int64(i) {
					lost += e.Promised
				}
			}
			if float64(c.GPUs)*waited.Seconds() < lost {
				t.Errorf("seed %d: %.0f GPU-seconds lost for %d GPUs after %s", seed, lost, c.GPUs, waited)
			}
		}
		slices.SortFunc(got.Changes.Evictions, func(a, b Eviction) int { return b.GPUs - a.GPUs })
		for _, e := range got.Changes.Evictions {
			types, _ := m.Types(at(e.Job))
			shares, fits := free.Fit(m.Request(at(e.Job), types), nil)
			if !fits {
				t.Errorf("seed %d: %s has no room", seed, e.Job)
			}
			free.Take(shares)
		}
	}
	if begun < 40 {
		t.Errorf("only %d moved", begun)
	}
}
