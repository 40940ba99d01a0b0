package cycle

import (
	"context"
	"slices"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/size"
	"slurmprio/priod/steer"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// asked is a Slurm that counts which jobs it is asked about one by one.
type asked struct {
	snapshot cluster.Snapshot
	place    cluster.Place
	placed   int // where they may run
	sized    int // how they ask
	written  []plan.Action
}

func (a *asked) Observe(context.Context) (cluster.Snapshot, error) { return a.snapshot, nil }
func (a *asked) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	a.written = append(a.written, actions...)
	return make([]plan.Outcome, len(actions))
}
func (a *asked) Observed(context.Context, *cluster.Snapshot, func() []cluster.Stay) {}
func (a *asked) Planned(context.Context, plan.Seen) error                           { return nil }
func (a *asked) Done(context.Context, []plan.Outcome) error                         { return nil }
func (a *asked) Places(_ context.Context, jobs map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	a.placed += len(jobs)
	places := map[cluster.JobID]cluster.Place{}
	for id := range jobs {
		places[id] = a.place
	}
	return places, nil
}
func (a *asked) Ask(_ context.Context, jobs []*cluster.Job) error { a.sized += len(jobs); return nil }

// steerable is a job that may run on two types of free nodes and gets another size.
func steerable() (*asked, Settings) {
	a := &asked{snapshot: cluster.Snapshot{At: start}}
	for _, gpuType := range []string{"a100", "v100"} {
		a.snapshot.Nodes = append(a.snapshot.Nodes, cluster.Node{
			Name: gpuType + "-1", Usable: true, GPUType: gpuType, GPUs: 4, CPUs: 16, MemMB: 1000, Features: []string{gpuType}, Partitions: []string{"gpu"},
		})
	}
	j := cluster.Job{
		ID: slurmplug.Plain(1), RawID: 1, TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, Priority: 10, Reason: "Resources",
		Nodes: 1, GPUs: 1, CPUs: 1, MemMB: 10, Eligible: start, Submit: start, TimeLimit: 3600e9, SiteFactorKnown: true,
		Tag: jobtag.Tag{Speed: map[string]float64{"a100": 3, "v100": 1}, CPU: map[string]jobtag.Curve{"a100": {{Amount: 1, Speed: 1}, {Amount: 4, Speed: 3}}}},
	}
	a.snapshot.Jobs = []cluster.Job{j}
	shares := &plan.Shares{Types: []string{"a100", "v100"}}
	shares.Jobs.Set(j.ID, &plan.Share{Speed: []float64{1, 1. / 3}, Time: []float64{1, 0}, Received: make([]float64, 2), Run: []float64{1200, 3600}})
	sizes := &size.Sizes{}
	sizes.Set(size.Settings{Enabled: true, Jobs: 10})
	set := Settings{
		Order:    order.Feature{Settings: order.Settings{Top: 2_000_000_000, Ranking: plan.Classes{Partitions: []string{"gpu"}}, Shares: shares}},
		Steering: steer.Feature{Settings: steer.Settings{Enabled: true, Rule: steer.Defaults}, Memory: &steer.Memory{}, Slurm: a},
		Sizing:   size.Feature{Sizes: sizes, Slurm: a},
	}
	return a, set
}

// While priod is paused no job is asked about: nothing would be written. The first
// cycle after that asks, and writes.
func TestPausedQueriesNoJob(t *testing.T) {
	a, set := steerable()
	h := cluster.NewHistory()
	set.Hold = "paused by ann"
	for range 3 {
		if _, err := Step(t.Context(), a, a, h, set); err != nil {
			t.Fatal(err)
		}
	}
	if a.placed+a.sized+len(a.written) > 0 {
		t.Errorf("paused, it asked about %d and %d jobs and wrote %v", a.placed, a.sized, a.written)
	}
	set.Hold = ""
	if _, err := Step(t.Context(), a, a, h, set); err != nil {
		t.Fatal(err)
	}
	if a.placed != 1 || a.sized != 1 || len(a.written) == 0 {
		t.Errorf("later it asked about %d and %d jobs and wrote %v", a.placed, a.sized, a.written)
	}
}

// A job that comes back with the place of an earlier claim in its request is steered
// once that is taken out, in the same cycle: it does not name its nodes itself.
func TestSteeringForgetsPins(t *testing.T) {
	a, set := steerable()
	h, id := cluster.NewHistory(), slurmplug.Plain(1)
	a.place.Required = "v100-1"
	f := &fakeSlurm{jobs: map[cluster.JobID]plan.JobStatus{id: {Job: a.snapshot.Jobs[0], ReqNodes: "v100-1"}}}
	set.Evictions = evict.Feature{Slurm: f, Recorder: f, Journal: evict.NewJournal()}
	set.Evictions.Journal.Claims = []evict.Claim{{Number: 1, Job: id, RawID: 1, User: "ann", State: evict.Started, Pin: "v100-1", Ended: start}}
	step := func() (steered bool) {
		a.written = nil
		if _, err := Step(t.Context(), a, a, h, set); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(a.written, func(x plan.Action) bool { return x.Lever == slurmplug.Features })
	}
	before := step()
	if len(f.log) != 1 || f.log[0] != "unpin 1" {
		t.Errorf("%q", f.log)
	}
	a.place.Required, f.jobs[id] = "", plan.JobStatus{Job: a.snapshot.Jobs[0]}
	if after := step(); before || !after {
		t.Errorf("steered while it is pinned: %v, then: %v", before, after)
	}
}
