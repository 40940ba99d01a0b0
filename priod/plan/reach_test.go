package plan

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
)

// Jobs count where they can run: those of one partition on its GPUs alone, those of two on both; a partition without GPUs changes
// nothing.
func TestPerGPU(t *testing.T) {
	nodes := []cluster.Node{{Partitions: []string{"a"}, GPUs: 4}, {Partitions: []string{"b"}, GPUs: 2}, {Partitions: []string{"b"}, GPUs: 2}, {Partitions: []string{"cpu"}}}
	jobs := map[string]int{"a": 8, "b": 2, "b,a": 4, "cpu": 100}
	for list, want := range map[string]float64{"a": 10. / 4, "b": 1, "a,b": 14. / 8, "b,a,cpu": 14. / 8, "cpu": 0, "": 0} {
		if got := PerGPU(nodes, jobs)(list); got != want {
			t.Errorf("%q: %v jobs for each GPU, want %v", list, got, want)
		}
	}
}

// Where each job reaches all nodes it is the number of jobs over the GPUs; else all jobs are counted once over all GPUs.
func TestPerGPUCountsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []cluster.Node
		jobs, gpus, n := map[string]int{}, 0, 0
		for range rapid.IntRange(1, 6).Draw(t, "nodes") {
			own := rapid.SampledFrom([][]string{{"p"}, {"q"}, {"p", "q"}}).Draw(t, "partitions")
			nodes = append(nodes, cluster.Node{Partitions: append([]string{"all"}, own...), GPUs: rapid.IntRange(1, 8).Draw(t, "gpus")})
			gpus += nodes[len(nodes)-1].GPUs
		}
		for range rapid.IntRange(0, 6).Draw(t, "kinds") {
			list, some := rapid.SampledFrom([]string{"p", "q", "q,p", "all", "p,all"}).Draw(t, "list"), rapid.IntRange(1, 9).Draw(t, "jobs")
			if ReachOf(nodes, list).GPUs > 0 {
				jobs[list] += some
				n += some
			}
		}
		if got, want := PerGPU(nodes, jobs)("all"), float64(n)/float64(gpus); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v jobs for each GPU, want %v", got, want)
		}
	})
}

// A partition without GPUs is what its CPUs count as: a share of it is the same share.
func TestReachWithoutGPUs(t *testing.T) {
	nodes := []cluster.Node{{Partitions: []string{"gpu", "all"}, GPUs: 8, CPUs: 64}, {Partitions: []string{"cpu", "all"}, CPUs: 32}, {Partitions: []string{"cpu", "all"}, CPUs: 64}}
	for list, want := range map[string]Reach{"gpu": {8, 8}, "all": {8, 8}, "cpu,gpu": {8, 8}, "cpu": {5, 4}, "": {}} {
		if got := ReachOf(nodes, list); got != want {
			t.Errorf("%q reaches %+v, want %+v", list, got, want)
		}
	}
}
