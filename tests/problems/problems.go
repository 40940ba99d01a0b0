// Package problems makes problems of allocation, and checks what is made of them: for the tests of package allocate and of the
// papers' policies.
package problems

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"pgregory.net/rapid"

	"slurmprio/priod/allocate"
)

// Three is the cluster of the published small examples: one GPU of each type.
func Three(speeds ...[]float64) allocate.Problem {
	p := allocate.Problem{Types: []allocate.GPUType{{Name: "k80", GPUs: 1}, {Name: "p100", GPUs: 1}, {Name: "v100", GPUs: 1}}}
	for i, s := range speeds {
		p.Jobs = append(p.Jobs, allocate.ProblemJob{ID: fmt.Sprint(i), Speed: s, GPUs: 1, Weight: 1, StepsLeft: 30_000, Arrival: float64(i), Entity: allocate.NoEntity})
	}
	return p
}

// Invent makes a problem of awkward numbers: ties, zeros, gangs that fit some types only, jobs that come twice. each is called
// after each type.
func Invent(r *rand.Rand, each func()) (p allocate.Problem) {
	for t := range 1 + r.IntN(5) {
		p.Types = append(p.Types, allocate.GPUType{Name: fmt.Sprint("t", t), GPUs: 1 + r.IntN(8)})
		each()
	}
	speeds := []float64{0, 0.3, 0.5, 1, 1, 2, 2, 3.7, 11}
	for i := range 1 + r.IntN(25) {
		j := allocate.ProblemJob{ID: strconv.Itoa(i), GPUs: []int{1, 1, 1, 2, 4, 8}[r.IntN(6)], Weight: []float64{1, 1, 1, 2, 0.5}[r.IntN(5)],
			StepsLeft: float64(1 + r.IntN(50_000)), Elapsed: float64(r.IntN(3) * 400), IsolatedElapsed: float64(r.IntN(3) * 300),
			Arrival: float64(i), Entity: allocate.NoEntity}
		for range p.Types {
			s := speeds[r.IntN(len(speeds))]
			if r.IntN(2) == 0 {
				s *= 0.5 + r.Float64()
			}
			j.Speed = append(j.Speed, s)
		}
		if i > 0 && r.IntN(3) == 0 {
			twin := p.Jobs[r.IntN(i)]
			j.Speed, j.GPUs, j.Weight = twin.Speed, twin.GPUs, twin.Weight
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// InEntities puts the jobs into three entities, and into none.
func InEntities(p *allocate.Problem) {
	p.Entities = []allocate.Entity{{Name: "a", Weight: 1}, {Name: "b", Weight: 3, FIFO: true}, {Name: "c", Weight: 0.5}}
	for i := range p.Jobs {
		p.Jobs[i].Entity = i%4 - 1 // 0: NoEntity
	}
}

// Known are seeds of problems on which a policy has failed.
var Known = []uint64{
	0xc8d397,    // prices that are 0 but for rounding
	100_016_413, // pivots whose rounding adds up to more time than a job has
}

// Extreme is the n-th of 625 problems of numbers at the ends of what is accepted.
func Extreme(n int) allocate.Problem {
	extremes := []float64{0, 1, 1e30, 1e-30, math.SmallestNonzeroFloat64}
	at := func(k int) float64 { return extremes[n/k%5] }
	p := Three()
	for i := range 7 {
		j := allocate.ProblemJob{ID: strconv.Itoa(i), GPUs: 1, Weight: 1, StepsLeft: at(1), Entity: allocate.NoEntity, Speed: []float64{at(5), at(5), at(5)}}
		if j.Speed[i%3] = at(25); i%2 == 0 {
			j.Weight = at(125)
		}
		p.Jobs = append(p.Jobs, j)
	}
	return p
}

// Near reports whether a value is another one but for a part of it, or of 1.
func Near(got, want, part float64) bool {
	return math.Abs(got-want) <= part*math.Max(1, math.Abs(want))
}

// Together is the time, by type, that two jobs spend on the same GPUs.
type Together struct {
	A, B int
	Time []float64
}

// Feasible checks that an allocation gives no more time than jobs and types have, each job only types on which it runs, and,
// without pairs, that its rates are those of its times.
func Feasible(t rapid.TB, name string, p *allocate.Problem, a *allocate.Allocation, pairs ...Together) {
	t.Helper()
	const tolerance = 1e-9
	used := make([]float64, len(p.Types))
	own := make([]float64, len(p.Jobs))
	spend := func(i int, x float64) {
		if own[i] += x; !(x >= 0) || own[i] > 1+tolerance {
			t.Fatalf("%s: job %d spends %v, in all %v of its time", name, i, x, own[i])
		}
	}
	for i := range p.Jobs {
		rate := 0.0
		for g, x := range a.Time[i] {
			spend(i, x)
			rate += x * p.Jobs[i].Speed[g]
			used[g] += x * float64(p.Jobs[i].GPUs)
			if x > 0 && (p.Jobs[i].GPUs > p.Types[g].GPUs || p.Jobs[i].Speed[g] == 0) {
				t.Fatalf("%s: job %d is on %s, where it cannot run", name, i, p.Types[g].Name)
			}
		}
		if len(pairs) == 0 && math.Abs(rate-a.Rate[i]) > 1e-9*(1+rate) {
			t.Fatalf("%s: job %d has rate %v, says %v", name, i, rate, a.Rate[i])
		}
	}
	for _, s := range pairs {
		for g, x := range s.Time {
			spend(s.A, x)
			spend(s.B, x)
			used[g] += x * float64(p.Jobs[s.A].GPUs)
		}
	}
	for g, u := range used {
		if u > float64(p.Types[g].GPUs)*(1+tolerance) {
			t.Fatalf("%s: %v of %d GPUs of %s", name, u, p.Types[g].GPUs, p.Types[g].Name)
		}
	}
}

// Busy checks that no part of a GPU is idle that some job could use; whole: a job uses all of its GPUs or none.
func Busy(t rapid.TB, name string, p *allocate.Problem, a *allocate.Allocation, whole bool) {
	t.Helper()
	for g := range p.Types {
		idle := float64(p.Types[g].GPUs)
		for i := range p.Jobs {
			idle -= a.Time[i][g] * float64(p.Jobs[i].GPUs)
		}
		for i := range p.Jobs {
			spent := 0.0
			for _, x := range a.Time[i] {
				spent += x
			}
			if idle > 1e-6 && spent < 1-1e-6 && p.Jobs[i].Speed[g] > 0 && p.Jobs[i].GPUs <= p.Types[g].GPUs && (!whole || idle >= float64(p.Jobs[i].GPUs)) {
				t.Fatalf("%s: %v GPUs of type %d idle, and job %d has %v of its time", name, idle, g, i, spent)
			}
		}
	}
}
