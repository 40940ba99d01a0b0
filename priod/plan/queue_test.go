package plan

import (
	"slices"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// The queue goes by the priorities that the plan gives, then by id; running jobs and those
// that nothing was decided about are not in it.
func TestQueue(t *testing.T) {
	var s cluster.Snapshot
	var p Plan
	for i, d := range []Decision{{Own: 5}, {Own: 5, Value: 10}, {Own: 9}, {Own: 5}, {Own: 50}} {
		d.Job = slurmplug.Plain(uint32(9 - i))
		s.Jobs = append(s.Jobs, cluster.Job{ID: slurmplug.Plain(uint32(100 + i)), State: cluster.Pending}, cluster.Job{ID: d.Job, State: cluster.Pending})
		p.Decisions = append(p.Decisions, d)
	}
	s.Jobs[9].State = cluster.Running
	p.MakeQueue(&s)
	var got []int
	for _, q := range p.Queue {
		got = append(got, q.Decision)
		if s.Jobs[q.Job].ID != p.Decisions[q.Decision].Job {
			t.Errorf("%+v", q)
		}
	}
	if want := []int{1, 2, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
