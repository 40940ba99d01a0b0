package simulate

import (
	"context"
	"os"
	"reflect"
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	site "slurmprio/priod/simulate"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/tests/papers/traces"
	"slurmprio/tests/shared"
)

func speedOf(table *workload.Table) func(*trace.Job, string) float64 {
	return func(j *trace.Job, gpuType string) float64 {
		id, _ := table.Lookup(j.Workload)
		s, _ := table.Speed(id, j.GPUs, gpuType)
		return s
	}
}

// steers is a priod that looks every two minutes, so that the tests take seconds; jobs are
// held back until it has seen them.
const steers = "[cycle]\ninterval = \"2m\"\n[preemption]\npoll_interval = \"30s\"\n"

// steeredRun runs so many of Gavel's generated jobs on as many nodes of each of its three
// types; every tenth job is TE.
func steeredRun(t *testing.T, jobs int, gangs bool, spec Spec, toml string) Result {
	t.Helper()
	table := shared.Workloads(t)
	p := traces.GavelParams{Seed: 3, Jobs: jobs, JobsPerHour: 0.95, MultiGPU: gangs, Workloads: table}
	node := trace.NodeGroup{Count: 6, GPUs: 1}
	if gangs {
		p.JobsPerHour, node.Count, node.GPUs = 0.6, 2, 4
	}
	all, err := traces.GenerateGavel(p)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if i%10 == 0 {
			all[i].Class = cluster.TE
		}
	}
	in := Input{Jobs: trace.Each(all), Speed: speedOf(table), Config: configured(t, toml), Table: table}
	for _, name := range []string{"v100", "p100", "k80"} {
		node.GPUType = name
		in.Cluster.Nodes = append(in.Cluster.Nodes, node)
	}
	spec.Overheads.Hold = 130
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
	for _, gangs := range []bool{true, false} {
		if !gangs && os.Getenv("SLURMPRIO_LONG") != "1" {
			continue // TestRoundsOnSlurm steers jobs of one GPU
		}
		slurm := steeredRun(t, 350, gangs, Spec{Backfill: "easy"}, "").Figures.MeanJCT / 3600
		orders := []string{"owed", ""}
		if os.Getenv("SLURMPRIO_LONG") != "1" {
			orders = orders[:1]
		}
		for _, order := range orders {
			r := steeredRun(t, 350, gangs, Spec{Allocation: "max-min", Order: order}, steers)
			hours := r.Figures.MeanJCT / 3600
			t.Logf("gangs %v, order %q: mean JCT %.1f h, Slurm alone %.1f h", gangs, order, hours, slurm)
			if hours > 0.7*slurm || r.Figures.Preemptions != 0 {
				t.Errorf("gangs %v, order %q: mean JCT %.1f h, Slurm alone %.1f h; %d evictions", gangs, order, hours, slurm, r.Figures.Preemptions)
			}
		}
	}
	for _, spec := range []Spec{{Allocation: "finish-time-fairness"}, {Allocation: "makespan", Preemption: "te-first"}} {
		if r := steeredRun(t, 80, true, spec, steers); r.Figures.Preemptions != 0 {
			t.Errorf("%+v evicted somebody", spec)
		}
	}
}

// With rounds BE jobs yield, TE jobs never; short jobs gain by it even when a
// move costs what it costs on Slurm.
func TestRoundsOnSlurm(t *testing.T) {
	spec := Spec{Allocation: "max-min", Order: "owed", Overheads: site.Overheads{Grace: 30, Restart: 60, Requeue: 121}}
	rounds := spec
	rounds.Round = 1800
	without, with := steeredRun(t, 200, false, spec, steers), steeredRun(t, 200, false, rounds, steers)
	for i, o := range with.Outcomes {
		if with.Jobs[i].Class == cluster.TE && o.Preemptions > 0 {
			t.Fatalf("TE job %s was evicted", with.Jobs[i].ID)
		}
	}
	if !reflect.DeepEqual(with, steeredRun(t, 200, false, rounds, steers)) {
		t.Error("the second run is another")
	}
	t.Logf("%d evictions, median %.1f h for %.1f h", with.Figures.Preemptions, with.Figures.P50JCT/3600, without.Figures.P50JCT/3600)
	if with.Figures.Preemptions == 0 || with.Figures.P50JCT > without.Figures.P50JCT {
		t.Errorf("%d evictions, median JCT %v s, without rounds %v s", with.Figures.Preemptions, with.Figures.P50JCT, without.Figures.P50JCT)
	}
	rounds.Overheads = site.Overheads{Grace: 36 * 3600}
	dear := steeredRun(t, 200, false, rounds, steers+"max_grace = \"36h\"\n")
	if dear.Figures.Preemptions > with.Figures.Preemptions/10 {
		t.Errorf("%d evictions of 36 hours each", dear.Figures.Preemptions)
	}
}

// Jobs whose node fails are steered anew; those bound to a type that is down
// do not wait for it for ever.
func TestSteeringThroughFailures(t *testing.T) {
	for _, round := range []float64{0, 1800} {
		r := steeredRun(t, 80, true, Spec{Allocation: "max-min", Round: round, Overheads: site.Overheads{MTBF: 200 * 3600, Repair: 30 * 3600, Checkpoint: 1800, Requeue: 121}}, steers)
		if r.Figures.Wasted == 0 {
			t.Error("no node failed")
		}
	}
}

// Issue 7: half of what Gavel gains on its ideal cluster, 98.58 h to 27.14 h,
// survives on Slurm without any eviction. Issue 16 wants at most 27 h of order owed.
func TestGavelsGain(t *testing.T) {
	if os.Getenv("SLURMPRIO_LONG") != "1" {
		t.Skip("takes minutes: SLURMPRIO_LONG=1; TestSteering holds without it")
	}
	table := shared.Workloads(t)
	r, err := trace.Open(shared.Path(t, "gavel/traces/continuous_single_seed0.tsv.gz"), trace.Options{Source: traces.Gavel(traces.Options{Workloads: table, JobsPerHour: 5.6})})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cluster, err := trace.ParseNodes([]string{"36:v100:1", "36:p100:1", "36:k80:1"})
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Allocation: "max-min", Order: "owed", Overheads: site.Overheads{Hold: 20}, Window: &metrics.Window{First: 4000, Last: 4999}}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	got, err := Run(context.Background(), spec, Input{Cluster: cluster, Jobs: r.All(), Speed: speedOf(table), Config: configured(t, "cycle.interval = \"15s\""), Table: table})
	if err != nil {
		t.Fatal(err)
	}
	hours := got.Figures.MeanJCT / 3600
	t.Logf("mean JCT %.2f h", hours)
	if hours > 27 || got.Figures.Preemptions > 0 {
		t.Errorf("mean JCT %v h, %d evictions", hours, got.Figures.Preemptions)
	}
}

// Each short form is the key that it stands for, and what stands beside it in priod.toml
// holds.
func TestShortForms(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		toml string // the same, with order priod alone
		also string // in both
	}{
		{Spec{Allocation: "max-min"}, "[allocation]\npolicy = \"max-min\"\n[steering]\nenabled = true\n", steers},
		{Spec{Allocation: "max-min", Order: "owed"}, "[allocation]\npolicy = \"max-min\"\n[steering]\nenabled = true\n[ranking]\norder = \"owed\"\n", steers},
		{Spec{Allocation: "max-min", Round: 1800}, "[allocation]\npolicy = \"max-min\"\n[steering]\nenabled = true\n[rounds]\nenabled = true\nlength = \"30m\"\n", steers},
	} {
		short, long := steeredRun(t, 80, false, c.spec, c.also), steeredRun(t, 80, false, Spec{Order: "priod", SlurmOrder: "fifo"}, c.also+c.toml)
		if !reflect.DeepEqual(short, long) {
			t.Errorf("%+v is not %q", c.spec, c.toml)
		}
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
		{Spec{Allocation: "allox"}, "allocation.policy"},
		{Spec{Allocation: "max-min", Order: "srtf"}, "not srtf"},
		{Spec{Allocation: "max-min", Order: "sjf"}, "--allocation max-min is short for --order priod"},
		{Spec{Allocation: "max-min", Round: -1}, "rounds.length"},
		{Spec{Order: "owed"}, "allocation.policy beside order owed"},
		{Spec{Order: "owed", Engine: "rounds", Allocation: "max-min"}, "belongs to --engine slurm"},
		{Spec{Round: 60}, "--allocation"},
		{Spec{Order: "priod", Round: 60}, "steering.enabled beside rounds"},
	} {
		err := c.spec.Check()
		if err == nil {
			_, err = Run(context.Background(), c.spec, Input{Config: configured(t, "")})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
}
