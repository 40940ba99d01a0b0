package virtual

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// mixedCluster is a node with GPUs, n0, and two without, n1 and n2, each in a partition.
var mixedCluster = trace.Cluster{Nodes: []trace.NodeGroup{
	{Count: 1, GPUType: "a100", GPUs: 4, CPUs: 16, MemMB: 160, Partitions: []string{"gpu"}},
	{Count: 2, CPUs: 32, MemMB: 320, Partitions: []string{"cpu"}},
}}

func TestWhereJobsWithoutGPUsRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		job   trace.Job
		nodes string
	}{
		{"one CPU, on nodes without GPUs first", trace.Job{}, "n1"},
		{"in its partition", trace.Job{Partition: "gpu"}, "n0"},
		{"in a partition that nobody knows", trace.Job{Partition: "long"}, "n1"},
		{"on as few nodes as hold its CPUs", trace.Job{CPUs: 64}, "n1,n2"},
		{"on as many as it says", trace.Job{CPUs: 2, Nodes: 2}, "n1,n2"},
		{"beside one that has the share of its CPUs in memory", trace.Job{CPUs: 1, MemMB: 161, Partition: "cpu"}, "n2"},
		{"where there is memory", trace.Job{CPUs: 1, MemMB: 160}, "n1"},
	} {
		c.job.ID, c.job.Duration = "x", 10
		first := trace.Job{ID: "first", Duration: 10, CPUs: 16, Partition: "cpu"} // and half of the memory of n1
		r := run(t, mixedCluster, []trace.Job{first, c.job}, Options{Placement: placement.Packed})
		if o := r.Outcomes[1]; c.job.CPUs != 64 && (o.Nodes != c.nodes || o.Start != 0) || c.job.CPUs == 64 && (o.Nodes != c.nodes || o.Start != 10) || o.Type != -1 {
			t.Errorf("%s: %+v, want nodes %s", c.name, o, c.nodes)
		}
	}
}

// A job blocks those of its own line: with GPUs, or without in one partition.
func TestLinesBlockThemselves(t *testing.T) {
	jobs := []trace.Job{
		{ID: "all GPUs", GPUs: 4, Duration: 100},
		{ID: "all CPUs", CPUs: 64, Nodes: 2, Duration: 50, Partition: "cpu"},
		{ID: "GPU head", GPUs: 4, Duration: 10},
		{ID: "GPU behind", GPUs: 1, Duration: 10},
		{ID: "CPU head", CPUs: 64, Nodes: 2, Duration: 10, Partition: "cpu"},
		{ID: "CPU behind", CPUs: 1, Duration: 10, Partition: "cpu"},
	}
	for backfill, starts := range map[Backfill][]float64{NoBackfill: {0, 0, 100, 110, 50, 60}, EASY: {0, 0, 100, 110, 50, 60}} {
		r := run(t, mixedCluster, jobs, Options{Backfill: backfill, Placement: placement.Packed})
		for i, want := range starts {
			if r.Outcomes[i].Start != want {
				t.Errorf("backfill %s: %s starts at %v, want %v", backfill, jobs[i].ID, r.Outcomes[i].Start, want)
			}
		}
	}
}

// A job with GPUs waits for CPUs that one without holds beside them, and each head keeps its
// place from the other line, too.
func TestJobsShareNodesWithGPUs(t *testing.T) {
	jobs := []trace.Job{
		{ID: "holds CPUs", CPUs: 13, MemMB: 1, Duration: 50, Limit: 60, Partition: "gpu"},
		{ID: "wants CPUs", GPUs: 1, CPUs: 4, MemMB: 1, Duration: 10},
		{ID: "head without", CPUs: 12, MemMB: 1, Duration: 10, Partition: "gpu"}, // its place is from 60 on
		{ID: "short", GPUs: 1, CPUs: 3, MemMB: 1, Duration: 60},
		{ID: "long", GPUs: 1, CPUs: 5, MemMB: 1, Duration: 90}, // fits at 50, where it would delay that head
	}
	r := run(t, mixedCluster, jobs, Options{Backfill: EASY, Placement: placement.Packed})
	for i, want := range []float64{0, 50, 60, 0, 70} {
		if o := r.Outcomes[i]; o.Start != want {
			t.Errorf("%s starts at %v, want %v", jobs[i].ID, o.Start, want)
		}
	}
}

// What happens to jobs with GPUs happens to those without: failed runs, requeues, nodes that
// fail, time limits.
func TestJobsWithoutGPUsFailAndComeBack(t *testing.T) {
	jobs := []trace.Job{
		{ID: "fails once", Duration: 100, CPUs: 2, Nodes: 2, Trials: []trace.Trial{{Work: 30, Ending: trace.Ending{State: "FAILED", ExitCode: 1}}}},
		{ID: "cut", Duration: 100, Limit: 40, Partition: "gpu"},
	}
	r := run(t, mixedCluster, jobs, Options{Placement: placement.Packed, RequeueDelay: 20})
	if o := r.Outcomes[0]; o.End != 150 || o.Ran != 130 || o.Failures != 1 || o.Failed || !o.Done {
		t.Errorf("%+v", o)
	}
	if o := r.Outcomes[1]; o.End != 40 || !o.Failed {
		t.Errorf("%+v", o)
	}
	var many []trace.Job
	for i := range 200 {
		many = append(many, trace.Job{ID: fmt.Sprint(i), Submit: float64(i), Duration: 300, CPUs: 1 + i%40})
	}
	r = run(t, mixedCluster, many, Options{Backfill: EASY, Placement: placement.Packed, MTBF: 5000, Repair: 100, RequeueDelay: 20, Seed: 1})
	again := 0
	for i, o := range r.Outcomes {
		if !o.Done || o.Ran < 300-1e-6 {
			t.Fatalf("%s: %+v", many[i].ID, o)
		}
		if o.Ran > 300+1e-6 {
			again++
		}
	}
	if again == 0 {
		t.Error("no node failed under a job")
	}
}

func TestJobsWithoutGPUsThatNeverRun(t *testing.T) {
	for _, c := range []struct {
		job  trace.Job
		want string
	}{
		{trace.Job{ID: "x", Duration: 1, CPUs: 33, Nodes: 1, Partition: "cpu"}, "no nodes of partition cpu hold its 33 CPUs and its memory, in 1 equal parts"},
		{trace.Job{ID: "x", Duration: 1, CPUs: 70}, "no nodes of the cluster hold its 70 CPUs"},
		{trace.Job{ID: "x", Duration: 1, Nodes: 3}, "in 3 equal parts on nodes with and without GPUs apart: x"},
		{trace.Job{ID: "x", Workload: "a3c", Steps: 5}, "job x requests no GPUs: it wants a duration_s, and no GPU type"},
		{trace.Job{ID: "x", Duration: 5, CPUs: -1}, "job x requests 0 GPUs, -1 CPUs"},
	} {
		_, err := Run(context.Background(), mixedCluster, trace.Each([]trace.Job{c.job}), Options{Placement: placement.Packed})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.job, err, c.want)
		}
	}
}

// However many partitions there are, a job runs on the nodes of its own.
func TestManyPartitions(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "a100", GPUs: 4, CPUs: 16}}}
	var jobs []trace.Job
	for i := range 80 {
		p := fmt.Sprint("p", i)
		c.Nodes = append(c.Nodes, trace.NodeGroup{Count: 1, CPUs: 4, Partitions: []string{p}})
		jobs = append(jobs, trace.Job{ID: p, Duration: 10, Partition: p, CPUs: 3}, trace.Job{ID: p + " again", Duration: 10, Partition: p, CPUs: 3})
	}
	r := run(t, c, jobs, Options{Backfill: EASY, Placement: placement.Packed})
	for i, o := range r.Outcomes {
		if want := fmt.Sprint("n", i/2+1); o.Nodes != want || o.Start != float64(i%2*10) {
			t.Errorf("%s: %+v, want %s", jobs[i].ID, o, want)
		}
	}
}
