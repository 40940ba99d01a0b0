package order

import (
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// gpuNodes are so many nodes of 4 GPUs and 16 CPUs.
func gpuNodes(n int) (nodes []cluster.Node) {
	for i := range n {
		nodes = append(nodes, cluster.Node{Name: string(rune('a' + i)), GPUType: "t4", GPUs: 4, CPUs: 16, MemMB: 64000, Usable: true, Partitions: []string{"gpu"}})
	}
	return nodes
}

// --exclusive -N2 --gres=gpu:1 was counted as 2 GPUs: it takes two nodes, while it waits and when it runs.
func TestWholeNodesAreCharged(t *testing.T) {
	j := pending(1, "te")
	j.GPUs, j.Nodes, j.CPUs, j.Whole = 2, 2, 2, true
	s := &cluster.Snapshot{At: now, Jobs: []cluster.Job{j}, Nodes: gpuNodes(3)}
	h := cluster.NewHistory()
	h.Observe(s)
	if got := newRanker(s, h, plan.Classes{}).charge(&s.Jobs[0]); got != 8 {
		t.Errorf("charged %v while it waits, want 8", got)
	}
	run := &s.Jobs[0]
	run.State, run.GPUs, run.CPUs, run.NodeList, run.Start = cluster.Running, 8, 32, "a,b", now
	h.Observe(s)
	if got := newRanker(s, h, plan.Classes{}).charge(run); got != 8 {
		t.Errorf("charged %v while it runs, want 8", got)
	}
	s.Nodes = nil // what was charged when it began counts as long as it runs
	h.Observe(s)
	if users, _, _ := h.TEUse(now.Add(time.Hour), func(string, string) time.Duration { return 0 }); users["ann"].GPUs != 8 || users["ann"].GPUSeconds != 8*3600 {
		t.Errorf("%+v", users)
	}
}

// Five trials without a GPU that take all nodes for themselves went before all others: a job of 0 GPUs was never limited.
func TestTrialsWithoutGPUsAreCharged(t *testing.T) {
	s := &cluster.Snapshot{At: now, Nodes: gpuNodes(3)}
	for i := range uint32(5) {
		j := pending(i+1, "te")
		j.GPUs, j.Nodes, j.CPUs, j.Whole = 0, 3, 3, true
		s.Jobs = append(s.Jobs, j)
	}
	bob := pending(6, "te")
	bob.User, bob.Account, bob.Eligible = "bob", "speech", now.Add(-time.Minute)
	s.Jobs = append(s.Jobs, bob)
	h := cluster.NewHistory()
	h.Observe(s)
	verdicts, te := Rank(s, h, plan.Classes{User: plan.Budget{GPUs: 12}})
	if len(te) < 2 || verdicts[te[0]].Job != 0 || verdicts[te[1]].Job != 5 {
		t.Errorf("%v of %+v: want the first of ann's, then bob's", te, verdicts)
	}
}
