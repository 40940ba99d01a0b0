package yield

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
)

const hour = 3600.0

func set() Settings { return Settings{Round: 1800, Pay: 10} }

func share(node, gpus int32) placement.Share {
	return placement.Share{Node: node, Amount: placement.Amount{GPUs: gpus}}
}

// full is a node of each of two types with so many GPUs, all held by running.
func full(gpus int32, running ...Running) *Snapshot {
	node := placement.Amount{GPUs: gpus, CPUs: placement.Plenty, MemMB: placement.Plenty}
	s := &Snapshot{Nodes: placement.New(placement.Packed, []placement.Node{{Type: 0, Amount: node}, {Type: 1, Amount: node}}), Running: running}
	for _, r := range running {
		s.Nodes.Take(r.Shares)
	}
	return s
}

func runs(gpus int32, owed float64) Running {
	return Running{Shares: []placement.Share{share(0, gpus)}, Consent: true, Owed: owed, Elapsed: 2 * hour, Left: 50 * hour, Cost: 90}
}

func waits(gpus int32, owed float64) Waiting {
	return Waiting{Request: placement.Request{Types: 1, Amount: placement.Amount{GPUs: gpus}}, Owed: owed, Start: 10 * hour, Run: 5 * hour}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Running, *Waiting, *Settings)
		waiting Why
		running Why
	}{
		{"owed", func(*Running, *Waiting, *Settings) {}, Gets, Yields},
		{"not owed", func(r *Running, w *Waiting, _ *Settings) { w.Owed = r.Owed }, NotOwed, Stays},
		{"owed less than a round", func(r *Running, w *Waiting, _ *Settings) { w.Owed = r.Owed + 1700 }, NoGain, Stays},
		{"too dear", func(r *Running, _ *Waiting, _ *Settings) { r.Cost = hour }, NoGain, Stays},
		{"short", func(_ *Running, w *Waiting, _ *Settings) { w.Run = 600 }, NoGain, Stays},
		{"starts soon", func(_ *Running, w *Waiting, _ *Settings) { w.Start = 600 }, Soon, Stays},
		{"no consent", func(r *Running, _ *Waiting, _ *Settings) { r.Consent = false }, NoneLeft, NoConsent},
		{"leaving", func(r *Running, _ *Waiting, _ *Settings) { r.Leaving = true }, NoneLeft, Leaving},
		{"just started", func(r *Running, _ *Waiting, _ *Settings) { r.Elapsed = 600 }, NoneLeft, Young},
		{"nearly done", func(r *Running, _ *Waiting, _ *Settings) { r.Left = 800 }, NoneLeft, Ending},
		{"another type", func(_ *Running, w *Waiting, _ *Settings) { w.Request.Types, w.Request.GPUs = 2, 2 }, NoneLeft, Stays},
		{"room without", func(_ *Running, w *Waiting, _ *Settings) { w.Request.Types = 2 }, Soon, Stays},
		{"limit", func(_ *Running, _ *Waiting, s *Settings) { s.AtOnce = 1 }, Gets, Yields},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w, with := runs(1, -20*hour), waits(1, 5*hour), set()
			c.change(&r, &w, &with)
			s := full(1, r)
			s.Waiting = []Waiting{w}
			d := Decide(s, with)
			if d.Waiting[0] != c.waiting || d.Running[0] != c.running || (d.For[0] == 0) != (c.running == Yields) {
				t.Errorf("%+v, want %s and %s", d, c.waiting, c.running)
			}
		})
	}
}

// Those that have had most yield, no more of them than are needed, and nobody
// beyond the limit.
func TestYieldingJobs(t *testing.T) {
	s := full(4, runs(1, -9*hour), runs(1, -30*hour), runs(2, -20*hour))
	s.Waiting = []Waiting{waits(2, 5*hour)}
	if d := Decide(s, set()); !reflect.DeepEqual(d.For, []int{-1, -1, 0}) {
		t.Errorf("%+v: the pair of GPUs is enough, without the job that has had more", d)
	}
	s.Waiting = []Waiting{waits(1, hour), waits(1, 6*hour)}
	with := set()
	with.AtOnce = 1
	if d := Decide(s, with); !reflect.DeepEqual(d.For, []int{-1, 1, -1}) || d.Waiting[0] != Limit {
		t.Errorf("%+v: the one that is owed more comes first, the other meets the limit", d)
	}
}

func TestNoJobYieldsTwice(t *testing.T) {
	s := full(1, runs(1, -9*hour))
	s.Waiting = []Waiting{waits(1, hour), waits(1, 6*hour)}
	if d := Decide(s, set()); d.For[0] != 1 || d.Waiting[0] != NoneLeft || d.Waiting[1] != Gets {
		t.Errorf("%+v", d)
	}
}

// Who starts by itself, or stands before all of them, takes its room first: nobody
// yields to one that would not get it.
func TestYieldOrder(t *testing.T) {
	s := full(4, runs(2, -9*hour))
	s.Waiting = []Waiting{waits(2, 6*hour), waits(4, 5*hour)}
	if d := Decide(s, set()); d.Waiting[0] != Soon || d.Waiting[1] != NoneLeft || d.For[0] != -1 {
		t.Errorf("the room of one that fits is given away: %+v", d)
	}
	for name, c := range map[string]struct {
		first []int32 // their GPUs
		want  Why
	}{
		"takes the place":        {[]int32{4}, Behind},
		"takes a part":           {[]int32{3}, Behind},
		"leaves enough":          {[]int32{2}, Gets},
		"two of them":            {[]int32{2, 1}, Behind},
		"is too large":           {[]int32{8}, Gets},
		"the second takes a bit": {[]int32{8, 3}, Behind},
	} {
		s := full(4, runs(4, -9*hour))
		s.Waiting = []Waiting{waits(2, 5*hour)}
		for _, gpus := range c.first {
			s.First = append(s.First, waits(gpus, 0).Request)
		}
		if d := Decide(s, set()); d.Waiting[0] != c.want || (d.Running[0] == Yields) != (c.want == Gets) {
			t.Errorf("%s: %+v, want %s", name, d, c.want)
		}
	}
	s = full(4, runs(2, -9*hour)) // half of the node is free, and somebody's soon
	s.Waiting, s.First = []Waiting{waits(4, 5*hour)}, []placement.Request{waits(1, 0).Request}
	if d := Decide(s, set()); d.Waiting[0] != NoneLeft {
		t.Errorf("free GPUs are counted on that others take: %+v", d)
	}
}

// Whatever is asked: only those yield who may, each to one job that is owed a
// round more and then fits, and none of them in vain.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owed := rapid.Float64Range(-50*hour, 50*hour)
		s := full(4)
		for node := range int32(2) {
			for left := int32(4); left > 0 && rapid.IntRange(0, 5).Draw(t, "more") > 0; {
				gpus := int32(rapid.IntRange(1, int(left)).Draw(t, "gpus"))
				r := runs(gpus, owed.Draw(t, "owed"))
				r.Shares[0].Node = node
				r.Consent, r.Leaving = rapid.IntRange(0, 4).Draw(t, "consent") > 0, rapid.IntRange(0, 4).Draw(t, "leaving") == 0
				r.Elapsed, r.Left = rapid.Float64Range(0, 10*hour).Draw(t, "elapsed"), rapid.Float64Range(0, 10*hour).Draw(t, "left")
				r.Cost = rapid.Float64Range(0, hour).Draw(t, "cost")
				s.Nodes.Take(r.Shares)
				s.Running = append(s.Running, r)
				left -= gpus
			}
		}
		for range rapid.IntRange(0, 5).Draw(t, "waiting") {
			w := waits(int32(rapid.IntRange(1, 5).Draw(t, "gpus")), owed.Draw(t, "owed"))
			w.Request.Types = placement.Types(rapid.IntRange(1, 2).Draw(t, "type"))
			w.Start, w.Run = rapid.Float64Range(0, 10*hour).Draw(t, "start"), rapid.Float64Range(0, 10*hour).Draw(t, "run")
			s.Waiting = append(s.Waiting, w)
		}
		with := set()
		with.AtOnce = rapid.IntRange(0, 3).Draw(t, "limit")
		free := s.Nodes.FreeGPUs(0)
		d := Decide(s, with)
		if s.Nodes.FreeGPUs(0) != free || !reflect.DeepEqual(d, Decide(s, with)) {
			t.Fatal("it changes its snapshot, or its mind")
		}
		total, room := 0, s.Nodes.Clone()
		for i, w := range s.Waiting {
			var lost float64
			victims := 0
			for k, r := range s.Running {
				if d.For[k] != i {
					continue
				}
				victims++
				lost += float64(gpus(r.Shares)) * r.Cost
				if d.Running[k] != Yields || !r.Consent || r.Leaving || r.Elapsed < with.Round || r.Left < with.Round || w.Owed-r.Owed < with.Round || !w.Request.Types.Has(s.Nodes.Type(r.Shares[0].Node)) {
					t.Fatalf("%+v yields to %+v: %s", r, w, d.Running[k])
				}
				room.Release(r.Shares)
			}
			total += victims
			if (d.Waiting[i] == Gets) != (victims > 0) || victims > 0 && float64(w.Request.GPUs)*min(w.Run, w.Start) < with.Pay*lost {
				t.Fatalf("%d yield to %+v (%s) and lose %v", victims, w, d.Waiting[i], lost)
			}
		}
		for i, w := range s.Waiting {
			if d.Waiting[i] != Gets {
				continue
			}
			shares, ok := room.Fit(w.Request, nil)
			if !ok {
				t.Fatalf("%+v does not fit where others yielded to it", w)
			}
			room.Take(shares)
		}
		if with.AtOnce > 0 && total > with.AtOnce || slices.Contains(d.Waiting, "") || slices.Contains(d.Running, "") {
			t.Fatalf("%d yield, at most %d; words %v %v", total, with.AtOnce, d.Waiting, d.Running)
		}
	})
}

func TestCheck(t *testing.T) {
	d := Defaults
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Settings{{}, {Round: -1}, {Round: 1, Pay: math.NaN()}, {Round: 1, Lead: plan.Lead{Most: 1}}, {Round: 1, AtOnce: -1}, {Round: math.Inf(1)}} {
		if bad.Check() == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}
