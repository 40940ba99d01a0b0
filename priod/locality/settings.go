package locality

import "time"

// Settings say whether jobs wait for few switches, and for how long.
type Settings struct {
	Enabled        bool
	Rule           Rule
	OfLimit        float64 // the part of its time limit that a job is expected to run, where nothing better is known
	Depth          int     // jobs at the head of the queue that are looked at; 0: all
	WritesPerCycle int     // 0: no limit
}

// Shortest is the shortest wait that is worth a write: Slurm counts in minutes.
const Shortest = time.Minute
