package evict

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// Settings say whether, for whom and how jobs are evicted.
type Settings struct {
	Enabled bool // new evictions are begun; those under way are ended in any case
	Defrag  bool // small jobs move out of the way of gangs
	Policy  preemption.Settings
	Ranking plan.Classes // which partitions are ranked, and which QOS agree to evictions

	Grace    time.Duration // of a job whose tag names none
	MaxGrace time.Duration // a job that asks for more is never evicted
	Restart  time.Duration // time that starting again costs a victim
	Reserve  bool          // nodes whose place comes free in parts are reserved meanwhile
	Hold     time.Duration // how long a place is kept after the last victim left
	Retry    time.Duration // how long after a failed claim a TE job gets no other; doubled each time
	ZeroEnds bool          // a victim that exits 0 in its grace has done its work: it is not requeued

	// Since is when this priod began to act for one on another host, whose journal
	// it cannot read; zero: it never did.
	Since time.Time
}

// Consents tells whether a job's owner agreed to evictions: by its tag, or by a QOS
// that the configuration names. Jobs of reservations, of foreign partitions and of
// heterogeneous jobs are never evicted.
func (set *Settings) Consents(j *cluster.Job) bool {
	agreed := j.Tag.Type == "be" || j.Tag.Type == "" && set.Ranking.ByQOS(j.QOS) == plan.BEQOS
	return agreed && j.TagErr == "" && j.Reservation == "" && j.HetLeader == 0 && set.Ranking.Ranks(j.Partition)
}

// grace is the time that a victim gets after its signal.
func (set *Settings) grace(j *cluster.Job) time.Duration {
	if j.Tag.Grace > 0 {
		return j.Tag.Grace
	}
	return set.Grace
}
