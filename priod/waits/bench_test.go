package waits

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// large is a full cluster of 2,000 nodes with 100,000 jobs that wait.
func large(seed uint64) *cluster.Snapshot {
	rnd := rand.New(rand.NewPCG(seed, 1))
	types := []string{"a100", "h100", "v100", "l40"}
	s := &cluster.Snapshot{At: time.Unix(1_700_000_000, 0)}
	id := uint32(0)
	for n := range 2000 {
		node := cluster.Node{
			Name: fmt.Sprintf("n%d", n), Usable: n%100 != 0, GPUType: types[n%4], GPUs: 8, CPUs: 64, MemMB: 512 << 10,
			Features: []string{types[n%4]}, Partitions: []string{"gpu", "long"}[:1+n%2],
		}
		for node.GPUsUsed < 8 && rnd.IntN(40) > 0 {
			gpus := min(1+rnd.IntN(4), 8-node.GPUsUsed)
			id++
			s.Jobs = append(s.Jobs, cluster.Job{
				ID: slurmplug.Plain(id), State: cluster.Running, GPUs: gpus, GPUType: node.GPUType, Partition: "gpu", NodeList: node.Name, CPUs: gpus * 8, TaskCount: 1,
				Submit: s.At.Add(-3 * time.Hour), Start: s.At.Add(-2 * time.Hour), TimeLimit: time.Duration(3+rnd.IntN(48)) * time.Hour,
			})
			node.GPUsUsed, node.CPUsUsed = node.GPUsUsed+gpus, node.CPUsUsed+gpus*8
		}
		s.Nodes = append(s.Nodes, node)
	}
	reasons := []string{"Priority", "Priority", "Priority", "Resources", "QOSMaxGRESPerUser", "Dependency"}
	for range 100_000 {
		id++
		gpus := 1 << rnd.IntN(6)
		j := cluster.Job{
			ID: slurmplug.Plain(id), State: cluster.Pending, Reason: reasons[rnd.IntN(len(reasons))], Priority: int64(1 + rnd.IntN(1_000_000)), GPUs: gpus, Nodes: max(1, gpus/8),
			CPUs: gpus * (1 + rnd.IntN(8)), MemMB: int64(gpus) << (10 + rnd.IntN(6)), Partition: []string{"gpu", "long"}[rnd.IntN(2)], TaskCount: 1,
			User: fmt.Sprintf("u%d", rnd.IntN(500)), Account: fmt.Sprintf("a%d", rnd.IntN(50)), Submit: s.At.Add(-time.Minute), TimeLimit: time.Duration(1+rnd.IntN(48)) * time.Hour,
		}
		if rnd.IntN(2) == 0 {
			j.GPUType = types[rnd.IntN(4)]
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// A cycle of 100,000 jobs that wait on 2,000 nodes has to take less than 300 ms.
func BenchmarkCycle(b *testing.B) {
	s := large(1)
	f := Feature{Tracker: &Tracker{}, Gap: 5 * time.Minute}
	h := cluster.NewHistory()
	look := func() {
		s.At = s.At.Add(30 * time.Second)
		f.Look(&plan.Cycle{Snapshot: s, History: h, Plan: &plan.Plan{}})
		f.Tracker.Changed()
	}
	began := cpuTime()
	look()
	first := cpuTime() - began
	began = cpuTime()
	for b.Loop() {
		look()
	}
	b.ReportMetric(float64((cpuTime()-began).Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(first.Milliseconds()), "first-cpu-ms")
}

// cpuTime is what this process has had of the processors: others share them.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
