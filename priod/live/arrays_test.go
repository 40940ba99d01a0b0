package live

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// throttles answers scontrol show job with the limit of each array.
type throttles struct {
	guard sync.Mutex // of asked: several arrays are asked about at a time
	most  map[string]int
	asked []string
}

func (x *throttles) Run(_ context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	id := cmd.Args[len(cmd.Args)-1]
	x.guard.Lock()
	x.asked = append(x.asked, id)
	x.guard.Unlock()
	array, _, _ := strings.Cut(id, "_")
	return slurmplug.Output{Stdout: fmt.Appendf(nil, "JobId=9 ArrayJobId=%s ArrayTaskThrottle=%d JobName=x\n", array, x.most[array])}, nil
}

// Where squeue shows how many tasks may run at a time nothing is asked; else scontrol once for each array, and again when that is old.
func TestAddArrays(t *testing.T) {
	for _, unique := range []bool{true, false} {
		slurm := &throttles{most: map[string]int{"10": 2, "20": 0, "30": 1}}
		c := New(slurmplug.NewClient(slurm, slurmplug.Options{Abilities: &slurmplug.Abilities{ArrayUnique: unique}}))
		var records []slurmplug.Job
		var jobs []cluster.Job
		add := func(id uint32, tasks string, count int, task int32, state cluster.State, shown int) {
			if !unique {
				shown = 0
			}
			records = append(records, slurmplug.Job{AtOnce: shown})
			jobs = append(jobs, cluster.Job{ID: cluster.JobID{ID: id, Task: task}, Tasks: tasks, TaskCount: count, State: state, GPUs: 1})
		}
		add(10, "2-9", 8, slurmplug.NoTask, cluster.Pending, 2)
		add(10, "", 1, 0, cluster.Running, 0)
		add(20, "0-3", 4, slurmplug.NoTask, cluster.Pending, 0)
		add(30, "", 1, 1, cluster.Pending, 0) // all of its tasks have records of their own
		add(30, "", 1, 2, cluster.Pending, 0)
		add(40, "", 1, 1, cluster.Pending, 0) // the last one
		add(50, "", 1, slurmplug.NoTask, cluster.Pending, 0)
		at := time.Unix(1e9, 0)
		poll := func(after time.Duration) (asked []string) {
			slurm.asked = nil
			for i := range jobs {
				jobs[i].AtOnce, jobs[i].ArrayRuns = 0, 0
			}
			c.addArrays(t.Context(), at.Add(after), records, jobs)
			if a, b, d := &jobs[0], &jobs[2], &jobs[3]; a.AtOnce != 2 || a.ArrayRuns != 1 || a.TasksNow() != 1 || b.AtOnce != 0 || b.TasksNow() != 4 || d.AtOnce != 1 || d.TasksNow() != 1 || jobs[1].AtOnce != 0 {
				t.Errorf("%+v", jobs)
			}
			slices.Sort(slurm.asked)
			return slurm.asked
		}
		all := []string{"10_2", "20_0", "30_2"}
		if unique {
			all = all[2:]
		}
		if got := poll(0); !slices.Equal(got, all) {
			t.Errorf("asked %q, want %q", got, all)
		}
		if got := poll(time.Minute); len(got) != 0 {
			t.Errorf("asked again: %q", got)
		}
		if got := poll(2 * arrayFor); !slices.Equal(got, all) {
			t.Errorf("asked %q, want %q", got, all)
		}
	}
}
