// Package forecast says when Slurm will start which waiting job: the daemon plans the queue with it, and what it
// stores is the one time that explain, eta, the queue and the pages show; eta asks it about jobs that are not submitted.
//
// A schedule holds the nodes from now on: running jobs until they end, waiting jobs in Slurm's order where they fit first
// (conservative backfill). Jobs end at their time limits, or as one of many draws of past run times says.
// What Slurm alone knows it does not: limits of a QOS or an association, reservations to come, licences, who submits what
// next, bf_window and bf_resolution.
//
//	schedule.go  jobs in their places
//	starts.go    the queue by time limits
//	expect.go    the queue in many draws of run times
package forecast

import (
	"cmp"
	"math"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
)

// Effort bounds the search for places, in nodes looked at: half a second. Jobs farther behind are counted by the GPU time that they want.
const Effort = 40_000_000

// Soon keeps what has not ended from being free now, s.
const Soon = 1e-3

// Schedule is which jobs hold which nodes until when: the running jobs as long as Lengths say, and those that wait where they fit first.
type Schedule struct {
	Hidden map[string]int // by GPU type, GPUs that are in use and that no job of the snapshot holds

	nodes  *nodemap.Map
	memory bool // it is handed out; else only GPUs and CPUs are
	line   *placement.Timeline
	kinds  []kindLoad

	left         int                                          // of effort
	starts       map[placement.Request]*[lengthsApart]planned // of the last ones: a longer one fits no sooner
	rough        map[placement.Request]float64                // start of any that is planned no more
	requests     cluster.ByRequest[placement.Request]
	reservations int
	lengths      Lengths
}

// New is a schedule of the running jobs of a snapshot, on its nodes. The search for places of those that wait is bounded by an
// effort, in nodes looked at.
func New(now *cluster.Snapshot, nodes *nodemap.Map, memory bool, lengths Lengths, effort int) *Schedule {
	s := &Schedule{
		Hidden: map[string]int{}, nodes: nodes, memory: memory, line: placement.NewTimeline(0, nodes.Nodes), kinds: make([]kindLoad, len(nodes.Kinds)), left: effort,
		starts: map[placement.Request]*[lengthsApart]planned{}, rough: map[placement.Request]float64{}, lengths: lengths,
	}
	for node := range nodes.Names {
		if at := int32(node); !nodes.Nodes.Down(at) {
			s.kinds[nodes.Nodes.Type(at)].gpus += float64(nodes.Nodes.Size(at).GPUs)
		}
	}
	for i := range now.Nodes {
		n := &now.Nodes[i]
		if _, known := nodes.Index[n.Name]; known {
			s.Hidden[n.GPUType] += n.GPUsUsed
		}
	}
	for i := range now.Jobs {
		j := &now.Jobs[i]
		if j.State != cluster.Running && j.State != cluster.Completing {
			continue
		}
		shares := nodes.Shares(j)
		for _, x := range shares {
			s.Hidden[nodes.Kinds[nodes.Nodes.Type(x.Node)].GPUType] -= int(x.GPUs)
		}
		if end := lengths.Remaining(j, now.At); !math.IsInf(end, 1) {
			s.line.Free(shares, max(end, Soon), math.Inf(1))
			s.reserved(shares, end)
		}
	}
	return s
}

// ForRoom reports whether a job with GPUs waits for room alone.
func ForRoom(j *cluster.Job) bool {
	return j.State == cluster.Pending && j.GPUs > 0 && !j.Held() && !j.Dependency && !j.Reserved() && j.WantsRoom()
}

// planned is the last job of a request with about such a length.
type planned struct{ length, start float64 }

// lengthsApart is into how many lengths, each twice the one before it, jobs are distinguished.
const lengthsApart = 40

func lengthOf(seconds float64) int { return min(max(math.Ilogb(seconds)+10, 0), lengthsApart-1) }

// after is a time before which a job does not start: that of an earlier one of its request that is not longer.
func after(all *[lengthsApart]planned, length float64) (at float64, seen bool) {
	for i := range lengthOf(length) + 1 {
		if x := &all[i]; x.length > 0 && x.length <= length {
			at, seen = max(at, x.start), true
		}
	}
	return at, seen
}

// Plan gives a waiting job the first place where it fits, after all that were planned before it. It returns when its first task starts, s
// from now, infinite when it never fits. Where the effort does not suffice, that is estimated from the GPU time that is wanted before it.
func (s *Schedule) Plan(j *cluster.Job) (first float64) {
	asks := j.Asks(s.nodes.Starting(j))
	r := s.requests.Get(&asks, func() placement.Request { return s.request(j) })
	length := max(s.lengths.Run(j), Soon)
	all := s.starts[r]
	if all == nil {
		all = new([lengthsApart]planned)
		s.starts[r] = all
	}
	first = math.Inf(1)
	atOnce, ends := j.TaskCount, []float64(nil)
	if j.AtOnce > 0 { // a task starts when the one ends that is so many before it
		atOnce = max(j.TasksNow(), 1)
	}
	for task := range j.TaskCount {
		last, seen := after(all, length)
		if task >= atOnce {
			if last = max(last, ends[task-atOnce]); math.IsInf(last, 1) {
				break
			}
		}
		cost := s.nodes.Nodes.Len()
		switch { // a gang is looked for at each time at which something ends
		case r.Nodes != 1 && seen:
			cost *= 1 + min(s.reservations, 64)
		case r.Nodes != 1:
			cost *= 1 + min(s.reservations, 2048)
		}
		if s.left < cost {
			first = min(first, s.roughly(r))
			s.crowd(r.Types, float64(r.GPUs)*length*float64(j.TaskCount-task))
			return first
		}
		s.left -= cost
		start, shares, fits := s.line.Earliest(r, last, length)
		if !fits {
			break
		}
		first = min(first, start)
		if atOnce < j.TaskCount {
			ends = append(ends, start+length)
		}
		if x := &all[lengthOf(length)]; task < atOnce && (x.length == 0 || start >= x.start || length < x.length) { // beyond it others may start sooner
			*x = planned{length, start}
		}
		s.line.Reserve(shares, start, start+length)
		s.reserved(shares, length)
	}
	return first
}

// kindLoad is what the nodes of a kind that are up have to do.
type kindLoad struct {
	gpus    float64
	placed  float64 // GPU-seconds of jobs that have a place
	counted float64 // of those that were only counted
}

// reserved takes in a job that has a place.
func (s *Schedule) reserved(shares []placement.Share, seconds float64) {
	s.reservations++
	for _, x := range shares {
		s.kinds[s.nodes.Nodes.Type(x.Node)].placed += float64(x.GPUs) * seconds
	}
}

// crowd counts GPU-seconds of a job that finds no place in time where there is least to do.
func (s *Schedule) crowd(types placement.Types, gpuSeconds float64) {
	if kind, _ := s.least(types); kind >= 0 {
		s.kinds[kind].counted += gpuSeconds
	}
}

// least is the kind of nodes that has worked off first, s from now, all that is to be done there; -1: none may serve.
func (s *Schedule) least(types placement.Types) (kind int, at float64) {
	kind, at = -1, math.Inf(1)
	for i := range s.kinds {
		k := &s.kinds[i]
		if !types.Has(int32(i)) || k.gpus == 0 {
			continue
		}
		if done := (k.placed + k.counted) / k.gpus; kind < 0 || done < at {
			kind, at = i, done
		}
	}
	return kind, at
}

// roughly is when a job of a request starts where those before it were only counted.
func (s *Schedule) roughly(r placement.Request) float64 {
	start, known := s.rough[r]
	if !known {
		var fits bool
		if start, _, fits = s.line.Earliest(r, 0, Soon); !fits {
			start = math.Inf(1)
		}
		s.rough[r] = start
	}
	_, done := s.least(r.Types)
	return max(start, done)
}

// uncounted reports whether some kind that may serve a request has only jobs with a place.
func (s *Schedule) uncounted(r placement.Request) bool {
	for i := range s.kinds {
		if k := &s.kinds[i]; r.Types.Has(int32(i)) && k.gpus > 0 && k.counted == 0 {
			return true
		}
	}
	return false
}

// request is what a waiting job asks for. A constraint that is not understood is left out.
func (s *Schedule) request(j *cluster.Job) placement.Request {
	types, ok := s.nodes.Types(j)
	if !ok {
		plain := *j
		plain.Features = ""
		if strings.Contains(j.GPUType, ",") {
			plain.GPUType = ""
		}
		types, _ = s.nodes.Types(&plain)
	}
	r := s.nodes.Request(j, types)
	r.CPUs = cmp.Or(r.CPUs, 1) // 0 would mean the proportional share
	if !s.memory {
		r.MemMB = 0
	}
	return r
}

// Earliest is when a request first fits for so many seconds; rough when jobs before it were only counted. ok is false when that is never.
func (s *Schedule) Earliest(r placement.Request, length float64) (start float64, rough, ok bool) {
	start, _, ok = s.line.Earliest(r, 0, length)
	if !ok || math.IsInf(start, 1) {
		return start, false, false
	}
	if s.uncounted(r) {
		return start, false, true
	}
	_, done := s.least(r.Types)
	start = max(start, done)
	return start, true, !math.IsInf(start, 1)
}
