package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// A trial of two GPUs is within a tenth of 12 GPUs, whether they are in one partition or in three, and a job
// that names one partition of small nodes has one node of that.
func TestShareOfDividedSite(t *testing.T) {
	nodes := func(partitions ...string) (all []cluster.Node) {
		for i, p := range partitions {
			all = append(all, cluster.Node{Name: fmt.Sprint("n", i), GPUs: 4, Partitions: []string{p}})
		}
		return all
	}
	for _, c := range []struct {
		nodes     []cluster.Node
		partition string
		gpus      int
		te        bool
	}{
		{nodes("gpu", "gpu", "gpu"), "gpu", 2, true},
		{nodes("a100", "v100", "t4"), "a100,v100,t4", 2, true},
		{nodes("a100", "v100", "t4"), "a100,v100,t4", 4, true},
		{nodes("a100", "v100", "t4"), "a100,v100,t4", 5, false},
		{nodes("a100", "v100", "t4"), "t4", 4, true},
	} {
		j := pending(1, "te")
		j.Partition, j.GPUs = c.partition, c.gpus
		s, h := &cluster.Snapshot{At: now, Jobs: []cluster.Job{j}, Nodes: c.nodes}, cluster.NewHistory()
		h.Observe(s)
		if v, _ := Rank(s, h, plan.Classes{User: plan.Budget{Share: 0.1}}); (v[0].Budget == nil) != c.te {
			t.Errorf("%d GPUs of partitions %s: want %v: %+v", c.gpus, c.partition, c.te, v[0].Budget)
		}
	}
}

// On any divided site a budget is the part of the nodes that are in one of the job's partitions at least, each counted
// once, and never less than the largest of them; the order of the list and names that stand in it twice change nothing.
func TestReachIsTheUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a100", "a100-long", "v100", "t4", "x.y"}
		some := rapid.SliceOfN(rapid.SampledFrom(names), 1, 6)
		s := &cluster.Snapshot{}
		for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
			s.Nodes = append(s.Nodes, cluster.Node{Name: fmt.Sprint("n", i), GPUs: rapid.IntRange(0, 8).Draw(t, "gpus"), Partitions: some.Draw(t, "in")})
		}
		r := newRanker(s, cluster.NewHistory(), plan.Classes{})
		for range 4 {
			list := some.Draw(t, "list")
			gpus, node := 0, 0
			for _, n := range s.Nodes {
				if slices.ContainsFunc(list, func(p string) bool { return slices.Contains(n.Partitions, p) }) {
					gpus, node = gpus+n.GPUs, max(node, n.GPUs)
				}
			}
			hundredths := rapid.IntRange(1, 100).Draw(t, "hundredths")
			share := float64(hundredths) / 100
			b := r.on(plan.Budget{Share: share, HourShare: share}, &cluster.Job{Partition: strings.Join(list, ",")})
			want, hours := max(hundredths*gpus/100, node), share*float64(gpus)*24
			if b.GPUs != want || b.GPUHours < hours-1e-6 || b.GPUHours > hours+1e-6 {
				t.Fatalf("%v of %v: %d GPUs and %.2f GPU-hours, want %d and %.2f", share, list, b.GPUs, b.GPUHours, want, hours)
			}
			slices.Reverse(list)
			if again := r.on(plan.Budget{Share: share}, &cluster.Job{Partition: strings.Join(list, ",")}); again.GPUs != want {
				t.Fatalf("%d GPUs for the list backwards, not %d", again.GPUs, want)
			}
		}
	})
}
