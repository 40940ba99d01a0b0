// Package guarantee says which jobs stand within the GPUs that are guaranteed to their accounts, which use what other
// accounts own and do not need, and which wait because they could not give it back in time.
//
// It is pure: a snapshot and the shares in, a Right for each job and a line for each share out. What follows from it is
// done by others: the order puts entitled jobs before borrowers, evictions make room for entitled jobs and only borrowers
// leave.
//
// Files: guarantee.go the shares and what comes out; owners.go which share a job draws on; decide.go the decision; feature.go its
// part in a cycle; words.go what is told of it; lent.go who uses what; statement.go what became of shares over time.
package guarantee

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
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

	Promised float64 // part of Entitled: to jobs that wait
	Outside  float64 // used by its account's jobs on nodes on which no share of it may lie, of the first of its shares
	LentOut  float64 // used by jobs beyond shares, of what the account does not use of it
}

// Lent is what others may use of it.
func (s *State) Lent() float64 { return max(s.Owned-s.Entitled-s.Wanted, 0) }

// Standing is a job's right, and what it rests on.
type Standing struct {
	Right cluster.Right
	Share int // index of the share that it draws on; -1: its account has none
	Tasks int // of a waiting record that have it; 0: all
}

// Result is a decision.
type Result struct {
	Shares []State
	Jobs   []Standing // in the order of the snapshot; nil: no shares

	Accounts map[string][]int // the shares of each account of a job on GPUs; none: it has no entry, or an empty one
}

// Short says by how much shares are above the GPUs on which they can lie, in service or not; "": they are not. Of several such
// sets of shares it names the one on the fewest kinds of nodes.
func Short(shares []Share, nodes []cluster.Node) string {
	up := slices.Clone(nodes)
	for i := range up {
		up[i].Usable = true
	}
	p := newPools(&cluster.Snapshot{Nodes: up})
	covers, gpus := make([]cover, len(shares)), make([]float64, len(shares))
	for i := range shares {
		s := &shares[i]
		covers[i] = p.where(s.covers)
		if gpus[i] = float64(s.GPUs); s.GPUs == 0 {
			gpus[i] = math.Floor(s.Part*p.has(covers[i]) + rounding)
		}
		p.promise(covers[i], gpus[i])
	}
	slices.SortStableFunc(p.unions, func(a, b cover) int { return cmp.Compare(bits.OnesCount64(uint64(a)), bits.OnesCount64(uint64(b))) })
	for _, u := range p.unions {
		if p.holds(u, 0) {
			continue
		}
		var names []string
		sum, of := 0.0, ""
		for i := range shares {
			if s := &shares[i]; covers[i]&^u == 0 {
				names, sum = append(names, s.Account), sum+gpus[i]
				if where := s.Where(); of == "" {
					of = where
				} else if of != where {
					of = "GPUs on which they can lie"
				}
			}
		}
		return fmt.Sprintf("the shares of %s are %g of %g %s: %g too many", strings.Join(names, ", "), sum, p.has(u), of, sum-p.has(u))
	}
	return ""
}

// Where are the GPUs on which a share can lie, in words.
func (s *Share) Where() string {
	of := "GPUs"
	if s.GPUType != "" {
		of = s.GPUType + " GPUs"
	}
	if len(s.Partitions) > 0 {
		of += " of partition " + strings.Join(s.Partitions, ",")
	}
	return of
}

// On counts the GPUs on which a share can lie, and those of them in service.
func (s *Share) On(nodes []cluster.Node) (all, up int) {
	for i := range nodes {
		if n := &nodes[i]; s.covers(n) {
			all += n.GPUs
			if n.Usable {
				up += n.GPUs
			}
		}
	}
	return all, up
}
