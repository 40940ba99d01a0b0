package view

import (
	"slices"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

func TestSizing(t *testing.T) {
	tag, err := jobtag.Parse("prio:cpu=v100:3x1-6x2&v=1")
	if err != nil {
		t.Fatal(err)
	}
	s := &cluster.Snapshot{
		Nodes: []cluster.Node{
			{Name: "full", Usable: true, GPUType: "v100", GPUs: 8, GPUsUsed: 2, CPUs: 24, CPUsUsed: 20, MemMB: 80000, MemUsedMB: 10000},
			{Name: "idle", Usable: true, GPUType: "v100", GPUs: 8, GPUsUsed: 7, CPUs: 24, CPUsUsed: 10, MemMB: 80000, MemUsedMB: 75000},
			{Name: "down", GPUType: "v100", GPUs: 8, CPUs: 24, CPUsUsed: 24, MemMB: 80000},
		},
		Jobs: []cluster.Job{
			{ID: slurmplug.Plain(1), State: cluster.Running, NodeList: "idle", GPUs: 2, CPUs: 6, MemMB: 20000, Tag: tag, User: "ann"},
			{ID: slurmplug.Plain(2), State: cluster.Running, NodeList: "full", GPUs: 2, CPUs: 6, MemMB: 20000, Tag: tag},
			{ID: slurmplug.Plain(3), State: cluster.Running, NodeList: "idle", GPUs: 1, CPUs: 6, MemMB: 20000, Tag: tag},
			{ID: slurmplug.Plain(4), State: cluster.Running, NodeList: "idle", GPUs: 1, CPUs: 1, MemMB: 20000},
			{ID: slurmplug.Plain(5), State: cluster.Running, NodeList: "full", CPUs: 2, MemMB: 1000, User: "eve"},
			{ID: slurmplug.Plain(6), State: cluster.Running, NodeList: "full,c[1-3]", CPUs: 40, MemMB: 4000, User: "eve"},
			{ID: slurmplug.Plain(7), State: cluster.Running, NodeList: "c4", CPUs: 99, User: "eve"},
			{ID: slurmplug.Plain(8), State: cluster.Pending, CPUs: 99, User: "eve"},
		},
	}
	past := sensitivity.Past{
		{Workload: "lm", GPUType: "v100"}:           {Runs: 9, Cores: 1, Had: 12, RSSMB: 1000},
		{User: "bob", Name: "x", GPUType: "v100"}:   {Runs: 9, Cores: 5, Had: 6},
		{User: "bob", Name: "mem", GPUType: "v100"}: {Runs: 9, Cores: 5, Had: 6, RSSMB: 1000, HadMB: 9000},
		{User: "bob", Name: "few", GPUType: "v100"}: {Runs: 2, Cores: 1, Had: 3, RSSMB: 1000, HadMB: 9000},
		{Workload: "lm", GPUType: "of an old node"}: {Runs: 9, Cores: 1, Had: 12},
	}
	r := OfSizing(s, &workload.Table{}, past, map[string]sensitivity.Share{"v100": {CPUs: 3, MemMB: 10000}})
	if r.GPUs != 16 || r.Free != 7 || r.Stranded != 6 || len(r.Nodes) != 2 || r.Nodes[0].ForCPUs != 5 || r.Nodes[0].ForMem != 0 || r.Nodes[1].ForMem != 1 {
		t.Errorf("%+v", r)
	}
	if len(r.Starving) != 1 || r.Starving[0].Job.ID != 1 || r.Starving[0].Wants != 12 || r.Starving[0].Idle != 11 || r.Starving[0].Gain != 2 {
		t.Errorf("%+v", r.Starving)
	}
	if n := r.Nodes[0]; n.CPUOnlyCPUs != 12 || n.CPUOnlyMemMB != 2000 || len(r.CPUOnly) != 2 || r.CPUOnly[0].Job.ID != 6 || r.CPUOnly[0].CPUs != 40 {
		t.Errorf("without GPUs: %+v, %+v", n, r.CPUOnly)
	}
	want := []Overasked{
		{Program: "lm", GPUType: "v100", Runs: 9, Had: 12, Used: 1, UsedMB: 1000, Options: "-c 2 --mem=1200M"},
		{Program: "bob's mem", GPUType: "v100", Runs: 9, Had: 6, Used: 5, HadMB: 9000, UsedMB: 1000, Options: "--mem=1200M"},
	}
	if !slices.Equal(r.Programs, want) {
		t.Errorf("%+v", r.Programs)
	}
}

// Who holds memory that free GPUs lack, and has not used it: with a margin, and only
// who was measured.
func TestIdleMemory(t *testing.T) {
	job := func(id uint32, node string, memMB int64) cluster.Job {
		return cluster.Job{ID: slurmplug.Plain(id), State: cluster.Running, NodeList: node, GPUs: 1, MemMB: memMB, User: "ann"}
	}
	s := &cluster.Snapshot{
		Nodes: []cluster.Node{
			{Name: "lacks", Usable: true, GPUType: "v100", GPUs: 8, GPUsUsed: 5, CPUs: 24, MemMB: 80000, MemUsedMB: 75000},
			{Name: "has", Usable: true, GPUType: "v100", GPUs: 8, GPUsUsed: 2, CPUs: 24, CPUsUsed: 20, MemMB: 80000},
		},
		Jobs: []cluster.Job{
			job(1, "lacks", 20000), job(2, "lacks", 30000), job(3, "lacks", 11000), job(4, "lacks", 10000), job(5, "has", 20000), job(6, "lacks,has", 20000),
		},
	}
	r := OfSizing(s, &workload.Table{}, nil, nil)
	holding := r.Holding(s)
	if len(holding) != 4 {
		t.Fatalf("%d jobs hold memory there", len(holding))
	}
	r.SetPeaks(holding, map[cluster.JobID]int64{slurmplug.Plain(1): 8000, slurmplug.Plain(2): 100, slurmplug.Plain(3): 10000})
	want := []IdleMemory{
		{Job: slurmplug.Plain(2), User: "ann", Node: "lacks", GPUs: 1, MemMB: 30000, Peak: 100, Idle: 30000 - 100 - 1024},
		{Job: slurmplug.Plain(1), User: "ann", Node: "lacks", GPUs: 1, MemMB: 20000, Peak: 8000, Idle: 10000},
	}
	if !slices.Equal(r.Idle, want) {
		t.Errorf("%+v", r.Idle)
	}
}
