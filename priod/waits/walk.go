package waits

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// verdict is why one job waits now.
type verdict struct {
	job    int // in the snapshot
	cause  plan.Cause
	what   string
	before cluster.JobID // Precedence: a job that has the room, if it is one
	group  *group        // nil: Slurm's reason told
}

// walk goes through the queue in Slurm's order. Beside the nodes as they are it looks at
// them as pools, in which GPUs are counted and not placed: a job that would start in the
// pool and has no place on the nodes waits for fragmentation; one for which the pool has
// too few GPUs, for capacity or for the jobs before it; one that locality keeps waiting, for
// that. The first job that finds too few
// gets a reservation, which later ones may not delay (EASY's rule, by time limits).
type walk struct {
	snapshot *cluster.Snapshot
	nodes    *nodemap.Map
	strict   bool                     // Slurm does no backfill: no job passes one that waits
	kept     map[cluster.JobID]string // plan.Cycle.Kept

	groups  cluster.ByRequest[*group]
	kindsOf []placement.Types // of each GPU type
	all     []int             // free GPUs in the pool, by kind
	left    []int             // those that the jobs before leave
	now     *placement.Nodes  // the nodes as they are; a clone, because a search changes what it searches
	free    *placement.Nodes  // what the jobs before leave of the nodes
	mixes   map[placement.Types]*placement.Nodes
	holds   []hold
	blocked []blocked // on the nodes, not in the pool
	ends    []release

	verdicts []verdict
	queue    []place // of the jobs that wait for room
}

// group is the jobs with the same request.
type group struct {
	asks    cluster.Request
	parsed  bool // its constraint is understood
	kinds   placement.Types
	byType  []placement.Types // its kinds, a GPU type each
	request placement.Request
	free    int  // GPUs of that GPU type which has most, whatever is before
	fits    bool // on the nodes, whatever is before
	full    bool // the jobs before left no place on the nodes
	up      func() bool
	what    string // is short, of jobs that wait for fragmentation
	told    map[plan.Cause]told
}

// told is what is short, in words, and with what a job would fit.
type told struct {
	words string
	fits  *plan.FitsNow
}

// hold is the reservation of a job that waits, in the pool.
type hold struct {
	job   cluster.JobID
	kinds placement.Types
	at    float64 // s from now
	extra int     // GPUs that it leaves free then
}

type blocked struct {
	job   cluster.JobID
	kinds placement.Types
}

type release struct {
	at   float64 // s from now
	kind int32
	gpus int
}

func newWalk(s *cluster.Snapshot, nodes *nodemap.Map, strict bool) *walk {
	w := &walk{snapshot: s, nodes: nodes, strict: strict, mixes: map[placement.Types]*placement.Nodes{}}
	w.all = make([]int, len(w.nodes.Kinds))
	w.kindsOf = nodes.ByGPUType()
	for kind := range w.nodes.Kinds {
		w.all[kind] = w.nodes.Nodes.FreeGPUs(int32(kind))
	}
	w.now = w.nodes.Nodes.Clone()
	w.begin()
	return w
}

// begin finds out which pending jobs with GPUs wait for room, and puts these in the order of the
// queue.
func (w *walk) begin() {
	verdicts, queue := make([]verdict, 0, len(w.snapshot.Jobs)), make([]place, 0, len(w.snapshot.Jobs))
	for i := range w.snapshot.Jobs {
		j := &w.snapshot.Jobs[i]
		if j.State != cluster.Pending || j.GPUs == 0 {
			continue
		}
		v := verdict{job: i}
		var told bool
		if v.cause, v.what, told = byReason(j, w.snapshot.At); !told {
			v.group = w.group(j)
			queue = append(queue, place{j.Priority, uint64(j.ID.ID)<<32 | uint64(uint32(j.ID.Task)), len(verdicts)})
		}
		verdicts = append(verdicts, v)
	}
	slices.SortFunc(queue, func(a, b place) int {
		if a.priority != b.priority {
			return cmp.Compare(b.priority, a.priority)
		}
		return cmp.Compare(a.id, b.id)
	})
	w.verdicts, w.queue = verdicts, queue
}

// judgeAll judges each pending job with GPUs, those that wait for room in the order of the queue.
// kept are the jobs that locality keeps waiting, see plan.Cycle.Kept. It may be called again.
func (w *walk) judgeAll(kept map[cluster.JobID]string) {
	w.kept, w.left, w.free, w.holds, w.blocked = kept, slices.Clone(w.all), w.nodes.Nodes.Clone(), nil, nil
	for _, g := range w.groups.All {
		g.full = false
	}
	for _, p := range w.queue {
		v := &w.verdicts[p.verdict]
		*v = verdict{job: v.job, group: v.group}
		w.judge(v)
	}
}

// place is a job's place in Slurm's queue.
type place struct {
	priority int64
	id       uint64
	verdict  int
}

func (w *walk) group(j *cluster.Job) *group {
	r := j.Asks(w.nodes.Starting(j))
	return w.groups.Get(&r, func() *group { return w.newGroup(r, j) })
}

func (w *walk) newGroup(r cluster.Request, j *cluster.Job) *group {
	g := &group{asks: r, told: map[plan.Cause]told{}}
	g.kinds, g.parsed = w.nodes.Types(j)
	for _, kinds := range w.kindsOf {
		if kinds &= g.kinds; kinds != 0 {
			g.byType = append(g.byType, kinds)
			g.free = max(g.free, w.freeOf(kinds))
		}
	}
	g.request = w.nodes.Request(j, g.kinds)
	g.up = sync.OnceValue(func() bool { return w.isUp(g) })
	g.fits = w.place(g.request, g.byType)
	return g
}

// freeOf counts the free GPUs of some kinds, whatever is before.
func (w *walk) freeOf(kinds placement.Types) (sum int) {
	for kind, gpus := range w.all {
		if kinds.Has(int32(kind)) {
			sum += gpus
		}
	}
	return sum
}

// place finds a place on the nodes as they are. A gang of several nodes may lie on nodes
// of several kinds, if their GPU type is the same.
func (w *walk) place(r placement.Request, byType []placement.Types) bool {
	if _, fits := w.now.Fit(r, nil); fits || r.Nodes == 1 {
		return fits
	}
	return slices.ContainsFunc(byType, func(kinds placement.Types) bool {
		if bits.OnesCount64(uint64(kinds)) < 2 {
			return false
		}
		r.Types = 1
		_, fits := w.mixed(kinds).Fit(r, nil)
		return fits
	})
}

// mixed is the nodes of some kinds as if they were of one.
func (w *walk) mixed(kinds placement.Types) *placement.Nodes {
	if nodes := w.mixes[kinds]; nodes != nil {
		return nodes
	}
	all := w.nodes.Nodes
	var sizes []placement.Node
	var used []placement.Share
	for i := range int32(all.Len()) {
		if kinds.Has(all.Type(i)) && !all.Down(i) {
			size, free := all.Size(i), all.FreeOn(i)
			used = append(used, placement.Share{Node: int32(len(sizes)), Amount: placement.Amount{GPUs: size.GPUs - free.GPUs, CPUs: size.CPUs - free.CPUs, MemMB: size.MemMB - free.MemMB}})
			sizes = append(sizes, placement.Node{Amount: size})
		}
	}
	nodes := placement.New(placement.Packed, sizes)
	nodes.Take(used)
	w.mixes[kinds] = nodes
	return nodes
}

// leftOf counts what the jobs before leave in the pool.
func (w *walk) leftOf(kinds placement.Types) (sum int) {
	for kind, gpus := range w.left {
		if kinds.Has(int32(kind)) {
			sum += gpus
		}
	}
	return sum
}

// take gives GPUs of the pool to a job.
func (w *walk) take(kinds placement.Types, gpus int) {
	for kind := range w.left {
		if kinds.Has(int32(kind)) {
			n := min(gpus, max(w.left[kind], 0))
			w.left[kind] -= n
			gpus -= n
		}
	}
}

// judge says why a job waits that waits for room, and lets it take what it would get.
func (w *walk) judge(v *verdict) {
	j, g := &w.snapshot.Jobs[v.job], v.group
	switch {
	case g.parsed && g.kinds == 0:
		v.cause = plan.NoNode
		return
	case slurmplug.SaysDown(j.Reason) && !g.up():
		v.cause, v.what, v.group = plan.NoNode, word(j.Reason), nil
		return
	case w.kept[j.ID] != "":
		v.cause, v.what = plan.Locality, w.kept[j.ID]
		w.blocked = append(w.blocked, blocked{j.ID, g.kinds})
		w.takeAll(j, w.room(g, j.GPUs))
		return
	case g.free < j.GPUs:
		v.cause = plan.Capacity
		w.hold(j, g)
		return
	}
	kinds := w.room(g, j.GPUs)
	if kinds == 0 {
		v.cause, v.before = plan.Precedence, w.inFront(g.kinds)
		w.hold(j, g)
		return
	}
	if h := w.delays(j, kinds); h != nil {
		v.cause, v.before = plan.Precedence, h.job
		return
	}
	v.cause = w.onNodes(j, g, v)
	w.takeAll(j, kinds)
}

// isUp reports whether the nodes in service of some GPU type have as many GPUs as a job asks for, taken or not.
func (w *walk) isUp(g *group) bool {
	return slices.ContainsFunc(g.byType, func(kinds placement.Types) bool {
		up := 0
		for i := range int32(w.nodes.Nodes.Len()) {
			if kinds.Has(w.nodes.Nodes.Type(i)) && !w.nodes.Nodes.Down(i) {
				up += int(w.nodes.Nodes.Size(i).GPUs)
			}
		}
		return up >= g.asks.GPUs
	})
}

// takeAll gives GPUs of the pool to the tasks of a record, as far as there are.
func (w *walk) takeAll(j *cluster.Job, kinds placement.Types) {
	for n := 0; n < j.TasksNow() || n == 0; n++ {
		if w.leftOf(kinds) < j.GPUs {
			break
		}
		w.take(kinds, j.GPUs)
	}
}

// room is the first GPU type on which the jobs before leave enough GPUs in the pool.
func (w *walk) room(g *group, gpus int) placement.Types {
	for _, kinds := range g.byType {
		if w.leftOf(kinds) >= gpus {
			return kinds
		}
	}
	return 0
}

// onNodes is the cause of a job that would start in the pool.
func (w *walk) onNodes(j *cluster.Job, g *group, v *verdict) plan.Cause {
	switch {
	case !g.fits || topology(j.Reason):
		w.blocked = append(w.blocked, blocked{j.ID, g.kinds})
		return plan.Fragmentation
	case g.full:
		return plan.Precedence
	}
	if i := slices.IndexFunc(w.blocked, func(b blocked) bool { return b.kinds&g.kinds != 0 }); i >= 0 {
		v.before = w.blocked[i].job
		return plan.Precedence
	}
	for n := 0; n < j.TasksNow() || n == 0; n++ {
		shares, fits := w.free.Fit(g.request, nil)
		if !fits {
			g.full = true
			if n == 0 {
				return plan.Precedence
			}
			break
		}
		w.free.Take(shares)
	}
	return plan.Starting
}

// inFront is a job that has a reservation on some of the kinds, if there is one.
func (w *walk) inFront(kinds placement.Types) cluster.JobID {
	for i := range w.holds {
		if w.holds[i].kinds&kinds != 0 {
			return w.holds[i].job
		}
	}
	return cluster.JobID{}
}

// delays is the reservation that a job would delay if it started now; nil: none. What it
// then takes of GPUs that a reservation leaves free is gone.
func (w *walk) delays(j *cluster.Job, kinds placement.Types) *hold {
	var spends []*hold
	for i := range w.holds {
		h := &w.holds[i]
		inTime := j.TimeLimit >= 0 && j.TimeLimit.Seconds() <= h.at
		switch {
		case h.kinds&kinds == 0 || inTime && !w.strict:
		case w.strict || j.GPUs > h.extra:
			return h
		default:
			spends = append(spends, h)
		}
	}
	for _, h := range spends {
		h.extra -= j.GPUs
	}
	return nil
}

// hold reserves GPUs of the pool for a job, unless one before it has such a reservation.
func (w *walk) hold(j *cluster.Job, g *group) {
	if slices.ContainsFunc(w.holds, func(h hold) bool { return h.kinds&g.kinds != 0 }) {
		return
	}
	best := hold{job: j.ID, kinds: g.kinds, at: math.Inf(1)}
	for _, kinds := range g.byType {
		if at, extra := w.shadow(kinds, j.GPUs); at < best.at {
			best.at, best.extra = at, extra
		}
	}
	w.holds = append(w.holds, best)
}

// shadow is when the pool has so many GPUs, by time limits, and what is free beyond them.
func (w *walk) shadow(kinds placement.Types, gpus int) (at float64, extra int) {
	free := w.leftOf(kinds)
	if w.ends == nil {
		w.releases()
	}
	for _, r := range w.ends {
		if free >= gpus && r.at > at {
			break
		}
		if kinds.Has(r.kind) {
			free, at = free+r.gpus, r.at
		}
	}
	if free < gpus {
		return math.Inf(1), 0
	}
	return at, free - gpus
}

// releases lists when the running jobs free GPUs, by their limits.
func (w *walk) releases() {
	w.ends = []release{}
	for i := range w.snapshot.Jobs {
		j := &w.snapshot.Jobs[i]
		if j.GPUs == 0 || j.State != cluster.Running && j.State != cluster.Completing {
			continue
		}
		for _, share := range w.nodes.Shares(j) {
			if !w.nodes.Nodes.Down(share.Node) {
				w.ends = append(w.ends, release{j.Remaining(w.snapshot.At), w.nodes.Nodes.Type(share.Node), int(share.GPUs)})
			}
		}
	}
	slices.SortFunc(w.ends, func(a, b release) int { return cmp.Compare(a.at, b.at) })
}
