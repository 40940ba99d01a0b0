package simulate

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/nodespeed"
	site "slurmprio/priod/simulate"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
)

// palFolder names the folder with PAL's workloads and speeds; docs/evidence/nodespeed.md says
// what stands in it. Nothing of it belongs to the project.
const palFolder = "SLURMPRIO_PAL"

func rowsOf(t *testing.T, path string) []map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	rows := make([]map[string]string, len(all)-1)
	for i, fields := range all[1:] {
		rows[i] = map[string]string{}
		for k, name := range all[0] {
			rows[i][name] = fields[k]
		}
	}
	return rows
}

func numberIn(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// palCluster is 16 nodes of 4 GPUs, each as slow as its slowest GPU, by the workload's class.
func palCluster(t *testing.T, dir string) trace.Cluster {
	t.Helper()
	class := map[string]string{}
	for _, row := range rowsOf(t, filepath.Join(dir, "models.csv")) {
		class[row["model"]] = strings.ToLower(strings.TrimPrefix(row["variability_class"], "class"))
	}
	c := trace.Cluster{}
	for _, row := range rowsOf(t, filepath.Join(dir, "gpu_variability_64.csv")) {
		node := int(numberIn(t, row["node"]))
		if node == len(c.Nodes) {
			c.Nodes = append(c.Nodes, trace.NodeGroup{Count: 1, GPUType: "gpu", Slowdown: map[string]float64{}})
		}
		g := &c.Nodes[node]
		g.GPUs++
		for model, letter := range class {
			g.Slowdown[model] = max(g.Slowdown[model], numberIn(t, row["slowdown_class_"+letter]))
		}
	}
	return c
}

// pal is the folder's workloads on a cluster.
type pal struct {
	*testing.T
	dir   string
	table *workload.Table
}

func openPAL(t *testing.T) *pal {
	dir := os.Getenv(palFolder)
	if dir == "" {
		t.Skipf("%s is not set", palFolder)
	}
	table, err := workload.Load(filepath.Join(dir, "workloads_one_type.toml"))
	if err != nil {
		t.Fatal(err)
	}
	return &pal{t, dir, table}
}

// jobs are those of one trace, submitted so many seconds later.
func (p *pal) jobs(number int, later float64) []trace.Job {
	var all []trace.Job
	for _, row := range rowsOf(p.T, filepath.Join(p.dir, fmt.Sprintf("jobs_%d.csv", number))) {
		all = append(all, trace.Job{
			ID: row["job_id"], Submit: numberIn(p.T, row["submit_s"]) + later, GPUs: int(numberIn(p.T, row["gpus"])),
			Workload: row["workload"], Steps: numberIn(p.T, row["steps"]), User: "u", Account: "a", Weight: 1, Deadline: trace.NoDeadline,
		})
	}
	return all
}

func (p *pal) run(c trace.Cluster, jobs []trace.Job, backfill string) Result {
	p.Helper()
	spec := Spec{Order: "fifo", Backfill: backfill, Placement: "consolidated"}
	if err := spec.Check(); err != nil {
		p.Fatal(err)
	}
	steps := func(j *trace.Job, _ string) float64 {
		id, _ := p.table.Lookup(j.Workload)
		v, _ := p.table.Speed(id, j.GPUs, "any")
		return v
	}
	r, err := Run(context.Background(), spec, Input{Cluster: c, Jobs: trace.Each(jobs), Speed: steps})
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// month is one trace a day, in an order by the seed, and four times over, without jobs of more
// than so many GPUs; work is noisy, and the second result is what users say that it is.
func (p *pal) month(seed uint64, noise float64, widest int) (jobs []trace.Job, said []float64) {
	r := rand.New(rand.NewPCG(seed, 0x70616c))
	for week := range 4 {
		for n, number := range r.Perm(8) {
			for _, j := range p.jobs(number+1, 86400*float64(8*week+n)) {
				if j.GPUs > widest {
					continue
				}
				said = append(said, j.Steps)
				j.Steps *= math.Exp(noise * r.NormFloat64())
				jobs = append(jobs, j)
			}
		}
	}
	return jobs, said
}

// after is what accounting knows of a run after so many days.
func after(days float64, jobs []trace.Job, said []float64, outcomes []metrics.Outcome) (past []speed.Run) {
	for i, o := range outcomes {
		if j := &jobs[i]; o.Done && o.End < days*86400 {
			past = append(past, speed.Run{
				Program: speed.Program{Workload: j.Workload, GPUs: j.GPUs}, Seconds: map[string]float64{"gpu": o.Ran}, Work: said[i],
				Place: speed.Place{Nodes: o.Nodes, Start: time.Unix(int64(o.Start), 0), Job: uint32(i)},
			})
		}
	}
	return past
}

// After so many days, which of PAL's nodes do run times name?
func TestPAL(t *testing.T) {
	p := openPAL(t)
	c, looks := palCluster(t, p.dir), 10
	for _, k := range []struct {
		widest      int
		noise, days float64
	}{
		{64, 0.03, 7}, {64, 0.03, 14}, {64, 0.03, 28}, {64, 0.1, 7}, {64, 0.1, 14}, {64, 0.1, 28}, {64, 0.3, 7}, {64, 0.3, 14}, {64, 0.3, 28},
		{16, 0.03, 7}, {16, 0.03, 14}, {16, 0.1, 7}, {16, 0.1, 14}, {16, 0.3, 7}, {16, 0.3, 14},
	} {
		first, completed, told := 0, 0, 0
		named := map[string]int{}
		for seed := range uint64(looks) {
			jobs, said := p.month(seed, k.noise, k.widest)
			past := after(k.days, jobs, said, p.run(c, jobs, "easy").Outcomes)
			completed += len(past)
			for _, r := range past {
				if r.Program.Workload == "resnet50" && slices.Contains(strings.Split(r.Place.Nodes, ","), "n8") {
					told++
				}
			}
			for i, n := range nodespeed.Find(past) {
				if i == 0 && n.Name == "n8" {
					first++
				}
				if n.Slow {
					named[n.Name]++
				}
			}
		}
		t.Logf("up to %d GPUs, noise %v, %v days: %d runs, %.1f of resnet50 on n8; n8 comes first in %d of %d; named: %v", k.widest, k.noise, k.days, completed/looks, float64(told)/float64(looks), first, looks, named)
	}
}

// What it is worth that gangs of class A refuse the slow node: mean completion of each trace.
func TestPALAvoided(t *testing.T) {
	p := openPAL(t)
	c := palCluster(t, p.dir)
	apart := trace.Cluster{Nodes: slices.Clone(c.Nodes)}
	apart.Nodes[8].GPUType = "slow"
	for _, backfill := range []string{"none", "easy"} {
		product := 1.0
		for number := 1; number <= 8; number++ {
			mean := [2]float64{}
			for i, on := range []trace.Cluster{c, apart} {
				jobs := p.jobs(number, 0)
				for k := range jobs {
					if i == 1 && jobs[k].Workload == "resnet50" {
						jobs[k].GPUType = "gpu"
					}
				}
				mean[i] = p.run(on, jobs, backfill).Figures.MeanJCT
			}
			product *= mean[1] / mean[0]
			t.Logf("backfill %s, trace %d: mean completion %.0f s, refusing n8 %.0f s (%+.1f %%)", backfill, number, mean[0], mean[1], 100*(mean[1]/mean[0]-1))
		}
		t.Logf("backfill %s: geometric mean %+.1f %%", backfill, 100*(math.Pow(product, 1./8)-1))
	}
}

// refusing is a run of the daemon's own cycles, with locality.slow_nodes or without.
func (p *pal) refusing(c trace.Cluster, jobs []trace.Job, refuse bool, window *metrics.Window) Result {
	p.Helper()
	steps := func(j *trace.Job, _ string) float64 {
		id, _ := p.table.Lookup(j.Workload)
		v, _ := p.table.Speed(id, j.GPUs, "any")
		return v
	}
	spec := Spec{Order: "priod", SlurmOrder: "fifo", Backfill: "easy", Placement: "consolidated", Window: window}
	if err := spec.Check(); err != nil {
		p.Fatal(err)
	}
	toml := fmt.Sprintf("[cycle]\ninterval = \"1m\"\n[speeds]\ninterval = \"6h\"\n[locality]\nslow_nodes = %v\n", refuse)
	r, err := Run(context.Background(), spec, Input{Cluster: c, Jobs: trace.Each(jobs), Speed: steps, Table: p.table, Config: configured(p.T, toml)})
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// What the daemon's own cycles make of the slow node: mean completion of four weeks of PAL's
// jobs, with locality.slow_nodes and without.
func TestPALMonthRefused(t *testing.T) {
	p := openPAL(t)
	c := palCluster(t, p.dir)
	const seeds = 5
	product := 1.0
	for seed := range uint64(seeds) {
		jobs, _ := p.month(seed, 0.03, 64)
		without, with := p.refusing(c, jobs, false, nil).Figures.MeanJCT, p.refusing(c, jobs, true, nil).Figures.MeanJCT
		product *= with / without
		t.Logf("seed %d: mean completion %.0f s, with slow_nodes %.0f s (%+.1f %%)", seed, without, with, 100*(with/without-1))
	}
	t.Logf("geometric mean %+.1f %%", 100*(math.Pow(product, 1./seeds)-1))
}

// The same for each trace, after four weeks of smaller jobs that tell of the nodes.
func TestPALRefused(t *testing.T) {
	p := openPAL(t)
	c := palCluster(t, p.dir)
	const seeds = 3
	all := 1.0
	for number := 1; number <= 8; number++ {
		product, says := 1.0, ""
		for seed := range uint64(seeds) {
			before, _ := p.month(seed, 0.03, 16)
			jobs := append(before, p.jobs(number, 32*86400)...)
			for i := range jobs {
				jobs[i].ID = fmt.Sprint(i)
			}
			window := &metrics.Window{First: len(before), Last: len(jobs) - 1}
			without, with := p.refusing(c, jobs, false, window).Figures.MeanJCT, p.refusing(c, jobs, true, window).Figures.MeanJCT
			product *= with / without
			says += fmt.Sprintf(" %.0f s, with slow_nodes %.0f s;", without, with)
		}
		all *= product
		t.Logf("trace %d: mean completion%s %+.1f %%", number, says, 100*(math.Pow(product, 1./seeds)-1))
	}
	t.Logf("geometric mean %+.1f %%", 100*(math.Pow(all, 1./(8*seeds))-1))
}

// The daemon's cycles find the slow node in the jobs that ran before, and a gang that would
// lie on it goes elsewhere; off, and where there is none, it does not.
func TestSlowNodesAreRefused(t *testing.T) {
	var jobs []trace.Job
	for i := range 48 { // one on each node, eight times
		jobs = append(jobs, trace.Job{Submit: float64(1000 * (i / 6)), GPUs: 2, Workload: "w", Steps: 300})
	}
	jobs = append(jobs, trace.Job{Submit: 20000, GPUs: 4, Nodes: 2, Workload: "w", Steps: 20000, Limit: 40000})
	for i := range jobs {
		j := &jobs[i]
		j.ID, j.User, j.Account, j.Weight, j.Deadline = fmt.Sprint(i), "u", "a", 1, trace.NoDeadline
	}
	run := func(toml, backfill string) (string, error) {
		c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "gpu", GPUs: 2, Slowdown: map[string]float64{"w": 2}}, {Count: 5, GPUType: "gpu", GPUs: 2}}}
		table, err := workload.Load("")
		if err != nil {
			t.Fatal(err)
		}
		spec := Spec{Order: "priod", SlurmOrder: "fifo", Backfill: backfill, Overheads: site.Overheads{Hold: 60}}
		if err := spec.Check(); err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), spec, Input{Cluster: c, Jobs: trace.Each(jobs), Table: table, Config: configured(t, toml), Speed: func(*trace.Job, string) float64 { return 1 }})
		if err != nil {
			return "", err
		}
		return r.Outcomes[len(jobs)-1].Nodes, nil
	}
	for toml, want := range map[string]string{"[locality]\nslow_nodes = true\n": "n1,n2", "": "n0,n1", "[locality]\nslow_nodes = true\nwait_weight = 1e9\n": "n0,n1"} {
		if got, err := run(toml, ""); err != nil || got != want {
			t.Errorf("%q: it runs on %s, want %s; %v", toml, got, want, err)
		}
	}
	if _, err := run("[locality]\nslow_nodes = true\n", "none"); err == nil || !strings.Contains(err.Error(), "locality.slow_nodes") {
		t.Error(err)
	}
}

// In rounds no job is on a node, so none can be slow.
func TestNoSlowNodesInRounds(t *testing.T) {
	spec := Spec{Engine: "rounds"}
	if err := spec.Check(); err != nil {
		t.Fatal(err)
	}
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "gpu", GPUs: 1, Slowdown: map[string]float64{trace.AnyWorkload: 2}}}}
	if _, err := Run(context.Background(), spec, Input{Cluster: c}); err == nil || !strings.Contains(err.Error(), "--engine slurm") {
		t.Error(err)
	}
}
