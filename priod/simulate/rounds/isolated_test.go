package rounds_test

import (
	"math"
	"testing"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/rounds"
)

// twister is MT19937 as CPython seeds and uses it, for the random order in
// which the published scheduler serves the types under agnostic policies.
type twister struct {
	state [624]uint32
	next  int
}

func newTwister(seed uint32) *twister {
	var m twister
	m.state[0] = 19650218
	for i := 1; i < 624; i++ {
		m.state[i] = 1812433253*(m.state[i-1]^m.state[i-1]>>30) + uint32(i)
	}
	i := 1
	for range 624 {
		m.state[i] = (m.state[i] ^ (m.state[i-1]^m.state[i-1]>>30)*1664525) + seed
		if i++; i == 624 {
			m.state[0], i = m.state[623], 1
		}
	}
	for range 623 {
		m.state[i] = (m.state[i] ^ (m.state[i-1]^m.state[i-1]>>30)*1566083941) - uint32(i)
		if i++; i == 624 {
			m.state[0], i = m.state[623], 1
		}
	}
	m.state[0] = 1 << 31
	m.next = 624
	return &m
}

func (m *twister) uint32() uint32 {
	if m.next == 624 {
		for i := range m.state {
			y := m.state[i]&(1<<31) | m.state[(i+1)%624]&(1<<31-1)
			m.state[i] = m.state[(i+397)%624] ^ y>>1 ^ -(y&1)&0x9908b0df
		}
		m.next = 0
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *twister) shuffle(x []int) {
	for i := len(x) - 1; i > 0; i-- {
		bits, n := 0, i+1
		for v := n; v > 0; v >>= 1 {
			bits++
		}
		j := n
		for j >= n {
			j = int(m.uint32() >> (32 - bits))
		}
		x[i], x[j] = x[j], x[i]
	}
}

// The first numbers of CPython's random.Random(5): getrandbits(32).
func TestTwister(t *testing.T) {
	m := newTwister(5)
	for i, want := range []uint32{2675342405, 1097127993, 3185950873} {
		if got := m.uint32(); got != want {
			t.Fatalf("number %d: %d, want %d", i, got, want)
		}
	}
}

type continuousRuns []struct {
	Policy string
	AvgJCT float64            `json:"avg_jct_h"`
	JCT    map[string]float64 `json:"jct"`
}

// 4 GPUs of each of three types, 0.5 jobs/h: every job ends as in the published
// scheduler; without its faults the mean comes out close by.
func TestIsolatedContinuous(t *testing.T) {
	jobs := continuous(t, "continuous_single_seed0.tsv.gz", 0.5)
	speed := speeds(t, "gavel/simulation_throughputs.json")
	var runs continuousRuns
	sharedJSON(t, "gavel/expected/small_continuous_4_4_4.json", &runs)
	window := &metrics.Window{First: 0, Last: 149}
	for _, want := range runs {
		if want.Policy != "isolated" {
			continue
		}
		published := run(t, gpus(4, 4, 4), jobs, rounds.Options{
			Model:  rounds.Gavel{Allocator: rounds.Isolated(), Published: &rounds.Published{TypeOrder: newTwister(5).shuffle}},
			Speed:  speed,
			Window: window,
		})
		for i, j := range jobs[:150] {
			if got := published.Outcomes[i].End - j.Submit; math.Abs(got-want.JCT[j.ID]) > 1e-2 {
				t.Errorf("job %s: JCT %v s, want %v", j.ID, got, want.JCT[j.ID])
			}
		}
		if mean := meanJCT(t, jobs, published, 0, 149); math.Abs(mean-want.AvgJCT) > 1e-6 {
			t.Errorf("mean JCT %v h, want %v", mean, want.AvgJCT)
		}
	}
	ours := run(t, gpus(4, 4, 4), jobs, rounds.Options{Model: rounds.Gavel{Allocator: rounds.Isolated()}, Speed: speed, Window: window})
	mean := meanJCT(t, jobs, ours, 0, 149)
	t.Logf("ours: mean JCT %.3f h", mean)
	if math.Abs(mean/20.267-1) > 0.03 {
		t.Errorf("mean JCT %v h: an honest baseline is within 3 %% of 20.267", mean)
	}
}

// The point of Gavel's figure 8 at 5.6 jobs/h, without an LP.
func BenchmarkGavelIsolated(b *testing.B) {
	jobs := continuous(b, "continuous_single_seed0.tsv.gz", 5.6)
	speed := speeds(b, "gavel/simulation_throughputs.json")
	for b.Loop() {
		result := run(b, gpus(36, 36, 36), jobs, rounds.Options{
			Model: rounds.Gavel{Allocator: rounds.Isolated()}, Speed: speed, Window: &metrics.Window{First: 4000, Last: 4999},
		})
		b.ReportMetric(meanJCT(b, jobs, result, 4000, 4999), "h-mean-JCT")
		b.ReportMetric(float64(result.Rounds), "rounds")
	}
}
