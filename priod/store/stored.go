package store

import (
	"hash/maphash"
	"maps"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/priod/workload/speed"
)

// stored is what the database already holds, in digests, so that a cycle writes
// only what changed.
type stored struct {
	digester digester
	jobs     map[cluster.JobID]*entry
	nodes    map[string]*nodeEntry
	order    jobOrder
	cycle    int64             // last row of cycles
	polls    int64             // cycles that it stands for
	summary  db.AddCycleParams // what that row says but for its number, its times and the span; equal cycles share a row
	row      int64             // last row of jobs
	write    int64             // last row of writes
	poll     uint32            // counts calls of compare
	ended    ended
	waits    map[*plan.Wait]bool // without an end, that have rows
}

// mayReturn is for how long at least what was written into a job is remembered after
// its run ended: one that failed leaves the queue, and can be requeued as long as Slurm
// knows it.
const mayReturn = time.Hour

// ended are the ids of jobs whose run ended since a time, and in the period before.
type ended struct {
	since       time.Time
	now, before map[uint32]bool
}

func (e *ended) add(id uint32, at time.Time) {
	if e.now == nil || at.Sub(e.since).Abs() >= mayReturn {
		*e = ended{since: at, now: map[uint32]bool{}, before: e.now}
	}
	e.now[id] = true
}

// entry is one job of the queue. A digest of 0 says that the row does not exist.
type entry struct {
	id      cluster.JobID
	row     int64 // in jobs; 0: not seen in a snapshot yet
	who     cluster.Identity
	seen    uint64 // row of jobs
	decided uint64 // last row of decisions
	since   int64  // ms, from then on it could run, as its last decision or else its row of jobs tells
	counted string // the class under which it was ranked, as its last decision tells
	known   uint64 // row of history
	shared  uint64 // row of shares
	share   shareKey
	poll    uint32 // last compare that saw it
	due     uint32 // last compare that found its row of jobs out of date
	at      int    // place in the order of that snapshot
	open    *openStay
}

// shareKey is what a share's row is made of, by its places in memory: the allocation
// replaces them when they change.
type shareKey struct {
	answers     *speed.Answers
	speed, time *float64
	given       time.Time
}

// openStay is the stay on GPUs that has not ended, and what its row says.
type openStay struct {
	cluster.Stay
	running bool // seen running by the last poll; else suspended
	saved   bool // there is a row, and it says the same
}

type nodeEntry struct {
	seen uint64
	poll uint32
}

func (h *stored) reset() {
	*h = stored{
		digester: digester{seed: maphash.MakeSeed()},
		jobs:     map[cluster.JobID]*entry{},
		nodes:    map[string]*nodeEntry{},
	}
}

// number is that of the last cycle: a row has the number of the first one that it stands for.
func (h *stored) number() int64 { return h.cycle + max(h.polls, 1) - 1 }

// forgetRows says that the database holds nothing any more.
func (h *stored) forgetRows() {
	for _, e := range h.jobs {
		e.seen, e.decided, e.known, e.shared = 0, 0, 0, 0
		if e.open != nil {
			e.open.saved = false
		}
	}
	clear(h.nodes)
	h.summary = db.AddCycleParams{}
}

// entry returns the entry of an id, a new one if need be.
func (h *stored) entry(id cluster.JobID) *entry {
	e := h.jobs[id]
	if e == nil {
		e = &entry{id: id}
		h.jobs[id] = e
	}
	return e
}

// identity is the job of an id; of a task without a record yet, its array.
func (h *stored) identity(id cluster.JobID) (who cluster.Identity) {
	for _, id := range cluster.Lineage(id) {
		if e := h.jobs[id]; e != nil && e.who.Known() {
			return e.who
		}
	}
	return who
}

// present returns a function that reports whether any record with a job id is in
// the queue, or may come back.
func (h *stored) present() func(id uint32) bool {
	ids := make(map[uint32]bool, len(h.jobs))
	for id := range h.jobs {
		ids[id.ID] = true
	}
	maps.Copy(ids, h.ended.now)
	maps.Copy(ids, h.ended.before)
	return func(id uint32) bool { return ids[id] }
}

// order is the snapshot's order of jobs. The next snapshot nearly repeats it,
// which saves most look-ups in a large map.
type jobOrder struct {
	last, now []*entry
	next      int // in last
}

func (o *jobOrder) begin() {
	o.last, o.now, o.next = o.now, empty(o.last), 0
}

// guess returns the entry that followed the one before in the last snapshot,
// if it has this id.
func (o *jobOrder) guess(id cluster.JobID) *entry {
	if o.next < len(o.last) && o.last[o.next].id == id {
		return o.last[o.next]
	}
	return nil
}

func (o *jobOrder) add(e *entry) {
	o.next = e.at + 1
	e.at = len(o.now)
	o.now = append(o.now, e)
}

// digester reduces what a row holds to 8 bytes, so that a cycle can tell what
// changed without reading the database or keeping a copy of it. The seed is the
// process's own: no job can be crafted whose change goes unseen.
type digester struct{ seed maphash.Seed }

// digest is never 0, which stands for no row.
func digest[T comparable](d *digester, row T) uint64 { return maphash.Comparable(d.seed, row) | 1 }

// job leaves out the id, which the entry has, and the priority, which moves with every poll.
func (d *digester) job(j *cluster.Job) uint64 {
	row := jobParams(j, 0, time.Time{})
	row.ID, row.Task, row.Priority = 0, 0, 0
	return digest(d, row)
}

// jobs are the digests of a snapshot's jobs.
func (d *digester) jobs(s *cluster.Snapshot) []uint64 {
	digests := make([]uint64, len(s.Jobs))
	for i := range s.Jobs {
		digests[i] = d.job(&s.Jobs[i])
	}
	return digests
}

func (d *digester) node(n *cluster.Node) uint64 { return digest(d, nodeParams(n, time.Time{})) }

// decision leaves out Slurm's own priority, which moves with every poll.
func (d *digester) decision(p *plan.Decision, counted string) uint64 {
	row := decisionParams(p, counted, 0, 0, time.Time{})
	row.OwnPriority = 0
	if p.Choices == (plan.Choices{}) {
		return digest(d, row)
	}
	h := choicesHash{}
	h.SetSeed(d.seed)
	maphash.WriteComparable(&h.Hash, row)
	h.add(&p.Choices)
	return h.Sum64() | 1
}

// choicesHash takes in what Choices point to.
type choicesHash struct{ maphash.Hash }

func (h *choicesHash) add(c *plan.Choices) {
	share := c.Share
	if share != nil {
		own := *share
		own.Used, own.From = 0, ""
		share = &own
	}
	writeTo(h, share)
	writeTo(h, c.Budget)
	writeTo(h, c.Part)
	writeTo(h, c.Eviction)
	writeTo(h, c.Switches)
	writeTo(h, c.Refused)
	writeTo(h, c.Window)
	maphash.WriteComparable(&h.Hash, c.GPUType != nil)
	if g := c.GPUType; g != nil {
		own := *g
		own.StartS, own.EndS, own.OtherS = nil, nil, nil
		maphash.WriteComparable(&h.Hash, own)
		writeTo(h, g.StartS)
		writeTo(h, g.EndS)
		writeTo(h, g.OtherS)
	}
}

// writeTo takes in what p points to, if it does.
func writeTo[T comparable](h *choicesHash, p *T) {
	maphash.WriteComparable(&h.Hash, p != nil)
	if p != nil {
		maphash.WriteComparable(&h.Hash, *p)
	}
}

// millis is a time as the database holds it: UTC milliseconds, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// instant is the inverse of millis.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
