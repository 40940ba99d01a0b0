package plan

import (
	"testing"

	"slurmprio/priod/cluster"
)

// What runs in the background is over once the cycle has joined it, whether anything asked for it or not: the next cycle changes what it reads.
func TestJoin(t *testing.T) {
	for _, jobs := range []int{10, manyJobs} {
		c := &Cycle{Snapshot: &cluster.Snapshot{Jobs: make([]cluster.Job, jobs)}}
		journal := make([]int, 1000)
		sum := func() (n int) {
			for range 1000 {
				for i := range len(journal) {
					n += journal[i] // out of range where the journal shrinks meanwhile
				}
			}
			return n
		}
		_, _ = InBackgroundLazily(c, sum), InBackground(c, sum)
		c.Join()
		journal = journal[:0]
		if jobs < manyJobs && len(c.begun) != 0 {
			t.Errorf("%d are still waited for", len(c.begun))
		}
	}
}
