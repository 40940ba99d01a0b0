package virtual

import (
	"context"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// byLength are partitions over the same two nodes, and one of the second alone.
func byLength(said ...trace.Partition) trace.Cluster {
	return trace.Cluster{Partitions: said, Nodes: []trace.NodeGroup{
		{Count: 1, GPUType: "a100", GPUs: 4, Partitions: []string{"long", "short"}},
		{Count: 1, GPUType: "a100", GPUs: 4, Partitions: []string{"long", "short", "last"}},
	}}
}

// Jobs of a higher PriorityTier are looked at first, and of one tier those of a higher priority with the partition's factor.
func TestPartitionsInOrder(t *testing.T) {
	full := trace.Job{GPUs: 8, Duration: 100, Partition: "long"}
	jobs := numbered(full, trace.Job{GPUs: 8, Duration: 10, Submit: 1, Partition: "long"}, trace.Job{GPUs: 8, Duration: 10, Submit: 2, Partition: "short"}, trace.Job{GPUs: 8, Duration: 10, Submit: 3, Partition: "long,short"})
	weights := Weights{Age: 1000, Partition: 5000}
	for _, c := range []struct {
		name   string
		said   []trace.Partition
		order  Order
		starts [3]float64
	}{
		{"nothing said", nil, Multifactor, [3]float64{100, 110, 120}},
		{"a tier", []trace.Partition{{Name: "short", Tier: 10, JobFactor: 1}}, FIFO, [3]float64{120, 100, 110}},
		{"a factor", []trace.Partition{{Name: "short", Tier: 1, JobFactor: 10}}, Multifactor, [3]float64{120, 100, 110}},
		{"a factor without priorities", []trace.Partition{{Name: "short", Tier: 1, JobFactor: 10}}, FIFO, [3]float64{100, 110, 120}},
		{"a tier above a factor", []trace.Partition{{Name: "short", Tier: 1, JobFactor: 10}, {Name: "long", Tier: 2, JobFactor: 1}}, Multifactor, [3]float64{100, 120, 110}},
	} {
		for _, backfill := range []Backfill{NoBackfill, EASY} {
			o := run(t, byLength(c.said...), jobs, Options{Order: c.order, Backfill: backfill, Placement: placement.Packed, Own: Own{Multifactor: weights}}).Outcomes
			if got := [3]float64{o[1].Start, o[2].Start, o[3].Start}; got != c.starts {
				t.Errorf("%s, backfill %s: starts at %v, want %v", c.name, backfill, got, c.starts)
			}
		}
	}
}

// A job's size is in nodes and CPUs where a Slurm's own weights are given: GPUs do not count, and the older of two jobs on
// a node starts first. A trace without a configuration counts GPUs.
func TestSizeOfJobs(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 4, CPUs: 16}}}
	jobs := numbered(trace.Job{GPUs: 8, CPUs: 2, Duration: 100}, trace.Job{GPUs: 3, CPUs: 1, Duration: 10, Submit: 1}, trace.Job{GPUs: 4, CPUs: 1, Duration: 10, Submit: 2},
		trace.Job{GPUs: 3, CPUs: 12, Duration: 10, Submit: 3}, trace.Job{GPUs: 8, CPUs: 2, Duration: 10, Submit: 4})
	for _, w := range []struct {
		Weights
		starts [4]float64
	}{
		{Weights{JobSize: 1000}, [4]float64{110, 110, 120, 100}},
		{Weights{JobSize: 1000, ByNodes: true}, [4]float64{110, 120, 110, 100}},
		{Weights{JobSize: 1000, ByNodes: true, FavorSmall: true}, [4]float64{100, 100, 110, 120}},
	} {
		o := run(t, c, jobs, Options{Order: Multifactor, Placement: placement.Packed, Own: Own{Multifactor: w.Weights}}).Outcomes
		if got := [4]float64{o[1].Start, o[2].Start, o[3].Start, o[4].Start}; got != w.starts {
			t.Errorf("%+v: starts at %v, want %v", w.Weights, got, w.starts)
		}
	}
}

// Slurm's backfill keeps a place for each job in the order, EASY for the first one that waits alone.
func TestConservativeBackfill(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 4}}}
	jobs := numbered(trace.Job{GPUs: 3, Duration: 100}, trace.Job{GPUs: 3, Duration: 200}, trace.Job{GPUs: 4, Nodes: 1, Duration: 1000, Submit: 1},
		trace.Job{GPUs: 4, Nodes: 1, Duration: 1000, Submit: 2}, trace.Job{GPUs: 1, Duration: 500, Submit: 3}, trace.Job{GPUs: 1, Duration: 50, Submit: 4})
	for _, x := range []struct {
		Backfill
		depth  int
		starts [4]float64
	}{{EASY, 0, [4]float64{100, 503, 3, 4}}, {Conservative, 0, [4]float64{100, 200, 1100, 4}}, {Conservative, 1, [4]float64{100, 503, 3, 4}}} {
		o := run(t, c, jobs, Options{Backfill: x.Backfill, Own: Own{Depth: x.depth}, Placement: placement.Packed}).Outcomes
		if got := [4]float64{o[2].Start, o[3].Start, o[4].Start, o[5].Start}; got != x.starts {
			t.Errorf("backfill %s of %d: starts at %v, want %v", x.Backfill, x.depth, got, x.starts)
		}
	}
}

// Without backfill the head of one partition keeps the nodes that it shares with others: no job of these slips in.
func TestHeadsKeepSharedNodes(t *testing.T) {
	jobs := numbered(trace.Job{GPUs: 5, Duration: 100, Partition: "long"}, trace.Job{GPUs: 8, Duration: 10, Submit: 1, Partition: "short"}, trace.Job{GPUs: 1, Duration: 500, Submit: 2, Partition: "last"})
	for backfill, start := range map[Backfill]float64{NoBackfill: 110, EASY: 110} {
		if o := run(t, byLength(), jobs, Options{Backfill: backfill, Placement: placement.Packed}).Outcomes; o[2].Start != start {
			t.Errorf("backfill %s: %+v, want a start at %v", backfill, o, start)
		}
	}
}

// A partition starts no job beyond its MaxTime and MaxNodes, and none while it is down; a list goes on without it.
func TestLimitsOfPartitions(t *testing.T) {
	c := byLength(
		trace.Partition{Name: "short", MaxTime: time.Minute, Tier: 5}, trace.Partition{Name: "last", State: "down"}, trace.Partition{Name: "long", MaxNodes: 1},
	)
	opt := Options{Placement: placement.Packed}
	o := run(t, c, numbered(
		trace.Job{GPUs: 8, Duration: 10, Limit: 60, Partition: "long,short"}, // on two nodes in short alone
		trace.Job{GPUs: 4, Duration: 10, Limit: 61, Partition: "last,long,short"},
	), opt).Outcomes
	if o[0].Start != 0 || o[0].Nodes != "n0,n1" || o[1].Start != 10 || o[1].Nodes != "n0" {
		t.Errorf("%+v", o)
	}
	for _, x := range []struct {
		job  trace.Job
		want string
	}{
		{trace.Job{GPUs: 1, Limit: 61, Partition: "short"}, "because its time limit is longer than the 1m0s of partition short"},
		{trace.Job{GPUs: 1, Partition: "last"}, "because partition last is DOWN"},
		{trace.Job{GPUs: 4, Nodes: 2, Partition: "long"}, "because its 2 nodes are more than partition long allows (1)"},
		{trace.Job{GPUs: 8, Partition: "long"}, "because no nodes of partition long hold its GPUs, CPUs and memory"},
	} {
		x.job.ID, x.job.Duration = "x", 1
		if _, err := Run(context.Background(), c, trace.Each([]trace.Job{x.job}), opt); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, want %s", x.job, err, x.want)
		}
		if why := Never(c, opt)(&x.job); !strings.Contains(x.want, why) || why == "" {
			t.Errorf("%+v: %q", x.job, why)
		}
	}
}

// The lever PartitionList takes a job's other partitions away, and gives them back.
func TestAssigning(t *testing.T) {
	e := newEngine(t.Context(), byType, Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, Daemon: Daemon{Interval: time.Minute}})
	for _, j := range numbered(trace.Job{GPUs: 4, Partition: "a100,v100"}, trace.Job{GPUs: 4}) {
		j.Duration = 10
		a, why, err := e.admit(j)
		if err != nil || why != "" {
			t.Fatal(err, why)
		}
		e.inSystem++
		e.wait(a)
	}
	assign := func(job int32, list string) string {
		return e.slurm.Apply(t.Context(), []plan.Action{{Job: number(job), Lever: slurmplug.PartitionList, After: slurmplug.Text(list)}})[0].Message
	}
	shown := func(job int) string { return e.slurm.snapshot.Jobs[job].Partition }
	if assign(0, "v100") != "" || shown(0) != "v100" || assign(1, "v100") != "" || shown(1) != "v100" || assign(0, "h100") == "" {
		t.Errorf("%q and %q", shown(0), shown(1))
	}
	if e.schedule(); e.queue.n != 1 {
		t.Errorf("%d jobs wait for one node", e.queue.n)
	}
	if assign(0, "a100") == "" {
		t.Error("a job that runs was given another partition")
	}
	if assign(1, "a100,v100") != "" || shown(1) != "a100,v100" {
		t.Errorf("%q", shown(1))
	}
	if e.schedule(); e.queue.n != 0 || shown(0) != "v100" || shown(1) != "a100" {
		t.Errorf("%d jobs wait; %q and %q", e.queue.n, shown(0), shown(1))
	}
}
