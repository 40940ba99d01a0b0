package virtual

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// byType is one node of 4 GPUs of each of two types, in a partition for each.
var byType = trace.Cluster{Nodes: []trace.NodeGroup{
	{Count: 1, GPUType: "a100", GPUs: 4, Partitions: []string{"a100"}},
	{Count: 1, GPUType: "v100", GPUs: 4, Partitions: []string{"v100"}},
}}

// Jobs run in the partitions that they name, whatever is free elsewhere.
func TestJobsRunInTheirPartitions(t *testing.T) {
	whole := trace.Job{GPUs: 4, Duration: 100, Partition: "v100"}
	for _, backfill := range []Backfill{NoBackfill, EASY, Conservative, Skip} {
		r := run(t, byType, numbered(whole, whole, whole), Options{Backfill: backfill, Placement: placement.Packed})
		for i, o := range r.Outcomes {
			if o.Nodes != "n1" || o.Start != float64(100*i) {
				t.Errorf("backfill %s, job %d: node %s at %v", backfill, i, o.Nodes, o.Start)
			}
		}
	}
}

// A job that does not fit blocks its own partitions: those of its list, and no other.
func TestHeadsBlockTheirPartitions(t *testing.T) {
	job := func(partition string, gpus int, submit, duration float64) trace.Job {
		return trace.Job{GPUs: gpus, Duration: duration, Submit: submit, Partition: partition}
	}
	for _, c := range []struct {
		name   string
		jobs   []trace.Job
		starts []float64
		nodes  []string
	}{
		{"one waits, the other partition goes on",
			[]trace.Job{job("v100", 3, 0, 100), job("v100", 4, 1, 10), job("v100", 1, 2, 200), job("a100", 4, 3, 10)},
			[]float64{0, 100, 110, 3}, []string{"n1", "n1", "n1", "n0"}},
		{"a list blocks both",
			[]trace.Job{job("v100", 3, 0, 100), job("a100", 3, 0, 200), job("a100,v100", 4, 1, 10), job("v100", 1, 2, 300), job("a100", 1, 3, 300)},
			[]float64{0, 0, 100, 110, 100}, []string{"n1", "n0", "n1", "n1", "n0"}},
		{"a job passes where no head waits",
			[]trace.Job{job("v100", 4, 0, 100), job("v100", 4, 1, 10), job("v100,a100", 4, 2, 10)},
			[]float64{0, 100, 2}, []string{"n1", "n1", "n0"}},
		{"a list is taken in its order",
			[]trace.Job{job("v100,a100", 1, 0, 10), job("a100,v100", 1, 0, 10), job("", 1, 0, 10)},
			[]float64{0, 0, 0}, []string{"n1", "n0", "n0"}},
	} {
		r := run(t, byType, numbered(c.jobs...), Options{Placement: placement.Packed})
		for i, o := range r.Outcomes {
			if o.Start != c.starts[i] || o.Nodes != c.nodes[i] {
				t.Errorf("%s: job %d starts at %v on %s, want %v on %s", c.name, i, o.Start, o.Nodes, c.starts[i], c.nodes[i])
			}
		}
	}
}

func numbered(jobs ...trace.Job) []trace.Job {
	for i := range jobs {
		jobs[i].ID = strconv.Itoa(i)
	}
	return jobs
}

func TestPartitionsThatCannotRunAJob(t *testing.T) {
	for _, c := range []struct {
		job  trace.Job
		want string
	}{
		{trace.Job{GPUs: 1, Partition: "h100"}, "because the cluster has no partition h100: x"},
		{trace.Job{GPUs: 5, Partition: "v100"}, "because 5 GPUs of one type are more than partition v100 has (4): x"},
		{trace.Job{GPUs: 1, Partition: "v100", GPUType: "a100"}, "because partition v100 has no GPUs of type a100 on which it runs: x"},
	} {
		c.job.ID, c.job.Duration = "x", 1
		_, err := Run(context.Background(), byType, trace.Each([]trace.Job{c.job}), Options{Placement: placement.Packed})
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.job, err, c.want)
		}
	}
	_, err := Run(context.Background(), byType, trace.Each(numbered(trace.Job{GPUs: 1, Duration: 1})), Options{Placement: placement.Pool})
	if err == nil || !strings.Contains(err.Error(), "partitions count only where jobs are placed on nodes") {
		t.Error(err)
	}
}

// drawDivided is a cluster whose nodes are in some of three partitions.
func drawDivided(t *rapid.T) trace.Cluster {
	partitions := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 1, 3, rapid.ID[string])
	var c trace.Cluster
	for i := range rapid.IntRange(2, 4).Draw(t, "groups") {
		c.Nodes = append(c.Nodes, trace.NodeGroup{
			Count: rapid.IntRange(1, 3).Draw(t, "count"), GPUType: string(rune('a' + rapid.IntRange(0, 1).Draw(t, "type"))), GPUs: rapid.IntRange(1, 4).Draw(t, "gpus"),
			CPUs: 8, MemMB: rapid.SampledFrom([]int64{0, 100}).Draw(t, "mem"), Partitions: partitions.Draw(t, "partitions"),
		})
		if i == 3 {
			c.Nodes[i].GPUs, c.Nodes[i].GPUType = 0, ""
		}
	}
	return c
}

func drawPartitioned(t *rapid.T, c trace.Cluster) []trace.Job {
	lists := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID[string])
	jobs := drawJobs(t, trace.Cluster{Nodes: c.Nodes[:2]}, 40)
	for i := range jobs {
		j := &jobs[i]
		j.Partition = strings.Join(lists.Draw(t, "list"), ",")
		if len(c.Nodes) == 4 && rapid.IntRange(0, 3).Draw(t, "without GPUs") == 0 {
			j.GPUs, j.GPUType, j.CPUs = 0, "", rapid.IntRange(1, 8).Draw(t, "cpus")
		}
	}
	return jobs
}

// groupsOf is the group of each node.
func groupsOf(c trace.Cluster) (of []*trace.NodeGroup) {
	for i := range c.Nodes {
		for range c.Nodes[i].Count {
			of = append(of, &c.Nodes[i])
		}
	}
	return of
}

// runsIn reports whether a job that ran on some nodes did so in one of its partitions.
func runsIn(j *trace.Job, on []*trace.NodeGroup, c trace.Cluster) bool {
	known := func(p string) bool {
		return slices.ContainsFunc(c.Nodes, func(g trace.NodeGroup) bool { return slices.Contains(g.Partitions, p) })
	}
	list := slices.DeleteFunc(strings.Split(j.Partition, ","), func(p string) bool { return !known(p) })
	return len(list) == 0 && (j.Partition == "" || j.GPUs == 0) || j.GPUs > 0 && !c.Divided() ||
		slices.ContainsFunc(list, func(p string) bool {
			return !slices.ContainsFunc(on, func(g *trace.NodeGroup) bool { return !slices.Contains(g.Partitions, p) })
		})
}

// However partitions overlap, a job runs on the nodes of one of its partitions, and none waits beside free nodes of its
// own where nothing else waits.
func TestDividedClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawDivided(t)
		opt := Options{
			Backfill:  rapid.SampledFrom([]Backfill{NoBackfill, EASY, Conservative, Skip}).Draw(t, "backfill"),
			Placement: rapid.SampledFrom([]placement.Mode{placement.Packed, placement.Consolidated}).Draw(t, "placement"),
		}
		groups, jobs := groupsOf(c), possible(c, drawPartitioned(t, c), opt)
		e := moments(t, c, jobs, opt, func(e *engine) {
			if waiting := e.queue.list(0); len(waiting) == 1 && opt.Backfill != Conservative { // whose places are moved in turn, once
				j := waiting[0]
				for _, p := range j.line.parts {
					if _, fits := e.nodes.Fit(e.in(j.request, j.line, p), nil); fits {
						t.Fatalf("backfill %s: %s waits alone at %v, and partition %q has room", opt.Backfill, j.ID, e.now, p.name)
					}
				}
			}
		})
		for i, o := range e.outcomes {
			if !o.Done {
				t.Fatalf("%s: %+v", jobs[i].ID, o)
			}
			var on []*trace.NodeGroup
			for name := range strings.SplitSeq(o.Nodes, ",") {
				n, _ := strconv.Atoi(strings.TrimPrefix(name, "n"))
				on = append(on, groups[n])
			}
			if !runsIn(&jobs[i], on, c) {
				t.Fatalf("%s of %q ran on %s of %+v", jobs[i].ID, jobs[i].Partition, o.Nodes, c)
			}
		}
	})
}

// Slurm's own preemption takes jobs that are in the way, not younger ones of another partition.
func TestSlurmPreemptsInThePartition(t *testing.T) {
	jobs := numbered(
		trace.Job{GPUs: 4, Duration: 100, Partition: "v100"}, trace.Job{GPUs: 4, Duration: 100, Submit: 1, Partition: "a100"},
		trace.Job{GPUs: 4, Duration: 10, Submit: 2, Partition: "v100", Class: cluster.TE},
	)
	r := run(t, byType, jobs, Options{Placement: placement.Packed, TEFirst: true, Evict: SlurmQOS})
	if o := r.Outcomes; o[0].Preemptions != 1 || o[1].Preemptions != 0 || o[2].Start != 2 || o[2].Nodes != "n1" {
		t.Errorf("%+v", o)
	}
}
