// Package window lets jobs run until maintenance that would wait for its end: jobs that agree to leave and save their state,
// and that Slurm does not start only because their time limits reach into a window in which nodes are reserved.
//
// priod gives such a job a limit that fits before the window, so that Slurm starts it. Before the window it leaves as a victim
// of evictions does (signal, grace, requeue), and gets its own limit back. What is written is the lever TimeLimit; whose a value
// is, and how it is taken back, the History of writes says: nothing is remembered here.
//
// Files: window.go what comes in; decide.go the decision; feature.go its part in a cycle.
package window

import (
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Settings say which jobs run until a window. The zero value: none, and those that do leave in time.
type Settings struct {
	Enabled bool
	Margin  time.Duration // between a limit and the window, for the time until Slurm starts the job; between its grace and the limit
	Restart time.Duration // time that starting again costs a job
	Pay     float64       // a job works so many times as long as its restart and its grace take
	Depth   int           // so many waiting jobs are looked at in a cycle

	// Leaves is how long a job takes to leave once it is told; false: it does not agree to leave.
	Leaves func(*cluster.Job) (time.Duration, bool)
}

// Constants are the settings that no site changes. Slurm's limits are in whole minutes; its backfill may take half a minute to
// start a job.
var Constants = Settings{Margin: time.Minute, Pay: 10, Depth: 5000}

// beyond is the limit of a job that runs until a window: not its own, so that the History of writes tells of it, and no shorter.
func beyond(own time.Duration) slurmplug.Value {
	if own < 0 {
		own = 365 * 24 * time.Hour
	}
	return slurmplug.LimitOf(own + time.Minute)
}

// until is the longest limit in whole minutes with which a job that starts now ends before a time; 0 or less: there is none.
func until(now, end time.Time) time.Duration { return end.Sub(now).Truncate(time.Minute) }

// saves reports whether a job saves its state when it is told to leave, or from time to time.
func saves(j *cluster.Job) bool { return j.Signal() != "" || j.Tag.Ckpt > 0 }

// grace is how long a job takes to leave. One that does not agree any more gets none.
func (set *Settings) grace(j *cluster.Job) time.Duration {
	if set.Leaves == nil {
		return 0
	}
	grace, _ := set.Leaves(j)
	return grace
}

// leavesAfter is how long after its start a job is told to leave that has to end in so long, and how much of its work it has
// saved then. One that saves its state from time to time alone leaves after the last time.
func (set *Settings) leavesAfter(j *cluster.Job, ends time.Duration) (leaves, worked time.Duration) {
	leaves = ends - set.grace(j) - set.Margin
	every := j.Tag.Ckpt
	if j.Signal() != "" || every <= 0 {
		return leaves, leaves - set.Restart
	}
	begins := set.Restart + set.Margin // its work, at the latest
	if leaves-begins < every {
		return leaves, 0
	}
	worked = (leaves - begins).Truncate(every)
	return begins + worked, worked
}

// pays is how many times as long a job works with a limit as its restart and its grace take.
func (set *Settings) pays(j *cluster.Job, limit time.Duration) float64 {
	_, worked := set.leavesAfter(j, limit)
	return worked.Seconds() / max(set.Restart+set.grace(j), time.Second).Seconds()
}
