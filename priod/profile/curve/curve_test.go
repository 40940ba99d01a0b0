package curve

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// steps draws a monotone speed for each CPU count.
func steps(t *rapid.T, most int) func(cpus int) float64 {
	gains := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 0, 0.01, 0.1, 0.5, 2}), most, most).Draw(t, "gains")
	return func(cpus int) float64 {
		rate := 1.0
		for _, g := range gains[:cpus] {
			rate += g
		}
		return rate
	}
}

func measureAll(candidates []int, share int, rate func(int) float64) (points []Point) {
	for len(points) <= len(candidates) {
		cpus, ok := Next(points, candidates, share)
		if !ok {
			return points
		}
		points = append(points, Point{cpus, rate(cpus)})
	}
	return points
}

func TestNextFindsEveryMonotoneCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 40
		rate := steps(t, most)
		candidates := rapid.SliceOfNDistinct(rapid.IntRange(1, most), 1, most, rapid.ID).Draw(t, "candidates")
		points := measureAll(candidates, rapid.IntRange(1, most).Draw(t, "share"), rate)
		seen := map[int]bool{}
		for _, p := range points {
			if seen[p.CPUs] || !slices.Contains(candidates, p.CPUs) {
				t.Fatalf("measured %v of %v", points, candidates)
			}
			seen[p.CPUs] = true
		}
		fitted := Fit(points)
		for _, c := range candidates {
			if got, want := Rate(fitted, float64(c)), rate(c); math.Abs(got-want) > Plateau*want*1.0001 {
				t.Errorf("%d CPUs: %v, and it is %v; measured %v", c, got, want, points)
			}
		}
	})
}

func TestNextSparesPlateaus(t *testing.T) {
	all := make([]int, 64)
	for i := range all {
		all[i] = i + 1
	}
	flat := measureAll(all, 8, func(int) float64 { return 7 })
	if len(flat) != 3 {
		t.Errorf("a flat curve took %v", flat)
	}
	cliff := measureAll(all, 8, func(c int) float64 { return float64(min(c, 12)) })
	above := 0
	for _, p := range cliff {
		if p.CPUs > 12 {
			above++
		}
	}
	if above > 6 { // halving 8 to 64
		t.Errorf("measured %d of 52 points on the plateau: %v", above, cliff)
	}
	if got := Demand(Fit(cliff)); got != 12 {
		t.Errorf("demand %d of %v, want 12", got, cliff)
	}
	if want := []int{64, 8, 1}; cliff[0].CPUs != want[0] || cliff[1].CPUs != want[1] || cliff[2].CPUs != want[2] {
		t.Errorf("began with %v, want %v", cliff[:3], want)
	}
	if _, ok := Next(nil, nil, 3); ok {
		t.Error("chose one of no candidates")
	}
}

// The fit is monotone, keeps the sum, and no monotone curve is nearer.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.SliceOfN(rapid.Float64Range(0.1, 10), 1, 12).Draw(t, "rates")
		points := make([]Point, len(rates))
		for i, r := range rates {
			points[len(rates)-1-i] = Point{i + 1, r}
		}
		distance := func(rate func(i int) float64) (sum float64) {
			for i, r := range rates {
				sum += (rate(i) - r) * (rate(i) - r)
			}
			return sum
		}
		fitted := Fit(points)
		own := distance(func(i int) float64 { return fitted[i].Rate })
		sum := 0.0
		for i, p := range fitted {
			sum += p.Rate - rates[i]
			if p.CPUs != i+1 || i > 0 && p.Rate < fitted[i-1].Rate {
				t.Fatalf("%v became %v", rates, fitted)
			}
		}
		if math.Abs(sum) > 1e-9 {
			t.Errorf("the sum changed by %v", sum)
		}
		other := slices.Sorted(slices.Values(rapid.SliceOfN(rapid.Float64Range(0.1, 10), len(rates), len(rates)).Draw(t, "other")))
		if d := distance(func(i int) float64 { return other[i] }); d < own-1e-9 {
			t.Errorf("%v is nearer to %v than %v", other, rates, fitted)
		}
		if d := Demand(fitted); Rate(fitted, float64(d))*(1+Plateau) < fitted[len(fitted)-1].Rate {
			t.Errorf("demand %d of %v", d, fitted)
		}
	})
}

// Whatever comes before the warm-up is over, and however often a program
// reports, its rate is that of its steady part.
func TestRateIgnoresWarmup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Window{Warmup: 2 * time.Second, Measure: 4 * time.Second}
		rate := rapid.Float64Range(0.01, 1000).Draw(t, "rate")
		slow := rapid.Float64Range(0.05, 0.5).Draw(t, "slow") // speed while it warms up
		until := time.Duration(rapid.IntRange(0, 30_000).Draw(t, "until")) * time.Millisecond
		every := time.Duration(rapid.IntRange(100, 3000).Draw(t, "every")) * time.Millisecond
		done := func(at time.Duration) float64 {
			return rate * (slow*min(at, until).Seconds() + max(0, at-until).Seconds())
		}
		var reports []Report
		for at := time.Duration(0); at < time.Minute; at += every {
			reports = append(reports, Report{at, done(at)})
			got, steady := w.Rate(reports)
			if got > 0 && reports[len(reports)-1].At < w.Warmup+w.Measure {
				t.Fatalf("a rate after %v", at)
			}
			if steady && at >= until+w.Measure+fewest*every && math.Abs(got-rate) > 0.001*rate {
				t.Fatalf("%v a second at %v, and it is %v", got, at, rate)
			}
		}
		if got, steady := w.Rate(reports); !steady || math.Abs(got-rate) > 0.001*rate {
			t.Errorf("%v a second, steady %v, and it is %v", got, steady, rate)
		}
	})
}

func TestCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 300).Draw(t, "most")
		share := rapid.IntRange(1, most).Draw(t, "share")
		c := Candidates(most, share)
		if !slices.IsSorted(c) || c[0] != 1 || c[len(c)-1] != most || !slices.Contains(c, share) || len(slices.Compact(slices.Clone(c))) != len(c) {
			t.Fatalf("candidates %v", c)
		}
		for i := 1; i < len(c); i++ {
			if c[i] > 2*c[i-1] {
				t.Errorf("a gap in %v", c)
			}
		}
	})
}

func TestRateOfLittle(t *testing.T) {
	w := Window{Warmup: time.Second, Measure: time.Second}
	still := make([]Report, 100)
	for i := range still {
		still[i].At = time.Duration(i) * time.Second
	}
	for _, reports := range [][]Report{nil, still[:1], still, make([]Report, 9)} {
		if rate, steady := w.Rate(reports); rate != 0 || steady {
			t.Errorf("%d reports without progress give %v, %v", len(reports), rate, steady)
		}
	}
}

func TestCounterGoesOnWhereAnEpochBegins(t *testing.T) {
	c := NewCounter(regexp.MustCompile(`step ([0-9.]+)`))
	for _, s := range []struct {
		line string
		done float64
		ok   bool
	}{
		{"loading", 0, false}, {"step 100/500", 0, true}, {"step 110", 10, true}, {"step 3", 13, true}, {"step 5.5", 15.5, true},
		{"step 1.2.3", 0, false}, {"step " + strings.Repeat("9", 400), 0, false}, {"step 6", 16, true},
	} {
		if done, ok := c.Read(s.line); done != s.done || ok != s.ok {
			t.Errorf("%.40q: %v, %v; want %v, %v", s.line, done, ok, s.done, s.ok)
		}
	}
	c = NewCounter(regexp.MustCompile(`^done`))
	for want := range 3 {
		if done, ok := c.Read("done with a batch"); !ok || done != float64(want) {
			t.Errorf("line %d counts %v, %v", want, done, ok)
		}
	}
}

func FuzzCounter(f *testing.F) {
	f.Add("step 1\nstep 2")
	f.Add("step NaN\nstep 1e999\nstep -5\nstep 0x10")
	f.Fuzz(func(t *testing.T, text string) {
		c := NewCounter(regexp.MustCompile(`step\s*(\S*)`))
		before := 0.0
		for line := range strings.Lines(text) {
			done, ok := c.Read(line)
			if !ok {
				continue
			}
			if !(done >= before && done <= maxSteps) {
				t.Fatalf("%q brings the count from %v to %v", line, before, done)
			}
			before = done
		}
	})
}

// Storage feeds what it can: with all cached there is no limit, and an epoch
// takes as long as the rest needs to be read.
func TestCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Cache{
			DatasetMB: rapid.Float64Range(1, 1e7).Draw(t, "dataset"), EpochSteps: rapid.Float64Range(1, 1e6).Draw(t, "steps"),
			DiskMBps: rapid.Float64Range(1, 1e4).Draw(t, "disk"), WorkingMB: rapid.Float64Range(0, 1e5).Draw(t, "working"),
		}
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		node := int64(rapid.IntRange(1, 1<<20).Draw(t, "node"))
		cached := rapid.Float64Range(0, 0.99).Draw(t, "cached")
		if got, want := c.EpochSteps/c.Rate(c.WorkingMB+cached*c.DatasetMB), c.DatasetMB*(1-cached)/c.DiskMBps; math.Abs(got-want) > 1e-6*want {
			t.Errorf("an epoch takes %v s, want %v", got, want)
		}
		if c.Rate(0) != c.Rate(c.WorkingMB) || !math.IsInf(c.Rate(c.WorkingMB+c.DatasetMB+1), 1) {
			t.Error("wrong at the ends")
		}
		amounts := c.Amounts(gpus, node)
		for i, a := range amounts {
			if a < 1 || a > node || i > 0 && a <= amounts[i-1] {
				t.Fatalf("amounts %v on a node of %d", amounts, node)
			}
		}
	})
}

func TestBar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part, width := rapid.Float64().Draw(t, "part"), rapid.IntRange(1, 60).Draw(t, "width")
		for _, unicode := range []bool{false, true} {
			n := utf8.RuneCountInString(Bar(part, width, unicode))
			if n > width || (n == 0) != !(part > 0) {
				t.Errorf("%v of %d columns takes %d", part, width, n)
			}
		}
	})
	if got := Bar(0.5, 5, true); got != "██▌" {
		t.Errorf("half of 5 columns is %q", got)
	}
	if Bar(math.NaN(), 5, false) != "" || Bar(1, 3, false) != "###" {
		t.Error("wrong at the ends")
	}
}
