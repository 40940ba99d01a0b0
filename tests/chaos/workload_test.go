package chaos

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var small = Size{Length: 30 * time.Second, Jobs: 50, Pieces: 15, Types: []string{"a100", "v100"}, Users: 3}

// The same seed gives the same jobs, turns and faults, and all that a run leans on
// holds for every seed.
func TestWorkloadIsAFunctionOfItsSeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, size := rapid.Uint64().Draw(t, "seed"), small
		size.Jobs = rapid.IntRange(1, 300).Draw(t, "jobs")
		size.Pieces = rapid.IntRange(3, 60).Draw(t, "pieces")
		if rapid.Bool().Draw(t, "in three parts") {
			size.Every, size.Jobs = size.Length/3, 3*size.Jobs
		}
		jobs := Workload(seed, size)
		if again := Workload(seed, size); !reflect.DeepEqual(jobs, again) {
			t.Fatal("another workload for the same seed")
		}
		if len(jobs) != size.Jobs {
			t.Fatalf("%d jobs", len(jobs))
		}
		for i, j := range jobs {
			switch {
			case j.Name != fmt.Sprintf("c%03d", i):
				t.Fatalf("the job of number %d is called %s", i, j.Name)
			case i > 0 && j.At < jobs[i-1].At, j.At < 0, j.At >= size.Length:
				t.Fatalf("%s arrives at %s", j.Name, j.At)
			case j.After >= i, j.User >= size.Users, j.Pieces < 1, j.Fails > j.Pieces, j.GPUs < 1, j.GPUs > perNode, j.Wants > nodeCPUs:
				t.Fatalf("%+v", j)
			case strings.ContainsAny(j.Comment, "\n\x1f"):
				t.Fatalf("%q would end a line of what is watched", j.Comment)
			}
			seen := map[string]bool{}
			for _, a := range j.Args("script", "", size) {
				key, _, _ := strings.Cut(a, "=")
				if strings.HasPrefix(a, "--") && !strings.HasPrefix(a, "--gres") && !strings.HasPrefix(a, "--mem") && seen[key] {
					t.Fatalf("%s twice: %q", key, j.Args("script", "", size))
				}
				seen[key] = true
			}
		}
	})
}

// One workload of a usual size has all kinds of jobs.
func TestWorkloadHasAllKinds(t *testing.T) {
	has := map[string]int{}
	for seed := range uint64(3) {
		size := small
		size.Jobs, size.Length = 220, longEnough
		for _, j := range Workload(seed, size) {
			all := strings.Join(j.Args("script", "17", size), " ")
			for _, kind := range []string{"--prio-type=te", "--prio-type=be", "--prio-speed", "--prio-cpu", "--prio-mem", "--prio-steps", "--prio-ckpt", "--prio-grace", "--prio-signal", "--prio-retry=always",
				"--nodes=2", "--nodes=1-3", "--gpus=2", "--array=0-4 ", "%1", " : ", "--hold", "--no-requeue", "gpu:a100:", "--cpus-per-gpu", "--mem-per-gpu", "--mem-per-cpu", "--exclusive", "--constraint", "--prefer", "--comment", "--job-name=x\n999"} {
				if strings.Contains(all, kind) {
					has[kind+string(rune('0'+seed))]++
				}
			}
		}
	}
	if len(has) != 3*27 {
		t.Errorf("not all kinds of jobs: %v", has)
	}
}
