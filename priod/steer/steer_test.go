package steer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/order"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var start = time.Unix(1_800_000_000, 0)

// testCluster is a cluster whose constraints priod and its users change.
type testCluster struct {
	cluster.Snapshot
	h      *cluster.History
	memory Memory
	shares plan.Shares
	own    map[cluster.JobID]string // what users want
	places map[cluster.JobID]cluster.Place
}

func newTestCluster() *testCluster {
	return &testCluster{
		Snapshot: cluster.Snapshot{At: start}, h: cluster.NewHistory(), own: map[cluster.JobID]string{}, places: map[cluster.JobID]cluster.Place{},
		shares: plan.Shares{Types: []string{"a100", "t4", "v100"}},
	}
}

func (p *testCluster) node(name, gpuType string, features ...string) *cluster.Node {
	p.Nodes = append(p.Nodes, cluster.Node{Name: name, Usable: true, GPUType: gpuType, GPUs: 4, CPUs: 16, MemMB: 1000, Features: features, Partitions: []string{"gpu"}})
	return &p.Nodes[len(p.Nodes)-1]
}

// job waits with a constraint of its own.
func (p *testCluster) job(id uint32, own string) *cluster.Job {
	j := cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, Priority: int64(1000 - id), Reason: "Resources",
		Nodes: 1, GPUs: 1, CPUs: 1, MemMB: 10, Features: own, Eligible: start, Submit: start, TimeLimit: 3600e9,
		Tag: jobtag.Tag{Speed: map[string]float64{"a100": 3, "v100": 2, "t4": 1}},
	}
	p.Jobs = append(p.Jobs, j)
	p.own[j.ID] = own
	p.shares.Jobs.Set(j.ID, &plan.Share{Speed: []float64{1, 1. / 3, 2. / 3}, Time: []float64{1, 0, 0}, Received: make([]float64, 3), Run: []float64{1200, 3600, 1800}})
	return &p.Jobs[len(p.Jobs)-1]
}

// busy has the job bound to v100 since a time; a100 becomes free sooner.
func (p *testCluster) busy(j *cluster.Job, since time.Time) {
	p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, since)
	j.Features = "v100"
	for i, minutes := range []time.Duration{10, 50, 60} {
		n := &p.Nodes[i]
		n.GPUsUsed = 4
		p.Jobs = append(p.Jobs, cluster.Job{
			ID: slurmplug.Plain(uint32(70 + i)), State: cluster.Running, GPUs: 4, NodeList: n.Name, Start: start, TimeLimit: minutes * time.Minute, GPUType: n.GPUType,
		})
	}
}

func steerSettings() Settings {
	set := Settings{Enabled: true, Rule: Defaults}
	return set
}

// anyUnknown has the cycle before have seen GPUs of all types in use by nobody known.
const anyUnknown = ^placement.Types(0)

// steer is Memory.Steer in a cycle with this plan.
func (p *testCluster) steer(pl *plan.Plan, set Settings) *Steered {
	pl.Shares = &p.shares
	jobs := func() []pendingJob { return pendingJobs(&p.Snapshot, p.h, pl.Decisions) }
	return p.memory.Steer(&plan.Cycle{Snapshot: &p.Snapshot, History: p.h, Plan: pl}, set, jobs)
}

// cycle steers once, and writes.
func (p *testCluster) cycle(set Settings) (plan.Plan, []plan.Action) {
	return p.steered(set, []string{"gpu"})
}

// steered is cycle where jobs of these partitions are ranked.
func (p *testCluster) steered(set Settings, partitions []string) (plan.Plan, []plan.Action) {
	p.h.Observe(&p.Snapshot)
	pl := order.Decide(&p.Snapshot, p.h, order.Settings{Top: 2_000_000_000, Ranking: plan.Classes{Partitions: partitions}})
	steered := p.steer(&pl, set)
	places := map[cluster.JobID]cluster.Place{}
	for id := range steered.Unseen() {
		places[id] = p.places[id]
	}
	steered.Vet(places)
	for _, a := range steered.Actions {
		for i := range p.Jobs {
			if j := &p.Jobs[i]; j.ID == a.Job && !a.Part {
				write(j, a.Lever, a.After)
			}
		}
		for _, id := range a.Jobs() {
			p.h.Asked(id, a.Lever, a.Was, a.After, true, p.At)
		}
	}
	return pl, steered.Actions
}

func (p *testCluster) told(pl *plan.Plan, id uint32) string {
	i := slices.IndexFunc(pl.Decisions, func(d plan.Decision) bool { return d.Job == slurmplug.Plain(id) })
	d := &pl.Decisions[i]
	if d.Steer == "" && d.Choices.GPUType != nil {
		return d.Choices.GPUType.Words()
	}
	return d.Steer
}

// Each reason for which a job is left alone, and each for which a type goes again.
func TestSteer(t *testing.T) {
	typical := func() *testCluster {
		p := newTestCluster()
		p.node("a1", "a100", "a100", "ssd")
		p.node("v1", "v100", "v100")
		p.node("t1", "t4", "t4")
		return p
	}
	for name, c := range map[string]struct {
		change func(*testCluster, *cluster.Job)
		want   string // constraint
		told   string
	}{
		"bound":        {func(*testCluster, *cluster.Job) {}, "a100", "a100 is allocated to it and free"},
		"and its own":  {func(_ *testCluster, j *cluster.Job) { j.Features = "ssd" }, "ssd", "leaves one GPU type"},
		"alternatives": {func(_ *testCluster, j *cluster.Job) { j.Features = "a100|t4" }, "(a100|t4)&a100", "free"},
		"no consent":   {func(_ *testCluster, j *cluster.Job) { j.Tag = jobtag.Tag{Type: "be"} }, "", ""},
		"a bad tag":    {func(_ *testCluster, j *cluster.Job) { j.TagErr = "x" }, "", ""},
		"typed":        {func(_ *testCluster, j *cluster.Job) { j.GPUType = "v100" }, "", asksForType},
		"part of one":  {func(_ *testCluster, j *cluster.Job) { j.HetLeader = 7 }, "", partOfHetJob},
		"prefers":      {func(_ *testCluster, j *cluster.Job) { j.Prefer = "t4" }, "", prefersNodes},
		"counts":       {func(_ *testCluster, j *cluster.Job) { j.Features = "[a100|v100]" }, "[a100|v100]", "counts"},
		"groups":       {func(_ *testCluster, j *cluster.Job) { j.Features = "(a100|v100)&ssd" }, "(a100|v100)&ssd", "parentheses"},
		"claimed":      {func(p *testCluster, j *cluster.Job) { p.h.Claiming = map[cluster.JobID]bool{j.ID: true} }, "", hasClaim},
		"claimed and bound": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, start)
			j.Features, p.h.Claiming = "v100", map[cluster.JobID]bool{j.ID: true}
		}, "v100", hasClaim},
		"named":           {func(p *testCluster, j *cluster.Job) { p.places[j.ID] = cluster.Place{Required: "v1"} }, "", namesNodes},
		"refuses":         {func(p *testCluster, j *cluster.Job) { p.places[j.ID] = cluster.Place{Excluded: "a1"} }, "", "it excludes nodes (a1)"},
		"a node too many": {func(p *testCluster, j *cluster.Job) { p.places[j.ID] = cluster.Place{Excluded: "v1"} }, "a100", "free"},
		"type gone": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
			j.Features, j.Reason = "a100", "ReqNodeNotAvail, UnavailableNodes:a1"
			p.Nodes[0].Usable = false
		}, "v100", "its nodes are down"},
		"some nodes down": {func(_ *testCluster, j *cluster.Job) {
			j.Reason = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
		}, "a100", "free"},
		"type renamed": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Text("a100|t4"), slurmplug.Text("(a100|t4)&a100"), true, start)
			j.Features, j.Reason = "(a100|t4)&a100", "BadConstraints"
			p.rename("a100", "h100")
		}, "t4", "no node satisfies it (BadConstraints)"},
		"feature gone": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Text("ib"), slurmplug.Text("ib&a100"), true, start)
			j.Features, j.Reason = "ib&a100", "BadConstraints"
		}, "ib&a100", "no node has the feature ib"},
		"soon": {func(_ *testCluster, j *cluster.Job) { j.Reason, j.Eligible = "BeginTime", start.Add(20e9) }, "a100", "free"},
		"soon, a trial": {func(_ *testCluster, j *cluster.Job) {
			j.Reason, j.Eligible, j.Tag.Type = "BeginTime", start.Add(20e9), "te"
		}, "", ""},
		"soon, a trial that ran bound to a type": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
			j.Reason, j.Eligible, j.Tag.Type, j.Features = "BeginTime", start.Add(20e9), "te", "a100"
		}, "", ""},
		"later": {func(p *testCluster, j *cluster.Job) {
			j.Reason, j.Eligible = "BeginTime", start.Add(3600e9)
			p.shares.Jobs.Delete(j.ID)
		}, "", ""},
		"held":       {func(_ *testCluster, j *cluster.Job) { j.Priority, j.Reason = 0, "JobHeldUser" }, "", ""},
		"limited":    {func(_ *testCluster, j *cluster.Job) { j.Reason = "QOSMaxGRESPerUser" }, "", ""},
		"elsewhere":  {func(_ *testCluster, j *cluster.Job) { j.Partition = "cpu" }, "", ""},
		"nodes down": {func(p *testCluster, _ *cluster.Job) { p.Nodes[0].Usable = false }, "v100", "takes v100"},
		"all down": {func(p *testCluster, _ *cluster.Job) {
			for i := range p.Nodes {
				p.Nodes[i].Usable = false
			}
		}, "", noNodes},
		"no feature": {func(p *testCluster, _ *cluster.Job) { p.Nodes[0].Features = nil }, "v100", "takes v100"},
		"no feature, and no place elsewhere": {func(p *testCluster, _ *cluster.Job) {
			p.Nodes[0].Features, p.Nodes[1].GPUsUsed, p.Nodes[2].GPUsUsed = nil, 4, 4
		}, "", "it could run on a100, to which no job is steered: none of its nodes has the feature a100"},
		"no feature, bound before": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
			j.Features = "a100"
			p.Nodes[0].Features, p.Nodes[1].GPUsUsed, p.Nodes[2].GPUsUsed = nil, 4, 4
			for i, node := range []string{"v1", "t1"} { // which come free, so that there is room, but no time
				p.Jobs = append(p.Jobs, cluster.Job{ID: slurmplug.Plain(uint32(7 + i)), State: cluster.Running, GPUs: 4, NodeList: node, Start: start, TimeLimit: 600e9})
			}
		}, "", "none of its nodes has the feature a100"},
		"no feature on another node": {func(p *testCluster, _ *cluster.Job) { p.node("a2", "a100") }, "a100", "free"},
		"no feature on the free node": {func(p *testCluster, _ *cluster.Job) {
			p.Nodes[0].GPUsUsed, p.memory.unknown = 4, anyUnknown
			p.node("a2", "a100")
		}, "v100", "takes v100"},
		"no feature on the node that is up": {func(p *testCluster, _ *cluster.Job) {
			p.Nodes[0].Usable = false
			p.node("a2", "a100")
		}, "v100", "takes v100"},
		"no feature on the node that is large enough": {func(p *testCluster, j *cluster.Job) {
			p.node("a2", "a100").CPUs, j.CPUs = 32, 17
		}, "", "on a100 it could run only on nodes without the feature a100"},
		"no feature any more on the node that is large enough": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
			p.node("a2", "a100").CPUs, j.CPUs, j.Features = 32, 17, "a100"
		}, "", "on a100 it could run only on nodes without the feature a100"},
		"no feature on a node for a gang": {func(p *testCluster, j *cluster.Job) {
			j.Nodes, j.GPUs = 2, 8
			p.node("a2", "a100")
			p.node("v2", "v100", "v100")
			p.node("t2", "t4", "t4")
		}, "v100", "takes v100"},
		"no feature on the node that is large enough, and one other type": {func(p *testCluster, j *cluster.Job) {
			p.node("a2", "a100").CPUs, p.Nodes[1].CPUs, j.CPUs = 32, 32, 17
		}, "", "on a100 it could run only on nodes without the feature a100"},
		"no feature on a node of its one type": {func(p *testCluster, j *cluster.Job) {
			p.node("a2", "a100", "ssd")
			j.Features = "ssd"
		}, "ssd", "leaves one GPU type"},
		"no feature on a node that it does not refuse": {func(p *testCluster, j *cluster.Job) {
			p.node("a2", "a100")
			p.places[j.ID] = cluster.Place{Excluded: "a1"}
		}, "", "it excludes nodes (a1)"},
		"no feature on one, and on a wrong one": {func(p *testCluster, _ *cluster.Job) {
			p.node("a2", "a100")
			p.node("v2", "v100", "v100", "a100")
		}, "v100", "takes v100"},
		"no feature where a job left alone will start": {func(p *testCluster, _ *cluster.Job) {
			p.Nodes[0].GPUsUsed = 2
			p.Jobs = append(p.Jobs, cluster.Job{ID: slurmplug.Plain(7), State: cluster.Running, GPUs: 2, NodeList: "a1", Start: start, TimeLimit: 600e9})
			p.node("a2", "a100")
			j := p.job(0, "") // before the other
			j.GPUs, j.GPUType = 4, "a100"
		}, "a100", "free"},
		"features of one type": {func(p *testCluster, _ *cluster.Job) { p.Nodes[0].Features, p.Nodes[2].Features = nil, nil }, "", "to which no job is steered"},
		"no features at all": {func(p *testCluster, _ *cluster.Job) {
			p.Nodes[0].Features, p.Nodes[1].Features, p.Nodes[2].Features = nil, nil, nil
		}, "", "to which no job is steered"},
		"a slice of a GPU": {func(p *testCluster, _ *cluster.Job) {
			p.Nodes[0].GPUType, p.Nodes[0].Features = "a100_1g.5gb", []string{"a100_1g.5gb"}
			p.shares.Types[0] = "a100_1g.5gb"
			p.Nodes[1].GPUsUsed, p.Nodes[2].GPUsUsed = 4, 4
		}, "", "it is a slice of a GPU (MIG)"},
		"a slice by another name": {func(p *testCluster, _ *cluster.Job) {
			p.Nodes[0].GPUType, p.Nodes[0].Features = "MIG-1g_5gb", []string{"MIG-1g_5gb"}
			p.shares.Types[0] = "MIG-1g_5gb"
			p.Nodes[1].GPUsUsed, p.Nodes[2].GPUsUsed = 4, 4
		}, "", "it is a slice of a GPU (MIG)"},
		"only a node of several types": {func(p *testCluster, j *cluster.Job) {
			p.node("m1", "t4", "mixed").MixedTypes = true
			j.Features = "mixed"
		}, "mixed", "it could run on m1, which has several GPU types"},
		"one type, or a node of several": {func(p *testCluster, j *cluster.Job) {
			p.node("m1", "t4", "mixed").MixedTypes = true
			j.Features = "mixed|ssd"
		}, "mixed|ssd", "it could run on m1, which has several GPU types"},
		"a word that is no feature": {func(p *testCluster, j *cluster.Job) { j.Features = "nvlink!" }, "nvlink!", "no name of a feature"},
		"a shared one":              {func(p *testCluster, _ *cluster.Job) { p.Nodes[1].Features = append(p.Nodes[1].Features, "a100") }, "v100", "takes v100"},
		"mixed types":               {func(p *testCluster, _ *cluster.Job) { p.Nodes[0].MixedTypes = true }, "v100", "takes v100"},
		"too much of it":            {func(_ *testCluster, j *cluster.Job) { j.CPUs = 17 }, "", noNodes},
		"edited": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, start)
			j.Features = "t4"
		}, "t4", editedByUser},
		"undone by its user": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, start)
		}, "", editedByUser},
		"on another type": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("v100"), true, start.Add(-time.Minute))
			j.Features = "v100"
		}, "a100", "the previous type is withdrawn"},
		"on another type since just now, to wait": {func(p *testCluster, j *cluster.Job) {
			p.busy(j, start.Add(-64*time.Second))
		}, "v100", "waits for v100"},
		"on another type for a minute, to wait": {func(p *testCluster, j *cluster.Job) {
			p.busy(j, start.Add(-65*time.Second))
		}, "a100", "the previous type is withdrawn"},
		"impossible": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
			j.Features, j.Reason, j.Priority = "a100", "BadConstraints", 0
		}, "", "no node satisfies it (BadConstraints)"},
		"refused": {func(p *testCluster, j *cluster.Job) {
			p.memory.at = start
			p.h.Refuse(j.ID, slurmplug.Features, "Invalid feature specification", p.memory.at)
		}, "", "left alone: Invalid feature specification"},
		"too large for a node of the type": {func(p *testCluster, j *cluster.Job) {
			p.Nodes[0].GPUs, j.GPUs, j.Node.GPUs = 2, 3, 3
			p.node("a2", "a100", "a100", "ssd").GPUs = 2
		}, "v100", "takes v100"},
		"one node of some type, as nobody knows where": {func(p *testCluster, j *cluster.Job) {
			p.Nodes[0].GPUs, j.GPUs = 2, 3
			p.node("a2", "a100", "a100", "ssd").GPUs = 2
			p.places[j.ID] = cluster.Place{Bounds: slurmplug.Bounds{Tasks: 1}}
		}, "", "leave no place for it on a100"}, // the next cycle chooses by that
		"several nodes of any type": {func(p *testCluster, j *cluster.Job) {
			j.GPUs = 8
			p.node("a2", "a100", "a100", "ssd")
			p.node("v2", "v100", "v100")
			p.places[j.ID] = cluster.Place{Bounds: slurmplug.Bounds{Tasks: 1}}
		}, "a100", "free"},
		"more nodes than it says": {func(p *testCluster, j *cluster.Job) {
			p.places[j.ID] = cluster.Place{Bounds: slurmplug.Bounds{Tasks: 2, TasksPerNode: 1}}
		}, "", "leave no place for it on a100"},
		"no more nodes than it allows": {func(p *testCluster, j *cluster.Job) {
			j.GPUs = 8
			p.node("a2", "a100", "a100", "ssd")
			p.node("v2", "v100", "v100")
			p.places[j.ID] = cluster.Place{Bounds: slurmplug.Bounds{Most: 1, Tasks: 8}}
		}, "", "leave no place for it on a100"},
		"CPUs by GPU": {func(p *testCluster, j *cluster.Job) {
			j.GPUs, j.Node.GPUs = 2, 2
			p.places[j.ID] = cluster.Place{Bounds: slurmplug.Bounds{Tasks: 1, CPUsPerGPU: 9}}
		}, "", "leave no place for it on a100"},
		"CPUs by GPU that are there": {func(p *testCluster, j *cluster.Job) {
			j.GPUs, j.Node.GPUs = 2, 2
			p.places[j.ID] = cluster.Place{Bounds: slurmplug.Bounds{Tasks: 1, CPUsPerGPU: 8}}
		}, "a100", "free"},
		"memory of each node": {func(p *testCluster, j *cluster.Job) {
			p.places[j.ID] = cluster.Place{Bounds: slurmplug.Bounds{Tasks: 2, MemMB: 1001}}
		}, "", "leave no place for it on a100"},
		"consent gone": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
			j.Features, j.Tag = "a100", jobtag.Tag{}
		}, "", ""},
	} {
		p := typical()
		p.job(1, "")
		c.change(p, &p.Jobs[0])
		pl, _ := p.cycle(steerSettings())
		if got := p.Jobs[0].Features; got != c.want {
			t.Errorf("%s: it holds %q, want %q", name, got, c.want)
		}
		if told := p.told(&pl, 1); !strings.Contains(told, c.told) || c.told == "" && told != "" {
			t.Errorf("%s: told %q, want %q", name, told, c.told)
		}
	}
}

// Where the features of the nodes have names of their own, those are written; a type
// whose nodes lack them is named in a note for the operator.
func TestSteerByFeature(t *testing.T) {
	p := newTestCluster()
	p.node("a1", "a100", "ampere")
	p.node("t1", "t4", "turing")
	p.node("v1", "v100")
	p.job(1, "ampere|turing")
	set := steerSettings()
	set.Features = map[string]string{"a100": "ampere", "t4": "turing"}
	pl, _ := p.cycle(set)
	if got := p.Jobs[0].Features; got != "(ampere|turing)&ampere" {
		t.Errorf("it holds %q", got)
	}
	if len(pl.Notes) != 1 || !strings.Contains(pl.Notes[0].Text, "no job is steered to v100: none of its nodes has the feature v100") {
		t.Errorf("notes %q", pl.Notes)
	}
	set.Features = map[string]string{"a100": "volta", "t4": "turing"} // renamed
	p.Nodes[0].Features = []string{"volta"}
	p.Jobs[0].Features, p.own[p.Jobs[0].ID] = "ampere", ""
	p.h.Asked(p.Jobs[0].ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("ampere"), true, start)
	if p.cycle(set); p.Jobs[0].Features != "volta" {
		t.Errorf("after another name of the feature it holds %q", p.Jobs[0].Features)
	}
}

// Nodes that lack the feature of their type are named, a few of them, and the type
// is used through the others.
func TestSteerNamesNodesWithoutTheFeature(t *testing.T) {
	p := newTestCluster()
	p.node("a100-1", "a100", "a100")
	p.node("v1", "v100", "v100")
	p.node("v2", "v100")
	for n := 2; n < 9; n++ {
		p.node(fmt.Sprintf("a100-%d", n), "a100")
	}
	p.job(1, "")
	pl, _ := p.cycle(steerSettings())
	if p.Jobs[0].Features != "a100" {
		t.Errorf("it holds %q", p.Jobs[0].Features)
	}
	want := "steered jobs cannot run on a100-[2-5] and 3 more: they have no feature a100; on v2: it has no feature v100 (priod check)"
	if len(pl.Notes) != 1 || pl.Notes[0].Text != want {
		t.Errorf("notes %q", pl.Notes)
	}
}

// What a job refuses it also refuses among the nodes that lack the feature.
func TestSteerKnowsWhatIsRefused(t *testing.T) {
	p := newTestCluster()
	for _, gpuType := range p.shares.Types {
		p.node(gpuType+"-1", gpuType, gpuType)
	}
	p.node("a100-2", "a100")
	j := p.job(1, "")
	p.places[j.ID] = cluster.Place{Excluded: "a100-[1-2],t4-1,v100-1"}
	p.cycle(steerSettings())
	if pl, _ := p.cycle(steerSettings()); p.told(&pl, 1) != noNodes {
		t.Errorf("told %q", p.told(&pl, 1))
	}
}

// A job whose GPUs no node of its types has lies on several, however large the nodes
// of other types are.
func TestSteerSpreadsByTheJobsOwnTypes(t *testing.T) {
	p := newTestCluster()
	p.node("v1", "v100", "v100").GPUs = 8
	p.node("a1", "a100", "a100")
	p.node("a2", "a100", "a100")
	p.node("t1", "t4", "t4")
	p.node("t2", "t4", "t4")
	p.job(1, "a100|t4").GPUs = 8
	pl, _ := p.cycle(steerSettings())
	if got := p.Jobs[0].Features; got != "(a100|t4)&a100" {
		t.Errorf("it holds %q, told %q", got, p.told(&pl, 1))
	}
}

// A job that Slurm does not start on a free type is let go, left alone for a
// while, and tried again.
func TestSteerLetsGo(t *testing.T) {
	p := newTestCluster()
	p.node("a1", "a100", "a100")
	p.node("v1", "v100", "v100")
	p.job(1, "")
	set := steerSettings()
	set.Rule.Cycles = 3
	seen := ""
	for range 12 {
		p.cycle(set)
		p.At = p.At.Add(5 * time.Minute)
		seen += map[string]string{"": ".", "a100": "a"}[p.Jobs[0].Features]
	}
	if seen != "aaaa....aaaa" && seen != "aaaa...aaaa." {
		t.Errorf("bound as %s", seen)
	}
}

// A job of several partitions stays a candidate, and keeps what is remembered of it, while Slurm says
// BadConstraints of one of them; a job of one partition does not.
func TestSteerWhileSlurmNamesOtherPartitions(t *testing.T) {
	for list, want := range map[string]string{"a100,v100,t4": "a100", "a100": ""} {
		p := newTestCluster()
		for _, gpuType := range p.shares.Types {
			n := p.node(gpuType+"1", gpuType, gpuType)
			n.Partitions = []string{gpuType}
		}
		j := p.job(1, "")
		j.Partition, j.Reason = list, "BadConstraints"
		set := steerSettings()
		p.steered(set, strings.Split(list, ","))
		if j.Features != want {
			t.Errorf("%s: holds %q", list, j.Features)
		}
		if want == "" {
			continue
		}
		for range 2 * set.Rule.Cycles {
			if p.At = p.At.Add(time.Minute); j.Features == want {
				p.steered(set, strings.Split(list, ","))
			}
		}
		if state := p.memory.jobs.Get(j.ID); j.Features != "" || state == nil || state.pause == 0 {
			t.Errorf("%s: its type is free, and Slurm starts it nowhere: holds %q, %+v", list, j.Features, state)
		}
	}
}

// An array is bound task by task, as many as the cluster could run.
func TestSteerSplitsAnArray(t *testing.T) {
	p := newTestCluster()
	p.node("a1", "a100", "a100")
	p.node("v1", "v100", "v100")
	j := p.job(1, "")
	j.Tasks, j.TaskCount = "0-99", 100
	p.shares.Jobs.Get(j.ID).Time = []float64{0.5, 0, 0.5}
	_, actions := p.cycle(steerSettings())
	tasks := map[string]string{}
	for _, a := range actions {
		if !a.Part || a.Was != (slurmplug.Value{}) {
			t.Errorf("%+v", a)
		}
		tasks[a.After.String()] += a.Tasks
	}
	n := 0
	for _, list := range tasks {
		k, err := slurmplug.CountTasks(list)
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	if n != 8 || len(tasks) != 2 {
		t.Errorf("bound %v", tasks)
	}
}

// Of an array that goes to several types one task is left for the next cycle: what is
// for all tasks that its record still has Slurm writes into the record, whose user's
// own would then be known of the tasks only.
func TestSteerNeverWritesARecordAway(t *testing.T) {
	p := newTestCluster()
	p.node("a1", "a100", "a100").GPUsUsed = 2
	p.node("v1", "v100", "v100").GPUsUsed = 2
	j := p.job(1, "")
	j.Tasks, j.TaskCount = "2-5", 4
	p.shares.Jobs.Get(j.ID).Time = []float64{0.5, 0, 0.5}
	_, actions := p.cycle(steerSettings())
	left, values := 4, map[string]bool{}
	for _, a := range actions {
		n, err := slurmplug.CountTasks(a.Tasks)
		if err != nil || !a.Part {
			t.Errorf("%+v", a)
		}
		left -= n
		values[a.After.String()] = true
	}
	if left != 1 || len(values) != 2 {
		t.Errorf("%d tasks are left by %+v", left, actions)
	}
	j.Tasks, j.TaskCount = "5", 1 // as Slurm shows what is left
	_, actions = p.cycle(steerSettings())
	if len(actions) != 1 || actions[0].Part || actions[0].Tasks != "5" || !p.h.Requests[j.ID][slurmplug.Features].Ours(slurmplug.Text(j.Features)) || p.h.Own(j, slurmplug.Features) != (slurmplug.Value{}) {
		t.Errorf("the last one: %+v, own %q", actions, p.h.Own(j, slurmplug.Features))
	}
}

// Slurm says of an array that no node satisfies what was written: it gets its own
// back, and no other type in the next cycle.
func TestSteerLeavesAnImpossibleArray(t *testing.T) {
	p := newTestCluster()
	p.node("a1", "a100", "a100")
	p.node("v1", "v100", "v100")
	j := p.job(1, "")
	j.Tasks, j.TaskCount = "0-1", 2
	p.cycle(steerSettings())
	if j.Features != "a100" {
		t.Fatalf("bound to %q", j.Features)
	}
	for _, reason := range []string{"BadConstraints", "Resources"} {
		j.Reason = reason
		if p.cycle(steerSettings()); j.Features != "" {
			t.Errorf("%s: bound to %q", reason, j.Features)
		}
	}
}

// An array that is longer than depth is bound as far as that reaches; the task for
// which room is being made is left alone before it has a record of its own.
func TestSteerTheHeadOfAnArray(t *testing.T) {
	p := newTestCluster()
	p.node("a1", "a100", "a100")
	p.node("v1", "v100", "v100")
	j := p.job(1, "")
	j.Tasks, j.TaskCount = "0-99", 100
	set := steerSettings()
	set.Rule.Depth = 3
	p.h.Claiming = map[cluster.JobID]bool{{ID: 1, Task: 0}: true}
	if _, actions := p.cycle(set); len(actions) != 1 || actions[0].Tasks != "1-2" || actions[0].After.String() != "a100" {
		t.Errorf("%+v", actions)
	}
	p.h.Asked(j.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start)
	j.Features, j.Tag = "a100", jobtag.Tag{}
	if _, actions := p.cycle(set); len(actions) != 1 || actions[0].Tasks != "1-2" || actions[0].After != (slurmplug.Value{}) {
		t.Errorf("what the claimed task holds stays: %+v", actions)
	}
}

// Whatever the cluster looks like: what is written is the user's own constraint
// with a type on which there is place, in words that Slurm knows; it is bounded, it is
// stable, and it goes when steering is switched off. What users edited stays.
func TestSteerIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newTestCluster()
		types := p.shares.Types
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			gpuType := rapid.SampledFrom(types).Draw(t, "type")
			features := rapid.SampledFrom([][]string{{gpuType}, {gpuType, "ssd"}, {"ssd"}, {gpuType, "ssd", "ib"}}).Draw(t, "features")
			n := p.node(string(rune('a'+i))+"1", gpuType, features...)
			n.Usable = rapid.IntRange(0, 4).Draw(t, "up") > 0
			n.GPUsUsed = rapid.IntRange(0, 4).Draw(t, "used")
			n.MixedTypes = rapid.IntRange(0, 9).Draw(t, "mixed") == 0
		}
		for id := range uint32(rapid.IntRange(1, 8).Draw(t, "jobs")) {
			j := p.job(id+1, rapid.SampledFrom([]string{"", "", "ssd", "ssd&ib", "a100|t4", "[a100|v100]", "(ssd|ib)&a100", "nosuch"}).Draw(t, "own"))
			j.GPUs = rapid.IntRange(1, 8).Draw(t, "gpus")
			j.Nodes = rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "on")
			j.CPUs = rapid.SampledFrom([]int{1, 8, 40}).Draw(t, "cpus")
			if rapid.IntRange(0, 4).Draw(t, "typed") == 0 {
				j.GPUType = rapid.SampledFrom(types).Draw(t, "asks for")
			}
			share := p.shares.Jobs.Get(j.ID)
			for i := range types {
				share.Time[i] = rapid.Float64Range(0, 1).Draw(t, "time")
				share.Run[i] = rapid.SampledFrom([]float64{100, 1000, math.Inf(1)}).Draw(t, "run")
			}
			p.places[j.ID] = rapid.SampledFrom([]cluster.Place{{}, {}, {Required: "a1"}, {Excluded: "a1"}, {Excluded: "[a-c]1"}}).Draw(t, "place")
		}
		set := steerSettings()
		set.WritesPerCycle = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "limit")
		edited := map[cluster.JobID]bool{}
		for range rapid.IntRange(1, 4).Draw(t, "cycles") {
			_, actions := p.cycle(set)
			if set.WritesPerCycle > 0 && len(actions) > set.WritesPerCycle {
				t.Fatalf("%d writes", len(actions))
			}
			for _, a := range actions {
				p.checkBinding(t, a, &set)
				if edited[a.Job] {
					t.Fatalf("job %s was edited by its user", a.Job)
				}
			}
			if set.WritesPerCycle > 0 {
				p.cycle(set)
			} else if why := p.settle(set, actions); why != "" {
				t.Fatal(why)
			}
			switch j := &p.Jobs[rapid.IntRange(0, len(p.Jobs)-1).Draw(t, "which")]; rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				j.Features = "theirs"
				p.own[j.ID] = j.Features
				edited[j.ID] = p.h.Requests[j.ID] != nil
			case 1:
				n := &p.Nodes[rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "node")]
				n.Usable = !n.Usable
			case 2:
				j.Tag = jobtag.Tag{}
			case 3:
				p.rename(rapid.SampledFrom([]string{"a100", "t4", "ssd"}).Draw(t, "feature"), "renamed")
			}
		}
		set.Enabled = false
		for range 20 { // the limit holds here, too
			p.cycle(set)
		}
		for i := range p.Jobs {
			j := &p.Jobs[i]
			own, lost := PutBack(p.own[j.ID], p.Nodes)
			if j.Features != p.own[j.ID] && (len(lost) == 0 || own != "" && j.Features != own) {
				t.Fatalf("job %s is left with %q, its own is %q", j.ID, j.Features, p.own[j.ID])
			}
		}
	})
}

// settle steers the same cluster until nothing is written any more, and says why that does not end: a job gets a constraint
// for the second time. What the first look at nodes taught may take a type from one job, which then is better for another.
func (p *testCluster) settle(set Settings, actions []plan.Action) (why string) {
	written := map[string]bool{}
	for cycle := 0; len(actions) > 0; cycle++ {
		for _, a := range actions {
			key := fmt.Sprint(a.Job, " ", a.After)
			if written[key] || cycle > 2*len(p.Jobs) {
				return fmt.Sprintf("the same cluster, in cycle %d: %+v, after %v", cycle, a, written)
			}
			written[key] = true
		}
		_, actions = p.cycle(set)
	}
	return ""
}

// What one look at nodes teaches may change more than one job, one after the other: job 3 excludes the a100 node, of which
// two GPUs are in use by no job, so that it holds fewer than job 6 asks for; without job 6 it is free for job 7. That is the
// end of it.
func TestSteerSettles(t *testing.T) {
	p := newTestCluster()
	p.node("a1", "a100", "a100").GPUsUsed = 2
	p.node("b1", "t4", "t4").GPUsUsed = 1
	for id := range uint32(7) {
		j := p.job(id+1, "")
		share := p.shares.Jobs.Get(j.ID)
		share.Time, share.Run = []float64{1, 1, 1}, []float64{100, 100, 100}
		switch j.ID.ID {
		case 2, 4, 5:
			j.CPUs = 40
		case 3:
			p.places[j.ID] = cluster.Place{Excluded: "[a-c]1"}
		case 6:
			j.GPUs, share.Time[1] = 3, 1./1024
		}
	}
	set := steerSettings()
	for cycle, want := range []string{"1=a100 6=a100 7=t4", "6=", "7=a100", "", ""} {
		var got []string
		_, actions := p.cycle(set)
		for _, a := range actions {
			got = append(got, fmt.Sprintf("%s=%s", a.Job, a.After))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("cycle %d writes %v, want %s", cycle, got, want)
		}
	}
}

// rename gives a feature of all nodes another name: Slurm does not know it any more.
// A node that priod has reserved for a claim is no reason to take back a type.
func TestSteerBesideItsOwnReservation(t *testing.T) {
	for _, own := range []bool{true, false} {
		p := newTestCluster()
		for _, name := range []string{"a1", "a2"} {
			p.node(name, "a100", "a100")
		}
		p.node("v1", "v100", "v100")
		p.node("v2", "v100", "v100")
		gang := p.job(1, "")
		gang.Nodes, gang.GPUs, gang.CPUs = 2, 8, 8
		p.h.Asked(gang.ID, slurmplug.Features, slurmplug.Value{}, slurmplug.Text("a100"), true, start.Add(-time.Hour))
		gang.Features = "a100"
		p.Nodes[0].State = "MIXED+RESERVED"
		if own {
			p.h.Reserved = map[string]bool{"a1": true}
		}
		if pl, actions := p.cycle(steerSettings()); (len(actions) == 0) != own {
			t.Errorf("reserved by priod: %v: %+v, %s", own, actions, p.told(&pl, 1))
		}
	}
}

func (p *testCluster) rename(feature, to string) {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Features = slices.Clone(n.Features)
		if at := slices.Index(n.Features, feature); at >= 0 {
			n.Features[at] = to
		}
	}
}

// checkBinding looks at one write by counting nodes one by one.
func (p *testCluster) checkBinding(t *rapid.T, a plan.Action, set *Settings) {
	i := slices.IndexFunc(p.Jobs, func(j cluster.Job) bool { return j.ID == a.Job })
	j := &p.Jobs[i]
	if a.Was.String() != p.own[a.Job] {
		t.Fatalf("%+v: the user's own is %q", a, p.own[a.Job])
	}
	words := newVocabulary(p.Nodes)
	for _, word := range strings.FieldsFunc(a.After.String(), func(c rune) bool { return strings.ContainsRune("&|()", c) }) {
		if !words[word] {
			t.Fatalf("%+v: no node has %s, Slurm refuses it", a, word)
		}
	}
	if put, _ := words.accepted(a.Was.String()); a.After.String() == put {
		return
	}
	own, err := slurmplug.ParseConstraint(a.Was.String())
	if err != nil || len(j.Tag.Speed) == 0 || j.GPUType != "" || p.places[j.ID].Required != "" {
		t.Fatalf("%+v of %+v is to be left alone", a, j)
	}
	refused, _ := slurmplug.ExpandHosts(p.places[j.ID].Excluded)
	for _, gpuType := range p.shares.Types {
		if text, err := words.with(a.Was.String(), set.Feature(gpuType)); err != nil || text != a.After.String() {
			continue
		}
		gpus, nodes := 0, 0
		for i := range p.Nodes {
			n := &p.Nodes[i]
			if slices.Contains(n.Features, gpuType) && n.GPUType != gpuType {
				t.Fatalf("%+v: node %s has the feature and other GPUs", a, n.Name)
			}
			if n.GPUType == gpuType && n.Usable && !n.MixedTypes && own.Allows(n.Features) && slices.Contains(n.Features, gpuType) && !slices.Contains(refused, n.Name) {
				gpus += n.GPUs
				nodes++
			}
		}
		if gpus < j.GPUs || nodes < j.Nodes || nodes*16 < j.CPUs {
			t.Fatalf("%+v: %d GPUs on %d nodes for %+v", a, gpus, nodes, j)
		}
		return
	}
	t.Fatalf("%+v is no composed constraint", a)
}

// With more kinds of nodes than can be told apart the features of GPU types still are, though
// no job names them.
func TestSteerBesideTooManyKinds(t *testing.T) {
	p := newTestCluster()
	p.node("a1", "a100", "a100").GPUsUsed = 4
	p.node("v1", "v100", "v100")
	for i := range placement.MaxTypes {
		p.node(fmt.Sprint("a", i+2), "a100", "a100", fmt.Sprint("rack", i)).Usable = false
	}
	p.Jobs = append(p.Jobs, cluster.Job{
		ID: slurmplug.Plain(9), State: cluster.Running, GPUs: 4, CPUs: 4, Nodes: 1, Partition: "gpu", NodeList: "a1", Start: start, TimeLimit: 3600e9, Submit: start,
	})
	p.job(1, "")
	pl, _ := p.cycle(steerSettings())
	if told := p.told(&pl, 1); !strings.Contains(told, "takes v100") {
		t.Errorf("told %q", told)
	}
}

// A job that takes whole nodes does not start where a GPU of a node is free beside others.
func TestSteerWholeNodes(t *testing.T) {
	for whole, want := range map[bool]string{false: "a100 is allocated to it and free", true: "waits for a100"} {
		p := newTestCluster()
		for i, gpuType := range []string{"a100", "v100", "t4"} {
			n := p.node(fmt.Sprint("n", i), gpuType, gpuType)
			n.GPUsUsed, n.CPUsUsed = 1, 1
		}
		p.job(1, "").Whole = whole
		for i := range p.Nodes {
			n := &p.Nodes[i]
			p.Jobs = append(p.Jobs, cluster.Job{
				ID: slurmplug.Plain(uint32(70 + i)), State: cluster.Running, GPUs: 1, CPUs: 1, NodeList: n.Name, Start: start, TimeLimit: 10 * time.Minute, GPUType: n.GPUType,
			})
		}
		pl, _ := p.cycle(steerSettings())
		if told := p.told(&pl, 1); !strings.Contains(told, want) {
			t.Errorf("whole nodes %v: told %q, want %q", whole, told, want)
		}
	}
}

// A trial above its user's budget is not bound to wait either: it may count as TE in the
// next cycle.
func TestNotToWait(t *testing.T) {
	for want, dec := range map[bool]plan.Decision{true: {Class: cluster.BE, Why: string(plan.OverBudget)}, false: {Class: cluster.BE, Why: string(plan.BETag)}} {
		in := inputs{plan: &plan.Plan{Decisions: []plan.Decision{dec, {Class: cluster.TE}}}}
		if in.isTrial(0) != want || !in.isTrial(1) {
			t.Errorf("%+v: %v, a TE job %v", dec, in.isTrial(0), in.isTrial(1))
		}
	}
}

// write changes a job as Slurm does.
func write(j *cluster.Job, l slurmplug.Lever, v slurmplug.Value) {
	if l == slurmplug.PartitionList {
		j.Partition = v.String()
		return
	}
	j.Features = v.String()
}
