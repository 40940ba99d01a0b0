package evict

import (
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/consent"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/plan"
)

// Constants are the settings that no site changes.
var Constants = Settings{
	Policy:  preemption.Constants,
	Rounds:  RoundSettings{Length: 30 * time.Minute, Pay: 20, Lead: plan.Lead{Most: 24 * 3600, Half: 10 * 3600}},
	Hold:    time.Minute,
	Retry:   10 * time.Minute,
	Restart: 30 * time.Second,
}

// Watch is how often evictions under way are looked at.
const Watch = time.Second

// Settings of evictions.
type Settings struct {
	Enabled bool // new evictions are begun; those under way are ended in any case
	Defrag  bool // small jobs move out of the way of gangs
	Policy  preemption.Settings
	Rounds  RoundSettings
	Rules   consent.Rules // the site's, for jobs that do not say
	Ranking plan.Classes  // which partitions are ranked, and which QOS agree to evictions

	// Limits as parts of the cluster, where Policy has none as a number; 0: none.
	GraceShare    float64 // of the GPUs, held by jobs in their grace at a time
	LossShare     float64 // of a day's GPU-hours, lost by evictions within a day
	UserLossShare float64 // of these, lost for the TE jobs of one user

	Grace    time.Duration // of a job whose tag names none
	MaxGrace time.Duration // a job that asks for more is never evicted
	Restart  time.Duration // time that starting again costs a victim
	Hold     time.Duration // how long a place is kept after the last victim left
	Retry    time.Duration // how long after a failed claim a TE job gets no other; doubled each time

	// Since is when this priod began to act for one on another host, whose journal it cannot read; zero: it never did.
	Since time.Time
}

// Consents reports whether a job may be evicted: by its tag, by a QOS that the configuration names, or by the site's consent. Jobs of
// reservations, of foreign partitions and of heterogeneous jobs are never evicted.
func (set *Settings) Consents(j *cluster.Job) bool {
	agreed := j.Tag.Type == "be" && (j.Site == nil || j.Site.Class == "") || j.Tag.Type == "" && set.Ranking.ByQOS(j.QOS) == plan.BEQOS
	if !agreed {
		job := *j // a closer look shows what the job itself says
		set.Rules.Complete(&job)
		agreed = job.Site != nil && job.Site.Evict
	}
	return agreed && j.TagErr == "" && !j.Reserved() && j.HetLeader == 0 && set.Ranking.Ranks(j.Partition)
}

// grace is the time that a victim gets after its signal.
func (set *Settings) grace(j *cluster.Job) time.Duration {
	if j.Tag.Grace > 0 {
		return j.Tag.Grace
	}
	return set.Grace
}

// limits are the limits on a cluster: a number takes the place of a part of it. A part is of the GPUs that ranked jobs
// can reach, and never less than the largest node.
func (set *Settings) limits(s *cluster.Snapshot) preemption.Limits {
	l := set.Policy.Limits
	if set.GraceShare == 0 && set.LossShare == 0 && set.UserLossShare == 0 {
		return l
	}
	gpus, largest, ranked := 0, 0, strings.Join(set.Ranking.Partitions, ",")
	for i := range s.Nodes {
		if n := &s.Nodes[i]; ranked == "" || n.In(ranked) {
			gpus, largest = gpus+n.GPUs, max(largest, n.GPUs)
		}
	}
	if set.GraceShare > 0 {
		l.GraceGPUs = max(int(set.GraceShare*float64(gpus)), largest)
	}
	hours := float64(gpus) * day.Hours()
	if l.GPUHoursPerDay == 0 {
		l.GPUHoursPerDay = set.LossShare * hours
	}
	if l.UserGPUMinutesPerDay == 0 {
		l.UserGPUMinutesPerDay = 60 * set.UserLossShare * hours
	}
	return l
}

// Leaves is how long a job takes to leave once it is told; false: it does not agree to evictions, or asks for more time than any job gets.
func (set *Settings) Leaves(j *cluster.Job) (time.Duration, bool) {
	grace := set.grace(j)
	return grace, set.Consents(j) && grace <= set.MaxGrace
}
