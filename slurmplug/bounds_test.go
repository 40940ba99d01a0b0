package slurmplug

import (
	"strings"
	"testing"
)

// The words are those of 22.05.8, and of 24.11.5 where that differs.
func TestParseBounds(t *testing.T) {
	const plain = "NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 NtasksPerN:B:S:C=0:0:*:* MinCPUsNode=1 MinMemoryCPU=1G"
	for _, c := range []struct {
		name, head, text, tail string
		want                   Bounds
	}{
		{"x", plain, "", "TresPerNode=gres:gpu:2", Bounds{Tasks: 1, CPUs: 1, MemPerCPU: 1024}},
		{"x", "NumNodes=1-3 NumTasks=4 NtasksPerN:B:S:C=2:0:*:* MinCPUsNode=12 MinMemoryNode=50G", "", "", Bounds{Most: 3, Tasks: 4, TasksPerNode: 2, CPUs: 12, MemMB: 51200}},
		{"x", "NumNodes=2 NumTasks=2", "", "CpusPerTres=gres:gpu:8", Bounds{Tasks: 2, CPUsPerGPU: 8}}, // 2 is an estimate
		{"x", "NumNodes=4-4 NumTasks=1", "", "", Bounds{Most: 4, Tasks: 1}},                           // of -N1-4: the first 4 is one, too
		{"x", "", "", "CpusPerTres=gres/gpu:8", Bounds{CPUsPerGPU: 8}},
		{"x", "", "", "CpusPerTres=gpu:8", Bounds{CPUsPerGPU: 8}}, // DefCpuPerGPU
		{"x", plain, "Comment=NumTasks=9 MinCPUsNode=900", "", Bounds{Tasks: 1, CPUs: 1, MemPerCPU: 1024}},
		{"x NumTasks=9 Command=y", plain, "", "", Bounds{Tasks: 1, CPUs: 1, MemPerCPU: 1024}},
		{"x", plain + " NumTasks=9", "", "", Bounds{CPUs: 1, MemPerCPU: 1024}},
		{"x", "NumNodes=x-y NumTasks=-1 MinMemoryNode=much", "", "", Bounds{}},
		{"a\nname", "NumTasks=2", "", "CpusPerTres=gpu:8\nJobId=8 JobName=a\nname NumTasks=3 Command=z", Bounds{Tasks: 2, CPUsPerGPU: 8}}, // an array, and a task of it
		{"a\nJobId=9 JobName=b NumTasks=5", "NumTasks=2", "", "", Bounds{Tasks: 2}},
		{"", "NumTasks=2", "", "", Bounds{Tasks: 2}},
		{"x", "NumNodes=2-2 NumTasks=4", "", "SpreadJob=Yes", Bounds{Most: 2, Tasks: 4, Open: "as many nodes as there are (--spread-job)"}},
		{"x", "NumTasks=4", "", "GresEnforceBind=Yes", Bounds{Tasks: 4, Binds: true}},
		{"x", "NumTasks=4", "", "GresEnforceBind=No", Bounds{Tasks: 4}},
		{"x", "NumNodes=1-1 NumTasks=4", "SpreadJob=Yes", "", Bounds{Most: 1, Tasks: 4}},
		{"x", "NumCPUs=6 NumTasks=2 CPUs/Task=3", "", "", Bounds{Tasks: 2}},
		{"x", "NumCPUs=1 NumTasks=2 CPUs/Task=3", "", "", Bounds{Tasks: 2, Open: "fewer CPUs than its tasks need (--overcommit)"}},
		{"x", "NumCPUs=1 NumTasks=7 CPUs/Task=1", "", "", Bounds{Tasks: 7, Open: "fewer CPUs than its tasks need (--overcommit)"}},
		{"x", "NumNodes=2-3 NumTasks=4", "", "NtasksPerTRES=1", Bounds{Most: 3, Tasks: 4, TasksPerGPU: 1, OfJob: true, Fills: true, AddsUp: true}},
		{"x", "NumCPUs=4 NumTasks=4 CPUs/Task=1", "", "NtasksPerTRES=2 CpusPerTres=gres:gpu:1", Bounds{
			Tasks: 4, TasksPerGPU: 2, CPUsPerGPU: 1, OfJob: true, Fills: true, AddsUp: true, Open: "more tasks than CPUs for each GPU"}},
		{"x", "NumNodes=2-8 NumCPUs=8 NumTasks=8 CPUs/Task=1", "", "CpusPerTres=gres/gpu:2", Bounds{Most: 8, Tasks: 8, CPUsPerGPU: 2, Open: "more tasks than CPUs for each GPU"}},
		{"x", "NumNodes=1-1 NumCPUs=8 NumTasks=8 CPUs/Task=1", "", "CpusPerTres=gres/gpu:2", Bounds{Most: 1, Tasks: 8, CPUsPerGPU: 2}},
		{"x", "NumCPUs=4 NumTasks=1 CPUs/Task=4", "", "CpusPerTres=gres:gpu:2", Bounds{Tasks: 1, CPUsPerGPU: 2, Open: "CPUs by task and by GPU"}},
		{"x", "NumTasks=2 MinMemoryTRES=0", "", "MemPerTres=gpu:4000", Bounds{Tasks: 2, MemPerGPU: 4000}},                  // DefMemPerGPU beside --mem
		{"x", "NumTasks=2 MinMemoryNode=2314M", "", "MemPerTres=gpu:4000", Bounds{Tasks: 2, MemMB: 2314, MemPerGPU: 4000}}, // of 22.05
		{"x", "NumTasks=2 MinMemoryNode=0", "", "", Bounds{Tasks: 2, AllMem: true}},
		{"x", "NumTasks=2 MinMemoryNode=0", "", "MemPerTres=gres/gpu:3722", Bounds{Tasks: 2, MemPerGPU: 3722}}, // of --mem-per-gpu, which shows it, too
	} {
		line := "JobId=7 JobName=" + c.name + " UserId=a(1) Account=(null) " + c.head + " Command=y WorkDir=/ " + c.text + " StdOut=/dev/null " + c.tail
		if got, err := parseBounds(&Job{Name: c.name}, line); err != nil || got != c.want {
			t.Errorf("%q: %+v, want %+v, %v", line, got, c.want, err)
		}
	}
	for nodes, want := range map[string]bool{"1-1": false, "1-12": true, "1": true} {
		line := "JobId=7 JobName=x UserId=a(1) Account=(null) NumNodes=" + nodes + " NumTasks=12 Command=y"
		if got, err := parseBounds(&Job{Name: "x", TresPerJob: "gres/gpu:a100:2"}, line); err != nil || got.OfJob != want {
			t.Errorf("NumNodes=%s, GPUs of the job: %+v, %v", nodes, got, err)
		}
	}
	for nodes, open := range map[string]bool{"node=1": false, "node=2": true} {
		line := "JobId=7 JobName=x UserId=a(1) Account=(null) NumNodes=1 NumTasks=4 NtasksPerN:B:S:C=4:0:*:* Command=y"
		record := Job{Name: "x", State: "PENDING", TRES: nodes, TresPerTask: "gres:gpu:1", NumTasks: 4}
		if got, err := parseBounds(&record, line); err != nil || (got.Open != "") != open || !got.Fills || !got.AddsUp {
			t.Errorf("%s, GPUs by task: %+v, %v", nodes, got, err)
		}
	}
	for _, line := range []string{"", "JobId=7 NumTasks=2", "JobId=7 JobName=other NumTasks=2"} {
		if got, err := parseBounds(&Job{Name: "x"}, line); err == nil {
			t.Errorf("%q is believed: %+v", line, got)
		}
	}
	eachVersion(t, func(t *testing.T, version string) {
		all := recordedAsked(t, version)
		for name, want := range map[string]Bounds{
			"mem": {Tasks: 1, CPUs: 4, MemMB: 20480}, "nodes": {Most: 2, Tasks: 2, CPUs: 4}, "tasks-per-node": {Most: 1, Tasks: 2, TasksPerNode: 2, CPUs: 6},
			"per-gpu": {Tasks: 1, CPUs: 1, CPUsPerGPU: 4, Fills: true, AddsUp: true}, "default": {Tasks: 1, CPUs: 1, CPUsPerGPU: 4},
			"hostile NumCPUs=1 UserId=x(5)": {Tasks: 1, CPUs: 4, MemMB: 4096}, "comment": {Tasks: 1, CPUs: 4, MemMB: 4096}, "odd\nJobId=7 JobName=x": {Tasks: 1, CPUs: 4, MemMB: 4096},
		} {
			ask := all[name]
			if name == "default" {
				want.MemPerGPU = 8192
			}
			if got, err := parseBounds(&ask.record, ask.out); err != nil || (got.MemPerCPU > 0) != strings.Contains(ask.out, " MinMemoryCPU=") {
				t.Errorf("%s: %+v, %v", name, got, err)
			} else {
				want.MemPerCPU = got.MemPerCPU
			}
			if got, err := parseBounds(&ask.record, ask.out); err != nil || got != want {
				t.Errorf("%s: %+v, want %+v, %v", name, got, want, err)
			}
		}
	})
}

func TestNodeGPUs(t *testing.T) {
	for _, c := range []struct {
		job  Job
		want int
	}{
		{Job{TresPerJob: "gres:gpu:8"}, 0},
		{Job{TresPerNode: "gres:gpu:3", Nodes: 2}, 3},
		{Job{TresPerNode: "gres:gpu:a100:1,gres:gpu:t4:1"}, 2},
		{Job{TresPerTask: "gres/gpu:3", NumTasks: 4}, 3},
		{Job{TresPerSock: "gres:gpu:2", Sockets: 2}, 4},
		{Job{TresPerSock: "gres:gpu:2"}, 2},
		{Job{TresPerNode: "gres:mps:100"}, 0},
		{Job{TresPerTask: "cpu=2", NumTasks: 4}, 0}, // -c 2 from 23.11 on
		{Job{TresPerTask: "cpu=2", TresPerNode: "gres/gpu:3", NumTasks: 4}, 3},
		{Job{TresPerTask: "cpu=2,gres/gpu:a100=3", NumTasks: 4}, 3},
		{Job{TresPerTask: "cpu:2,mem:500M,license/x@y:1,gres/gpu:a100:3", NumTasks: 4}, 3},
		{Job{}, 0},
	} {
		if got := c.job.NodeGPUs(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.job, got, c.want)
		}
	}
}

// From 23.11 on a request by task holds CPUs, too: -c sets it.
func TestGPUsBesideCPUsByTask(t *testing.T) {
	for _, c := range []struct {
		perTask, perNode string
		gpuType          string
		want             int
	}{
		{"cpu=2", "gres/gpu:2", "", 2},
		{"cpu=2", "", "", 0},
		{"cpu=3,gres/gpu=1", "", "", 4},
		{"cpu=3,gres/gpu:a100=2", "", "a100", 8},
		{"cpu:3,gres/gpu:a100:2", "", "a100", 8},
		{"cpu=3,mem=2G,license/matlab@host=1,gres/gpu:a100=2", "", "a100", 8},
	} {
		j := Job{State: "PENDING", Nodes: 1, NumTasks: 4, TresPerTask: c.perTask, TresPerNode: c.perNode}
		if gpuType, n, ok := j.requestedGPUs(); gpuType != c.gpuType || n != c.want || !ok {
			t.Errorf("%+v: %d of %q, %t", c, n, gpuType, ok)
		}
	}
}
