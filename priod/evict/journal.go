package evict

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
)

// Memory is how long ended rows stay in the journal: limits, the experience with users' jobs and the wait before a second claim need them.
const Memory = 7 * 24 * time.Hour

// sweepEvery is how often Forget looks at all rows.
const sweepEvery = 10 * time.Minute

// Journal is what is known of claims and evictions, by number.
type Journal struct {
	Claims                  []Claim
	Evictions               []Eviction
	Times                   map[cluster.JobID]int // evictions of each job in its life
	LastClaim, LastEviction int64                 // the last numbers given

	nodes     []cluster.Node // see SetNodes
	memShared bool           // see cluster.Snapshot
	swept     time.Time      // when Forget last looked at all rows, a multiple of sweepEvery

	openClaims    []*Claim // that are not done; see live
	openEvictions []*Eviction
	read          [2]int // rows of which these are
}

// undone reports whether a claim is open or leaves something in Slurm.
func (c *Claim) undone() bool { return c.Open() || c.Pin != "" || c.Resv != "" }

// changed has live look at all rows again.
func (j *Journal) changed() { j.read = [2]int{-1, -1} }

// live returns the rows that are not done, until Update. Where nothing changed it writes nothing: several goroutines may then ask.
func (j *Journal) live() ([]*Claim, []*Eviction) {
	if now := [2]int{len(j.Claims), len(j.Evictions)}; j.read != now {
		j.openClaims, j.openEvictions, j.read = nil, nil, now
		for i := range j.Claims {
			if c := &j.Claims[i]; c.undone() {
				j.openClaims = append(j.openClaims, c)
			}
		}
		for i := range j.Evictions {
			if e := &j.Evictions[i]; e.Open() {
				j.openEvictions = append(j.openEvictions, e)
			}
		}
	}
	return j.openClaims, j.openEvictions
}

// evictionsOf returns the evictions of a claim: rows are numbered in the order of their claims.
func (j *Journal) evictionsOf(claim int64) []Eviction {
	from := func(claim int64) int {
		return sort.Search(len(j.Evictions), func(i int) bool { return j.Evictions[i].Claim >= claim })
	}
	return j.Evictions[from(claim):from(claim+1)]
}

// NewJournal returns an empty one.
func NewJournal() *Journal { return &Journal{Times: map[cluster.JobID]int{}} }

// Blank reports whether the journal holds no rows.
func (j *Journal) Blank() bool { return len(j.Claims)+len(j.Evictions) == 0 }

// Claim returns the claim of a number; nil when the journal no longer holds it.
func (j *Journal) Claim(number int64) *Claim {
	return find(j.Claims, number, func(c *Claim) int64 { return c.Number })
}

// Eviction returns the eviction of a number; nil when the journal no longer holds it.
func (j *Journal) Eviction(number int64) *Eviction {
	return find(j.Evictions, number, func(e *Eviction) int64 { return e.Number })
}

func find[R any](rows []R, number int64, of func(*R) int64) *R {
	at := sort.Search(len(rows), func(i int) bool { return of(&rows[i]) >= number })
	if at == len(rows) || of(&rows[at]) != number {
		return nil
	}
	return &rows[at]
}

// Number gives new claims and evictions their numbers. Before, an eviction's Claim is the index of its claim.
func (j *Journal) Number(t *Changes) {
	for i := range t.Claims {
		c := &t.Claims[i]
		c.Number = j.LastClaim + int64(i) + 1
		for k, number := range c.Awaits {
			if number < 0 {
				c.Awaits[k] = j.LastEviction - number
			}
		}
		if c.Resv != "" {
			c.Resv = fmt.Sprintf("priod_%d_%d", c.Number, c.At.Unix())
		}
	}
	for i := range t.Evictions {
		e := &t.Evictions[i]
		e.Number, e.Claim = j.LastEviction+int64(i)+1, t.Claims[e.Claim].Number
	}
}

// Update takes over rows that have been saved, and returns what has changed.
func (j *Journal) Update(t *Changes) (events []Event) {
	j.changed()
	for i := range t.Claims {
		c, event := &t.Claims[i], Event{Claim: &t.Claims[i]}
		if old := j.Claim(c.Number); old != nil {
			event.Before = string(old.State)
			*old = *c
		} else {
			j.Claims = append(j.Claims, *c)
			j.LastClaim = max(j.LastClaim, c.Number)
		}
		events = append(events, event)
	}
	for i := range t.Evictions {
		e, event, counted := &t.Evictions[i], Event{Eviction: &t.Evictions[i]}, false
		if old := j.Eviction(e.Number); old != nil {
			event.Before, counted = string(old.State), !old.SignalledAt.IsZero()
			*old = *e
		} else {
			j.Evictions = append(j.Evictions, *e)
			j.LastEviction = max(j.LastEviction, e.Number)
		}
		switch counts := !e.SignalledAt.IsZero(); {
		case counts && !counted:
			j.Times[e.Job]++
		case counted && !counts:
			j.Times[e.Job]--
		}
		event.Of = j.Claim(e.Claim)
		events = append(events, event)
	}
	return events
}

// Forget drops rows that had ended longer ago than Memory at the last multiple of sweepEvery, whenever it was called before, and the
// counts of evictions of jobs without rows that are not in the queue: one that failed may come back. A claim stays as long as one of its
// evictions is open.
func (j *Journal) Forget(now time.Time, present func(cluster.JobID) bool) {
	now = now.Truncate(sweepEvery)
	if now.Equal(j.swept) {
		return
	}
	before := now.Add(-Memory)
	j.swept = now
	j.changed()
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

// ids are those of the jobs, and of the arrays of tasks, whose rows are not done.
func (j *Journal) ids() map[uint32]bool {
	ids := map[uint32]bool{}
	claims, evictions := j.live()
	for _, c := range claims {
		ids[c.Job.ID] = true
	}
	for _, e := range evictions {
		ids[e.Job.ID] = true
	}
	return ids
}

// underWay are the numbers of the evictions of jobs that are leaving.
func (j *Journal) underWay() map[cluster.JobID]int64 {
	numbers := map[cluster.JobID]int64{}
	_, evictions := j.live()
	for _, e := range evictions {
		if e.Leaving() {
			numbers[e.Job] = e.Number
		}
	}
	return numbers
}

// Urgent returns the jobs of rows that change soon, each once: those to look at between two cycles.
func (j *Journal) Urgent() (jobs []plan.Target) {
	claims, evictions := j.live()
	for _, c := range claims {
		if c.Open() || c.Resv != "" {
			jobs = append(jobs, plan.Target{Job: c.Job, RawID: c.RawID})
		}
	}
	for _, e := range evictions {
		if e.Open() && e.State != Restored {
			jobs = append(jobs, plan.Target{Job: e.Job, RawID: e.RawID})
		}
	}
	return unique(jobs)
}

// Pins reports whether a job may still be pinned to the place of one of its claims.
func (j *Journal) Pins(id cluster.JobID) bool {
	if j == nil {
		return false
	}
	claims, _ := j.live()
	for _, c := range claims {
		if c.Job == id && c.Pin != "" {
			return true
		}
	}
	return false
}

// Evicted reports whether the run of a job that began then was signalled.
func (j *Journal) Evicted(id cluster.JobID, start time.Time) bool {
	return slices.ContainsFunc(j.Evictions, func(e Eviction) bool { return e.Job == id && e.Start.Equal(start) && e.Counts() })
}

// CountArrayPlaces counts the tasks of an array that run or have a claim.
func (j *Journal) CountArrayPlaces(array uint32, s *cluster.Snapshot) (n int) {
	running := map[cluster.JobID]bool{}
	for i := range s.Jobs {
		if x := &s.Jobs[i]; x.ID.ID == array && (x.State == cluster.Running || x.State == cluster.Suspended) {
			running[x.ID] = true
		}
	}
	n = len(running)
	claims, _ := j.live()
	for _, c := range claims {
		if c.Open() && c.Job.ID == array && !running[c.Job] {
			n++
		}
	}
	return n
}

func unique(jobs []plan.Target) []plan.Target {
	slices.SortFunc(jobs, func(a, b plan.Target) int { return a.Job.Compare(b.Job) })
	return slices.CompactFunc(jobs, func(a, b plan.Target) bool { return a.Job == b.Job })
}

// MarkHistory tells History which jobs go first among TE and among BE jobs, which
// nodes are reserved meanwhile, and what evictions lost for whom.
func (j *Journal) MarkHistory(h *cluster.History, now time.Time) {
	h.Claiming, h.Returning, h.Reserved = map[cluster.JobID]bool{}, map[cluster.JobID]bool{}, map[string]bool{}
	h.LostFor = j.hoursByOwner(j.recent(now))
	for user := range h.LostFor {
		h.LostFor[user] *= 3600
	}
	claims, evictions := j.live()
	for _, c := range claims {
		if c.Open() {
			h.Claiming[c.Job] = true
		}
		if c.Resv != "" { // it may outlive the claim until it is deleted
			for _, node := range c.Nodes() {
				h.Reserved[node] = true
			}
		}
	}
	for _, e := range evictions {
		switch e.State {
		case Left, Requeued, Restored:
			if c := j.Claim(e.Claim); c == nil || c.Purpose != ForRound { // a job that yielded at the end of a round had more than its due, and does not go first
				h.Returning[e.Job] = true
			}
		}
	}
}
