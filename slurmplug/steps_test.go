package slurmplug

import (
	"testing"
	"time"
)

func TestRunningSteps(t *testing.T) {
	tab := table{name: "squeue --steps"}
	steps, err := parseSteps("17.batch\n17.0\n17.1\n20_4.extern\n21.interactive\n30+1.0\n", &tab)
	if err != nil {
		t.Fatal(err)
	}
	want := map[JobID]RunningSteps{Plain(17): {Batch: true, Tasks: 2}, {ID: 20, Task: 4}: {}, Plain(21): {Interactive: true}, Plain(30): {Tasks: 1}}
	if len(steps) != len(want) {
		t.Errorf("%v", steps)
	}
	for id, s := range want {
		if steps[id] != s {
			t.Errorf("%s: %+v, want %+v", id, steps[id], s)
		}
	}
}

func TestWorkOfSteps(t *testing.T) {
	for _, c := range []struct {
		name, out string
		want      *Work
	}{
		{"two steps", "7.batch|cpu=00:00:12,energy=0,mem=1404928|cpu=00:00:12\n7.0|cpu=00:01:00|cpu=00:01:00,gres/gpuutil=35\n", &Work{72 * time.Second, 35}},
		{"the extern step", "7.extern||\n7.batch|cpu=00:00:02|cpu=00:00:02\n", &Work{2 * time.Second, -1}},
		{"a GPU that does nothing", "7.0|cpu=00:00:02|gres/gpuutil=0\n", &Work{2 * time.Second, 0}},
		{"a GPU that could not be asked", "7.0|cpu=00:00:02|gres/gpuutil=18446744073709551615\n", &Work{2 * time.Second, -1}},
		{"and another one", "7.0|cpu=00:00:02|gres/gpuutil=18446744073709551614\n", &Work{2 * time.Second, -1}},
		{"jobacct_gather/none", "7.batch||\n", nil},
		{"nothing", "", nil},
	} {
		tab := table{name: "sstat"}
		all, err := parseWork(c.out, &tab)
		got, known := all[7]
		if err != nil || known != (c.want != nil) || known && got != *c.want {
			t.Errorf("%s: %+v (%v)", c.name, all, err)
		}
	}
}

func FuzzSteps(f *testing.F) {
	f.Add("17.batch\n17.0\n20_4.extern\n")
	f.Add("30+1.0\n.\n4294967296.0\n")
	f.Fuzz(func(t *testing.T, out string) {
		tab := table{name: "squeue --steps"}
		steps, err := parseSteps(out, &tab)
		for id := range steps {
			if err == nil && id.ID == 0 {
				t.Fatal("job 0")
			}
		}
	})
}

func FuzzWork(f *testing.F) {
	f.Add("7.batch|cpu=00:00:12,energy=0|cpu=00:00:12,gres/gpuutil=35\n")
	f.Add("7.0|cpu=1-00:00:12|gres/gpuutil=18446744073709551615\n")
	f.Fuzz(func(t *testing.T, out string) {
		tab := table{name: "sstat"}
		all, err := parseWork(out, &tab)
		for id, w := range all {
			if err == nil && (w.CPU < 0 || w.GPUUse > 100) {
				t.Fatalf("job %d: %+v", id, w)
			}
		}
	})
}
