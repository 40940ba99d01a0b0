package slurmplug

import "testing"

// What slurmd and the system keep is no job's: CPUs are CPUEfctv, memory is RealMemory without MemSpecLimit.
func TestNodesWithoutWhatTheSystemKeeps(t *testing.T) {
	const line = "NodeName=n1 CoresPerSocket=4 CPUAlloc=0 CPUEfctv=14 CPUTot=16 Gres=gpu:a100:4 RealMemory=65536 AllocMem=0 Sockets=2 State=IDLE ThreadsPerCore=2 TmpDisk=500 Owner=user(1000) CoreSpecCount=1 CPUSpecList=14-15 MemSpecLimit=16000 Partitions=gpu\n"
	nodes, err := parseNodes([]byte(line))
	if err != nil || len(nodes) != 1 {
		t.Fatal(nodes, err)
	}
	if n := nodes[0]; n.CPUs != 14 || n.MemMB != 49536 || n.RealMB != 65536 || n.Threads != 2 || n.SocketCPUs != 8 || n.TmpMB != 500 || n.Owner == "" {
		t.Errorf("%+v", n)
	}
	for kind, want := range map[string]int{"CR_CORE_MEMORY": 2, "CR_Socket_Memory": 8} {
		if got := (Config{map[string]string{"SelectTypeParameters": kind}}).Together(&nodes[0]); got != want {
			t.Errorf("%s: %d CPUs are given out together, want %d", kind, got, want)
		}
	}
}

// Where threads are handed out, memory by CPU may leave an even number of tasks of a node one thread too few (22.05.8).
func TestLosesThread(t *testing.T) {
	for _, c := range []struct {
		kind string
		b    Bounds
		want bool
	}{
		{"CR_CPU_Memory", Bounds{Most: 1, Tasks: 2, MemPerCPU: 1000}, true}, {"CR_CPU_Memory", Bounds{Tasks: 3, TasksPerNode: 4, MemPerCPU: 1000}, true},
		{"CR_CPU_Memory", Bounds{Most: 1, Tasks: 3, MemPerCPU: 1000}, false}, {"CR_CPU_Memory", Bounds{Most: 1, Tasks: 2, MemMB: 1000}, false},
		{"CR_CPU_Memory", Bounds{Most: 2, Tasks: 2, MemPerCPU: 1000}, false}, {"CR_Core_Memory", Bounds{Most: 1, Tasks: 2, MemPerCPU: 1000}, false},
	} {
		if got := (Config{map[string]string{"SelectTypeParameters": c.kind}}).LosesThread(c.b); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Requests whose place does not follow from amounts are named.
func TestOpenWords(t *testing.T) {
	base := map[string]string{"ReqB:S:C:T": "0:0:*:1", "Socks/Node": "*", "NtasksPerN:B:S:C": "2:0:*:*", "CoreSpec": "*", "Contiguous": "0", "Licenses": "(null)"}
	if open := openWords(base); open != "" {
		t.Errorf("%q", open)
	}
	for key, value := range map[string]string{"ReqB:S:C:T": "0:1:2:*", "Socks/Node": "2", "NtasksPerN:B:S:C": "0:0:2:*", "CoreSpec": "1", "Contiguous": "1", "OverSubscribe": "YES", "Licenses": "matlab:1"} {
		was := base[key]
		base[key] = value
		if openWords(base) == "" {
			t.Errorf("%s=%s is taken to be counted", key, value)
		}
		base[key] = was
	}
}
