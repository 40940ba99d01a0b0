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
	behind int            // tasks that wait before the new job
	delay  []float64      // by kind of nodes, s: of jobs that found no place in time

	left         int               // of effort
	starts       map[class]float64 // of the last one: a second one fits no sooner
	requests     map[place]placement.Request
	reservations int
	lengths      Lengths
}

// newSchedule plans everything that comes before a job of such a class and tier.
func newSchedule(site *Site, nodes *nodemap.Map, tier int, class cluster.Class) *schedule {
	s := newRunning(site, nodes, Limits{})
	for _, j := range site.before(tier, class) {
		s.behind += j.TaskCount
		s.plan(j, site.Memory)
	}
	return s
}

// newRunning plans nothing but the ends of the running jobs.
func newRunning(site *Site, nodes *nodemap.Map, lengths Lengths) *schedule {
	s := &schedule{lengths: lengths, nodes: nodes, line: placement.NewTimeline(0, nodes.Nodes), hidden: map[string]int{}, delay: make([]float64, len(nodes.Kinds)), left: effort, starts: map[class]float64{}, requests: map[place]placement.Request{}}
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
			s.reservations++
		}
	}
	return s
}

// before are the waiting jobs that stand before a new one of such a class and
// tier, in Slurm's order. A new job has no age, so it stands behind all others;
// a TE job only behind other TE jobs where priod ranks.
func (s *Site) before(tier int, class cluster.Class) []*cluster.Job {
	var order []*cluster.Job
	tiers := map[string]int{}
	jobs := s.Snapshot.Jobs
	for i := range jobs {
		j := &jobs[i]
		if !forRoom(j) {
			continue
		}
		own, known := tiers[j.Partition]
		if !known {
			own = s.tier(j.Partition)
			tiers[j.Partition] = own
		}
		te := class == cluster.TE && own == tier && s.Ranking.Class(j.Tag.Type, j.QOS) != cluster.TE
		if own >= tier && !te {
			order = append(order, j)
		}
	}
	slices.SortFunc(order, func(a, b *cluster.Job) int {
		return cmp.Or(cmp.Compare(tiers[b.Partition], tiers[a.Partition]), cmp.Compare(b.Priority, a.Priority), a.ID.Compare(b.ID))
	})
	return order
}

// forRoom tells whether a job with GPUs waits for room alone.
func forRoom(j *cluster.Job) bool {
	return j.State == cluster.Pending && j.GPUs > 0 && !j.Held() && !j.Dependency && !j.Reserved() && j.WantsRoom()
}

// class is what waiting jobs have in common that fit in the same places.
type class struct {
	placement.Request
	length float64 // s; infinite
}

// plan gives a waiting job the first place where it fits, behind all that were planned
// before it. It returns when its first task starts, s from now, infinite when it never fits;
// ok is false where the effort did not suffice for all its tasks.
func (s *schedule) plan(j *cluster.Job, memory bool) (first float64, ok bool) {
	key := place{j.Partition, j.GPUType, j.Features, j.GPUs, j.CPUs, j.Nodes, j.MemMB, j.Node, j.Whole}
	r, known := s.requests[key]
	if !known {
		r = s.request(j, memory)
		s.requests[key] = r
	}
	c := class{r, max(s.lengths.Run(j), soon)}
	first = math.Inf(1)
	for task := range j.TaskCount {
		last, seen := s.starts[c]
		cost := s.nodes.Nodes.Len()
		switch { // a gang is looked for at each time at which something ends
		case r.Nodes != 1 && seen:
			cost *= 1 + min(s.reservations, 64)
		case r.Nodes != 1:
			cost *= 1 + min(s.reservations, 2048)
		}
		if s.left < cost {
			s.crowd(r.Types, float64(r.GPUs)*c.length*float64(j.TaskCount-task))
			return first, false
		}
		s.left -= cost
		start, shares, fits := s.line.Earliest(r, last, c.length)
		if !fits {
			break
		}
		first = min(first, start)
		s.starts[c] = start
		s.line.Reserve(shares, start, start+c.length)
		s.reservations++
	}
	return first, true
}

// place is all that a waiting job's request depends on.
type place struct {
	partition, gpuType, features string
	gpus, cpus, nodes            int
	memMB                        int64
	node                         cluster.Least
	whole                        bool
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

// crowd spreads GPU-seconds over the kinds of nodes that may serve them.
func (s *schedule) crowd(types placement.Types, gpuSeconds float64) {
	gpus := 0
	for kind := range s.nodes.Kinds {
		if types.Has(int32(kind)) {
			gpus += s.gpusOf(kind)
		}
	}
	for kind := range s.nodes.Kinds {
		if types.Has(int32(kind)) && gpus > 0 {
			s.delay[kind] += gpuSeconds / float64(gpus)
		}
	}
}

// gpusOf counts the GPUs of the nodes of a kind that are up.
func (s *schedule) gpusOf(kind int) (n int) {
	for node := range s.nodes.Names {
		if at := int32(node); s.nodes.Nodes.Type(at) == int32(kind) && !s.nodes.Nodes.Down(at) {
			n += int(s.nodes.Nodes.Size(at).GPUs)
		}
	}
	return n
}

// earliest is when a request first fits for so many seconds; rough when jobs
// before it were only counted. ok is false when that is never.
func (s *schedule) earliest(r placement.Request, length float64) (start float64, rough, ok bool) {
	start, _, ok = s.line.Earliest(r, 0, length)
	if !ok || math.IsInf(start, 1) {
		return start, false, false
	}
	least := math.Inf(1)
	for kind, d := range s.delay {
		if r.Types.Has(int32(kind)) {
			least = min(least, d)
		}
	}
	return start + least, least > 0, !math.IsInf(start+least, 1)
}
