package preemption

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/placement"
)

// drawSnapshot makes a small cluster on which everything happens: jobs over several nodes, some leaving, some claims.
func drawSnapshot(t *rapid.T, parts bool) Snapshot {
	var nodes []placement.Node
	for range rapid.IntRange(1, 4).Draw(t, "nodes") {
		nodes = append(nodes, placement.Node{
			Type:   int32(rapid.IntRange(0, 1).Draw(t, "type")),
			Amount: placement.Amount{GPUs: int32(rapid.IntRange(1, 8).Draw(t, "gpus")), CPUs: 16, MemMB: 1000},
		})
	}
	s := Snapshot{Nodes: placement.New(placement.Packed, nodes)}
	if parts && len(nodes) > 1 && rapid.Bool().Draw(t, "two types on a node") {
		nodes[0].Type, nodes[1].Type = 0, 1
		s.Nodes = placement.New(placement.Packed, nodes)
		s.Nodes.Join([]int32{0, 1})
	}
	share := func(node int32) (placement.Share, bool) {
		free := s.Nodes.FreeOn(node)
		a := placement.Share{Node: node, Amount: placement.Amount{
			GPUs: int32(rapid.IntRange(1, 4).Draw(t, "g")), CPUs: int32(rapid.IntRange(0, 6).Draw(t, "c")), MemMB: int64(rapid.IntRange(0, 400).Draw(t, "m")),
		}}
		return a, free.GPUs >= a.GPUs && free.CPUs >= a.CPUs && free.MemMB >= a.MemMB
	}
	for range rapid.IntRange(0, 12).Draw(t, "candidates") {
		first := int32(rapid.IntRange(0, len(nodes)-1).Draw(t, "node"))
		var shares []placement.Share
		if a, ok := share(first); ok {
			shares = append(shares, a)
		}
		for n := range nodes {
			if int32(n) != first && nodes[n].Type == nodes[first].Type && len(shares) > 0 && rapid.IntRange(0, 3).Draw(t, "gang") == 0 {
				if a, ok := share(int32(n)); ok {
					shares = append(shares, a)
				}
			}
		}
		if len(shares) == 0 {
			continue
		}
		s.Nodes.Take(shares)
		s.Candidates = append(s.Candidates, Candidate{
			Shares: shares, Stays: rapid.SampledFrom([]Why{"", "", "", "", NoConsent}).Draw(t, "stays"), Leaving: rapid.IntRange(0, 7).Draw(t, "leaving") == 0,
			Evicted: rapid.IntRange(0, 2).Draw(t, "evicted"), Elapsed: float64(rapid.IntRange(0, 100).Draw(t, "elapsed")),
			Remaining: float64(rapid.IntRange(0, 100).Draw(t, "remaining")), Grace: float64(rapid.IntRange(0, 60).Draw(t, "grace")),
			Unsaved: float64(rapid.IntRange(0, 60).Draw(t, "unsaved")), Restart: 5,
		})
	}
	if rapid.IntRange(0, 4).Draw(t, "down") == 0 {
		s.Nodes.SetDown(int32(rapid.IntRange(0, len(nodes)-1).Draw(t, "which")), true)
	}
	for range rapid.IntRange(1, 4).Draw(t, "trials") {
		trial := Claimant{Request: placement.Request{Types: placement.Types(rapid.IntRange(1, 3).Draw(t, "types")), Amount: placement.Amount{
			GPUs: int32(rapid.IntRange(1, 12).Draw(t, "gpus")), CPUs: int32(rapid.IntRange(0, 8).Draw(t, "cpus")), MemMB: int64(rapid.IntRange(0, 500).Draw(t, "mem")),
		}}, Start: math.Inf(1)}
		if rapid.Bool().Draw(t, "shadow") {
			trial.Start = float64(rapid.IntRange(0, 80).Draw(t, "start"))
		}
		if rapid.IntRange(0, 3).Draw(t, "says nodes") == 0 {
			trial.Request.Nodes = int32(rapid.IntRange(1, min(3, int(trial.Request.GPUs))).Draw(t, "nodes"))
		}
		if parts && trial.Request.Nodes == 0 {
			trial.Request.Most = int32(rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "most nodes"))
		}
		trial.Request.Whole = rapid.IntRange(0, 3).Draw(t, "whole") == 0
		trial.Due = parts && rapid.Bool().Draw(t, "due")
		trial.Spreads = trial.Due && trial.Request.Nodes == 0 && !trial.Request.Whole && rapid.Bool().Draw(t, "spreads")
		if parts && rapid.Bool().Draw(t, "speed known") {
			run := rapid.SampledFrom([]float64{30, 100, 1000, math.Inf(1)})
			trial.Run, trial.StartsOn = []float64{run.Draw(t, "run"), run.Draw(t, "run")}, int32(rapid.IntRange(0, 1).Draw(t, "starts on"))
		}
		s.Claimants = append(s.Claimants, trial)
	}
	for i := range s.Candidates {
		if c := &s.Candidates[i]; c.Leaving && rapid.Bool().Draw(t, "claimed") {
			s.Claims = append(s.Claims, Claim{Of: 0, Shares: c.Shares[:1]})
			break
		}
	}
	return s
}

func drawSettings(t *rapid.T) Settings {
	return Settings{
		Policy: rapid.SampledFrom([]Policy{FitGpp, LeastLoss}).Draw(t, "policy"), S: 4,
		MaxEvictions: rapid.IntRange(0, 2).Draw(t, "max"), MinRun: float64(rapid.IntRange(0, 50).Draw(t, "min run")),
		Rise: float64(rapid.IntRange(0, 2).Draw(t, "rise")), Urgency: float64(rapid.IntRange(0, 3).Draw(t, "urgency")), RunCost: float64(rapid.IntRange(0, 2).Draw(t, "run cost")), MinGain: float64(rapid.IntRange(0, 10).Draw(t, "gain")),
		Limits: Limits{MaxPerHour: rapid.IntRange(0, 5).Draw(t, "an hour")},
	}
}

// Whatever the policy: what is promised is there once the victims have left, nobody leaves who must not, and nobody leaves twice.
func TestVictimsMakeRoomAndMayLeave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, set := drawSnapshot(t, true), drawSettings(t)
		d := Decide(&s, set)
		if again := Decide(&s, set); !reflect.DeepEqual(d, again) {
			t.Fatalf("two decisions on one snapshot: %+v and %+v", d, again)
		}
		later := s.Nodes.Clone()
		for _, c := range s.Candidates {
			if c.Leaving {
				later.Release(c.Shares)
			}
		}
		victims := map[int]bool{}
		for i, v := range d.Verdicts {
			for _, c := range v.Victims {
				x := &s.Candidates[c]
				if victims[c] || x.Stays != "" || x.Leaving || x.Elapsed < set.MinRun || set.MaxEvictions > 0 && x.Evicted >= set.MaxEvictions {
					t.Fatalf("%+v leaves for trial %d: %+v", x, i, v)
				}
				if set.Policy == LeastLoss && x.Grace+set.MinGain >= s.Claimants[i].Start && s.Claimants[i].Run == nil {
					t.Fatalf("%+v leaves for a trial that starts in %v s", x, s.Claimants[i].Start)
				}
				victims[c] = true
				later.Release(x.Shares)
			}
			if len(v.Victims) > 0 != (v.Why == Evicts) || (v.Why == Evicts || v.Why == Fits || v.Why == Claimed) != (v.Shares != nil) {
				t.Fatalf("%+v", v)
			}
		}
		for _, v := range d.Verdicts {
			later.Take(v.Shares)
		}
		for n := range later.Len() {
			if free := later.FreeOn(int32(n)); free.GPUs < 0 || free.CPUs < 0 || free.MemMB < 0 {
				if len(s.Claims) == 0 { // a claim of the past may lie where a node went away
					t.Fatalf("node %d holds %+v: %+v", n, free, d)
				}
			}
		}
		for i, v := range d.Verdicts {
			if v.Why != Evicts && v.Why != Fits {
				continue
			}
			gpus := int32(0)
			for _, share := range v.Shares {
				gpus += share.GPUs
				need, size := s.Nodes.Need(s.Claimants[i].Request, share.GPUs, share.Node), s.Nodes.Size(share.Node)
				if s.Claimants[i].Request.Whole { // that nothing is below zero later says that all others have left
					need = placement.Amount{GPUs: size.GPUs, CPUs: size.CPUs, MemMB: share.MemMB}
				}
				if need != share.Amount || s.Nodes.Down(share.Node) || !s.Claimants[i].Request.Types.Has(s.Nodes.Type(share.Node)) {
					t.Fatalf("trial %d: %+v", i, v)
				}
			}
			if most := s.Claimants[i].Request.Most; most > 0 && len(v.Shares) > int(most) {
				t.Fatalf("trial %d, on %d nodes at most: %+v", i, most, v)
			}
			if r := &s.Claimants[i].Request; gpus != r.GPUs && !r.Whole || gpus < r.GPUs {
				t.Fatalf("trial %d has %d GPUs", i, gpus)
			}
		}
		if l := set.Limits; l.MaxPerHour > 0 && len(victims) > l.MaxPerHour {
			t.Fatalf("%d victims with %+v", len(victims), l)
		}
		for i := range s.Claimants {
			for c, why := range d.Refusals(&s, set, i) {
				if (why == Victim) != slices.Contains(d.Verdicts[i].Victims, c) || why == "" || why == Allowed {
					t.Fatalf("candidate %d stays because %q", c, why)
				}
			}
		}
	})
}

// For a trial on one node no set on any node is cheaper: all are tried here.
func TestCheapestSetByBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, false)
		s.Claimants, s.Claims = s.Claimants[:1], nil
		trial := &s.Claimants[0]
		trial.Request.Nodes = 1
		set := Settings{Policy: LeastLoss, Rise: 1, Urgency: float64(rapid.IntRange(0, 3).Draw(t, "urgency")), MinRun: 20, MaxEvictions: 2}
		best := math.Inf(1)
		if set.Urgency > 0 {
			best = set.Urgency * float64(trial.Request.GPUs) * trial.Start
		}
		fits, found := false, false
		for n := range int32(s.Nodes.Len()) {
			if s.Nodes.Down(n) || !trial.Request.Types.Has(s.Nodes.Type(n)) {
				continue
			}
			free := s.Nodes.FreeOn(n)
			for _, c := range s.Candidates {
				for _, share := range c.Shares {
					if c.Leaving && share.Node == n {
						free = free.Plus(share.Amount)
					}
				}
			}
			need := s.Nodes.Need(trial.Request, trial.Request.GPUs, n)
			for subset := range 1 << len(s.Candidates) {
				room, cost, grace, may := free, 0.0, 0.0, true
				for i, c := range s.Candidates {
					if subset&(1<<i) == 0 {
						continue
					}
					may = may && c.Stays == "" && !c.Leaving && c.Evicted < 2 && c.Elapsed >= 20 && c.Grace < trial.Start
					gpus := 0.0
					for _, share := range c.Shares {
						gpus += float64(share.GPUs)
						if share.Node == n {
							room = room.Plus(share.Amount)
						}
					}
					cost += gpus * (c.Grace + c.Unsaved + c.Restart) * (1 + float64(c.Evicted))
					grace = max(grace, c.Grace)
				}
				cost += set.Urgency * float64(trial.Request.GPUs) * grace
				if may && room.Holds(need) && subset == 0 {
					fits = true
				}
				if may && room.Holds(need) && cost < best {
					best, found = cost, true
				}
			}
		}
		v := Decide(&s, set).Verdicts[0]
		switch {
		case fits:
			if v.Why != Fits {
				t.Fatalf("%+v, and it fits", v)
			}
		case !found:
			if v.Why == Evicts {
				t.Fatalf("%+v, and no set is worth it", v)
			}
		case v.Why != Evicts || math.Abs(v.Cost+set.Urgency*float64(trial.Request.GPUs)*v.Grace-best) > 1e-6:
			t.Fatalf("%+v, and the cheapest costs %v", v, best)
		}
	})
}

// one is a cluster of one node of 8 GPUs with these running jobs.
func one(gpus int32, candidates ...Candidate) Snapshot {
	s := Snapshot{Nodes: placement.New(placement.Packed, []placement.Node{{Amount: placement.Amount{GPUs: 8, CPUs: placement.Plenty, MemMB: placement.Plenty}}})}
	for _, c := range candidates {
		s.Nodes.Take(c.Shares)
		s.Candidates = append(s.Candidates, c)
	}
	s.Claimants = []Claimant{{Request: placement.Request{Types: 1, Amount: placement.Amount{GPUs: gpus}}, Start: math.Inf(1)}}
	return s
}

func job(gpus int32, grace float64) Candidate {
	return Candidate{Shares: []placement.Share{{Amount: placement.Amount{GPUs: gpus}}}, Grace: grace}
}

// The score by hand: size over the largest, plus s times grace over the longest.
func TestFitGppScore(t *testing.T) {
	s := one(2, job(4, 60), job(2, 240), job(2, 120))
	for _, c := range []struct {
		s    float64
		want int
		cost float64
	}{
		{4, 0, 1 + 4*0.25}, // 2; the others 0.5+4 and 0.5+2
		{0, 1, 0.5},        // size only: the first of two equals
		{0.6, 2, 0.5 + 0.6*0.5},
	} {
		v := Decide(&s, Settings{Policy: FitGpp, S: c.s}).Verdicts[0]
		if !slices.Equal(v.Victims, []int{c.want}) || math.Abs(v.Cost-c.cost) > 1e-9 {
			t.Errorf("s %v: %+v, want %d at %v", c.s, v, c.want, c.cost)
		}
	}
	s = one(6, job(4, 60), job(2, 240), job(2, 120))
	if v := Decide(&s, Settings{Policy: FitGpp, S: 4}).Verdicts[0]; !slices.Equal(v.Victims, []int{0, 2}) {
		t.Errorf("%+v", v)
	}
	for i := range s.Candidates {
		s.Candidates[i].Evicted = 1
	}
	if v := Decide(&s, Settings{Policy: FitGpp, S: 4, MaxEvictions: 1}).Verdicts[0]; v.Why != Impossible {
		t.Errorf("all were evicted P times: %+v", v)
	}
}

// A gang that leaves is charged whole, and room on its other nodes is not paid for twice.
func TestGangs(t *testing.T) {
	node := placement.Node{Amount: placement.Amount{GPUs: 4, CPUs: placement.Plenty, MemMB: placement.Plenty}}
	on := func(grace float64, nodes ...int32) (c Candidate) {
		c.Grace = grace
		for _, n := range nodes {
			c.Shares = append(c.Shares, placement.Share{Node: n, Amount: placement.Amount{GPUs: 4}})
		}
		return c
	}
	s := Snapshot{Nodes: placement.New(placement.Packed, []placement.Node{node, node, node})}
	s.Candidates = []Candidate{on(60, 0, 1), on(100, 2)}
	for _, c := range s.Candidates {
		s.Nodes.Take(c.Shares)
	}
	ask := func(gpus int32) Claimant {
		return Claimant{Request: placement.Request{Types: 1, Amount: placement.Amount{GPUs: gpus}}, Start: math.Inf(1)}
	}
	s.Claimants = []Claimant{ask(4)}
	if v := Decide(&s, Settings{Policy: LeastLoss}).Verdicts[0]; !slices.Equal(v.Victims, []int{1}) || v.Cost != 400 {
		t.Errorf("one node: %+v, want the single job at 400", v)
	}
	s.Claimants = []Claimant{ask(8)}
	if v := Decide(&s, Settings{Policy: LeastLoss}).Verdicts[0]; !slices.Equal(v.Victims, []int{0}) || v.Cost != 480 || len(v.Shares) != 2 {
		t.Errorf("two nodes: %+v, want the gang alone at 480", v)
	}
	s.Claimants = []Claimant{ask(4), ask(4), ask(4)}
	d := Decide(&s, Settings{Policy: LeastLoss})
	if got := []Why{d.Verdicts[0].Why, d.Verdicts[1].Why, d.Verdicts[2].Why}; !slices.Equal(got, []Why{Evicts, Evicts, Fits}) {
		t.Errorf("three trials: %v", got)
	}
}

// More candidates than are searched exhaustively: still room, and no victim in vain.
func TestCrowdedNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(maxExact+1, 60).Draw(t, "n")
		s := Snapshot{Nodes: placement.New(placement.Packed, []placement.Node{{Amount: placement.Amount{GPUs: 64, CPUs: 256, MemMB: 1 << 20}}})}
		for range n {
			c := Candidate{Grace: float64(rapid.IntRange(0, 300).Draw(t, "grace")), Shares: []placement.Share{{Amount: placement.Amount{GPUs: 1, CPUs: int32(rapid.IntRange(1, 4).Draw(t, "cpus"))}}}}
			s.Nodes.Take(c.Shares)
			s.Candidates = append(s.Candidates, c)
		}
		need := int32(rapid.IntRange(64-n+1, 64).Draw(t, "need"))
		s.Claimants = []Claimant{{Request: placement.Request{Types: 1, Amount: placement.Amount{GPUs: need, CPUs: 1}}, Start: math.Inf(1)}}
		v := Decide(&s, Settings{Policy: LeastLoss}).Verdicts[0]
		if v.Why != Evicts || len(v.Victims) != int(need)-(64-n) {
			t.Fatalf("%d victims for %d GPUs of 64 with %d in use: %+v", len(v.Victims), need, n, v)
		}
	})
}

// A trial goes where it is done at the least cost: to a slow GPU that is free only where nobody leaves
// a fast one for less than its longer run there.
func TestPlaceBySpeed(t *testing.T) {
	nodes := placement.New(placement.Packed, []placement.Node{{Type: 0, Amount: placement.Amount{GPUs: 4, CPUs: 16, MemMB: 1000}}, {Type: 1, Amount: placement.Amount{GPUs: 4, CPUs: 16, MemMB: 1000}}})
	share := []placement.Share{{Node: 0, Amount: placement.Amount{GPUs: 4}}}
	nodes.Take(share)
	for name, x := range map[string]struct {
		run     []float64 // on the fast node, where a job that loses 400 GPU-seconds leaves within 30 s, and on the slow one, which is free
		start   float64   // without an eviction
		why     Why
		gpuType int32
	}{
		"much faster": {[]float64{300, 1500}, math.Inf(1), Evicts, 0}, "hardly faster": {[]float64{300, 350}, math.Inf(1), Fits, 1}, "equal": {[]float64{300, 300}, math.Inf(1), Fits, 1},
		"unknown": {nil, math.Inf(1), Fits, 1}, "only there": {[]float64{300, math.Inf(1)}, math.Inf(1), Evicts, 0}, "nowhere": {[]float64{math.Inf(1), math.Inf(1)}, math.Inf(1), CannotRun, -1}, "only on the free one": {[]float64{math.Inf(1), 300}, math.Inf(1), Fits, 1}, "soon free": {[]float64{300, 1500}, 20, Anyway, -1},
	} {
		s := Snapshot{Nodes: nodes, Candidates: []Candidate{{Shares: share, Grace: 30, Unsaved: 60, Restart: 10}}, Claimants: []Claimant{{
			Request: placement.Request{Types: 3, Nodes: 1, Amount: placement.Amount{GPUs: 1}}, Start: x.start, Run: x.run,
		}}}
		for _, each := range []float64{0, 3000} { // what an eviction costs beside the loss is no reason for a slow type
			v := Decide(&s, Settings{Policy: LeastLoss, Urgency: 5, RunCost: 1, MinGain: 1, Each: each}).Verdicts[0]
			on := int32(-1)
			if len(v.Shares) > 0 {
				on = nodes.Type(v.Shares[0].Node)
			}
			if v.Why != x.why || on != x.gpuType {
				t.Errorf("%s, each %v: %+v", name, each, v)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	for limits, want := range map[Limits]Why{
		{MaxPerHour: 4}: PerHour, {GPUHoursPerDay: 1}: PerDay, {MaxPerHour: 5, GPUHoursPerDay: 9}: Evicts,
	} {
		s := one(8, job(4, 1800), job(4, 1800)) // 4 GPU-hours
		s.PastHour = 3
		if v := Decide(&s, Settings{Policy: LeastLoss, Limits: limits}).Verdicts[0]; v.Why != want {
			t.Errorf("%+v: %+v, want %s", limits, v, want)
		}
	}
	s := one(8, job(2, 1800), job(2, 1800), job(2, 1800), job(2, 1800)) // 1 GPU-hour each
	trial := s.Claimants[0]
	trial.Request.GPUs = 2
	s.Claimants, s.PastOwner = nil, map[string]float64{"ann": 2}
	for _, trial.Owner = range []string{"ann", "ann", "bob", "bob", "bob"} {
		s.Claimants = append(s.Claimants, trial)
	}
	got := []Why{}
	for _, v := range Decide(&s, Settings{Policy: LeastLoss, Limits: Limits{UserGPUMinutesPerDay: 150}}).Verdicts {
		got = append(got, v.Why)
	}
	if want := []Why{Evicts, PerOwner, Evicts, Evicts, Evicts}; !slices.Equal(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// large is 10,000 full nodes with 50,000 running jobs and 1,000 waiting TE jobs.
func large() Snapshot {
	r := rand.New(rand.NewPCG(1, 2))
	nodes := make([]placement.Node, 10_000)
	for i := range nodes {
		nodes[i] = placement.Node{Amount: placement.Amount{GPUs: 8, CPUs: 32, MemMB: 256 << 10}}
	}
	s := Snapshot{Nodes: placement.New(placement.Packed, nodes)}
	for n := range nodes {
		for _, gpus := range []int32{1, 1, 2, 2, 2} {
			a := placement.Amount{GPUs: gpus, CPUs: 2 + int32(r.IntN(5)), MemMB: 1024 * (1 + r.Int64N(50))}
			c := Candidate{Shares: []placement.Share{{Node: int32(n), Amount: a}}, Evicted: r.IntN(2), Elapsed: r.Float64() * 1e4, Grace: math.Round(r.Float64() * 600), Unsaved: r.Float64() * 3600, Restart: 60}
			s.Nodes.Take(c.Shares)
			s.Candidates = append(s.Candidates, c)
		}
	}
	for range 1000 {
		s.Claimants = append(s.Claimants, Claimant{Start: math.Inf(1), Request: placement.Request{Types: 1, Amount: placement.Amount{
			GPUs: min(8, 1+int32(r.ExpFloat64()*2)), CPUs: 1 + int32(r.IntN(16)), MemMB: 1024 * (1 + r.Int64N(128)),
		}}})
	}
	return s
}

func BenchmarkDecide(b *testing.B) {
	s := large()
	for _, set := range []Settings{{Policy: LeastLoss, Rise: 1, MaxEvictions: 3}, {Policy: LeastLoss, Rise: 1, MaxEvictions: 3, Urgency: 10}, {Policy: FitGpp, S: 4, MaxEvictions: 2}} {
		name := string(set.Policy)
		if set.Urgency > 0 {
			name += "-urgent"
		}
		b.Run(name, func(b *testing.B) {
			count := map[Why]int{}
			before := cpu(b)
			for b.Loop() {
				clear(count)
				for _, v := range Decide(&s, set).Verdicts {
					count[v.Why]++
				}
			}
			b.ReportMetric((cpu(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op") // other work on the machine does not count
			b.ReportMetric(float64(count[Evicts]), "evicting")
			b.ReportMetric(float64(len(s.Candidates)), "running")
		})
	}
}

// cpu is the time that this process has computed.
func cpu(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// Trials that are alike are looked at once where there is no place for them: nothing else comes out than where each is looked
// at. Prices up to 1 mean the same, and make them differ.
func TestAlikeTrialsAreLookedAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, set := drawSnapshot(t, true), drawSettings(t)
		s.Claimants = slices.Concat(s.Claimants, s.Claimants, s.Claimants)
		got := Decide(&s, set)
		s.Claimants = slices.Clone(s.Claimants)
		for i := range s.Claimants {
			s.Claimants[i].Price = float64(i) / float64(len(s.Claimants))
		}
		if want := Decide(&s, set); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, looked at one by one %+v", got, want)
		}
	})
}

// Two minutes are a small part of a long job's time. Of jobs of equal limits, and of limits below an hour, the one leaves that loses least.
func TestShortJobsStay(t *testing.T) {
	running := func(limit, unsaved float64) Candidate {
		c := job(8, unsaved)
		c.Elapsed, c.Remaining = 600, limit-600
		return c
	}
	for name, c := range map[string]struct {
		first, second Candidate
		leaves        int
	}{
		"one hour, twelve":           {running(3600, 0), running(43200, 600), 1},
		"twelve hours, a day":        {running(43200, 0), running(86400, 600), 0},
		"twenty minutes, an hour":    {running(1200, 0), running(3600, 600), 0},
		"without a limit":            {running(3600, 0), running(math.Inf(1), 600), 1},
		"long, evicted three times":  {running(3*3600, 0), running(43200, 0).evicted(3), 0},
		"long, evicted once":         {running(3600, 0), running(43200, 0).evicted(1), 1},
		"no time left, none elapsed": {Candidate{Shares: job(8, 0).Shares}, running(43200, 0), 1},
	} {
		s := two(8, c.first, c.second)
		if v := Decide(&s, Constants).Verdicts[0]; v.Why != Evicts || !slices.Equal(v.Victims, []int{c.leaves}) {
			t.Errorf("%s: %+v, want that %d leaves", name, v, c.leaves)
		}
	}
}

func (c Candidate) evicted(times int) Candidate {
	c.Evicted = times
	return c
}
