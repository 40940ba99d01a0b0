package live

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// runner answers each command.
type runner func(slurmplug.Command) string

func (r runner) Run(_ context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	return slurmplug.Output{Stdout: []byte(r(cmd))}, nil
}

// What a gang holds of each node is read once in its run, in the order of its NodeList, at most so
// many gangs in a poll; what does not add up is not known.
func TestPartsAreReadOnce(t *testing.T) {
	var asked atomic.Int32
	shown := "Nodes=b CPU_IDs=0-1 Mem=10 GRES=gpu:3(IDX:0-2) Nodes=a CPU_IDs=4 Mem=5 GRES=gpu:1(IDX:3)"
	c := New(slurmplug.NewClient(runner(func(cmd slurmplug.Command) string {
		asked.Add(1)
		id := cmd.Args[len(cmd.Args)-1]
		return fmt.Sprintf("JobId=%s JobName=x UserId=ann(7) JobState=RUNNING Account=p NumNodes=2 JOB_GRES=gpu:4 %s MinCPUsNode=1 Network=(null) WorkDir=/\n", id, shown)
	}), slurmplug.Options{}))
	poll := func(jobs ...cluster.Job) ([]cluster.Job, []cluster.UnreadRecord) {
		c.jobs = c.jobs[:0]
		for _, j := range jobs {
			c.jobs = append(c.jobs, slurmplug.Job{ID: j.ID, RawID: j.ID.ID, Name: "x", Account: "p"})
		}
		asked.Store(0)
		return jobs, c.addParts(t.Context(), jobs)
	}
	gang := func(id uint32) cluster.Job {
		return cluster.Job{ID: slurmplug.Plain(id), State: cluster.Running, GPUs: 4, CPUs: 3, MemMB: 15, Nodes: 2, NodeList: "a,b", Start: time.Unix(1000, 0)}
	}
	want := []cluster.Part{{GPUs: 1, CPUs: 1, MemMB: 5}, {GPUs: 3, CPUs: 2, MemMB: 10}}
	one, waits := gang(2), gang(3)
	one.NodeList, one.Nodes, waits.State = "a", 1, cluster.Pending
	for _, asks := range []int32{1, 0} {
		jobs, odd := poll(gang(1), one, waits)
		if diff := cmp.Diff(want, jobs[0].Parts); diff != "" || len(odd) > 0 || asked.Load() != asks || jobs[1].Parts != nil || jobs[2].Parts != nil {
			t.Errorf("asked %d times, %v\n%s", asked.Load(), odd, diff)
		}
	}
	again := gang(1)
	again.Restarts, again.CPUs = 1, 4
	if jobs, odd := poll(again); asked.Load() != 1 || jobs[0].Parts != nil || len(odd) > 0 {
		t.Errorf("another run whose CPUs do not add up: asked %d times, %v, %v", asked.Load(), jobs[0].Parts, odd)
	}
	shown = strings.Replace(shown, "Mem=10", "Mem=ten", 1)
	for _, asks := range []int32{1, 0} {
		jobs, odd := poll(gang(9))
		if asked.Load() != asks || jobs[0].Parts != nil || len(odd) != 1 || odd[0].Kind != cluster.UnreadParts || !strings.Contains(odd[0].Why, "ten") {
			t.Errorf("of a job that cannot be read: asked %d times, %v", asked.Load(), odd)
		}
	}
	var many []cluster.Job
	for id := range uint32(mostAsked + 10) {
		many = append(many, gang(100+id))
	}
	for _, asks := range []int32{mostAsked, 10, 0} {
		if poll(many...); asked.Load() != asks {
			t.Errorf("asked %d times, want %d", asked.Load(), asks)
		}
	}
}
