package runtimes_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/workload/runtimes"
)

var epoch = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// drawRuns are runs of any kind, with clocks that jump and run times of nothing and of a year.
func drawRuns(t *rapid.T) []runtimes.Run {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) runtimes.Run {
		submit := epoch.Add(seconds(float64(rapid.IntRange(0, 1e6).Draw(t, "submit"))))
		r := runtimes.Run{
			Kind: runtimes.Kind{
				User: rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(t, "user"), Program: rapid.SampledFrom([]string{"", "train", "x\x00y"}).Draw(t, "program"),
				GPUs: rapid.SampledFrom([]int{0, 1, 8}).Draw(t, "GPUs"), Limit: rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, 365 * 24 * time.Hour}).Draw(t, "limit"),
			},
			Submit: submit, Start: submit.Add(seconds(float64(rapid.IntRange(-100, 1e5).Draw(t, "wait")))), Cut: rapid.IntRange(0, 5).Draw(t, "cut") == 0,
		}
		if rapid.IntRange(0, 4).Draw(t, "goes on") > 0 {
			r.End = r.Start.Add(seconds(rapid.SampledFrom([]float64{-50, 0, 0.2, 1, 60, 3600, 1e5, 365 * 86400}).Draw(t, "ran")))
		}
		return r
	}), 0, 150).Draw(t, "runs")
}

// Whatever accounting has, quantiles rise, stay within the time limit, and what has run already is not taken back.
func TestQuantilesRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		now := epoch.Add(seconds(float64(rapid.IntRange(0, 2e6).Draw(t, "now"))))
		m := runtimes.Learn(runs, now)
		for _, user := range []string{"", "ann", "new"} {
			for _, limit := range []time.Duration{0, time.Second, time.Hour} {
				d := m.Predict(runtimes.Kind{User: user, Program: "train", GPUs: 1, Limit: limit}, now)
				if d == nil {
					continue
				}
				if d.Runs < 1 || d.Group == "" {
					t.Fatalf("%+v", d)
				}
				ran := seconds(rapid.SampledFrom([]float64{0, 30, 7200, 1e7}).Draw(t, "ran"))
				last, lastLeft := time.Duration(0), time.Duration(0)
				for p := 0.0; p <= 1; p += 0.05 {
					q, left := d.Quantile(p), d.Left(p, ran)
					if q < last || limit > 0 && q > limit+2*time.Minute || q < 0 {
						t.Fatalf("quantile %.2f is %s after %s, limit %s", p, q, last, limit)
					}
					if left < lastLeft || left < min(ran, limit) {
						t.Fatalf("quantile %.2f of what has run %s is %s after %s", p, ran, left, lastLeft)
					}
					last, lastLeft = q, left
				}
			}
		}
	})
}

// Intervals hold as often as they say, for programs whose runs scatter by little and by much, whatever the wait, and
// where nothing but the limit is known of a user.
func TestIntervalsHold(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := runtimes.NewModel()
		type event struct {
			id    uint64
			start bool
		}
		agenda := map[int][]event{} // by minute
		kinds, lengths := map[uint64]runtimes.Kind{}, map[uint64]float64{}
		held, scored := 0, 0
		for minute := range 20000 {
			now := epoch.Add(time.Duration(minute) * time.Minute)
			for _, e := range agenda[minute] {
				if !e.start {
					m.End(e.id, now, false)
					continue
				}
				m.Start(e.id, now)
				end := minute + max(int(lengths[e.id]/60), 1)
				agenda[end] = append(agenda[end], event{e.id, false})
			}
			delete(agenda, minute)
			if r.IntN(4) > 0 {
				continue
			}
			id, user := uint64(minute), r.IntN(12)
			k := runtimes.Kind{User: fmt.Sprint("user", user), Program: fmt.Sprint("p", r.IntN(3)), GPUs: 1 << r.IntN(3), Limit: 48 * time.Hour}
			kinds[id] = k
			lengths[id] = min(3600*math.Exp(float64(user)/4-1+(0.1+float64(user)/8)*r.NormFloat64()), 48*3600)
			if d := m.Predict(k, now); d != nil && minute > 4000 {
				scored++
				ran := seconds(math.Floor(lengths[id]/60) * 60)
				if ran >= d.Quantile(0.1)-time.Minute && ran <= d.Quantile(0.9)+time.Minute {
					held++
				}
			}
			m.Submit(id, k, now)
			start := minute + 1 + r.IntN(600)
			agenda[start] = append(agenda[start], event{id, true})
		}
		if part := float64(held) / float64(scored); part < 0.76 || part > 0.86 {
			t.Errorf("seed %d: 80 %% intervals hold for %.1f %% of %d jobs", seed, 100*part, scored)
		}
	}
}

// Of fifty jobs submitted together a few have failed at once; the longer the others run, the longer the next is expected to.
func TestRunsThatGoOnCount(t *testing.T) {
	k := runtimes.Kind{User: "ann", Program: "train", GPUs: 1, Limit: 48 * time.Hour}
	var runs []runtimes.Run
	for i := range 50 {
		r := runtimes.Run{Kind: k, Submit: epoch, Start: epoch.Add(time.Second)}
		if i < 5 {
			r.End = r.Start.Add(10 * time.Second)
		}
		runs = append(runs, r)
	}
	last := time.Duration(0)
	for _, hours := range []float64{0.5, 4, 20} {
		now := epoch.Add(seconds(3600 * hours))
		d := runtimes.Learn(runs, now).Predict(k, now)
		if q := d.Quantile(0.5); q <= last || q < seconds(3600*hours) {
			t.Errorf("after %.1f h: %s, before %s", hours, q, last)
		} else {
			last = q
		}
	}
}

// What a limit or an eviction cut off would have run longer: a job with more time is expected to take it.
func TestCutRunsAreLonger(t *testing.T) {
	var median [2]time.Duration
	for i, cut := range []bool{false, true} {
		var runs []runtimes.Run
		for n := range 20 {
			start := epoch.Add(time.Duration(n) * 2 * time.Hour)
			runs = append(runs, runtimes.Run{Kind: runtimes.Kind{User: "ann", Program: "train", Limit: time.Hour}, Submit: start, Start: start, End: start.Add(time.Hour), Cut: cut})
		}
		now := epoch.Add(50 * time.Hour)
		median[i] = runtimes.Learn(runs, now).Predict(runtimes.Kind{User: "ann", Program: "train", Limit: 10 * time.Hour}, now).Quantile(0.5)
	}
	if median[0] > 90*time.Minute || median[1] < 2*time.Hour {
		t.Errorf("runs that ended after an hour: %s; that their limit ended: %s", median[0], median[1])
	}
}

// Runs taken in one by one teach what the same runs at once do.
func TestLearnIsTheSameOneByOne(t *testing.T) {
	var runs []runtimes.Run
	r := rand.New(rand.NewPCG(1, 1))
	one := runtimes.NewModel()
	for i := range 200 {
		at := epoch.Add(time.Duration(i) * time.Hour)
		run := runtimes.Run{Kind: runtimes.Kind{User: "ann", GPUs: 1, Limit: time.Hour}, Submit: at, Start: at, End: at.Add(seconds(60 + 3000*r.Float64()))}
		runs = append(runs, run)
		one.Submit(uint64(i), run.Kind, at)
		one.Start(uint64(i), at)
		one.End(uint64(i), run.End, false)
	}
	now := epoch.Add(200 * time.Hour)
	k := runtimes.Kind{User: "ann", GPUs: 1, Limit: time.Hour}
	a, b := one.Predict(k, now), runtimes.Learn(runs, now).Predict(k, now)
	if a.Quantile(0.5) != b.Quantile(0.5) || a.Runs != b.Runs {
		t.Errorf("%s from %d runs, %s from %d", a.Quantile(0.5), a.Runs, b.Quantile(0.5), b.Runs)
	}
}

func BenchmarkLearn(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var runs []runtimes.Run
	for i := range 100_000 {
		at := epoch.Add(time.Duration(i) * 30 * time.Second)
		runs = append(runs, runtimes.Run{
			Kind:   runtimes.Kind{User: fmt.Sprint(r.IntN(200)), Program: fmt.Sprint(r.IntN(5)), GPUs: 1 << r.IntN(4), Limit: time.Duration(1+r.IntN(48)) * time.Hour},
			Submit: at, Start: at.Add(seconds(3600 * r.Float64())), End: at.Add(seconds(3600 + 36000*r.Float64())),
		})
	}
	now := runs[len(runs)-1].End
	for b.Loop() {
		runtimes.Learn(runs, now)
	}
}

func BenchmarkPredict(b *testing.B) {
	k := runtimes.Kind{User: "ann", Program: "train", GPUs: 1, Limit: 48 * time.Hour}
	var runs []runtimes.Run
	for i := range 2000 {
		at := epoch.Add(time.Duration(i) * time.Minute)
		runs = append(runs, runtimes.Run{Kind: k, Submit: at, Start: at, End: at.Add(time.Duration(i%500) * time.Minute)})
	}
	now := runs[len(runs)-1].Start
	m := runtimes.Learn(runs, now)
	for b.Loop() {
		m.Predict(k, now)
	}
}
