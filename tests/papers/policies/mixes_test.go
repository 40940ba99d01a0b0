package policies_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/tests/papers/policies"
	"slurmprio/tests/problems"
)

// Mixes say by class what Time and Pairs say by job: the same time on each type
// to the same jobs, at the same rates.
func TestMixesAreTheAllocation(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.Uint64().Draw(r, "seed")
		name := rapid.SampledFrom([]string{"max-min", "makespan", "finish-time-fairness", "max-throughput", "water-filling", "hierarchical"}).Draw(r, "policy")
		p := invent(rand.New(rand.NewPCG(seed, 2)), true)
		if rapid.Bool().Draw(r, "classes") {
			p = queue(rapid.IntRange(100, 160).Draw(r, "jobs"), 3, true)
			for i := range p.Jobs { // few kinds, so that classes are large
				p.Jobs[i], p.Kinds[i] = p.Jobs[i%(2+int(seed%9))], p.Kinds[i%(2+int(seed%9))]
			}
			p.Together = func(x, y, t int) (float64, float64) {
				f := 0.3 + 0.6*float64((p.Kinds[x]+p.Kinds[y]+t)%7)/7
				return f * p.Jobs[x].Speed[t], f * p.Jobs[y].Speed[t]
			}
		}
		a, err := policies.Policy{Name: name, Packed: true}.Allocate(p)
		if err != nil {
			r.Fatal(err)
		}
		// time and rate of a set of jobs, of those that run in it alone or in pairs
		type sums struct{ time, rate float64 }
		byMix, byJob := map[string]sums{}, map[string]sums{}
		class := make([]string, len(p.Jobs)) // the jobs of one class are always named together
		for _, m := range a.Mixes {
			for _, members := range [][]int{m.A, m.B} {
				for _, i := range members {
					class[i] = fmt.Sprint(slices.Min(members))
				}
			}
		}
		add := func(into map[string]sums, i, t int, time, rate float64) {
			key := class[i] + " on " + p.Types[t].Name
			s := into[key]
			into[key] = sums{s.time + time, s.rate + rate}
		}
		for _, m := range a.Mixes {
			add(byMix, m.A[0], m.Type, m.Time, m.Time*m.Speed[0])
			if m.B != nil {
				add(byMix, m.B[0], m.Type, m.Time, m.Time*m.Speed[1])
			}
		}
		for i := range p.Jobs {
			for t, x := range a.Time[i] {
				if x > 0 {
					add(byJob, i, t, x, x*p.Jobs[i].Speed[t])
				}
			}
		}
		for _, s := range a.Pairs {
			for t, x := range s.Time {
				if x > 0 {
					add(byJob, s.A, t, x, s.Rate[0])
					add(byJob, s.B, t, x, s.Rate[1])
				}
			}
		}
		if len(byMix) != len(byJob) {
			r.Fatalf("%s: by mix %v, by job %v", name, byMix, byJob)
		}
		for key, m := range byMix {
			if j := byJob[key]; !problems.Near(m.time, j.time, 1e-6) || !problems.Near(m.rate, j.rate, 1e-6) {
				r.Fatalf("%s: class of %s: by mix %v, by job %v", name, key, m, j)
			}
		}
	})
}
