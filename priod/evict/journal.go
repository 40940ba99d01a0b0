package evict

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"slurmprio/priod/cluster"
)

// Memory is how long ended rows stay in the journal: limits, learned graces and
// second claims look at them.
const Memory = 7 * 24 * time.Hour

// Journal is what is known of claims and evictions, by number.
type Journal struct {
	Claims                  []Claim
	Evictions               []Eviction
	Times                   map[cluster.JobID]int // evictions of each job in its life
	LastClaim, LastEviction int64                 // numbers given

	nodes []cluster.Node // as See was told
}

// NewJournal returns an empty one.
func NewJournal() *Journal { return &Journal{Times: map[cluster.JobID]int{}} }

// Blank tells whether nothing is known, as long as nobody was ever evicted.
func (j *Journal) Blank() bool { return len(j.Claims)+len(j.Evictions) == 0 }

// Claim returns the claim of a number, nil when it is forgotten.
func (j *Journal) Claim(number int64) *Claim {
	at, ok := slices.BinarySearchFunc(j.Claims, number, func(c Claim, n int64) int { return int(c.Number - n) })
	if !ok {
		return nil
	}
	return &j.Claims[at]
}

// Eviction returns the eviction of a number, nil when it is forgotten.
func (j *Journal) Eviction(number int64) *Eviction {
	at, ok := slices.BinarySearchFunc(j.Evictions, number, func(e Eviction, n int64) int { return int(e.Number - n) })
	if !ok {
		return nil
	}
	return &j.Evictions[at]
}

var reservation = regexp.MustCompile(`^priod_[0-9]+_[0-9]+$`)

// IsReservation tells whether a reservation is named as Number names them.
func IsReservation(name string) bool { return reservation.MatchString(name) }

// Number gives the rows of new claims their numbers; each eviction's Claim is
// the index of its claim until then.
func (j *Journal) Number(t *Turn) {
	for i := range t.Claims {
		c := &t.Claims[i]
		c.Number = j.LastClaim + int64(i) + 1
		if c.Resv != "" {
			c.Resv = fmt.Sprintf("priod_%d_%d", c.Number, c.At.Unix())
		}
	}
	for i := range t.Evictions {
		e := &t.Evictions[i]
		e.Number, e.Claim = j.LastEviction+int64(i)+1, t.Claims[e.Claim].Number
	}
}

// Take takes in rows that are saved.
func (j *Journal) Update(t *Turn) {
	for _, c := range t.Claims {
		if old := j.Claim(c.Number); old != nil {
			*old = c
			continue
		}
		j.Claims = append(j.Claims, c)
		j.LastClaim = max(j.LastClaim, c.Number)
	}
	for _, e := range t.Evictions {
		old := j.Eviction(e.Number)
		counted := old != nil && !old.SignalledAt.IsZero()
		switch counts := !e.SignalledAt.IsZero(); {
		case counts && !counted:
			j.Times[e.Job]++
		case counted && !counts:
			j.Times[e.Job]--
		}
		if old != nil {
			*old = e
			continue
		}
		j.Evictions = append(j.Evictions, e)
		j.LastEviction = max(j.LastEviction, e.Number)
	}
}

// Forget drops what ended longer ago than Memory, and then the counts of jobs that are
// not in the queue: one that failed may come back. A claim stays as long as one of its
// evictions is open.
func (j *Journal) Forget(now time.Time, present func(cluster.JobID) bool) {
	before := now.Add(-Memory)
	j.Evictions = slices.DeleteFunc(j.Evictions, func(e Eviction) bool { return !e.Open() && e.Ended.Before(before) })
	known, made := map[cluster.JobID]bool{}, map[int64]bool{}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		known[e.Job] = true
		made[e.Claim] = made[e.Claim] || e.Open()
	}
	j.Claims = slices.DeleteFunc(j.Claims, func(c Claim) bool {
		return !c.Open() && c.Pin == "" && c.Resv == "" && !made[c.Number] && c.Ended.Before(before)
	})
	for id := range j.Times {
		if !known[id] && !present(id) {
			delete(j.Times, id)
		}
	}
}

// Urgent lists the jobs that something waits for, each once: those to look at
// between two cycles.
func (j *Journal) Urgent() (jobs []Target) {
	for i := range j.Claims {
		if c := &j.Claims[i]; c.Open() || c.Resv != "" {
			jobs = append(jobs, Target{c.Job, c.RawID})
		}
	}
	for i := range j.Evictions {
		if e := &j.Evictions[i]; e.Open() && e.State != Restored {
			jobs = append(jobs, Target{e.Job, e.RawID})
		}
	}
	return unique(jobs)
}

// Idle lists the others of which something is still to come: victims that wait
// in the queue, and jobs that are pinned to a place that no claim keeps any more.
func (j *Journal) Idle() (waiting, pinned []Target) {
	for i := range j.Claims {
		if c := &j.Claims[i]; !c.Open() && c.Pin != "" {
			pinned = append(pinned, Target{c.Job, c.RawID})
		}
	}
	for i := range j.Evictions {
		if e := &j.Evictions[i]; e.State == Restored {
			waiting = append(waiting, Target{e.Job, e.RawID})
		}
	}
	return unique(waiting), unique(pinned)
}

// Pins tells whether a job's request may still name the place of one of its claims.
func (j *Journal) Pins(id cluster.JobID) bool {
	return j != nil && slices.ContainsFunc(j.Claims, func(c Claim) bool { return c.Job == id && c.Pin != "" })
}

// Taken counts the places that tasks of an array take: those that run, and those that
// wait with a claim.
func (j *Journal) CountArrayPlaces(array uint32, s *cluster.Snapshot) (n int) {
	running := map[cluster.JobID]bool{}
	for i := range s.Jobs {
		if x := &s.Jobs[i]; x.ID.ID == array && (x.State == cluster.Running || x.State == cluster.Suspended) {
			running[x.ID] = true
		}
	}
	n = len(running)
	for i := range j.Claims {
		if c := &j.Claims[i]; c.Open() && c.Job.ID == array && !running[c.Job] {
			n++
		}
	}
	return n
}

func unique(jobs []Target) []Target {
	slices.SortFunc(jobs, func(a, b Target) int { return a.Job.Compare(b.Job) })
	return slices.CompactFunc(jobs, func(a, b Target) bool { return a.Job == b.Job })
}

// Mark tells History who goes first among TE and among BE jobs, and which nodes are
// reserved meanwhile.
func (j *Journal) MarkHistory(h *cluster.History) {
	h.Claiming, h.Returning, h.Reserved = map[cluster.JobID]bool{}, map[cluster.JobID]bool{}, map[string]bool{}
	for i := range j.Claims {
		c := &j.Claims[i]
		if c.Open() {
			h.Claiming[c.Job] = true
		}
		if c.Resv != "" { // it may outlive the claim until its deletion is seen to
			for _, node := range c.Nodes() {
				h.Reserved[node] = true
			}
		}
	}
	for i := range j.Evictions {
		switch e := &j.Evictions[i]; e.State {
		case Left, Requeued, Restored:
			if c := j.Claim(e.Claim); c == nil || c.Purpose != ForRound { // who has had more than its due goes back to its place
				h.Returning[e.Job] = true
			}
		}
	}
}
