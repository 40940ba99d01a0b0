package size

import "slurmprio/slurmplug"

// exceededLimit names a limit that leaves less than a job asks for; "": there is none.
func exceededLimit(a *slurmplug.Asked) string {
	for _, l := range a.Allowances {
		if l.CPUs < int64(a.CPUs) || l.MemMB < a.MemMB {
			return l.Limit
		}
	}
	return ""
}

// takeFromLimits takes what a job with a place asks for from what its limits leave: no
// other job gets more by it.
func takeFromLimits(w queuedJob) {
	if a := w.job.Asked; a != nil && exceededLimit(a) == "" {
		for _, l := range a.Allowances {
			l.Take(a.CPUs, a.MemMB)
		}
	}
}
