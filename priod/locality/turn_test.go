package locality

import (
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Property: of jobs that wait, however they come and go, none waits for its read longer than it takes
// to read all that were there before it.
func TestEachJobIsReadInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, most, next := &Memory{}, rapid.IntRange(1, 4).Draw(t, "most"), uint32(1)
		var jobs []*cluster.Job
		unread := map[cluster.JobID]int{} // cycles
		for range rapid.IntRange(5, 40).Draw(t, "cycles") {
			for range rapid.IntRange(0, 3).Draw(t, "new") {
				if len(jobs) < 12 {
					jobs = append(jobs, &cluster.Job{ID: slurmplug.Plain(next)})
					next++
				}
			}
			if len(jobs) > 0 && rapid.Bool().Draw(t, "one starts") {
				at := rapid.IntRange(0, len(jobs)-1).Draw(t, "which")
				jobs = append(jobs[:at:at], jobs[at+1:]...)
			}
			read := m.inTurn(append([]*cluster.Job(nil), jobs...), most)
			m.begin()
			if len(read) != min(most, len(jobs)) {
				t.Fatalf("%d of %d are read, %d may be", len(read), len(jobs), most)
			}
			for _, j := range jobs {
				unread[j.ID]++
			}
			for _, j := range read {
				unread[j.ID] = 0
			}
			for _, j := range jobs {
				if unread[j.ID] > 2*12/most+2 {
					t.Fatalf("job %s was not read in %d cycles of %d reads, %d jobs", j.ID, unread[j.ID], most, len(jobs))
				}
			}
		}
	})
}
