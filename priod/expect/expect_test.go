package expect

import (
	"fmt"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/runtimes"
	"slurmprio/slurmplug"
)

// Promises fit the next ones by when their jobs started; jobs that left the queue without a start say nothing.
func TestFitOfPromises(t *testing.T) {
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	var promises []store.Promise
	for i := range 100 {
		p := store.Promise{At: now.Add(-time.Hour), Raw: now.Add(-50 * time.Minute)}
		switch i % 4 {
		case 3:
			p.Left = now // cancelled
		default:
			p.Start = p.At.Add(20 * time.Minute)
		}
		promises = append(promises, p)
	}
	if fit := FitOf(promises, now); fit != 2 {
		t.Errorf("jobs waited twice as long as was said: %v", fit)
	}
	if fit := FitOf(promises[:20], now); fit != 1 {
		t.Errorf("few promises: %v", fit)
	}
}

// BenchmarkExpectedStarts plans 1,000 waiting jobs of 100,000 on 10,000 nodes, on which 40,000 run, as the daemon does once a minute
// beside its cycles.
func BenchmarkExpectedStarts(b *testing.B) {
	at := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	r := &cycle.Result{Snapshot: cluster.Snapshot{At: at}}
	s := &r.Snapshot
	for i := range 10_000 {
		s.Nodes = append(s.Nodes, cluster.Node{Name: fmt.Sprint("n", i), Usable: true, State: "ALLOCATED", Partitions: []string{"gpu"}, GPUType: "a100", GPUs: 4, GPUsUsed: 4, CPUs: 64, MemMB: 1 << 20})
	}
	kind := func(i int) cluster.Job {
		return cluster.Job{
			ID: slurmplug.Plain(uint32(i + 1)), RawID: uint32(i + 1), TaskCount: 1, User: fmt.Sprint("user", i%400), Name: fmt.Sprint("p", i%3), Partition: "gpu", Reason: "Priority", Priority: 100,
			GPUs: 1, Nodes: 1, CPUs: 4, TimeLimit: time.Duration(1+i%48) * time.Hour,
		}
	}
	for i := range 140_000 {
		j := kind(i)
		if j.State = cluster.Pending; i < 40_000 {
			j.State, j.Start, j.NodeList, j.GPUType = cluster.Running, at.Add(-time.Duration(i%3600)*time.Second), fmt.Sprint("n", i/4), "a100"
		} else {
			r.Plan.Queue = append(r.Plan.Queue, plan.Queued{Job: i})
		}
		s.Jobs = append(s.Jobs, j)
	}
	var past []runtimes.Run
	for i := range PastRuns {
		j, start := kind(i), at.Add(-time.Duration(1+PastRuns-i)*time.Minute)
		past = append(past, runtimes.Run{Kind: runtimes.KindOf(&j), Submit: start, Start: start, End: start.Add(time.Duration(i%7200) * time.Second)})
	}
	for b.Loop() {
		small, order := Planned(r)
		starts, _ := Of(small, order, Learn(small, past), 1)
		if len(starts) == 0 {
			b.Fatal("no start is expected")
		}
		promised := 0
		for _, x := range starts {
			if !x.Median.IsZero() {
				promised++
			}
		}
		b.ReportMetric(float64(promised), "promised")
	}
}
