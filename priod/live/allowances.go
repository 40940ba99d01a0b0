package live

import (
	"cmp"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// limitsOf are the limits that apply to jobs of this kind, none where Slurm enforces
// none; fixed says why they cannot be worked out.
func (r *sizeRules) limitsOf(k kind) (limits []slurmplug.Limit, fixed string) {
	if r.limits == nil {
		return nil, ""
	}
	qos := []string{k.qos}
	for name := range strings.SplitSeq(k.partition, ",") {
		qos = append(qos, r.partitions[name].QOS)
	}
	for name := range strings.SplitSeq(k.partition, ",") {
		some, why := r.limits.Of(k.user, k.account, name, qos...)
		for _, limit := range some {
			if !slices.Contains(limits, limit) {
				limits = append(limits, limit)
			}
		}
		fixed = cmp.Or(fixed, why)
	}
	return limits, fixed
}

// kind is what of a job its limits depend on.
type kind struct{ user, account, partition, qos string }

// allowances works out what limits leave to jobs, in one cycle.
type allowances struct {
	rules   *sizeRules
	running []slurmplug.Job
	shared  map[slurmplug.Limit]*slurmplug.Allowance // of limits of several jobs together; nil until one is needed
}

// of is what the limits leave to a job, or why that cannot be said. When its size is
// written in its user's name, Slurm itself checks the limits again as the job starts, so
// jobs that start before it are counted, too.
func (l *allowances) of(j *cluster.Job, inUsersName bool) (all []*slurmplug.Allowance, fixed string) {
	limits, fixed := l.rules.limitsOf(kind{j.User, j.Account, j.Partition, j.QOS})
	if fixed != "" {
		return nil, "is or may be under a limit that a new size would lift: " + fixed
	}
	for _, limit := range limits {
		switch {
		case limit.Shared == "":
			all = append(all, &slurmplug.Allowance{Limit: limit.What, CPUs: limit.CPUs, MemMB: limit.MemMB, Each: true})
		case !inUsersName:
			return nil, "is under a limit of several jobs together, which a size that is not written in its user's name would lift: " + limit.What
		default:
			all = append(all, l.leftOf(limit))
		}
	}
	return all, ""
}

// leftOf is what a limit of several jobs leaves beside the jobs that hold nodes.
func (l *allowances) leftOf(limit slurmplug.Limit) *slurmplug.Allowance {
	if l.shared == nil {
		l.shared = map[slurmplug.Limit]*slurmplug.Allowance{}
		kinds := map[kind][]*slurmplug.Allowance{}
		for i := range l.running {
			j := &l.running[i]
			if s := state(j.State); s == cluster.Pending || s == cluster.Other && j.NodeList == "" {
				continue
			}
			k := kind{j.User, j.Account, j.Partition, j.QOS}
			under, known := kinds[k]
			if !known {
				limits, _ := l.rules.limitsOf(k)
				for _, limit := range limits {
					if limit.Shared != "" {
						under = append(under, l.allowance(limit))
					}
				}
				kinds[k] = under
			}
			for _, a := range under {
				a.CPUs -= int64(j.CPUs)
				a.MemMB -= j.MemMB()
			}
		}
	}
	return l.allowance(limit)
}

func (l *allowances) allowance(limit slurmplug.Limit) *slurmplug.Allowance {
	if l.shared[limit] == nil {
		l.shared[limit] = &slurmplug.Allowance{Limit: limit.What, CPUs: limit.CPUs, MemMB: limit.MemMB}
	}
	return l.shared[limit]
}
