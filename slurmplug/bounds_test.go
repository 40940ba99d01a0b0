package slurmplug

import "testing"

// The words are those of 22.05.8, and of 24.11.5 where that differs.
func TestParseBounds(t *testing.T) {
	const plain = "JobId=1 JobName=x NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 NtasksPerN:B:S:C=0:0:*:* MinCPUsNode=1 MinMemoryCPU=1G TresPerNode=gres:gpu:2"
	for line, want := range map[string]Bounds{
		plain: {Tasks: 1, CPUs: 1},
		"NumNodes=1-3 NumTasks=4 NtasksPerN:B:S:C=2:0:*:* MinCPUsNode=12 MinMemoryNode=50G": {Most: 3, Tasks: 4, TasksPerNode: 2, CPUs: 12, MemMB: 51200},
		"NumNodes=2 NumTasks=2 CpusPerTres=gres:gpu:8":                                      {Tasks: 2, CPUsPerGPU: 8}, // 2 is an estimate
		"NumNodes=4-4 NumTasks=1":                                                           {Most: 4, Tasks: 1},       // of -N1-4: the first 4 is one, too
		"CpusPerTres=gres/gpu:8":                                                            {CPUsPerGPU: 8},
		"CpusPerTres=gpu:8":                                                                 {CPUsPerGPU: 8}, // DefCpuPerGPU
		plain + " Comment=NumTasks=9 MinCPUsNode=900":                                       {Tasks: 1},
		"NumNodes=x-y NumTasks=-1 MinMemoryNode=much":                                       {},
		"JobId=7 JobName=a\nname NumTasks=2 CpusPerTres=gpu:8\nJobId=8 NumTasks=3":          {Tasks: 2, CPUsPerGPU: 8}, // an array, and a task of it
		"": {},
	} {
		if got := parseBounds(line); got != want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
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
		{Job{}, 0},
	} {
		if got := c.job.NodeGPUs(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.job, got, c.want)
		}
	}
}
