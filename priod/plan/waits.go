package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
)

// Cause is why a job waits. Each moment of a wait has one.
type Cause string

// The causes of waiting. The last six are of jobs that wait for room.
const (
	NotObserved   Cause = "not-observed"  // priod did not look
	HeldBack      Cause = "held"          // by its user or an administrator
	AfterJob      Cause = "dependency"    // on another job
	BeforeTime    Cause = "begin-time"    // its own, or that of a requeue
	AtLimit       Cause = "limit"         // fair share: a limit of its association, QOS or partition, or priod's budget
	NoLicence     Cause = "licence"       // none is free
	NoNode        Cause = "nodes"         // those that it needs are down, reserved, or do not exist
	BeyondShare   Cause = "share"         // its account's guaranteed share is used, and it may not borrow from others
	ByOther       Cause = "other"         // What is Slurm's reason
	Capacity      Cause = "capacity"      // fewer GPUs are free than it asks for
	Fragmentation Cause = "fragmentation" // enough are free, and no placement has its shape; or free GPUs were wasted so before
	Locality      Cause = "locality"      // it could start, and priod keeps it waiting for a better place: What says for which
	Precedence    Cause = "priority"      // it would fit, but jobs ahead of it get the free GPUs
	Starting      Cause = "starting"      // it fits, and nothing stands before it
)

// Causes are all of them, in the order in which tables show them.
var Causes = []Cause{HeldBack, AfterJob, BeforeTime, AtLimit, NoLicence, NoNode, BeyondShare, ByOther, Capacity, Fragmentation, Locality, Precedence, Starting, NotObserved}

// What a wait for locality is for: a place on few leaf switches, or without slow
// nodes. Where it is for several they stand in parallel, with a comma.
const (
	FewSwitches = "switches"
	SlowNodes   = "slow-nodes"
)

// ForRoom reports whether more room alone would end the wait.
func (c Cause) ForRoom() bool {
	return c == Capacity || c == Fragmentation || c == Locality || c == Precedence || c == Starting
}

// Wait is one time of waiting of a GPU job, from its submission or requeue on. An unsplit
// array is one for all its tasks; a task that starts takes the past of its array along.
type Wait struct {
	Job     cluster.JobID
	Submit  time.Time // it begins
	Until   time.Time // it ended, or was last seen
	Ended   WaitEnd
	Changed bool // since it was last stored

	User, Account, Partition, GPUType string
	GPUs, Tasks                       int    // of each task; tasks
	Pool                              string // where it started: GPUs of its type in the same partitions; "" before, or on several
	PoolGPUs                          int    // that the pool had then
	Spans                             []WaitSpan
}

// Compare orders waits by their jobs, those of one job by when they begin.
func (w *Wait) Compare(with *Wait) int {
	return cmp.Or(w.Job.Compare(with.Job), w.Submit.Compare(with.Submit))
}

// WaitSpan is a part of a wait with one cause. It ends where the next one begins, the
// last one with the wait: so all of them together are the wait, to the second.
type WaitSpan struct {
	From  time.Time
	Cause Cause
	What  string   // the limit's name, Slurm's reason, what of a node is short
	Words string   // as it was when this began: what is short, and with what it would start sooner
	Fits  *FitsNow // the latter as data; nil: nothing is known that would do
}

// SummedUp are the Words of a part that holds all of its time with that cause: see priod/waits.
const SummedUp = "summed up"

// FitsNow is with what a job would have fit when it began to wait for that cause: with any
// one of these.
type FitsNow struct {
	GPUs        int            `json:"gpus,omitempty"` // so many at most
	GPUTypes    []string       `json:"gpu_types,omitempty"`
	Nodes       int            `json:"nodes,omitempty"`
	CPUs        int64          `json:"cpus,omitempty"`         // of each node, at most
	MemMB       int64          `json:"mem_mb,omitempty"`       // so
	Shared      bool           `json:"shared_nodes,omitempty"` // without --exclusive
	AnySwitches bool           `json:"any_switches,omitempty"`
	Before      *cluster.JobID `json:"before,omitempty"` // if it stood before this job
}

// WaitEnd is how a wait ended.
type WaitEnd string

// The ends of a wait.
const (
	StillWaits WaitEnd = ""
	Started    WaitEnd = "started"
	LeftQueue  WaitEnd = "left"  // cancelled, or gone between two polls
	SplitUp    WaitEnd = "split" // an array's record all of whose tasks have their own
)

// Length of the i-th span.
func (w *Wait) Length(i int) time.Duration { return w.end(i).Sub(w.Spans[i].From) }

func (w *Wait) end(i int) time.Time {
	if i+1 < len(w.Spans) {
		return w.Spans[i+1].From
	}
	return w.Until
}

// RoomSince is from when on the job wanted nothing but room, up to the end of the wait.
func (w *Wait) RoomSince() time.Time {
	since := w.Until
	for i := len(w.Spans) - 1; i >= 0 && w.Spans[i].Cause.ForRoom(); i-- {
		since = w.Spans[i].From
	}
	return since
}

// Fragmented is how long the job has waited because free GPUs lacked the shape that it
// asks for, as far as it still does; 0 when it waits for something else now.
func (w *Wait) Fragmented(now time.Time) (sum time.Duration) {
	n := len(w.Spans)
	if w.Ended != StillWaits || n == 0 || w.Spans[n-1].Cause != Fragmentation {
		return 0
	}
	for i := range w.Spans[:n-1] {
		if w.Spans[i].Cause == Fragmentation {
			sum += w.Length(i)
		}
	}
	return sum + max(now.Sub(w.Spans[n-1].From), 0)
}

// For is how long the job has waited for a cause, and for such a What, alone or beside
// others.
func (w *Wait) For(cause Cause, what string) (sum time.Duration) {
	for i := range w.Spans {
		if s := &w.Spans[i]; s.Cause == cause && slices.Contains(strings.Split(s.What, ","), what) {
			sum += w.Length(i)
		}
	}
	return sum
}

// Sum is how long the job has waited for a cause.
func (w *Wait) Sum(cause Cause) (sum time.Duration) {
	for i := range w.Spans {
		if w.Spans[i].Cause == cause {
			sum += w.Length(i)
		}
	}
	return sum
}

// By sums the wait by causes.
func (w *Wait) By() map[Cause]time.Duration {
	by := map[Cause]time.Duration{}
	for i := range w.Spans {
		by[w.Spans[i].Cause] += w.Length(i)
	}
	return by
}
