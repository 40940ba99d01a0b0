package tune

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// drawn is a setting whose blocks have a mean completion of about so many hours. All settings share the weather of a block.
func drawn(r *rand.Rand, name string, mean float64, weather []float64) *Setting {
	s := &Setting{Set: []string{name}}
	for _, w := range weather {
		s.Blocks = append(s.Blocks, Block{Completion: {mean * w * (1 + 0.05*r.NormFloat64()) * 100, 100}, Lost: {r.Float64(), 1}})
	}
	return s
}

func weather(r *rand.Rand, n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = math.Exp(r.NormFloat64())
	}
	return w
}

// Settings that differ by noise alone are seldom recommended, one that wins by 10 % mostly, and none ever that is no better than
// the present one where it was not chosen.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		gain     float64
		min, max float64
	}{{0, 0, 0.12}, {0.1, 0.85, 1}} {
		recommended := 0.0
		for range 300 {
			w := weather(r, 16)
			now := drawn(r, "now", 10, w)
			all := []*Setting{now}
			for _, name := range []string{"a", "b", "c"} {
				all = append(all, drawn(r, name, 10*(1-c.gain), w))
			}
			choose, report := Split(16)
			a := Aim{Goal: Completion}
			choice := a.Choose(all, now, choose, report)
			if choice.Setting == nil {
				continue
			}
			recommended++
			if from, to := Value(now.Blocks, Completion, report), Value(choice.Setting.Blocks, Completion, report); to >= from {
				t.Errorf("recommended where it was worse: %v, %v", from, to)
			}
		}
		if part := recommended / 300; part < c.min || part > c.max {
			t.Errorf("settings that gain %.0f %% are recommended in %.0f %% of cases", 100*c.gain, 100*part)
		}
	}
}

// Bounds rule settings out, and where the present one breaks them the best that keeps them is recommended, without a gain.
func TestBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	w := weather(r, 16)
	for i := range w {
		w[i] = 1
	}
	now, fast := drawn(r, "now", 10, w), drawn(r, "fast", 5, w)
	for i := range fast.Blocks {
		now.Blocks[i][TEP95], fast.Blocks[i][TEP95] = Sum{2, 1}, Sum{9, 1}
	}
	choose, report := Split(16)
	a := Aim{Goal: Completion, Bounds: map[Goal]float64{TEP95: 3}}
	if c := a.Choose([]*Setting{now, fast}, now, choose, report); c.Setting != nil {
		t.Errorf("recommended beyond a bound: %+v", c)
	}
	a.Bounds[TEP95] = 20
	if c := a.Choose([]*Setting{now, fast}, now, choose, report); c.Setting != fast {
		t.Errorf("not recommended within the bound: %+v", c)
	}
	a = Aim{Goal: Completion, Now: now.Blocks}
	if c := a.Choose([]*Setting{now, fast}, now, choose, report); c.Setting != nil {
		t.Errorf("recommended where trials get slower: %+v", c)
	}
	a = Aim{Goal: Completion, Bounds: map[Goal]float64{Completion: 6}}
	if c := a.Choose([]*Setting{now, fast}, now, choose, report); c.Setting != fast {
		t.Errorf("the present setting breaks the bound: %+v", c)
	}
	a.Bounds[Completion] = 1
	if c := a.Choose([]*Setting{now, fast}, now, choose, report); c.Setting != nil || c.Why != "no setting keeps the bounds" {
		t.Errorf("%+v", c)
	}
}

// No setting on the front is beaten by another, each off it is by one on it, and one that could not be replayed is on none.
func TestFront(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*Setting
		for range rapid.IntRange(1, 8).Draw(t, "settings") {
			b := Block{}
			for _, g := range Goals {
				b[g] = Sum{float64(rapid.IntRange(1, 4).Draw(t, string(g))), 1}
			}
			all = append(all, &Setting{Blocks: []Block{b}})
		}
		all = append(all, &Setting{})
		beats := func(a, b *Setting) bool {
			better, worse := false, false
			for _, g := range Goals {
				better, worse = better || a.All(g) < b.All(g), worse || a.All(g) > b.All(g)
			}
			return better && !worse
		}
		on := map[*Setting]bool{}
		for _, s := range Front(all) {
			on[s] = true
		}
		for _, s := range all {
			beaten := s.Blocks == nil
			for _, o := range all {
				beaten = beaten || o.Blocks != nil && s.Blocks != nil && beats(o, s)
			}
			if beaten == on[s] {
				t.Fatalf("%+v: beaten %v, on the front %v", s, beaten, on[s])
			}
		}
	})
}

// What is stored of blocks comes back.
func TestFlat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := make([]Block, rapid.IntRange(1, 20).Draw(t, "blocks"))
		for i := range blocks {
			blocks[i] = Block{Lost: {1, 1}}
			for _, g := range Goals {
				if rapid.Bool().Draw(t, "has") {
					blocks[i][g] = Sum{rapid.Float64().Draw(t, "sum"), float64(rapid.IntRange(1, 9).Draw(t, "n"))}
				}
			}
		}
		if diff := cmp.Diff(blocks, Unflat(Flat(blocks))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestMeasure(t *testing.T) {
	var jobs []trace.Job
	var outcomes []metrics.Outcome
	add := func(submit, wait, run float64, class cluster.Class, user string, gpus int) {
		jobs = append(jobs, trace.Job{Submit: submit, GPUs: gpus, Class: class, User: user})
		outcomes = append(outcomes, metrics.Outcome{Start: submit + wait, End: submit + wait + run, Ran: run, Wasted: 360, Done: true})
	}
	for range 5 {
		add(10, 3600, 3600, cluster.BE, "ann", 1)
	}
	add(20, 0, 3600, cluster.TE, "bob", 1)
	add(20, 9e6, 1, cluster.TE, "bob", 0) // without GPUs
	add(150, 0, 7200, cluster.BE, "bob", 2)
	all := Measure(jobs, outcomes, 2, 100)
	if v := Value(all, Completion, []int{0}); math.Abs(v-11.0/6) > 1e-9 {
		t.Errorf("completion %v h", v)
	}
	if v := Value(all, Lost, []int{0}); math.Abs(v-0.6) > 1e-9 {
		t.Errorf("lost %v GPU-hours", v)
	}
	if v := Value(all, WorstUser, []int{0, 1}); v < 2 || v > 2.2 {
		t.Errorf("worst user %v", v)
	}
	if v := Value(all, TEP95, []int{1}); !math.IsNaN(v) {
		t.Errorf("TE p95 of a block without TE jobs: %v", v)
	}
}

func TestEdits(t *testing.T) {
	const text = "profile = \"order-only\"\n[ranking]\norder = \"slurm\" # ours\n[[class]]\nenabled = 3\n[preemption]\nenabled = false\n"
	want := []Edit{
		{"profile", "", `profile = "order-only"`, `profile = "balanced"`},
		{"ranking.order", "ranking", `order = "slurm" # ours`, `order = "owed"`},
		{"preemption.enabled", "preemption", "enabled = false", "enabled = true"},
		{"preemption.urgency", "preemption", "", "urgency = 10"},
		{"steering.enabled", "steering", "", "enabled = true"},
		{"te_budget.user.time_limit", "te_budget.user", "", `time_limit = "2h"`},
	}
	got := Edits(text, []string{"profile=balanced", "ranking.order=owed", "preemption.enabled=true", "preemption.urgency=10", "steering.enabled=true", "te_budget.user.time_limit=2h"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
