package market

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

type linear []float64

func (l linear) At(job int, level float64) (rate, slope float64) { return l[job] * level, l[job] }

// check proves an answer without the optimiser's help: the times fit, every
// job reaches the level, and by weak duality no allocation does better.
func check(t interface{ Fatalf(string, ...any) }, m *Market, share []float64, top float64, a *Answer) {
	used := make([]float64, len(m.GPUs))
	reached := math.Inf(1)
	for i, j := range m.Jobs {
		sum, rate := 0.0, 0.0
		for g, x := range a.Time[i] {
			if x < -1e-9 || math.IsNaN(x) {
				t.Fatalf("job %d spends %v of its time on type %d", i, x, g)
			}
			if x > 1e-9 && j.Speed[g] == 0 {
				t.Fatalf("job %d is on type %d, where it cannot run", i, g)
			}
			sum += x
			rate += x * j.Speed[g]
			used[g] += x * j.GPUs * j.Count
		}
		if sum > 1+1e-9 {
			t.Fatalf("job %d has %v of its time", i, sum)
		}
		if share[i] > 0 {
			reached = min(reached, rate/share[i])
		}
	}
	for g, u := range used {
		if u > m.GPUs[g]*(1+1e-9) {
			t.Fatalf("type %d: %v of %v GPUs", g, u, m.GPUs[g])
		}
	}
	// Dual: for prices p, level * sum of u_i*share_i <= p*N + sum of q_i, where
	// u_i is the job's marginal cost of rate and q_i >= s_ij*u_i - p_j for all j.
	bound := top
	budget, cost := 0.0, func(level float64) (sum float64) {
		for i, j := range m.Jobs {
			sum += j.Count * naive(j, share[i]*level, a.Price)
		}
		return sum
	}
	for g, n := range m.GPUs {
		budget += n * a.Price[g]
	}
	if l := a.Level * (1 + 1e-7); l < top && cost(l) <= budget {
		t.Fatalf("level %v is not proved: at %v the prices still allow it (%v <= %v)", a.Level, l, cost(l), budget)
	}
	if reached < a.Level*(1-1e-8) {
		t.Fatalf("level %v claimed, %v reached (bound %v)", a.Level, reached, bound)
	}
}

// naive is the least cost of a rate: every pair of types, idling included.
func naive(j Job, rate float64, price []float64) float64 {
	speed, p := append([]float64{0}, j.Speed...), append([]float64{0}, price...)
	best := math.Inf(1)
	if rate <= 0 {
		return 0
	}
	for a := range speed {
		for b := range speed {
			if speed[a] < rate || speed[b] > rate {
				continue
			}
			x := 1.0
			if speed[a] > speed[b] {
				x = (rate - speed[b]) / (speed[a] - speed[b])
			}
			best = min(best, x*p[a]+(1-x)*p[b])
		}
	}
	return best * j.GPUs
}

func TestLevelIsReachedAndProved(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		types := rapid.IntRange(1, 6).Draw(r, "types")
		m := &Market{}
		for range types {
			m.GPUs = append(m.GPUs, float64(rapid.IntRange(1, 12).Draw(r, "gpus")))
		}
		speeds := rapid.SampledFrom([]float64{0, 0.5, 1, 1, 2, 3, 3.7, 11.3})
		var share []float64
		for range rapid.IntRange(1, 40).Draw(r, "jobs") {
			j := Job{GPUs: float64(rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(r, "scale")), Count: float64(rapid.SampledFrom([]int{1, 1, 3}).Draw(r, "count"))}
			for range types {
				j.Speed = append(j.Speed, speeds.Draw(r, "speed"))
			}
			if j.Fastest() == 0 {
				j.Speed[0] = 1
			}
			m.Jobs = append(m.Jobs, j)
			share = append(share, rapid.SampledFrom([]float64{0.2, 1, 1, 2, 5}).Draw(r, "share"))
		}
		top := highest(m, share)
		a, err := MaxLevel(m, linear(share), 0, top)
		if err != nil {
			r.Fatalf("%v", err)
		}
		check(r, m, share, top, a)
	})
}

// highest is the least level at which some job's linear target, share[i] for
// each level, asks for more than its fastest type gives.
func highest(m *Market, share []float64) float64 {
	top := math.Inf(1)
	for i := range m.Jobs {
		if share[i] > 0 {
			top = min(top, m.Jobs[i].Fastest()/share[i])
		}
	}
	return top
}

func TestTwoJobsOnThreeGPUs(t *testing.T) {
	m := &Market{GPUs: []float64{1, 1, 1}, Jobs: []Job{{[]float64{2, 1, 0.5}, 1, 1}, {[]float64{3, 2, 1}, 1, 1}}}
	share := []float64{3.5 / 3, 2}
	a, err := MaxLevel(m, linear(share), 0, highest(m, share))
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(a.Level-1.263158) > 1e-6 { // research: Gavel's policy on HiGHS
		t.Errorf("level %v, want 1.263158", a.Level)
	}
}

func random(n, types int) (*Market, []float64) {
	r := rand.New(rand.NewPCG(1, 2))
	m := &Market{}
	for range types {
		m.GPUs = append(m.GPUs, float64(n)/8/float64(types)*(0.5+r.Float64()))
	}
	share := make([]float64, n)
	for i := range n {
		j := Job{GPUs: float64(int(1) << r.IntN(3)), Count: 1}
		for t := range types {
			j.Speed = append(j.Speed, math.Exp(r.NormFloat64()*0.8)*float64(t+1))
			share[i] += j.Speed[t] * m.GPUs[t]
		}
		share[i] /= j.GPUs
		m.Jobs = append(m.Jobs, j)
	}
	return m, share
}

func TestManyDifferentJobs(t *testing.T) {
	m, share := random(20_000, 6)
	top := highest(m, share)
	a, err := MaxLevel(m, linear(share), 0, top)
	if err != nil {
		t.Fatal(err)
	}
	check(t, m, share, top, a)
	more := 0
	for _, x := range a.Time {
		used := 0
		for _, v := range x {
			if v > 1e-9 {
				used++
			}
		}
		if used > 2 {
			more++
		}
	}
	if more > len(m.GPUs) {
		t.Errorf("%d jobs use more than two types; at most %d have to", more, len(m.GPUs))
	}
}
