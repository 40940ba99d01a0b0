package view

import (
	"strings"
	"testing"

	"slurmprio/slurmplug"
)

// What an operator reads; hostile names take no commands of the terminal.
func TestShowSizing(t *testing.T) {
	s := &Sizing{
		GPUs: 16, Free: 8, Stranded: 7,
		Nodes:    []StrandedOn{{Node: "n1", GPUType: "v100", FreeGPUs: 8, FreeCPUs: 4, FreeMemMB: 9, ForCPUs: 7, ForMem: 1, CPUOnlyCPUs: 20, CPUOnlyMemMB: 1024}},
		Starving: []StarvingJob{{Job: slurmplug.Plain(7), User: "ann", Node: "n2", CPUs: 3, Wants: 9, Idle: 12, Gain: 2, Why: "its tag's cpu"}},
		Programs: []Overasked{{Program: "bob's x\x1b[2J", GPUType: "v100", Runs: 9, Had: 12, Used: 1, UsedMB: 500, Options: "-c 2 --mem=600M"}},
	}
	for i := range 22 {
		s.CPUOnly = append(s.CPUOnly, CPUOnlyJob{Job: slurmplug.Plain(uint32(100 + i)), User: "eve", Nodes: "n1", CPUs: 1, MemMB: 10})
	}
	var out strings.Builder
	s.Page().Show(&out, 20)
	for _, want := range []string{
		"8 of 16 GPUs are free, 7 of them stranded: their nodes lack the CPUs or the memory of their share.\n\nNODE  TYPE  FREE GPUS",
		"n1    v100          8          4        9                  7           1                       20  1024\n",
		"Jobs without GPUs that hold CPUs and memory there:\nJOB  USER  NODES  CPUS  MB\n100  eve   n1        1  10\n",
		"\nand 2 more; --json has all\n",
		"7    ann   n2       3      9          12  2.00          its tag's cpu\n",
		"What is enough can stand in the next script in place of its -c and --mem, times its GPUs",
		"  -c 2 --mem=600M\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	(&Sizing{GPUs: 16, Free: 8}).Page().Show(&out, 20)
	if want := "8 of 16 GPUs are free, each with its share of its node's CPUs and memory.\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
