package advise

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Site is the cluster as the asking user sees it.
type Site struct {
	Snapshot   *cluster.Snapshot
	Partitions []slurmplug.Partition
	Memory     bool // it is handed out; else only GPUs and CPUs are
	Defaults   Defaults
	Ranking    *plan.Classes // nil: no priod ranks this site's jobs
}

// Defaults are what a job gets that does not ask for memory, MB; the first that
// is set, of a whole node when none is.
type Defaults struct{ PerCPU, PerNode int64 }

// partition finds a partition by name; nil when there is none.
func (s *Site) partition(name string) *slurmplug.Partition {
	i := slices.IndexFunc(s.Partitions, func(p slurmplug.Partition) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Partitions[i]
}

// tier is that of a job's partition, the highest of several: Slurm looks at
// higher tiers first.
func (s *Site) tier(list string) int {
	highest := 0
	for name := range strings.SplitSeq(list, ",") {
		if p := s.partition(name); p != nil {
			highest = max(highest, p.PriorityTier)
		}
	}
	return highest
}

// effort bounds the search for places, in nodes looked at: half a second. Jobs
// farther behind are counted by the GPU time that they want.
const effort = 40_000_000

// soon keeps what has not ended from being free now, s.
const soon = 1e-3

// schedule is which jobs hold which nodes until when: the running jobs until their
// time limits, and those that wait before a new one where they fit first.
type schedule struct {
	nodes  *nodemap.Map
	line   *placement.Timeline
	hidden map[string]int // by GPU type, GPUs held by jobs hidden from the user
	kinds  []kindLoad

	left         int                                          // of effort
	starts       map[placement.Request]*[lengthsApart]planned // of the last ones: a longer one fits no sooner
	rough        map[placement.Request]float64                // start of any that is planned no more
	requests     cluster.ByRequest[placement.Request]
	reservations int
	lengths      Lengths
}

// newSchedule plans the jobs ahead of a new one.
func newSchedule(site *Site, nodes *nodemap.Map, ahead []*cluster.Job, lengths Lengths, effort int) *schedule {
	s := newRunning(site, nodes, lengths)
	s.left = effort
	for _, j := range ahead {
		s.plan(j, site.Memory)
	}
	return s
}

// newRunning plans nothing but the ends of the running jobs.
func newRunning(site *Site, nodes *nodemap.Map, lengths Lengths) *schedule {
	s := &schedule{lengths: lengths, nodes: nodes, line: placement.NewTimeline(0, nodes.Nodes), hidden: map[string]int{}, kinds: make([]kindLoad, len(nodes.Kinds)), left: effort, starts: map[placement.Request]*[lengthsApart]planned{}, rough: map[placement.Request]float64{}}
	for node := range nodes.Names {
		if at := int32(node); !nodes.Nodes.Down(at) {
			s.kinds[nodes.Nodes.Type(at)].gpus += float64(nodes.Nodes.Size(at).GPUs)
		}
	}
	now := site.Snapshot.At
	for i := range site.Snapshot.Nodes {
		n := &site.Snapshot.Nodes[i]
		if _, known := nodes.Index[n.Name]; known {
			s.hidden[n.GPUType] += n.GPUsUsed
		}
	}
	for i := range site.Snapshot.Jobs {
		j := &site.Snapshot.Jobs[i]
		if j.State != cluster.Running && j.State != cluster.Completing {
			continue
		}
		shares := nodes.Shares(j)
		for _, x := range shares {
			s.hidden[nodes.Kinds[nodes.Nodes.Type(x.Node)].GPUType] -= int(x.GPUs)
		}
		if end := lengths.Remaining(j, now); !math.IsInf(end, 1) {
			s.line.Free(shares, max(end, soon), math.Inf(1))
			s.reserved(shares, end)
		}
	}
	return s
}

// before are the waiting jobs that stand before a new one of such a class and
// tier, in Slurm's order. A new job has no age, so it is last;
// a TE job only behind other TE jobs where priod ranks. One that waits already stands
// where it is.
func (s *Site) before(tier int, class cluster.Class, waits cluster.JobID) []*cluster.Job {
	var order []*cluster.Job
	tiers := map[string]int{}
	jobs := s.Snapshot.Jobs
	for i := range jobs {
		j := &jobs[i]
		if !ForRoom(j) {
			continue
		}
		own, known := tiers[j.Partition]
		if !known {
			own = s.tier(j.Partition)
			tiers[j.Partition] = own
		}
		te := class == cluster.TE && own == tier && s.Ranking.Class(j.Tag.Type, j.QOS) != cluster.TE
		if waits != (cluster.JobID{}) || own >= tier && !te {
			order = append(order, j)
		}
	}
	slices.SortFunc(order, func(a, b *cluster.Job) int {
		return cmp.Or(cmp.Compare(tiers[b.Partition], tiers[a.Partition]), cmp.Compare(b.Priority, a.Priority), a.ID.Compare(b.ID))
	})
	if at := slices.IndexFunc(order, func(j *cluster.Job) bool { return j.ID == waits }); at >= 0 {
		order = order[:at]
	}
	return order
}

// Queue are the jobs that wait for room, in Slurm's order.
func Queue(site *Site) []*cluster.Job { return site.before(0, cluster.BE, cluster.JobID{}) }

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

// plan gives a waiting job the first place where it fits, after all that were planned
// before it. It returns when its first task starts, s from now, infinite when it never fits.
// Where the effort does not suffice, that is estimated from the GPU time that is wanted before it.
func (s *schedule) plan(j *cluster.Job, memory bool) (first float64) {
	asks := j.Asks(s.nodes.Starting(j))
	r := s.requests.Get(&asks, func() placement.Request { return s.request(j, memory) })
	length := max(s.lengths.Run(j), soon)
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
func (s *schedule) reserved(shares []placement.Share, seconds float64) {
	s.reservations++
	for _, x := range shares {
		s.kinds[s.nodes.Nodes.Type(x.Node)].placed += float64(x.GPUs) * seconds
	}
}

// crowd counts GPU-seconds of a job that finds no place in time where there is least to do.
func (s *schedule) crowd(types placement.Types, gpuSeconds float64) {
	if kind, _ := s.least(types); kind >= 0 {
		s.kinds[kind].counted += gpuSeconds
	}
}

// least is the kind of nodes that has worked off first, s from now, all that is to be done there; -1: none may serve.
func (s *schedule) least(types placement.Types) (kind int, at float64) {
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
func (s *schedule) roughly(r placement.Request) float64 {
	start, known := s.rough[r]
	if !known {
		var fits bool
		if start, _, fits = s.line.Earliest(r, 0, soon); !fits {
			start = math.Inf(1)
		}
		s.rough[r] = start
	}
	_, done := s.least(r.Types)
	return max(start, done)
}

// uncounted reports whether some kind that may serve a request has only jobs with a place.
func (s *schedule) uncounted(r placement.Request) bool {
	for i := range s.kinds {
		if k := &s.kinds[i]; r.Types.Has(int32(i)) && k.gpus > 0 && k.counted == 0 {
			return true
		}
	}
	return false
}

// request is what a waiting job asks for. A constraint that is not understood is
// left out.
func (s *schedule) request(j *cluster.Job, memory bool) placement.Request {
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
	if !memory {
		r.MemMB = 0
	}
	return r
}

// earliest is when a request first fits for so many seconds; rough when jobs
// before it were only counted. ok is false when that is never.
func (s *schedule) earliest(r placement.Request, length float64) (start float64, rough, ok bool) {
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
