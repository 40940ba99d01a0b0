package live

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Jobs whose tasks slurmctld 24.11 would set anew are left alone, each for its own reason, and so is one as long as
// that is not known; other Slurms are not asked. As seen on 24.11.5 (tests/fit).
func TestFragile(t *testing.T) {
	perNode := map[uint32]int{1: 4, 2: 4, 3: 4}
	perGPU := map[string]string{"5": "NtasksPerTRES=2", "6": "NtasksPerTRES=1", "10": "NtasksPerTRES=1"}
	version, asked := "24.11.5", map[string]int{}
	var guard sync.Mutex // several jobs are asked about at a time
	c := New(slurmplug.NewClient(runner(func(cmd slurmplug.Command) string {
		guard.Lock()
		asked[cmd.Name]++
		guard.Unlock()
		if cmd.Name == "squeue" {
			var lines strings.Builder
			for _, arg := range cmd.Args {
				if list, is := strings.CutPrefix(arg, "--jobs="); is {
					for id := range strings.SplitSeq(list, ",") {
						var n uint32
						if fmt.Sscan(id, &n); n != 9 {
							fmt.Fprintf(&lines, "%d|%d|\n", n, perNode[n])
						}
					}
				}
			}
			return lines.String()
		}
		id := cmd.Args[len(cmd.Args)-1]
		return fmt.Sprintf("JobId=%s JobName=x UserId=ann(7) Account=p NumNodes=1 Network=(null) WorkDir=/ StdErr=/e StdIn=/n StdOut=/o %s\n", id, perGPU[id])
	}), slurmplug.Options{Abilities: &slurmplug.Abilities{}}))
	look := func() (fragile []string) {
		var err error
		if c.conf, err = slurmplug.NewClient(says("SLURM_VERSION = "+version+"\nClusterName = c\n\nSlurmctld(primary) at h is UP\n"), slurmplug.Options{}).Config(t.Context()); err != nil {
			t.Fatal(err)
		}
		var jobs []cluster.Job
		var records []slurmplug.Job
		add := func(id uint32, tasks, nodes int, tres string) {
			records = append(records, slurmplug.Job{ID: slurmplug.Plain(id), RawID: id, Name: "x", Account: "p", State: "PENDING", NumTasks: tasks, TRES: tres})
			jobs = append(jobs, cluster.Job{ID: slurmplug.Plain(id), RawID: id, State: cluster.Pending, Nodes: nodes})
		}
		add(1, 3, 1, "cpu=3")             // -n3 --ntasks-per-node=4
		add(2, 7, 2, "cpu=7")             // -n7 --ntasks-per-node=4
		add(3, 8, 2, "cpu=8")             // -n8 --ntasks-per-node=4: stays 8
		add(4, 3, 1, "cpu=3")             // -n3
		add(5, 4, 1, "cpu=4,gres/gpu=2")  // -n4 --ntasks-per-gpu=2
		add(6, 1, 1, "cpu=1,gres/gpu=1")  // --gpus=1 --ntasks-per-gpu=1: stays 1
		add(7, 4, 1, "cpu=4,gres/gpu=4")  // -n4 --gres=gpu:4
		add(8, 5, 1, "cpu=5,gres/gpu=4")  // -n5 --gres=gpu:4: no multiple
		add(9, 1, 1, "cpu=1")             // squeue does not show it
		add(10, 4, 1, "cpu=4,gres/gpu=4") // a part of a heterogeneous job
		add(11, 1, 1, "cpu=1")
		jobs[9].HetLeader, jobs[9].HetOffset, jobs[10].HetLeader = 11, 1, 11
		c.jobs = records
		c.findFragile(t.Context(), jobs, records)
		for _, j := range jobs {
			if j.Fragile != "" {
				fragile = append(fragile, fmt.Sprint(j.ID, ": ", j.Fragile))
			}
		}
		return fragile
	}
	const update = "any update by Slurm 24.11.5 would set its tasks from "
	want := []string{
		"1: " + update + "3 to 4 (--ntasks-per-node=4)", "2: " + update + "7 to 8 (--ntasks-per-node=4)", "5: " + update + "4 to 2 (--ntasks-per-gpu=2)",
		"9: whether an update by Slurm 24.11.5 would change its tasks is not known yet", "10: " + update + "4 to 1 (--ntasks-per-gpu=1)", "11: " + update + "4 to 1 (--ntasks-per-gpu=1)",
	}
	if got := look(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if asked["scontrol"] != 3 { // 5, 7, 10
		t.Errorf("asked %v", asked)
	}
	if got := look(); !slices.Equal(got, want) || asked["scontrol"] != 3 || asked["squeue"] != 2 { // the latter about 9
		t.Errorf("asked %v: %q", asked, got)
	}
	version = "26.05.5"
	if got := look(); got != nil || asked["squeue"] != 2 {
		t.Errorf("asked %v: %q", asked, got)
	}
}
