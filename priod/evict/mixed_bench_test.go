package evict

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// mixed is what one cycle sees of 10,000 full nodes with 50,000 running jobs and 1,000 waiting TE jobs.
func mixed() (*cluster.Snapshot, *plan.Plan) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &cluster.Snapshot{At: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	p := &plan.Plan{}
	id := uint32(0)
	add := func(j cluster.Job) *cluster.Job {
		id++
		j.ID, j.RawID, j.Partition, j.TaskCount = slurmplug.Plain(id), id, "gpu", 1
		s.Jobs = append(s.Jobs, j)
		return &s.Jobs[len(s.Jobs)-1]
	}
	for n := range 10_000 {
		node := cluster.Node{Name: fmt.Sprintf("n%05d", n), Usable: true, State: "ALLOCATED", GPUType: "a100", GPUs: 8, CPUs: 32, MemMB: 256 << 10, Partitions: []string{"gpu"}}
		for _, gpus := range []int{1, 1, 2, 2, 2} {
			j := add(cluster.Job{
				State: cluster.Running, User: fmt.Sprintf("u%d", r.IntN(300)), GPUs: gpus, CPUs: 2 + r.IntN(5), MemMB: 1024 * (1 + r.Int64N(50)), Nodes: 1,
				NodeList: node.Name, TimeLimit: 48 * time.Hour, Start: s.At.Add(-time.Duration(r.IntN(36*3600)) * time.Second),
			})
			j.Tag.Type, j.Tag.Grace, j.Tag.Ckpt = "be", time.Duration(1+r.IntN(300))*time.Second, time.Hour
			node.GPUsUsed, node.CPUsUsed, node.MemUsedMB = node.GPUsUsed+gpus, node.CPUsUsed+j.CPUs, node.MemUsedMB+j.MemMB
		}
		s.Nodes = append(s.Nodes, node)
	}
	for range 1000 {
		j := add(cluster.Job{
			State: cluster.Pending, Reason: "Resources", User: fmt.Sprintf("u%d", r.IntN(300)), Nodes: 1, TimeLimit: time.Hour,
			GPUs: min(8, 1+int(r.ExpFloat64()*2)), CPUs: 1 + r.IntN(16), MemMB: 1024 * (1 + r.Int64N(128)),
		})
		j.Tag.Type = "te"
		p.Decisions = append(p.Decisions, plan.Decision{Job: j.ID, Class: cluster.TE, Ranked: true})
	}
	p.MakeQueue(s)
	return s, p
}

// All that one cycle needs to choose victims among jobs of different prices, on the wall and on the CPU.
func BenchmarkChooseMixed(b *testing.B) {
	s, p := mixed()
	set := &Settings{
		Enabled: true, Grace: 30 * time.Second, MaxGrace: 10 * time.Minute, Restart: 30 * time.Second,
		Policy: preemption.Settings{Policy: preemption.LeastLoss, Urgency: 1, Rise: 1, MinGain: 15, MaxEvictions: 3},
	}
	before, evicting := cpu(b), 0
	for b.Loop() {
		q := Question{Snapshot: s, Nodes: nodemap.New(s), Holders: FindHolders(s, nodemap.New(s), &Journal{}, set), Plan: p, Journal: &Journal{}, Settings: set}
		evicting = len(Choose(ForTrial, q).Changes.Claims)
	}
	b.ReportMetric((cpu(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op") // other work on the machine does not count
	b.ReportMetric(float64(evicting), "evicting")
}

// cpu is the time that this process has computed.
func cpu(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
