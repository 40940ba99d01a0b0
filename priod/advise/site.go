package advise

import (
	"cmp"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Site is the cluster as the asking user sees it.
type Site struct {
	Snapshot   *cluster.Snapshot
	Partitions []slurmplug.Partition
	Memory     bool // it is handed out; else only GPUs and CPUs are
	Defaults   Defaults
	Ranking    *plan.Classes // nil: no priod ranks this site's jobs
}

// Defaults are what a job gets that does not ask for memory, MB; the first that
// is set, of a whole node when none is.
type Defaults struct{ PerCPU, PerNode int64 }

// partition finds a partition by name; nil when there is none.
func (s *Site) partition(name string) *slurmplug.Partition {
	i := slices.IndexFunc(s.Partitions, func(p slurmplug.Partition) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Partitions[i]
}

// tier is that of a job's partition, the highest of several: Slurm looks at
// higher tiers first.
func (s *Site) tier(list string) int {
	highest := 0
	for name := range strings.SplitSeq(list, ",") {
		if p := s.partition(name); p != nil {
			highest = max(highest, p.PriorityTier)
		}
	}
	return highest
}

// before are the waiting jobs that stand before a new one of such a class and
// tier, in Slurm's order. A new job has no age, so it is last;
// a TE job only behind other TE jobs where priod ranks. One that waits already stands
// where it is.
func (s *Site) before(tier int, class cluster.Class, waits cluster.JobID) []*cluster.Job {
	var order []*cluster.Job
	tiers := map[string]int{}
	jobs := s.Snapshot.Jobs
	for i := range jobs {
		j := &jobs[i]
		if !forecast.ForRoom(j) {
			continue
		}
		own, known := tiers[j.Partition]
		if !known {
			own = s.tier(j.Partition)
			tiers[j.Partition] = own
		}
		te := class == cluster.TE && own == tier && s.Ranking.Class(j.Tag.Type, j.QOS) != cluster.TE
		if waits != (cluster.JobID{}) || own >= tier && !te {
			order = append(order, j)
		}
	}
	slices.SortFunc(order, func(a, b *cluster.Job) int {
		return cmp.Or(cmp.Compare(tiers[b.Partition], tiers[a.Partition]), cmp.Compare(b.Priority, a.Priority), a.ID.Compare(b.ID))
	})
	if at := slices.IndexFunc(order, func(j *cluster.Job) bool { return j.ID == waits }); at >= 0 {
		order = order[:at]
	}
	return order
}

// Queue are the jobs that wait for room, in Slurm's order.
func (s *Site) Queue() *forecast.Queue {
	return &forecast.Queue{Now: s.Snapshot, Order: s.before(0, cluster.BE, cluster.JobID{}), Memory: s.Memory}
}
