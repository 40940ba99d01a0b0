// Package headroom keeps whole nodes free of BE jobs for the TE jobs that are to come, as many as pays: a
// TE job that finds a free place starts at once, and no BE job is evicted for it. How many GPUs of each type
// TE jobs will hold is forecast from the last hours and from the same time of the day before, an idea of
// GFS (ASPLOS'26, arXiv 2509.11134). A GPU is kept when the evictions that it saves cost more than its idle
// time, the rule of the newsvendor.
//
// On Slurm the nodes are those of one reservation, whose running jobs run on (IGNORE_JOBS) and in which no job
// starts (see slurmplug.Client.Reserve). A node is taken out of it when a TE job waits that fits there now and
// nowhere else. It ends by itself when priod does not renew it.
//
//   - forecast.go: what TE jobs held, and what a node more would have saved
//   - nodes.go: which nodes are kept
//   - feature.go: its part of a cycle
package headroom

import "time"

// Settings say whether nodes are kept.
type Settings struct {
	Enabled bool
	Share   float64 // at most this part of the GPUs of each type, but one node where there are several; 0: none
	// Every is how often the nodes are chosen again and the reservation is renewed.
	Every time.Duration
}

// A node is added from the first gain on, and let go below the second.
const addsFrom, letsGoBelow = 1.0, 0.8

// Memory is kept from one cycle to the next.
type Memory struct {
	factors map[string]float64 // by GPU type, GPUs of nodes that TE jobs fill for each that they hold, as last seen
	nodes   []string           // that were last chosen
	kept    string             // the reserved ones, as a host list
	problem string             // why Slurm refused the last reservation; "": it did not
	// partitions are those in which TE jobs ran, by GPU type, and when they last did: nodes of those in which
	// none ran within a day are not kept.
	partitions map[string]map[string]time.Time
	decided    time.Time // when the nodes were last chosen
}
