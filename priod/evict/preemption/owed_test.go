package preemption

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/placement"
)

const hour = 3600.0

func rounds() Settings { return Settings{Policy: MostHad, Round: 1800, Pay: 10} }

// held is a node of each of two types with so many GPUs, all held by these.
func held(gpus int32, by ...Candidate) *Snapshot {
	node := placement.Amount{GPUs: gpus, CPUs: placement.Plenty, MemMB: placement.Plenty}
	s := &Snapshot{Nodes: placement.New(placement.Packed, []placement.Node{{Type: 0, Amount: node}, {Type: 1, Amount: node}}), Candidates: by}
	for _, c := range by {
		s.Nodes.Take(c.Shares)
	}
	return s
}

func had(gpus int32, owed float64) Candidate {
	return Candidate{Shares: []placement.Share{{Amount: placement.Amount{GPUs: gpus}}}, Owed: owed, Elapsed: 2 * hour, Remaining: 50 * hour, Restart: 90}
}

func owed(gpus int32, owed float64) Claimant {
	return Claimant{Request: placement.Request{Types: 1, Amount: placement.Amount{GPUs: gpus}}, Owed: owed, Start: 10 * hour, Left: 5 * hour}
}

func TestEndOfARound(t *testing.T) {
	for name, x := range map[string]struct {
		change   func(*Candidate, *Claimant)
		why      Why
		standing Why
	}{
		"owed":                   {func(*Candidate, *Claimant) {}, Evicts, Allowed},
		"not owed":               {func(r *Candidate, w *Claimant) { w.Owed = r.Owed }, NotOwed, Allowed},
		"owed less than a round": {func(r *Candidate, w *Claimant) { w.Owed = r.Owed + 1700 }, NoGain, Allowed},
		"too dear":               {func(r *Candidate, _ *Claimant) { r.Restart = hour }, NoGain, Allowed},
		"short":                  {func(_ *Candidate, w *Claimant) { w.Left = 600 }, NoGain, Allowed},
		"starts soon":            {func(_ *Candidate, w *Claimant) { w.Start = 600 }, Soon, Allowed},
		"no consent":             {func(r *Candidate, _ *Claimant) { r.Stays = NoConsent }, Impossible, NoConsent},
		"leaving":                {func(r *Candidate, _ *Claimant) { r.Leaving = true }, Soon, IsLeaving},
		"just started":           {func(r *Candidate, _ *Claimant) { r.Elapsed = 600 }, Impossible, Young},
		"less work left":         {func(r *Candidate, w *Claimant) { r.Remaining = w.Left }, NoGain, Allowed},
		"nearly done":            {func(r *Candidate, _ *Claimant) { r.Remaining = 800 }, Impossible, Ending},
		"another type":           {func(_ *Candidate, w *Claimant) { w.Request.Types, w.Request.GPUs = 2, 2 }, Impossible, Allowed},
		"room without":           {func(_ *Candidate, w *Claimant) { w.Request.Types = 2 }, Soon, Allowed},
	} {
		r, w := had(1, -20*hour), owed(1, 5*hour)
		x.change(&r, &w)
		s := held(1, r)
		s.Claimants = []Claimant{w}
		d := Decide(s, rounds())
		if d.Verdicts[0].Why != x.why || d.Standing[0] != x.standing || (len(d.Verdicts[0].Victims) == 1) != (x.why == Evicts) {
			t.Errorf("%s: %+v, want %s and %s", name, d, x.why, x.standing)
		}
	}
}

// Those that have had most yield, no more of them than are needed, and none to two claimants.
func TestYieldingJobs(t *testing.T) {
	s := held(4, had(1, -9*hour), had(1, -30*hour), had(2, -20*hour))
	s.Claimants = []Claimant{owed(2, 5*hour)}
	if v := Decide(s, rounds()).Verdicts[0]; !slices.Equal(v.Victims, []int{2}) {
		t.Errorf("%+v: the pair of GPUs is enough, without the job that has had more", v)
	}
	s = held(1, had(1, -9*hour))
	s.Claimants = []Claimant{owed(1, 6*hour), owed(1, hour)}
	if v := Decide(s, rounds()).Verdicts; v[0].Why != Evicts || v[1].Why != Impossible {
		t.Errorf("%+v", v)
	}
}

// Work left counts in GPU-seconds.
func TestYieldsToLessWork(t *testing.T) {
	for name, x := range map[string]struct {
		runs, asks int32 // GPUs; what runs has 50 hours left
		left       float64
		want       Why
	}{
		"a gang to a longer small job":  {4, 1, 199 * hour, Evicts},
		"a gang to as much work":        {4, 1, 200 * hour, NoGain},
		"a small job to a short gang":   {1, 4, 12 * hour, Evicts},
		"a small job to a gang as long": {1, 4, 12.5 * hour, NoGain},
	} {
		s := held(4, had(x.runs, -20*hour))
		w := owed(x.asks, 5*hour)
		w.Left = x.left
		s.Claimants = []Claimant{w}
		if v := Decide(s, rounds()).Verdicts[0]; v.Why != x.want {
			t.Errorf("%s: %+v, want %s", name, v, x.want)
		}
	}
}

// A claimant that a limit refuses keeps those behind it waiting, which count on its room.
func TestRefusedRound(t *testing.T) {
	s := held(4, had(3, -30*hour), had(1, -20*hour))
	s.Claimants = []Claimant{owed(3, 6*hour), owed(1, 5*hour)}
	set := rounds()
	set.Limits.GPUHoursPerDay = 0.05
	if v := Decide(s, set).Verdicts; v[0].Why != PerDay || v[1].Why != PerDay {
		t.Errorf("%+v", v)
	}
}

// Who starts by itself, or stands before all claimants, takes its room first: no job yields to one that would not get it.
func TestYieldOrder(t *testing.T) {
	s := held(4, had(2, -9*hour))
	s.Claimants = []Claimant{owed(2, 6*hour), owed(4, 5*hour)}
	if v := Decide(s, rounds()).Verdicts; v[0].Why != Soon || v[1].Why != Impossible {
		t.Errorf("the room of one that fits is given away: %+v", v)
	}
	for name, x := range map[string]struct {
		first []int32 // their GPUs
		want  Why
	}{
		"takes the place":        {[]int32{4}, Behind},
		"takes a part":           {[]int32{3}, Behind},
		"leaves enough":          {[]int32{2}, Evicts},
		"two of them":            {[]int32{2, 1}, Behind},
		"is too large":           {[]int32{8}, Evicts},
		"the second takes a bit": {[]int32{8, 3}, Behind},
	} {
		s := held(4, had(4, -9*hour))
		s.Claimants = []Claimant{owed(2, 5*hour)}
		for _, gpus := range x.first {
			s.First = append(s.First, owed(gpus, 0).Request)
		}
		if v := Decide(s, rounds()).Verdicts[0]; v.Why != x.want {
			t.Errorf("%s: %+v, want %s", name, v, x.want)
		}
	}
	s = held(4, had(2, -9*hour)) // half of the node is free, and a trial's soon
	s.Claimants, s.First = []Claimant{owed(4, 5*hour)}, []placement.Request{owed(1, 0).Request}
	if v := Decide(s, rounds()).Verdicts[0]; v.Why != Impossible {
		t.Errorf("free GPUs are counted on that others take: %+v", v)
	}
}

// Whatever is asked: only those yield who may, each to one job that is owed a
// round more, has less work left and then fits, and none of them in vain.
func TestRoundsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Float64Range(-50*hour, 50*hour)
		s := held(4)
		for node := range int32(2) {
			for left := int32(4); left > 0 && rapid.IntRange(0, 5).Draw(t, "more") > 0; {
				gpus := int32(rapid.IntRange(1, int(left)).Draw(t, "gpus"))
				r := had(gpus, amount.Draw(t, "owed"))
				r.Shares[0].Node = node
				r.Stays, r.Leaving = rapid.SampledFrom([]Why{"", "", "", "", NoConsent}).Draw(t, "stays"), rapid.IntRange(0, 4).Draw(t, "leaving") == 0
				r.Elapsed, r.Remaining = rapid.Float64Range(0, 10*hour).Draw(t, "elapsed"), rapid.Float64Range(0, 10*hour).Draw(t, "left")
				r.Restart = rapid.Float64Range(0, hour).Draw(t, "cost")
				s.Nodes.Take(r.Shares)
				s.Candidates = append(s.Candidates, r)
				left -= gpus
			}
		}
		for range rapid.IntRange(0, 5).Draw(t, "waiting") {
			w := owed(int32(rapid.IntRange(1, 5).Draw(t, "gpus")), amount.Draw(t, "owed"))
			w.Request.Types = placement.Types(rapid.IntRange(1, 2).Draw(t, "type"))
			w.Start, w.Left = rapid.Float64Range(0, 10*hour).Draw(t, "start"), rapid.Float64Range(0, 10*hour).Draw(t, "run")
			s.Claimants = append(s.Claimants, w)
		}
		free, set := s.Nodes.FreeGPUs(0), rounds()
		d := Decide(s, set)
		if s.Nodes.FreeGPUs(0) != free || !reflect.DeepEqual(d, Decide(s, set)) {
			t.Fatal("it changes its snapshot, or its mind")
		}
		room, yielded := s.Nodes.Clone(), map[int]bool{}
		for _, r := range s.Candidates {
			if r.Leaving {
				room.Release(r.Shares)
			}
		}
		for i, v := range d.Verdicts {
			w, lost := &s.Claimants[i], 0.0
			for _, k := range v.Victims {
				r := &s.Candidates[k]
				lost += r.Loss()
				if yielded[k] || r.Stays != "" || r.Leaving || r.Elapsed < set.Round || r.Remaining < set.Round || w.Owed-r.Owed < set.Round || float64(r.gpus())*r.Remaining <= float64(w.Request.GPUs)*w.Left || !w.Request.Types.Has(s.Nodes.Type(r.Shares[0].Node)) {
					t.Fatalf("%+v yields to %+v", r, w)
				}
				yielded[k] = true
				room.Release(r.Shares)
			}
			if v.Why == "" || (v.Why == Evicts) != (len(v.Victims) > 0) || v.Why == Evicts && float64(w.Request.GPUs)*min(w.Left, w.Start) < set.Pay*lost {
				t.Fatalf("%+v for %+v, %v lost", v, w, lost)
			}
		}
		for _, v := range d.Verdicts {
			room.Take(v.Shares)
		}
		for n := range room.Len() {
			if room.FreeOn(int32(n)).GPUs < 0 {
				t.Fatalf("places that are not there: %+v", d)
			}
		}
	})
}

// The zero claimant asks for no room.
func TestZeroClaimant(t *testing.T) {
	s := one(1, job(1, 1))
	s.Claimants = append([]Claimant{{}}, s.Claimants...)
	s.Claimants[1].Start = math.Inf(1)
	if v := Decide(&s, Settings{Policy: LeastLoss}).Verdicts; v[0].Why != "" || v[1].Why == "" {
		t.Errorf("%+v", v)
	}
}
