package simulate

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

func speedOf(table *workload.Table) func(*trace.Job, string) float64 {
	return func(j *trace.Job, gpuType string) float64 {
		id, _ := table.Lookup(j.Workload)
		s, _ := table.Speed(id, j.GPUs, gpuType)
		return s
	}
}

// steeredRun runs Gavel's generated jobs on so many nodes of each of its three
// types; every tenth job is TE.
func steeredRun(t *testing.T, gangs bool, spec Spec) Result {
	t.Helper()
	table := defaultTable(t)
	p := trace.GavelParams{Seed: 3, Jobs: 350, JobsPerHour: 0.95, MultiGPU: gangs, Workloads: table}
	node := trace.NodeGroup{Count: 6, GPUs: 1}
	if gangs {
		p.JobsPerHour, node.Count, node.GPUs = 0.6, 2, 4
	}
	jobs, err := trace.GenerateGavel(p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if i%10 == 0 {
			jobs[i].Class = cluster.TE
		}
	}
	in := Input{Jobs: trace.Each(jobs), Speed: speedOf(table)}
	for _, name := range []string{"v100", "p100", "k80"} {
		node.GPUType = name
		in.Cluster.Nodes = append(in.Cluster.Nodes, node)
	}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), spec, in)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range r.Outcomes {
		if !o.Done {
			t.Fatalf("job %+v became %+v", r.Jobs[i], o)
		}
	}
	return r
}

// Steering alone evicts nobody and is far better than Slurm's first type that
// is free.
func TestSteering(t *testing.T) {
	for _, gangs := range []bool{false, true} {
		slurm := steeredRun(t, gangs, Spec{Backfill: "easy"})
		for _, spec := range []Spec{
			{Allocation: "max-min"}, {Allocation: "max-min", Cycle: 15}, {Allocation: "max-min", Order: "owed"},
			{Allocation: "finish-time-fairness", Backfill: "conservative", Depth: 100}, {Allocation: "fifo", Preemption: "te-first"},
		} {
			r := steeredRun(t, gangs, spec)
			t.Logf("gangs %v, %s %s: mean JCT %.1f h, Slurm alone %.1f h", gangs, spec.Allocation, spec.Order, r.Figures.MeanJCT/3600, slurm.Figures.MeanJCT/3600)
			if r.Figures.Preemptions != 0 {
				t.Errorf("%+v evicted somebody", spec)
			}
			if spec.Allocation == "max-min" && r.Figures.MeanJCT > 0.7*slurm.Figures.MeanJCT {
				t.Errorf("gangs %v: mean JCT %v s, Slurm alone %v s", gangs, r.Figures.MeanJCT, slurm.Figures.MeanJCT)
			}
		}
	}
}

// With rounds BE jobs yield, TE jobs never; short jobs gain by it even when a
// move costs what it costs on Slurm.
func TestRoundsOnSlurm(t *testing.T) {
	costs := Overheads{Grace: 30, Restart: 60, Requeue: 121}
	without := steeredRun(t, false, Spec{Allocation: "max-min", Overheads: costs})
	with := steeredRun(t, false, Spec{Allocation: "max-min", Overheads: costs, Round: 1800})
	for i, o := range with.Outcomes {
		if with.Jobs[i].Class == cluster.TE && o.Preemptions > 0 {
			t.Fatalf("TE job %s was evicted", with.Jobs[i].ID)
		}
	}
	if !reflect.DeepEqual(with, steeredRun(t, false, Spec{Allocation: "max-min", Overheads: costs, Round: 1800})) {
		t.Error("the second run is another")
	}
	t.Logf("%d evictions, median %.1f h for %.1f h", with.Figures.Preemptions, with.Figures.P50JCT/3600, without.Figures.P50JCT/3600)
	if with.Figures.Preemptions == 0 || with.Figures.P50JCT > without.Figures.P50JCT {
		t.Errorf("%d evictions, median JCT %v s, without rounds %v s", with.Figures.Preemptions, with.Figures.P50JCT, without.Figures.P50JCT)
	}
	dear := steeredRun(t, false, Spec{Allocation: "max-min", Overheads: Overheads{Grace: 36 * 3600}, Round: 1800})
	if dear.Figures.Preemptions > with.Figures.Preemptions/10 {
		t.Errorf("%d evictions of 36 hours each", dear.Figures.Preemptions)
	}
}

// Jobs whose node fails are steered anew; those bound to a type that is down
// do not wait for it for ever.
func TestSteeringThroughFailures(t *testing.T) {
	for _, round := range []float64{0, 1800} {
		r := steeredRun(t, true, Spec{Allocation: "max-min", Round: round, Overheads: Overheads{MTBF: 200 * 3600, Repair: 30 * 3600, Checkpoint: 1800, Requeue: 121}})
		if r.Figures.Wasted == 0 {
			t.Error("no node failed")
		}
	}
}

// Issue 7: half of what Gavel gains on its ideal cluster, 98.58 h to 27.14 h,
// survives on Slurm without any eviction.
func TestHalfOfGavelsGain(t *testing.T) {
	table := defaultTable(t)
	r, err := trace.Open("../../../shared/data/gavel/traces/continuous_single_seed0.tsv.gz", trace.Options{Format: trace.Gavel, Workloads: table, JobsPerHour: 5.6})
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no ../shared/data: TestSteering holds without it")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cluster, err := trace.ParseNodes([]string{"36:v100:1", "36:p100:1", "36:k80:1"})
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Allocation: "max-min", Cycle: 15, Placement: "pool", Window: &metrics.Window{First: 4000, Last: 4999}}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	got, err := Run(context.Background(), spec, Input{Cluster: cluster, Jobs: r.All(), Speed: speedOf(table)})
	if err != nil {
		t.Fatal(err)
	}
	if hours := got.Figures.MeanJCT / 3600; hours > (98.58+27.14)/2 || got.Figures.Preemptions > 0 {
		t.Errorf("mean JCT %v h, %d evictions", hours, got.Figures.Preemptions)
	} else {
		t.Logf("mean JCT %.2f h", hours)
	}
}

func TestSteeringSpecs(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Allocation: "max-min", Backfill: "none"}, "wants backfill"},
		{Spec{Allocation: "max-min:packed"}, "needs --engine rounds"},
		{Spec{Allocation: "gandiva"}, "needs --engine rounds"},
		{Spec{Allocation: "max-min", Order: "srtf"}, "--order srtf"},
		{Spec{Allocation: "max-min", Order: "fifo", Round: 60}, "wants --order owed"},
		{Spec{Allocation: "max-min", Preemption: "lrtp"}, "--preemption lrtp"},
		{Spec{Allocation: "max-min", Round: -1}, "positive"},
		{Spec{Allocation: "max-min", Cycle: -1}, "--steering-cycle"},
		{Spec{Order: "owed"}, "wants --allocation"},
		{Spec{Order: "owed", Engine: "rounds", Allocation: "max-min"}, "belongs to --engine slurm"},
		{Spec{Round: 60}, "--allocation"},
	} {
		if err := c.spec.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
}
