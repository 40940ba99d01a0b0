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
	for mode, want := range map[slurmplug.Lever][]int{slurmplug.SiteFactor: {1, 2, 3, 0}, slurmplug.Priority: {1, 2, 3, 0}} {
		p.Mode = mode
		p.MakeQueue(&s)
		var got []int
		for _, q := range p.Queue {
			got = append(got, q.Decision)
			if s.Jobs[q.Job].ID != p.Decisions[q.Decision].Job {
				t.Errorf("%s: %+v", mode, q)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", mode, got, want)
		}
	}
	p.Mode, p.Decisions[1].Value = slurmplug.Priority, 6 // a priority of 6, not of 11
	if p.MakeQueue(&s); p.Queue[0].Decision != 2 {
		t.Errorf("%+v", p.Queue)
	}
}
