package steer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// divided is oneOfEach without features, each node in a partition named after its type.
func divided() *testCluster {
	p := oneOfEach()
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Features, n.Partitions = nil, []string{n.GPUType}
		p.Partitions = append(p.Partitions, cluster.Partition{Name: n.GPUType, MaxTime: slurmplug.Unlimited, Tier: 1})
	}
	return p
}

// all are the partitions of divided, and one cycle that ranks jobs of all.
const all = "v100,a100,t4"

func (p *testCluster) divided() string {
	pl, _ := p.steered(steerSettings(), nil)
	return p.told(&pl, 1)
}

// A job is bound by its list of partitions where no node has a feature, and each limit of a partition that keeps it from
// being the only one.
func TestSteerByPartition(t *testing.T) {
	partition := func(p *testCluster, name string) *cluster.Partition {
		return &p.Partitions[slices.IndexFunc(p.Partitions, func(x cluster.Partition) bool { return x.Name == name })]
	}
	for name, c := range map[string]struct {
		change func(*testCluster, *cluster.Job)
		want   string // partitions
		told   string // a part of what explain says; "": anything
	}{
		"one of all":           {nil, "a100", "a100 is allocated to it and free"},
		"one of two":           {func(_ *testCluster, j *cluster.Job) { j.Partition = "t4,v100" }, "v100", ""},
		"one partition":        {func(_ *testCluster, j *cluster.Job) { j.Partition = "v100" }, "v100", "leaves one GPU type"},
		"limits not known":     {func(p *testCluster, _ *cluster.Job) { p.Partitions = nil }, "a100", ""},
		"two of the type":      {func(p *testCluster, j *cluster.Job) { p.more("a100b"); j.Partition = "v100,a100b,t4,a100" }, "a100b,a100", ""},
		"one that has several": {func(p *testCluster, j *cluster.Job) { p.Nodes[2].Partitions = []string{"a100", "v100"} }, "v100", ""},
		"its feature":          {func(p *testCluster, j *cluster.Job) { p.Nodes[0].Features = []string{"a100"} }, all, "a100 is allocated"},
		"a slice of a GPU": {func(p *testCluster, j *cluster.Job) {
			p.Nodes[0].GPUType, p.Nodes[0].Partitions, p.shares.Types[0] = "a100_1g.5gb", []string{"a100"}, "a100_1g.5gb"
		}, "v100", ""},
		"down":              {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").Closed = "DOWN" }, "v100", ""},
		"drained":           {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").Draining = true }, "v100", ""},
		"MaxTime":           {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").MaxTime = time.Minute }, "v100", ""},
		"MaxTime is enough": {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").MaxTime = time.Hour }, "a100", ""},
		"MaxNodes":          {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").MaxNodes = 1 }, "a100", ""},
		"MinNodes":          {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").MinNodes = 2 }, "v100", ""},
		"AllowGroups":       {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").Groups = true }, "v100", ""},
		"AllowAccounts": {func(p *testCluster, j *cluster.Job) {
			j.Account = "phys"
			partition(p, "a100").Accounts = []string{"bio"}
		}, "v100", ""},
		"its account": {func(p *testCluster, j *cluster.Job) {
			j.Account = "bio"
			partition(p, "a100").Accounts = []string{"bio"}
		}, "a100", ""},
		"DenyAccounts": {func(p *testCluster, j *cluster.Job) {
			j.Account = "phys"
			partition(p, "a100").NotAccounts = []string{"phys"}
		}, "v100", ""},
		"AllowQos": {func(p *testCluster, j *cluster.Job) { j.QOS = "normal"; partition(p, "a100").QOS = []string{"te"} }, "v100", ""},
		"DenyQos": {func(p *testCluster, j *cluster.Job) {
			j.QOS = "normal"
			partition(p, "a100").NotQOS = []string{"normal"}
		}, "v100", ""},
		"MaxTime that its QOS lifts": {func(p *testCluster, j *cluster.Job) {
			partition(p, "a100").MaxTime, j.Lifts.MaxTime = time.Minute, true
		}, "a100", ""},
		"limits of its QOS":        {func(_ *testCluster, j *cluster.Job) { j.Account, j.Beyond = "phys", "a100" }, "v100", ""},
		"limits of its QOS in all": {func(_ *testCluster, j *cluster.Job) { j.Account, j.Beyond = "phys", all }, all, ""},
		"any partition, beyond its limits": {func(_ *testCluster, j *cluster.Job) {
			j.Account, j.Beyond, j.Partition, j.Site = "phys", "a100", "v100", &cluster.Site{GPUType: true, AnyOf: "v100,a100"}
		}, "v100", ""},
		"a lower tier":     {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").Tier = 0 }, "v100", ""},
		"preempted sooner": {func(p *testCluster, _ *cluster.Job) { partition(p, "a100").Preemptable = true }, "v100", ""},
		"a higher tier that refuses it": {func(p *testCluster, _ *cluster.Job) {
			partition(p, "t4").Tier, partition(p, "t4").Closed = 5, "DOWN"
		}, "a100", ""},
		"any partition": {func(_ *testCluster, j *cluster.Job) {
			j.Partition, j.Site = "v100", &cluster.Site{GPUType: true, AnyOf: "v100,a100"}
		}, "a100", ""},
		"any partition, with features": {func(p *testCluster, j *cluster.Job) {
			for i := range p.Nodes {
				p.Nodes[i].Features = []string{p.Nodes[i].GPUType}
			}
			j.Partition, j.Site = "v100", &cluster.Site{GPUType: true, AnyOf: "v100,a100"}
		}, "a100", ""},
		"any partition, which refuses it": {func(p *testCluster, j *cluster.Job) {
			partition(p, "a100").Accounts = []string{"bio"}
			j.Partition, j.Site = "v100", &cluster.Site{GPUType: true, AnyOf: "v100,a100"}
		}, "v100", ""},
		"any partition, of which nothing is known": {func(p *testCluster, j *cluster.Job) {
			p.Partitions = nil
			j.Partition, j.Site = "v100", &cluster.Site{GPUType: true, AnyOf: "v100,a100"}
		}, "v100", ""},
		"any partition, a trial beside a full one": {func(p *testCluster, j *cluster.Job) {
			p.Nodes[2].GPUsUsed, j.Tag.Type = 4, "te"
			j.Partition, j.Site = "v100", &cluster.Site{GPUType: true, AnyOf: "v100,t4"}
		}, "t4", ""},
		"changed by its user": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.PartitionList, slurmplug.Text(all), slurmplug.Text("a100"), true, start)
			j.Partition = "t4"
		}, "t4", listEditedByUser},
		"after a requeue": {func(p *testCluster, j *cluster.Job) {
			p.more("a100b")
			p.h.Asked(j.ID, slurmplug.PartitionList, slurmplug.Text("a100,a100b,v100"), slurmplug.Text("a100,a100b"), true, start)
			j.Partition = "a100b,a100"
		}, "a100,a100b", ""},
		"its partition is gone": {func(p *testCluster, j *cluster.Job) {
			p.h.Asked(j.ID, slurmplug.PartitionList, slurmplug.Text("old,t4,v100"), slurmplug.Text("t4"), true, start.Add(-time.Hour))
			j.Partition, p.Nodes[1].Usable = "t4", false
		}, "v100", ""},
	} {
		p := divided()
		j := p.job(1, "")
		j.Partition = all
		if c.change != nil {
			c.change(p, j)
		}
		told := p.divided()
		if j.Partition != c.want || !strings.Contains(told, c.told) {
			t.Errorf("%s: its partitions are %s, want %s: %s", name, j.Partition, c.want, told)
		}
	}
}

// more is another node of a100 in a partition of its own.
func (p *testCluster) more(partition string) {
	n := p.Nodes[0]
	n.Name, n.Partitions = partition+"-1", []string{partition}
	p.Nodes = append(p.Nodes, n)
	p.Partitions = append(p.Partitions, cluster.Partition{Name: partition, MaxTime: slurmplug.Unlimited, Tier: 1})
}

// A type that was given by partitions is taken back as its user wrote them, in their order: without one that takes no jobs,
// which Slurm would leave out, until it does again. In one that drains the job may still start.
func TestSteerTakesBackPartitions(t *testing.T) {
	for shut, want := range map[string]string{"": "", "INACTIVE": "v100,t4", "DRAIN": "a100"} {
		p := divided()
		j := p.job(1, "")
		j.Partition = all
		if p.divided(); j.Partition != "a100" {
			t.Fatalf("its partitions are %s", j.Partition)
		}
		set, a100 := steerSettings(), &p.Partitions[slices.IndexFunc(p.Partitions, func(x cluster.Partition) bool { return x.Name == "a100" })]
		set.Enabled = false
		if shut != "" {
			a100.Closed, a100.Draining = strings.TrimSuffix(shut, "DRAIN"), shut == "DRAIN"
			for range 2 {
				if p.steered(set, nil); j.Partition != want {
					t.Errorf("%s: its partitions are %s", shut, j.Partition)
				}
			}
			a100.Closed, a100.Draining = "", false
		}
		if p.steered(set, nil); j.Partition != all || len(p.h.Requests) > 0 {
			t.Errorf("its partitions are %s, of %s; %v", j.Partition, all, p.h.Requests)
		}
	}
}

// A job bound by a feature to a type that its own partitions give it no longer, and one that its site adds does: the feature is
// taken back, with which it would start on no node.
func TestSteerWhereItsOwnPartitionRefuses(t *testing.T) {
	p := divided()
	p.Nodes[1].Features, p.Nodes[1].Partitions = []string{"t4"}, []string{"t4", "extra"}
	p.Partitions = append(p.Partitions, cluster.Partition{Name: "extra", MaxTime: slurmplug.Unlimited, Tier: 1})
	j := p.job(1, "")
	j.Account, j.Partition, j.Site = "phys", "v100,t4", &cluster.Site{GPUType: true, AnyOf: "t4,extra"}
	p.shares.Jobs.Get(j.ID).Time = []float64{0, 1, 0}
	if told := p.divided(); j.Features != "t4" {
		t.Fatalf("its constraint is %q: %s", j.Features, told)
	}
	j.Beyond = "t4"
	if told := p.divided(); j.Features != "" {
		t.Errorf("its constraint is %q: %s", j.Features, told)
	}
}

// Over random sites with random partitions no write leaves a job without a node, where it had one, each list that is
// written is a part of the user's own in its order, and what was written is taken back to the letter.
func TestSteerRandomPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newTestCluster()
		names := []string{"p0", "p1", "p2", "p3"}
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			gpuType := rapid.SampledFrom(p.shares.Types).Draw(t, "type")
			n := p.node(fmt.Sprint("n", i), gpuType)
			if rapid.Bool().Draw(t, "feature") {
				n.Features = []string{gpuType}
			}
			n.Partitions = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID[string]).Draw(t, "in")
			n.GPUs = rapid.IntRange(1, 4).Draw(t, "GPUs")
		}
		for _, name := range names {
			p.Partitions = append(p.Partitions, cluster.Partition{
				Name: name, MaxTime: rapid.SampledFrom([]time.Duration{slurmplug.Unlimited, time.Minute, 2 * time.Hour}).Draw(t, "MaxTime"),
				Tier: rapid.IntRange(1, 2).Draw(t, "tier"), Closed: rapid.SampledFrom([]string{"", "", "", "DOWN"}).Draw(t, "state"),
			})
		}
		jobs, own := rapid.IntRange(1, 5).Draw(t, "jobs"), map[cluster.JobID]string{}
		for i := range jobs {
			j := p.job(uint32(i+1), "")
			j.GPUs = rapid.IntRange(1, 4).Draw(t, "asks")
			j.Node.GPUs = j.GPUs
			j.Partition = strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 4, rapid.ID[string]).Draw(t, "list"), ",")
			if rapid.Bool().Draw(t, "any partition") {
				j.Site = &cluster.Site{GPUType: true, AnyOf: "p1,p3"}
			}
			j.Account, j.Beyond = "phys", strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID[string]).Draw(t, "beyond"), ",")
			own[j.ID] = j.Partition
			time := rapid.SampledFrom([][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {.4, .3, .3}}).Draw(t, "time")
			p.shares.Jobs.Get(j.ID).Time = time
		}
		runs := func(j *cluster.Job, list, features string) bool {
			return slices.ContainsFunc(p.Nodes, func(n cluster.Node) bool {
				in := slices.ContainsFunc(cluster.PartitionNames(list), func(name string) bool {
					i := slices.IndexFunc(p.Partitions, func(x cluster.Partition) bool { return x.Name == name })
					return slices.Contains(n.Partitions, name) && p.Partitions[i].Starts(j) == "" && !slices.Contains(cluster.PartitionNames(j.Beyond), name)
				})
				return in && n.Usable && n.GPUs >= j.GPUs && (features == "" || slices.Contains(n.Features, features))
			})
		}
		for range 4 {
			p.steered(steerSettings(), nil)
			for i := range jobs {
				j := &p.Jobs[i]
				if runs(j, own[j.ID], "") && !runs(j, j.Partition, j.Features) {
					t.Fatalf("job %s: no node is left for it with partitions %s and features %q; its user wrote %s", j.ID, j.Partition, j.Features, own[j.ID])
				}
				at := 0
				for _, name := range cluster.PartitionNames(p.h.Reaches(j)) {
					if list := cluster.PartitionNames(j.Partition); at < len(list) && list[at] == name {
						at++
					}
				}
				if at != len(cluster.PartitionNames(j.Partition)) {
					t.Fatalf("job %s: partitions %s are no part of %s in its order", j.ID, j.Partition, p.h.Reaches(j))
				}
			}
			p.Jobs[0].Beyond = strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID[string]).Draw(t, "beyond now"), ",")
			p.Nodes[rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "node")].GPUsUsed = rapid.IntRange(0, 1).Draw(t, "used")
			p.At = p.At.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "passes")) * time.Second)
		}
		set := steerSettings()
		set.Enabled = false
		p.steered(set, nil)
		for i := range jobs {
			if j := &p.Jobs[i]; j.Partition != own[j.ID] || j.Features != "" {
				t.Fatalf("job %s: partitions %s and features %q are left; its user wrote %s", j.ID, j.Partition, j.Features, own[j.ID])
			}
		}
	})
}

// Two jobs that ask for the same, one of an account that a partition admits and one of another: each is given what it may have.
func TestSteerByAccount(t *testing.T) {
	for _, accounts := range [][]string{{"phys", "bio"}, {"bio", "phys"}} {
		p := divided()
		p.Partitions[0].Accounts = []string{"bio"} // of a100
		for i, account := range accounts {
			j := p.job(uint32(i+1), "")
			j.Partition, j.Account = all, account
		}
		p.divided()
		for i, account := range accounts {
			if j := &p.Jobs[i]; (j.Partition == "a100") != (account == "bio") {
				t.Errorf("job %d of %v: its partitions are %s", i+1, accounts, j.Partition)
			}
		}
	}
}
