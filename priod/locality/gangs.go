package locality

import (
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Why a job does not wait for switches.
const (
	noConsent  = "no valid tag: it may not be kept waiting for few switches"
	partOfHet  = "it is part of a heterogeneous job"
	hasClaim   = "room is being made for it"
	itsOwn     = "it asks for switches itself"
	edited     = "its switches were changed after priod had written them: they stay as they are"
	unread     = "what it asks of switches could not be read"
	runUnknown = "nobody knows how long it runs: it has no time limit"
	tooShort   = "it runs too briefly to wait for few switches"
)

// gang is a waiting job that may come to lie on several switches.
type gang struct {
	job      *cluster.Job
	decision *plan.Decision
	request  placement.Request
	excluded string // why it waits for no switches; "" when it may
	rule     Job
	accepts  int // switches; 0: any number
	state    *jobState
}

// cell is the cluster with its switches.
type cell struct {
	nodes    *nodemap.Map
	free, up *placement.Nodes // what the jobs before leave; with nothing on it
	kinds    []placement.Types
}

func newCell(s *cluster.Snapshot, switches map[string]string) *cell {
	m := nodemap.New(s)
	x := &cell{nodes: m, free: m.Nodes, up: m.Up()}
	numbers, of := map[string]int32{}, make([]int32, len(m.Names))
	for i, name := range m.Names {
		leaf, known := switches[name]
		if !known {
			leaf = "\x00" + name // it hangs on none: on one of its own
		}
		n, seen := numbers[leaf]
		if !seen {
			n = int32(len(numbers))
			numbers[leaf] = n
			x.kinds = append(x.kinds, 0)
		}
		of[i] = n
		x.kinds[n] |= 1 << uint(m.Nodes.Type(int32(i)))
	}
	x.free.SetLeaves(of)
	x.up.SetLeaves(of)
	return x
}

// request is what a job asks for; ok is false where its constraint is not understood or
// allows no node.
func (x *cell) request(j *cluster.Job) (r placement.Request, ok bool) {
	types, ok := x.nodes.Types(j)
	return x.nodes.Request(j, types), ok && types != 0
}

// switches are the fewest that hold a request, and the most that it can come to lie on.
func (x *cell) switches(r placement.Request) (fewest, most int) {
	shares, fits := x.up.Fit(r, nil)
	if !fits {
		return 0, 0
	}
	for _, kinds := range x.kinds {
		if kinds&r.Types != 0 {
			most++
		}
	}
	nodes := int(r.Nodes)
	if nodes == 0 {
		nodes = int(r.GPUs)
	}
	return x.up.Leaves(shares), min(most, nodes)
}

// take lets the tasks of a record start that would; it tells whether the first does.
func (x *cell) take(j *cluster.Job, r placement.Request) bool {
	for n := range max(j.TaskCount, 1) {
		shares, fits := x.free.Fit(r, nil)
		if !fits {
			return n > 0
		}
		x.free.Take(shares)
	}
	return true
}

// excluded says why a job waits for no switches, whatever the cluster is like.
func (w *work) excluded(j *cluster.Job) string {
	r, written := w.c.History.Requests[j.ID][slurmplug.Switches]
	switch {
	case !w.set.Enabled:
		return "locality is off"
	case j.TagErr != "" || j.TagText == "":
		return noConsent
	case j.HetLeader != 0:
		return partOfHet
	case w.c.History.Claiming[j.ID]:
		return hasClaim
	case j.Switches == "":
		return unread
	case written && r.Theirs(j.Switches):
		return edited
	case !w.ours(j) && j.Switches != slurmplug.NoSwitches:
		return itsOwn
	}
	return ""
}

// ours tells whether a job's switches are what priod wrote.
func (w *work) ours(j *cluster.Job) bool {
	r, known := w.c.History.Requests[j.ID][slurmplug.Switches]
	return known && r.Ours(j.Switches)
}

// expected is how long a job runs, s: by its steps where its speed is known, else by its
// time limit; 0: nobody knows.
func (w *work) expected(j *cluster.Job) float64 {
	if shares := w.c.Plan.Shares; shares != nil && j.Tag.Steps > 0 && shares.Jobs[j.ID] != nil {
		if run := shares.Jobs[j.ID].Run; len(run) > 0 {
			if least := slices.Min(run); !math.IsInf(least, 1) {
				return least
			}
		}
	}
	return max(j.TimeLimit.Seconds(), 0) * w.set.OfLimit
}

// delayed is how many jobs wait beside a job, times the part of the GPUs that it takes: so
// many seconds all of them together wait longer for each that it runs longer.
func (w *work) delayed(x *cell, j *cluster.Job) float64 {
	gpus := 0
	for kind := range x.nodes.Kinds {
		gpus += x.up.FreeGPUs(int32(kind))
	}
	return float64(len(w.c.Plan.Queue)-1) * float64(j.GPUs) / float64(max(gpus, j.GPUs))
}
