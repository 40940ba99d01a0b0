package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// benchCluster is a queue of n jobs: one in ten runs, one in ten of the others
// is TE, half of them are tagged; n/10 nodes.
func benchCluster(n int) *cluster.Snapshot {
	at := time.Unix(1_750_000_000, 0).UTC()
	s := &cluster.Snapshot{At: at, Cluster: "bench", Multifactor: cluster.Multifactor{Span: 1000}}
	for i := range n {
		j := cluster.Job{
			ID: slurmplug.Plain(uint32(1000 + i)), RawID: uint32(1000 + i), TaskCount: 1,
			User: fmt.Sprintf("user%03d", i%500), Account: fmt.Sprintf("account%02d", i%40), Partition: "gpu", QOS: "normal",
			State: cluster.Pending, Reason: "Priority", Priority: int64(10_000 - i%1000), SiteFactorKnown: true,
			Nodes: 1, CPUs: 8, MemMB: 32_000, GPUs: 1 + i%8, GPUType: "a100", Features: "a100&ib",
			TimeLimit: 8 * time.Hour, Submit: at.Add(-time.Duration(i) * time.Second),
			Eligible: at.Add(-time.Duration(i) * time.Second),
		}
		switch {
		case i%10 == 0:
			j.State, j.Start, j.NodeList, j.Reason = cluster.Running, at.Add(-time.Hour), fmt.Sprintf("node%05d", i/10), "None"
		case i%10 == 1:
			j.Tag = jobtag.Tag{Type: "te"}
		case i%2 == 1:
			j.Tag = jobtag.Tag{Type: "be", Grace: 5 * time.Minute, Speed: map[string]float64{"a100": 1, "v100": 0.4}}
		}
		s.Jobs = append(s.Jobs, j)
	}
	for i := range n / 10 {
		s.Nodes = append(s.Nodes, cluster.Node{
			Name: fmt.Sprintf("node%05d", i), Usable: true, State: "MIXED", Features: []string{"a100", "ib"},
			GPUType: "a100", GPUs: 8, GPUsUsed: 1, CPUs: 128, CPUsUsed: 8, MemMB: 1_000_000, MemUsedMB: 32_000,
		})
	}
	return s
}

var benchSettings = order.Settings{Top: 2_000_000_000, Step: 1000, Ranking: plan.Classes{}}

// benchSeen is what a cycle over the snapshot hands to the recorder, without
// writes.
func benchSeen(h *cluster.History, s *cluster.Snapshot) plan.Seen {
	intervals := h.Observe(s)
	p := order.Decide(s, h, benchSettings)
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Ranked {
			h.Counted.Set(d.Job, d.Class)
		}
	}
	return plan.Seen{Snapshot: s, Stays: intervals, Plan: &p}
}

func benchStore(b *testing.B) (*Store, *cluster.History) {
	b.Helper()
	s, err := Open(context.Background(), b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	h, err := s.Load(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return s, h
}

const benchJobs = 100_000

// The first cycle: 100,000 jobs, 90,000 decisions, 10,000 nodes and intervals,
// and all the writes of a limit of 1,000.
func BenchmarkFirstCycle(b *testing.B) {
	snapshot := benchCluster(benchJobs)
	for b.Loop() {
		b.StopTimer()
		s, h := benchStore(b)
		seen := benchSeen(h, snapshot)
		seen.Plan.Actions = seen.Plan.Actions[:1000]
		b.StartTimer()
		if err := s.Planned(context.Background(), seen); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuietCycle(b *testing.B) {
	s, h := benchStore(b)
	seen := benchSeen(h, benchCluster(benchJobs))
	seen.Plan.Actions = nil
	if err := s.Planned(context.Background(), seen); err != nil {
		b.Fatal(err)
	}
	seen.Stays = nil
	for b.Loop() {
		seen.Snapshot.At = seen.Snapshot.At.Add(15 * time.Second)
		if err := s.Planned(context.Background(), seen); err != nil {
			b.Fatal(err)
		}
	}
}

// 1,000 decisions change, and 1,000 writes carry them out.
func BenchmarkThousandChanges(b *testing.B) {
	s, h := benchStore(b)
	seen := benchSeen(h, benchCluster(benchJobs))
	actions := seen.Plan.Actions[:1000]
	seen.Plan.Actions = nil
	if err := s.Planned(context.Background(), seen); err != nil {
		b.Fatal(err)
	}
	seen.Stays, seen.Plan.Actions = nil, actions
	for n := 0; b.Loop(); n++ {
		seen.Snapshot.At = seen.Snapshot.At.Add(15 * time.Second)
		for i := range 1000 {
			seen.Plan.Decisions[(n*1000+i)%len(seen.Plan.Decisions)].Value += 1000
		}
		if err := s.Planned(context.Background(), seen); err != nil {
			b.Fatal(err)
		}
	}
}

// A restart with 100,000 jobs in the queue.
func BenchmarkLoad(b *testing.B) {
	s, h := benchStore(b)
	seen := benchSeen(h, benchCluster(benchJobs))
	seen.Plan.Actions = nil
	if err := s.Planned(context.Background(), seen); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Load(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadQueue(b *testing.B) {
	s, h := benchStore(b)
	seen := benchSeen(h, benchCluster(benchJobs))
	seen.Plan.Actions = nil
	if err := s.Planned(context.Background(), seen); err != nil {
		b.Fatal(err)
	}
	r, err := OpenReader(context.Background(), s.dir)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for b.Loop() {
		if _, err := r.Queue(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
