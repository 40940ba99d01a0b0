package policies_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"slurmprio/priod/allocate"
	"slurmprio/tests/papers/policies"
)

// queue is n jobs of the paper's kind on 3 or more types: 83 classes when some
// are alike.
func queue(n, types int, alike bool) *policies.Problem {
	r := rand.New(rand.NewPCG(1, 2))
	p := &policies.Problem{}
	for t := range types {
		name := []string{"k80", "p100", "v100"}[t%3] + []string{"", "b"}[t/3]
		p.Types = append(p.Types, allocate.GPUType{Name: name, GPUs: max(8, 3*n/4/types)})
	}
	draw := func() allocate.ProblemJob {
		f := 0.5 + r.Float64()
		j := allocate.ProblemJob{ID: "j", GPUs: []int{1, 1, 1, 2, 4}[r.IntN(5)], Weight: 1, StepsLeft: 1e4 * (1 + r.Float64()), Elapsed: 100 * r.Float64(),
			Entity: allocate.NoEntity}
		for t := range types {
			j.Speed = append(j.Speed, []float64{f, f * (1 + 2*r.Float64()), f * (2 + 5*r.Float64())}[t%3]*(1+float64(t/3)*r.Float64()))
		}
		return j
	}
	var kinds []allocate.ProblemJob
	for range 83 {
		kinds = append(kinds, draw())
	}
	for i := range n {
		kind := i
		if alike {
			kind = r.IntN(len(kinds))
			p.Jobs = append(p.Jobs, kinds[kind])
		} else {
			p.Jobs = append(p.Jobs, draw())
		}
		p.Kinds = append(p.Kinds, kind)
	}
	return p
}

// cpu is the processor time of this process and those that it waited for, s.
func cpu(b *testing.B) (sum float64) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		for _, t := range []syscall.Timeval{u.Utime, u.Stime} {
			sum += float64(t.Sec) + float64(t.Usec)/1e6
		}
	}
	return sum
}

// measured runs f and reports the processor time beside the wall time, which a
// busy machine stretches.
func measured(b *testing.B, f func()) {
	before := cpu(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric((cpu(b)-before)*1000/float64(b.N), "cpu-ms/op")
}

func BenchmarkPolicies(b *testing.B) {
	for _, c := range []struct {
		policy   string
		n, types int
		alike    bool
	}{
		{"max-min", 2048, 3, false}, {"max-min", 2048, 3, true}, {"max-min", 100_000, 3, false}, {"max-min", 100_000, 6, false}, {"max-min", 1_000_000, 3, true},
		{"finish-time-fairness", 10_000, 3, false}, {"makespan", 10_000, 3, false}, {"water-filling", 10_000, 3, false}, {"hierarchical", 10_000, 3, false},
		{"strategy-proof", 2048, 3, true}, {"allox", 1000, 3, false},
		{"max-min:packed", 8192, 3, true}, {"water-filling:packed", 8192, 3, true},
	} {
		p := func() *policies.Problem {
			p := queue(c.n, c.types, c.alike)
			if c.policy == "hierarchical" {
				for e := range 20 {
					p.Entities = append(p.Entities, allocate.Entity{Name: fmt.Sprint(e), Weight: float64(1 + e%3), FIFO: e%2 == 0})
				}
				for i := range p.Jobs {
					p.Jobs[i].Entity = i % 20
				}
			}
			policy, err := policies.ParsePolicy(c.policy)
			if err != nil {
				b.Fatal(err)
			}
			for i := range p.Jobs {
				if policy.Packed || c.policy == "allox" {
					p.Jobs[i].GPUs = 1
				}
			}
			if policy.Packed {
				p.Together = func(x, y, t int) (float64, float64) {
					f := 0.45 + 0.4*float64((p.Kinds[x]+p.Kinds[y])%7)/7
					return f * p.Jobs[x].Speed[t], f * p.Jobs[y].Speed[t]
				}
			}
			return p
		}
		name := fmt.Sprintf("%s/jobs=%d/types=%d/%s", c.policy, c.n, c.types, kind(c.alike))
		b.Run(name, func(b *testing.B) {
			p := p()
			policy, err := policies.ParsePolicy(c.policy)
			if err != nil {
				b.Fatal(err)
			}
			measured(b, func() {
				if _, err := policy.Allocate(p); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func kind(alike bool) string {
	if alike {
		return "alike"
	}
	return "different"
}
