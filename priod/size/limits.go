package size

import "slurmprio/slurmplug"

// beyond is a limit that leaves less than a job asks for, "" when there is none.
func exceededLimit(a *slurmplug.Asked) string {
	for _, l := range a.Allowances {
		if l.CPUs < int64(a.CPUs) || l.MemMB < a.MemMB {
			return l.Limit
		}
	}
	return ""
}

// count takes from what limits leave what a job asks for that has its place now:
// nobody is raised by what others need to start.
func takeFromLimits(w queuedJob) {
	if a := w.job.Asked; a != nil && exceededLimit(a) == "" {
		for _, l := range a.Allowances {
			l.Take(a.CPUs, a.MemMB)
		}
	}
}
