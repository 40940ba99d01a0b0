package evict

import (
	"fmt"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
)

// BenchmarkChoose decides on 10,000 full nodes with 50,000 running jobs of equal
// price, the worst case for the search, while 1,000 TE jobs wait.
func BenchmarkChoose(b *testing.B) {
	s := newScene(10_000)
	for i := range 50_000 {
		gpus := 1 - i/40_000 // four of each node have one GPU, the fifth has none
		s.runs(uint32(i+1), i%10_000+1, gpus, func(j *cluster.Job) { j.Start = at.Add(-time.Duration(i%9000) * time.Second) })
	}
	for i := range 1000 {
		s.waits(uint32(100_000+i), 1+i%3)
	}
	s.set.Policy.Limits = preemption.Limits{MaxPerHour: 4}
	before := cpu(b)
	for b.Loop() {
		if c := s.choose(); len(c.Changes.Claims) == 0 {
			b.Fatal(fmt.Sprint(c.Claimants[0]))
		}
	}
	b.ReportMetric((cpu(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkEndRound has 1,250 nodes full of 5,000 jobs, and 500 that want a node each:
// none of them gains enough, so that all are looked at to the end.
func BenchmarkEndRound(b *testing.B) {
	x := newBout(1250)
	for n := range 1250 {
		x.Nodes[n].GPUs, x.Nodes[n].CPUs = 8, 32
		for k := range 4 {
			x.has(uint32(4*n+k+1), n+1, 2, -float64((n*k)%97), func(j *cluster.Job) { j.Tag.Signal = "" })
		}
	}
	for i := range uint32(500) {
		x.wants(10000+i, 8, float64(1+i%13))
	}
	x.set.Rounds.Pay = 5
	for b.Loop() {
		for _, w := range x.end().Claimants {
			if w.Why != preemption.NoGain {
				b.Fatal(w)
			}
		}
	}
}

// BenchmarkDefragment has 2,000 nodes with two small jobs on each, and 100 gangs for which it does not pay yet, then for which it does.
func BenchmarkDefragment(b *testing.B) {
	for name, waited := range map[string]time.Duration{"not-yet": 0, "pays": time.Hour} {
		b.Run(name, func(b *testing.B) {
			s := newScene(2000)
			for i := range 4000 {
				s.runs(uint32(i+1), i%2000+1, 1, func(j *cluster.Job) { j.Start = at.Add(-time.Duration(i%9000) * time.Second) })
			}
			for i := range uint32(100) {
				s.gang(100_000+i, 1+int(i)%3)
			}
			s.set.Policy.Limits = preemption.Limits{MaxPerHour: 4}
			for b.Loop() {
				if r := s.moves(waited); len(r.Claimants) != 100 || (len(r.Changes.Claims) > 0) != (waited > 0) {
					b.Fatalf("%+v", r.Claimants[0])
				}
			}
		})
	}
}
