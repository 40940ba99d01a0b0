package trial

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func twoWeeks(seed uint64) *Trial {
	return &Trial{Settings: Settings{Block: 12 * time.Hour, Length: 2 * week, WashOut: 2 * time.Hour, Seed: seed}, Start: start}
}

// TestBlocksAreBalanced: each part of the week, or of the day, stands once on and once off, the order is that of the seed, and
// jobs count from the end of each wash-out on.
func TestBlocksAreBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &Trial{Settings: Settings{
			Block:  time.Duration(rapid.SampledFrom([]int{1, 6, 12, 24, 84}).Draw(t, "hours")) * time.Hour,
			Length: time.Duration(rapid.SampledFrom([]int{10, 14, 28, 42}).Draw(t, "days")) * day, WashOut: -1, Seed: rapid.Uint64().Draw(t, "seed"),
		}, Start: start}
		if x.Check() != nil {
			t.Skip()
		}
		blocks, apart := x.Blocks(), x.distance()
		if !slices.Equal(blocks, x.Blocks()) {
			t.Fatal("another order from the same seed")
		}
		if whole := x.Length%(2*week) == 0; whole != (apart == week) {
			t.Fatalf("pairs are %v apart in %v", apart, x.Length)
		}
		first := map[int]Block{}
		for i, b := range blocks {
			if !b.From.Equal(start.Add(time.Duration(i)*x.Block)) || b.Until.Sub(b.From) != x.Block || b.Number != i+1 {
				t.Fatalf("block %d: %+v", i, b)
			}
			if !b.Counts.Equal(b.From.Add(x.WashOut)) {
				t.Fatalf("block %d counts from %v on", i, b.Counts)
			}
			if f, second := first[b.Pair]; !second {
				first[b.Pair] = b
			} else if f.Off == b.Off || b.From.Sub(f.From) != apart {
				t.Fatalf("a pair of %+v and %+v", f, b)
			}
		}
		if 2*len(first) != len(blocks) {
			t.Fatalf("%d pairs of %d blocks", len(first), len(blocks))
		}
	})
}

// stream are jobs of two weeks whose completion a priod that is on makes so many times as long, in log. In off blocks that is felt as far
// as places are still those that it chose: they are free again after a mean time. What is submitted changes from block to block.
func stream(x *Trial, seed uint64, effect float64, places time.Duration) (jobs []Job) {
	draw := rand.New(rand.NewPCG(seed, 1))
	drift, chosen := 0.0, 1.0 // places that priod chose, at the beginning of a block
	for _, b := range x.Blocks() {
		drift = 0.8*drift + 0.15*draw.NormFloat64()
		long := 0.3 * draw.NormFloat64() // jobs of this block are longer
		on := 1.0
		if b.Off {
			on = 0
		}
		at := func(after time.Duration) float64 {
			return on + (chosen-on)*math.Exp(-after.Hours()/max(places.Hours(), 1e-3))
		}
		for range 20 + draw.IntN(80) {
			after := time.Duration(draw.Float64() * float64(x.Block))
			j := Job{Submit: b.From.Add(after), TE: draw.Float64() < 0.3, GPUs: 1 << draw.IntN(4), Account: string(rune('a' + draw.IntN(3)))}
			limit := long + draw.NormFloat64()
			if j.TE {
				limit -= 3
			}
			j.Limit = time.Duration(math.Exp(limit) * float64(4*time.Hour))
			took := time.Duration(math.Exp(limit+drift+0.7*draw.NormFloat64()+effect*max(on, at(after))) * float64(time.Hour))
			j.Start, j.End, j.Ran = j.Submit, j.Submit.Add(took), time.Duration(draw.ExpFloat64()*float64(places))
			jobs = append(jobs, j)
		}
		chosen = at(x.Block)
	}
	return jobs
}

// TestIntervalsHold: of many trials the interval holds the true effect in about nine of ten, no more than one of twenty says that
// priod helps where it changes nothing, and estimates are right in the mean, whether or not much is carried over.
func TestIntervalsHold(t *testing.T) {
	const trials = 80
	for _, c := range []struct {
		effect float64
		places time.Duration
	}{{0, 0}, {-0.4, 16 * time.Hour}, {-0.4, 30 * time.Hour}} {
		held, helps, sum, memory := 0, 0, 0.0, 0.0
		for n := range uint64(trials) {
			x := twoWeeks(100 + n)
			a, r := begin(x, stream(x, 1000+n, c.effect, c.places), start.Add(3*week))
			e := a.typical(typical, func(*seen) bool { return true })
			if !e.Told || e.Pairs != 14 {
				t.Fatalf("trial %d: %+v", n, e)
			}
			if math.Log1p(e.Low) <= c.effect && c.effect <= math.Log1p(e.High) {
				held++
			}
			if e.Helps() {
				helps++
			}
			sum, memory = sum+math.Log1p(e.Change)/trials, memory+r.MemoryS/3600/trials
		}
		t.Logf("%+v: %d of %d intervals hold it, %d say that priod helps, in the mean %.3f, memory %.0f h", c, held, trials, helps, sum, memory)
		if held < 85*trials/100 {
			t.Errorf("%+v: %d of %d intervals hold it", c, held, trials)
		}
		if c.effect == 0 && helps > 8*trials/100 {
			t.Errorf("%d of %d trials without an effect say that priod helps", helps, trials)
		}
		if math.Abs(sum-c.effect) > 0.04 {
			t.Errorf("%+v is %.3f in the mean", c, sum)
		}
	}
}

// TestIntervalIsThatOfTheTest: an interval holds those effects that the test does not refuse, whatever the orders.
func TestIntervalIsThatOfTheTest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		orders := []sum{{rapid.Float64Range(-5, 5).Draw(t, "y"), rapid.Float64Range(0.5, 1).Draw(t, "d")}}
		for range rapid.IntRange(1, 60).Draw(t, "orders") {
			orders = append(orders, sum{rapid.Float64Range(-5, 5).Draw(t, "y"), rapid.Float64Range(-0.4, 0.4).Draw(t, "d")})
		}
		x := invert(orders)
		if x.low > x.estimate || x.high < x.estimate {
			t.Fatalf("%+v", x)
		}
		if len(orders) < 10 && x.bounded {
			t.Fatalf("%d orders are too few for 90 %%: %+v", len(orders), x)
		}
		if x.bounded && (x.p <= doubt) != (x.low > 0 || x.high < 0) && math.Min(math.Abs(x.low), math.Abs(x.high)) > 1e-6 {
			t.Fatalf("no effect has a chance of %.3f, and the interval is %.4f to %.4f", x.p, x.low, x.high)
		}
	})
}

// TestLeavesOut: blocks that something touched, with the other one of their pair; jobs of wash-outs; blocks to come.
func TestLeavesOut(t *testing.T) {
	x := twoWeeks(3)
	jobs := stream(x, 3, -0.4, 0)
	whole := Analyse(x, jobs, start.Add(3*week))
	touch := func(h int, why string) bool {
		at := start.Add(time.Duration(h) * time.Hour)
		return x.Touch(at, at, why)
	}
	if !touch(13, "priod was started") || touch(14, "priod was started") || touch(-1, "before") || touch(14*24, "after") {
		t.Error("a block is touched once for each reason, while the trial is on")
	}
	part := Analyse(x, jobs, start.Add(3*week))
	if whole.Pairs != 14 || part.Pairs != 13 || part.LeftOut == 0 || part.Jobs+part.LeftOut != whole.Jobs || part.WashedOut != whole.WashedOut {
		t.Errorf("%+v, with a touched block %+v", whole, part)
	}
	if half := Analyse(x, jobs, start.Add(week)); half.Pairs != 0 || half.Completion.Told {
		t.Errorf("after a week no pair is complete: %+v", half)
	}
	if x.Touch(start.Add(-time.Hour), start.Add(30*time.Hour), "priod was started"); len(x.Touched) != 3 || x.Touched[1].At != start || x.Touched[2].Block != 3 {
		t.Errorf("out from before the start until block 3: %+v", x.Touched)
	}
	x.Touched = x.Touched[:1]
	all := slices.Clone(jobs)
	for i := range all {
		all[i].Submit = start.Add(3*time.Hour + time.Duration(i)*time.Second)
		all[i].Start, all[i].End = all[i].Submit, all[i].Submit.Add(time.Hour)
	}
	if one := Analyse(x, all, start.Add(3*week)); one.Completion.Told {
		t.Errorf("all jobs in one block: %+v", one.Completion)
	}
}

func TestCheckOfSettings(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"blocks=12h,days=14", ""}, {"blocks=1m,days=20m", ""}, {"blocks=5h,days=14", "do not divide"}, {"blocks=4d,days=12", "10 at least"}, {"blocks=3s", "ten seconds or more"},
		{"blocks=12h,wash-out=7h", "less than half"}, {"blocks=x", "want a time"}, {"days=NaNd", "want a number of days"}, {"what=1", "want blocks, days"},
	} {
		_, _, err := Parse(c.words)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.words, err, c.want)
		}
	}
}

// TestHarm: a trial harms where trial jobs wait longer than the bound while priod is on, and where an account's jobs surely take longer
// by more than the factor; what off blocks, wash-outs and few jobs show is no harm.
func TestHarm(t *testing.T) {
	jobs := stream(twoWeeks(3), 3, 0.8, 0)
	for i := range jobs {
		jobs[i].Start, jobs[i].Ran = jobs[i].Submit.Add(10*time.Minute), max(jobs[i].End.Sub(jobs[i].Submit)-10*time.Minute, time.Second)
	}
	harm := func(b Bounds, jobs []Job) string {
		x := twoWeeks(3)
		x.Bounds = b
		return Harm(x, jobs, start.Add(3*week))
	}
	off := slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { b, _ := twoWeeks(3).At(j.Submit); return !b.Off })
	for _, c := range []struct {
		bounds Bounds
		jobs   []Job
		want   string
	}{
		{Bounds{TEWaitP95: 5 * time.Minute}, jobs, "one in twenty waits longer than 600 s; the bound is 300 s"},
		{Bounds{TEWaitP95: 15 * time.Minute}, jobs, ""},
		{Bounds{TEWaitP95: 5 * time.Minute}, off, ""},
		{Bounds{TEWaitP95: 5 * time.Minute}, jobs[:20], ""},
		{Bounds{Completion: 1.1}, jobs, "times as long in the mean; the bound is 1.10"},
		{Bounds{Completion: 9}, jobs, ""},
		{Bounds{Completion: 1.1}, stream(twoWeeks(3), 3, -0.8, 0), ""},
	} {
		if got := harm(c.bounds, c.jobs); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v, %d jobs: %q, want %q", c.bounds, len(c.jobs), got, c.want)
		}
	}
	waiting := slices.Clone(jobs)
	for i := range waiting {
		waiting[i].Start, waiting[i].End, waiting[i].Ran = time.Time{}, time.Time{}, 0
	}
	if harm(Bounds{TEWaitP95: 15 * time.Minute}, waiting) == "" {
		t.Error("jobs that still wait")
	}
}
