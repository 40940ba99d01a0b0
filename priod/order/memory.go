package order

import (
	"time"

	"slurmprio/priod/cluster"
)

// Memory is what is remembered from one cycle to the next beside cluster.History. The zero value
// remembers nothing.
type Memory struct {
	refused map[cluster.JobID]time.Time // when Slurm last refused a write
}

// refusedFor is how long the writes of a job that Slurm refused come after those of all others: under a
// limit of writes they would else take the others' place in each cycle.
const refusedFor = 10 * time.Minute

// refuse takes in that Slurm refused a write.
func (m *Memory) refuse(id cluster.JobID, at time.Time) {
	if m == nil {
		return
	}
	if m.refused == nil {
		m.refused = map[cluster.JobID]time.Time{}
	}
	m.refused[id] = at
}

// since are the jobs whose writes come last now. It forgets the others.
func (m *Memory) since(now time.Time) map[cluster.JobID]bool {
	if m == nil || len(m.refused) == 0 {
		return nil
	}
	last := map[cluster.JobID]bool{}
	for id, at := range m.refused {
		if now.Sub(at).Abs() >= refusedFor {
			delete(m.refused, id)
		} else {
			last[id] = true
		}
	}
	return last
}
