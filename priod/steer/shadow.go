package steer

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/placement"
)

// shadow is the schedule that Decide makes: the running jobs and, one after the other, the pending ones where they are expected to start.
// What is free now it knows node by node. What will be free it counts in GPUs of a type, so that it costs the same on any number of nodes;
// a gang whose GPUs become free scattered may therefore be planned a little early.
type shadow struct {
	*Snapshot
	free     *placement.Nodes    // what the jobs that start now leave free
	timeline *placement.Timeline // of free GPUs, one node for each type
	nextEnd  []float64           // by type, when the first job ends that runs or is planned to start now
	awaited  placement.Types     // types for which a job already planned waits
	stands   float64             // for how long, s, what was found so far stays the same
}

// soon, in s, is the least time until a running job ends: its GPUs are not free now.
const soon = 1e-3

func newShadow(s *Snapshot) shadow {
	sh := shadow{Snapshot: s, free: s.Nodes.Clone(), stands: math.Inf(1)}
	pools := make([]placement.Node, s.Types+len(s.Unlabelled))
	for t := range pools {
		pools[t] = placement.Node{Type: int32(t), Amount: placement.Amount{GPUs: int32(s.Nodes.FreeGPUs(int32(t)))}}
		sh.nextEnd = append(sh.nextEnd, math.Inf(1))
	}
	sh.timeline = placement.NewTimeline(0, placement.New(placement.Pool, pools))
	type freed struct {
		end  float64
		t    int32
		gpus int32
	}
	var ends []freed
	for _, r := range s.Running {
		for _, share := range r.Shares {
			if s.Nodes.Down(share.Node) {
				continue
			}
			t, end := s.Nodes.Type(share.Node), max(r.End, soon)
			ends = append(ends, freed{end, t, share.GPUs})
			sh.nextEnd[t] = min(sh.nextEnd[t], end)
		}
	}
	slices.SortFunc(ends, func(a, b freed) int { return cmp.Compare(a.end, b.end) }) // then each comes behind all others
	for _, e := range ends {
		sh.timeline.Free(ofPool(e.t, e.gpus), e.end, math.Inf(1))
	}
	unknown, lastEnd := s.unknownUse()
	for t, gpus := range unknown {
		if gpus > 0 && (lastEnd[t] > 0 || !s.Unknown.Has(int32(t))) {
			sh.timeline.Free(ofPool(int32(t), gpus), cmp.Or(lastEnd[t], unknownFor), math.Inf(1))
		}
	}
	return sh
}

// unknownFor, in s, is for how long GPUs are taken to be in use by a unknown job.
const unknownFor = 60

// unknownUse counts, by type, the GPUs in use on nodes that are up that no known job holds, and finds when the last of the known ones
// ends; 0 where there is none. A poll reads nodes after jobs, so a GPU may be in use by a job that has started in between, or by one that
// priod does not count. It is taken to be free when the last of the known jobs on its type ends. Where there is none, it is taken to be
// that of a job that has just started; but never to be free where it was so in the cycle before (Snapshot.Unknown).
func (s *Snapshot) unknownUse() (gpus []int32, lastEnd []float64) {
	count := s.Types + len(s.Unlabelled)
	gpus, lastEnd = make([]int32, count), make([]float64, count)
	for i := range int32(s.Nodes.Len()) {
		if t := s.Nodes.Type(i); !s.Nodes.Down(i) && int(t) < count {
			gpus[t] += s.Nodes.Size(i).GPUs - max(s.Nodes.FreeOn(i).GPUs, 0)
		}
	}
	for _, r := range s.Running {
		for _, share := range r.Shares {
			if !s.Nodes.Down(share.Node) {
				t := s.Nodes.Type(share.Node)
				gpus[t] -= share.GPUs
				lastEnd[t] = max(lastEnd[t], r.End, soon)
			}
		}
	}
	return gpus, lastEnd
}

// heldByNobody are the types on which GPUs are in use and no job is known to hold one.
func (s *Snapshot) heldByNobody() (types placement.Types) {
	gpus, lastEnd := s.unknownUse()
	for t := range gpus {
		if gpus[t] > 0 && lastEnd[t] == 0 {
			types |= 1 << uint(t)
		}
	}
	return types
}

// ofPool is so many GPUs of a type, as the timeline counts them.
func ofPool(t, gpus int32) []placement.Share {
	return []placement.Share{{Node: t, Amount: placement.Amount{GPUs: gpus}}}
}

// gpuType is the GPU type of the nodes' type t, which may be one of Unlabelled.
func (sh *shadow) gpuType(t int32) int32 {
	if int(t) < sh.Types {
		return t
	}
	return sh.Unlabelled[int(t)-sh.Types]
}

// requestOn is what a job asks for on one type. Where no node of the type has enough
// GPUs for a job that fits one node of another type, it may spread.
func (sh *shadow) requestOn(j *Job, t int32) placement.Request {
	r := j.Request
	if r.Types = 1 << uint(t); r.Nodes == 1 && r.GPUs > sh.free.Largest(t) {
		r.Nodes = 0
	}
	return r
}

// inGPUs turns a request on one type into GPUs alone, as the timeline counts them: a job that takes whole nodes takes all of their GPUs.
func (sh *shadow) inGPUs(r placement.Request, t int32) placement.Request {
	r.GPUs, r.Whole, r.Off = sh.free.Takes(r, t), false, 0
	return r
}

// taken is what a job takes of the timeline on a type.
func (sh *shadow) taken(j *Job, t int32) []placement.Share {
	return ofPool(t, sh.inGPUs(sh.requestOn(j, t), t).GPUs)
}

// earliest is when a job could start on a type, after the jobs planned so far.
func (sh *shadow) earliest(j *Job, t int32) (start float64, ok bool) {
	r := sh.requestOn(j, t)
	gpus, run := sh.inGPUs(r, t), j.Run[sh.gpuType(t)]
	start, shares, ok := sh.timeline.Earliest(gpus, 0, run)
	if !ok || start > 0 {
		return start, ok
	}
	if until := sh.timeline.FreeUntil(shares, 0); !math.IsInf(until, 1) {
		sh.standsFor(until - run)
	}
	if _, fits := sh.free.Fit(r, nil); fits {
		return start, ok
	}
	// Enough GPUs are free, but scattered, or without enough CPUs or memory beside them: that changes when the next job ends. Where none does,
	// jobs without GPUs hold the CPUs until an unknown time: that is taken to be one run of this job.
	from := sh.nextEnd[t]
	if math.IsInf(from, 1) {
		from = run
		sh.standsFor(0)
	}
	start, _, ok = sh.timeline.Earliest(gpus, from, run)
	return start, ok && !math.IsInf(start, 1)
}

// startsNow reports whether a job could start on a type at once.
func (sh *shadow) startsNow(j *Job, t int32) bool {
	start, ok := sh.earliest(j, t)
	return ok && start == 0
}

// hasNodes reports whether a job could ever start on a type as the nodes are now.
func (sh *shadow) hasNodes(j *Job, t int32) bool {
	_, ok := sh.earliest(j, t)
	return ok
}

// reserve puts a job into the schedule where its verdict says.
func (sh *shadow) reserve(j *Job, v Verdict) {
	sh.timeline.Reserve(sh.taken(j, v.Type), v.Start, v.End)
	if v.Start == 0 {
		shares, _ := sh.free.Fit(sh.requestOn(j, v.Type), nil)
		sh.free.Take(shares)
		sh.nextEnd[v.Type] = min(sh.nextEnd[v.Type], v.End)
	}
}
