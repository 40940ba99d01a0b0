// Package guarantee says which jobs stand within the GPUs that are guaranteed to their accounts, which use what other
// accounts own and do not need, and which wait because they could not give it back in time.
//
// It is pure: a snapshot and the shares in, a Right for each job and a line for each share out. What follows from it is
// done by others: the order puts entitled jobs before borrowers, evictions make room for entitled jobs and only borrowers
// leave.
//
// Files: guarantee.go the shares and what comes out; owners.go which share a job draws on; decide.go the decision; feature.go its
// part in a cycle; words.go what is told of it.
package guarantee

import (
	"fmt"
	"math"
	"strings"
	"time"

	"slurmprio/priod/cluster"
)

// Share is one [[share]]: GPUs that are an account's, and those of the accounts below it, whenever it wants them.
type Share struct {
	Account      string
	GPUs         int           // 0: Part
	Part         float64       // of the GPUs that it can lie on
	GPUType      string        // of these GPUs; "": of any type
	Partitions   []string      // nodes that it lies on; none: all
	ReturnWithin time.Duration // an entitled job starts so soon
}

// Name is the share as people read it: "vision", "vision (a100)".
func (s *Share) Name() string {
	if s.GPUType == "" {
		return s.Account
	}
	return fmt.Sprintf("%s (%s)", s.Account, s.GPUType)
}

// Lend is to which jobs what an account does not use is lent.
type Lend string

// The ways of lending.
const (
	Returnable Lend = "returnable" // to jobs that leave within the shortest ReturnWithin, and to others after Settings.After
	All        Lend = "all"        // to each job
	None       Lend = "none"       // to no job
)

// Settings are the shares of a site. Without shares no job has a Right.
type Settings struct {
	Shares  []Share
	Lend    Lend
	After   time.Duration     // a job that may not borrow waits no longer than this for GPUs that others own
	Ahead   time.Duration     // so far ahead lies the begin time of a job that may not borrow: when priod ends, it waits no longer
	Parents map[string]string // accounts by those below them; an account without an entry stands alone

	WritesPerCycle int // begin times; 0: any number

	// Leaves is how long a job takes to leave once it is told; false: it does not agree to leave.
	Leaves func(*cluster.Job) (time.Duration, bool)
	// Trial reports whether a job counts as TE.
	Trial func(*cluster.Job) bool
}

// Constants are the settings that no site changes. Slurm's age of a job counts from its begin time, whatever the lever that
// keeps it waiting without a living priod; half an hour costs two writes an hour for each job.
var Constants = Settings{Ahead: 30 * time.Minute, WritesPerCycle: 500}

// State is a share as it is now, GPUs.
type State struct {
	Share    *Share
	Owned    float64 // what it amounts to now: less where nodes are out of service
	Down     float64 // by so much less
	Used     float64 // by running jobs
	Entitled float64 // used by running jobs within it, and promised to jobs with a claim
	Excess   float64 // used by running jobs beyond it
	Wanted   float64 // by entitled jobs that wait
	Waiting  int     // entitled tasks that wait
}

// Lent is what others may use of it.
func (s *State) Lent() float64 { return max(s.Owned-s.Entitled-s.Wanted, 0) }

// Standing is a job's right, and what it rests on.
type Standing struct {
	Right cluster.Right
	Share int // index of the share that it draws on; -1: its account has none
	Tasks int // of a waiting record that are entitled; 0: all
}

// Result is a decision.
type Result struct {
	Shares []State
	Jobs   []Standing // in the order of the snapshot; nil: no shares
}

// Short says by how much shares are above the GPUs on which they can lie, in service or not; "": they are not.
func Short(shares []Share, nodes []cluster.Node) string {
	type pool struct{ gpuType, partitions string }
	owned, has, names := map[pool]float64{}, map[pool]float64{}, map[pool][]string{}
	var order []pool
	total, all := 0.0, 0.0
	for i := range nodes {
		all += float64(nodes[i].GPUs)
	}
	for i := range shares {
		s := &shares[i]
		p := pool{s.GPUType, strings.Join(s.Partitions, ",")}
		if _, seen := has[p]; !seen {
			order = append(order, p)
			for k := range nodes {
				if s.covers(&nodes[k]) {
					has[p] += float64(nodes[k].GPUs)
				}
			}
		}
		gpus := float64(s.GPUs)
		if s.GPUs == 0 {
			gpus = math.Floor(s.Part*has[p] + rounding)
		}
		owned[p] += gpus
		total += gpus
		names[p] = append(names[p], s.Account)
	}
	for _, p := range order {
		if owned[p] > has[p]+rounding {
			of := "GPUs"
			if p.gpuType != "" {
				of = p.gpuType + " GPUs"
			}
			if p.partitions != "" {
				of += " of partition " + p.partitions
			}
			return fmt.Sprintf("the shares of %s are %g of %g %s: %g too many", strings.Join(names[p], ", "), owned[p], has[p], of, owned[p]-has[p])
		}
	}
	if total > all+rounding {
		return fmt.Sprintf("all shares together are %g of the %g GPUs of this cluster: %g too many", total, all, total-all)
	}
	return ""
}
