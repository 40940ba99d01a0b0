package steer

import (
	"math"
	"reflect"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Those for whom others may leave are BE jobs that wait for the type that they were
// given earlier; what all that run are owed is known.
func TestOwing(t *testing.T) {
	const hour = 3600.0
	waits := []plan.Owed{{Job: slurmplug.Plain(1), Owed: 2*hour + 1./3*hour, Start: 3600, Run: 1200}}
	for name, c := range map[string]struct {
		change func(*testCluster, *cluster.Job)
		want   []plan.Owed
	}{
		"waits":    {func(*testCluster, *cluster.Job) {}, waits},
		"one type": {func(p *testCluster, j *cluster.Job) { clear(p.h.Requests) }, waits},
		"one type without nodes": {func(p *testCluster, j *cluster.Job) {
			clear(p.h.Requests)
			p.Nodes[0].Usable = false
		}, nil},
		"not bound yet": {func(p *testCluster, j *cluster.Job) { j.Features = ""; clear(p.h.Requests) }, nil},
		"bound to another": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("t4"), true, start)
			j.Features, p.memory.unknown = "t4", anyUnknown
		}, nil},
		"te": {func(_ *testCluster, j *cluster.Job) { j.Tag.Type = "te" }, nil},
		"an array": {func(p *testCluster, j *cluster.Job) {
			j.ID.Task, j.Tasks, j.TaskCount = -1, "0-1", 2
			p.shares.Jobs.Set(j.ID, p.shares.Jobs.Get(slurmplug.Plain(1)))
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
		}, []plan.Owed{{Job: cluster.JobID{ID: 1, Task: 0}, Owed: waits[0].Owed, Start: 3600, Run: 1200}}},
		"has a place": {func(p *testCluster, j *cluster.Job) { p.h.Claiming = map[cluster.JobID]bool{j.ID: true} }, nil},
		"held":        {func(_ *testCluster, j *cluster.Job) { j.Priority, j.Reason = 0, "JobHeldUser" }, nil},
		"begins soon": {func(p *testCluster, j *cluster.Job) { // requeued
			j.Reason, j.Eligible = "BeginTime", start.Add(30*time.Second)
			p.h.FirstEligible.Set(j.ID, start.Add(-time.Hour))
		}, nil},
		"starts": {func(p *testCluster, _ *cluster.Job) { p.Nodes[0].GPUsUsed = 0 }, nil},
	} {
		p := newTestCluster()
		p.node("a1", "a100", "a100").GPUsUsed = 4
		p.node("t1", "t4", "t4").GPUsUsed = 4
		p.job(1, "")
		p.job(2, "")
		r := &p.Jobs[1]
		r.State, r.GPUs, r.GPUType, r.NodeList, r.Start, r.TimeLimit = cluster.Running, 4, "a100", "a1", start.Add(-time.Hour), 2*time.Hour
		p.shares.Jobs.Get(r.ID).Owed, p.shares.Jobs.Get(r.ID).Run = []float64{-hour, 0, 0}, []float64{7200, math.Inf(1), 10800}
		j := &p.Jobs[0]
		p.shares.Jobs.Get(j.ID).Owed = []float64{2 * hour, hour, 0} // an hour of t4 is a third of one of a100
		p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
		j.Features = "a100"
		c.change(p, j)
		p.h.Observe(&p.Snapshot)
		pl := order.Decide(&p.Snapshot, p.h, order.Settings{Top: 2_000_000_000, Ranking: plan.Classes{Partitions: []string{"gpu"}}})
		o := p.steer(&pl, steerSettings()).Owing(plan.Lead{})
		if !reflect.DeepEqual(o.Waiting, c.want) {
			t.Errorf("%s: %+v, want %+v", name, o.Waiting, c.want)
		}
		if te := o.First; len(te) > 0 != (name == "te") || len(te) > 0 && te[0] != j.ID {
			t.Errorf("%s: %v come first", name, te)
		}
		if want := (plan.Owed{Job: r.ID, Owed: -hour, Run: 7200}); o.Running.Len() != 1 || o.Running.Get(r.ID) != want {
			t.Errorf("%s: %+v", name, o.Running)
		}
	}
	var memory Memory
	if o := memory.Steer(&plan.Cycle{Snapshot: &cluster.Snapshot{}, History: cluster.NewHistory(), Plan: &plan.Plan{}}, Settings{}, nil).Owing(plan.Lead{Most: 3600, Half: 60}); o != nil {
		t.Errorf("with steering off: %+v", o)
	}
}
