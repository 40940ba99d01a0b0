package store

import (
	"hash/maphash"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// digester reduces what a row holds to 8 bytes, so that a cycle can tell what
// changed without reading the database or keeping a copy of it. The seed is the
// process's own: nobody can craft a job whose change goes unseen.
type digester struct{ seed maphash.Seed }

// digest is never 0, which stands for no row.
func digest[T comparable](d *digester, row T) uint64 { return maphash.Comparable(d.seed, row) | 1 }

// job leaves out the id, which the entry has, and the priority, which moves with every poll.
func (d *digester) job(j *cluster.Job) uint64 {
	row := jobParams(j, 0, time.Time{})
	row.ID, row.Task, row.Priority = 0, 0, 0
	return digest(d, row)
}

func (d *digester) node(n *cluster.Node) uint64 { return digest(d, nodeParams(n, time.Time{})) }

// decision leaves out Slurm's own priority, which moves with every poll.
func (d *digester) decision(p *plan.Decision) uint64 {
	row := decisionParams(p, 0, 0, time.Time{})
	row.OwnPriority = 0
	return digest(d, row)
}

// millis is a time as the database holds it: UTC milliseconds, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// instant is the inverse of millis.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
