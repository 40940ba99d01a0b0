package evict

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// Settings say whether, for whom and how jobs are evicted.
type Settings struct {
	Enabled bool // new evictions; those under way end in any case
	Policy  preemption.Settings
	Ranking plan.Classes // which partitions, and which QOS consent

	Grace    time.Duration // of a job that names none
	MaxGrace time.Duration // a job that asks for more is never evicted
	Restart  time.Duration // what starting again costs
	Reserve  bool          // nodes whose place comes free in parts are reserved meanwhile
	Hold     time.Duration // how long a place is kept after the last victim left
	Retry    time.Duration // no second claim for a TE job so soon; doubled each time
	ZeroEnds bool          // a victim that exits 0 in its grace has done its work: it is not requeued

	// Since is when this priod began to act for one on another host, whose journal
	// it cannot read; zero: it never did.
	Since time.Time
}

// Consents tells whether a job agreed to be evicted: by its tag, or by a QOS
// that the configuration names. Reservations, foreign partitions and components
// of heterogeneous jobs are never touched.
func (set *Settings) Consents(j *cluster.Job) bool {
	agreed := j.Tag.Type == "be" || j.Tag.Type == "" && set.Ranking.ByQOS(j.QOS) == plan.BEQOS
	return agreed && j.TagErr == "" && j.Reservation == "" && j.HetLeader == 0 && set.Ranking.Ranks(j.Partition)
}

// grace is the time that a victim is given.
func (set *Settings) grace(j *cluster.Job) time.Duration {
	if j.Tag.Grace > 0 {
		return j.Tag.Grace
	}
	return set.Grace
}
