package virtual

import (
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// owned are two nodes, the second of an owner, and both of guests.
func owned() trace.Cluster {
	return trace.Cluster{
		Nodes:      []trace.NodeGroup{{Count: 1, GPUType: "a", GPUs: 4, Partitions: []string{"guests"}}, {Count: 1, GPUType: "a", GPUs: 4, Partitions: []string{"guests", "owner"}}},
		Partitions: []trace.Partition{{Name: "guests", Tier: 1, JobFactor: 1}, {Name: "owner", Tier: 2, JobFactor: 1}},
	}
}

// Slurm's PreemptType=preempt/partition_prio with preempt_youngest_first (slurm.conf, preempt.html): for the owner leave the
// guests on its nodes, the youngest first, and as many as it needs; neither the guests on other nodes nor its own jobs do. Until
// they have left, no other job takes what is free there.
func TestSlurmPartitions(t *testing.T) {
	guest := func(id string, submit float64, gpus int) trace.Job {
		return trace.Job{ID: id, Submit: submit, GPUs: gpus, Duration: 10000, Limit: 20000, Class: cluster.BE, Grace: 60, Partition: "guests"}
	}
	jobs := []trace.Job{
		guest("elsewhere", 0, 4), guest("old", 1, 1), guest("old too", 2, 1), {ID: "own", Submit: 3, GPUs: 1, Duration: 10000, Limit: 20000, Partition: "owner,guests"}, guest("young", 4, 1),
		{ID: "owner's", Submit: 100, GPUs: 2, Duration: 600, Limit: 600, Partition: "owner"},
		guest("late", 110, 1),
	}
	r, err := Run(t.Context(), owned(), trace.Each(jobs), Options{Order: Multifactor, Backfill: EASY, Placement: placement.Packed, RequeueDelay: 121, Evict: SlurmPartitions})
	if err != nil {
		t.Fatal(err)
	}
	starts := map[string]float64{"elsewhere": 0, "old": 1, "old too": 2, "own": 3, "young": 4, "owner's": 160, "late": 760}
	for i := range r.Jobs {
		o, id := &r.Outcomes[i], r.Jobs[i].ID
		if evicted := o.Preemptions > 0; evicted != (id == "young" || id == "old too") || o.Start != starts[id] {
			t.Errorf("%s: start %v, evicted %d times", id, o.Start, o.Preemptions)
		}
	}
}

// Slurm's classic fair share is 2^-(use / share) with an account's part of all Fairshare (priority_multifactor.html#fairshare);
// GrpTRES=gres/gpu keeps an account's jobs waiting beyond it, and blocks no other job (resource_limits.html).
func TestAccounts(t *testing.T) {
	m := newMultifactor(&Options{Shares: map[string]int{"large": 3, "small": 1}}, trace.Cluster{})
	for name, use := range map[string]float64{"large": 30, "small": 10} {
		m.of(name).use = use
		m.all.use += use
	}
	if large, small := m.fairShare(m.of("large")), m.fairShare(m.of("small")); large != 0.5 || small != 0.5 {
		t.Errorf("both have used their parts, factors %v and %v", large, small)
	}
	c := trace.Cluster{
		Nodes:        []trace.NodeGroup{{Count: 1, GPUType: "a", GPUs: 8}},
		Associations: []slurmplug.Association{{Account: "a", All: slurmplug.TRES{{Name: "gres/gpu", Count: 4}}}},
	}
	job := func(id, account string, submit float64) trace.Job {
		return trace.Job{ID: id, Account: account, Submit: submit, GPUs: 2, Duration: 100, Limit: 100}
	}
	jobs := []trace.Job{job("first", "a", 0), job("second", "a", 1), job("beyond", "a", 2), job("other", "b", 3)}
	r, err := Run(t.Context(), c, trace.Each(jobs), Options{Order: Multifactor, Backfill: EASY, Placement: placement.Packed, Shares: map[string]int{"a": 4}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0, 1, 100, 3} {
		if got := r.Outcomes[i].Start; got != want {
			t.Errorf("%s starts at %v, want %v", r.Jobs[i].ID, got, want)
		}
	}
}
