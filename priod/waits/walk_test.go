package waits

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

var noon = time.Unix(1_700_000_000, 0).UTC()

// someCluster is a small cluster with what runs on it and waits for it.
func someCluster(t *rapid.T) *cluster.Snapshot {
	s := &cluster.Snapshot{At: noon}
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	id := uint32(0)
	for n := range number("nodes", 1, 6) {
		node := cluster.Node{Name: fmt.Sprintf("n%d", n), Usable: number("up", 0, 9) > 0, GPUType: pick("type", "a", "b"), GPUs: 4, CPUs: 16, MemMB: 64, Partitions: []string{"p"}}
		if number("feature", 0, 2) == 0 {
			node.Features = []string{"x"}
		}
		if number("second", 0, 2) == 0 {
			node.Partitions = []string{"p", "q"}
		}
		for node.GPUsUsed < 4 && number("run", 0, 3) > 0 {
			id++
			j := cluster.Job{ID: slurmplug.Plain(id), State: cluster.Running, GPUs: number("gpus", 1, 4-node.GPUsUsed), NodeList: node.Name, TaskCount: 1,
				CPUs: 1, Start: noon, TimeLimit: time.Duration(number("limit", -1, 9)) * time.Second}
			node.GPUsUsed, node.CPUsUsed = node.GPUsUsed+j.GPUs, node.CPUsUsed+number("cpus", 0, 3)
			s.Jobs = append(s.Jobs, j)
		}
		s.Nodes = append(s.Nodes, node)
	}
	for range number("waiting", 1, 12) {
		id++
		j := cluster.Job{ID: slurmplug.Plain(id), State: cluster.Pending, Partition: pick("partition", "p", "q", "none"), Reason: pick("reason", "Priority", "Resources", "QOSMaxGRESPerUser", "None"),
			Priority: int64(number("priority", 1, 4)), GPUs: number("gpus", 1, 10), Nodes: number("nodes", 0, 3), CPUs: number("cpus", 0, 20), MemMB: int64(number("mem", 0, 70)),
			GPUType: pick("type", "", "a", "b"), Features: pick("features", "", "", "x"), TaskCount: number("tasks", 1, 2), TimeLimit: time.Duration(number("limit", -1, 9)) * time.Second,
			Whole: number("whole", 0, 5) == 0}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// checkFits looks whether a job has a place with each change that is told, and whether the
// words tell the same.
func checkFits(t *rapid.T, w *walk, v *verdict, words string, fits *plan.FitsNow) {
	j, g := &w.snapshot.Jobs[v.job], v.group
	try := func(told any, change func(*placement.Request)) {
		r := g.request
		change(&r)
		if !w.place(r, g.byType) || !strings.Contains(words, fmt.Sprint(told)) {
			t.Fatalf("job %s: it does not fit with %+v, or the words do not say so: %s", j.ID, *fits, words)
		}
	}
	if n := fits.Nodes; n > 0 {
		try(n, func(r *placement.Request) { r.Nodes = int32(n) })
	}
	if n := fits.MemMB; n > 1 {
		try(n, func(r *placement.Request) { r.MemMB = n })
	}
	if n := fits.CPUs; n > 1 {
		try(n, func(r *placement.Request) { r.CPUs = int32(n) })
	}
	if fits.Shared {
		try("--exclusive", func(r *placement.Request) { r.Whole = false })
	}
	if n := int32(fits.GPUs); n > 0 {
		try(n, func(r *placement.Request) {
			r.CPUs, r.MemMB = int32(int64(r.CPUs)*int64(n)/int64(r.GPUs)), r.MemMB*int64(n)/int64(r.GPUs)
			r.GPUs, r.Nodes = n, min(r.Nodes, n)
		})
	}
	for _, name := range fits.GPUTypes {
		other := *j
		other.GPUType, other.Features = name, ""
		kinds, _ := w.nodes.Types(&other)
		if !w.place(w.nodes.Request(&other, kinds), []placement.Types{kinds}) || !strings.Contains(words, name) {
			t.Fatalf("job %s does not fit on %s: %s", j.ID, name, words)
		}
	}
	if b := fits.Before; b != nil && (*b != v.before || !strings.Contains(words, b.String())) {
		t.Fatalf("job %s: %s stands before it, not %s", j.ID, v.before, b)
	}
	if fits.GPUs == 0 && fits.GPUTypes == nil && fits.Nodes == 0 && fits.CPUs == 0 && fits.MemMB == 0 && !fits.Shared && !fits.AnySwitches && fits.Before == nil {
		t.Fatalf("job %s: nothing is told", j.ID)
	}
}

// naive is the definition, for one job after the other, with nothing kept but who took
// what: how many GPUs of each kind in the pool, which places on the nodes.
type naive struct {
	s       *cluster.Snapshot
	m       *nodemap.Map
	strict  bool
	taken   map[int32]int
	placed  []placement.Share
	holds   []hold
	blocked []placement.Types
}

func (n *naive) free(kinds placement.Types, taken bool) (sum int) {
	for i := range int32(n.m.Nodes.Len()) {
		if kinds.Has(n.m.Nodes.Type(i)) && !n.m.Nodes.Down(i) {
			sum += int(n.m.Nodes.FreeOn(i).GPUs)
		}
	}
	for kind, gpus := range n.taken {
		if taken && kinds.Has(kind) {
			sum -= gpus
		}
	}
	return sum
}

// gpuTypes are the kinds that a job may have, a GPU type each, in the nodes' order.
func (n *naive) gpuTypes(kinds placement.Types) (all []placement.Types) {
	var names []string
	for _, node := range n.m.Kinds {
		if !slices.Contains(names, node.GPUType) {
			names = append(names, node.GPUType)
		}
	}
	for _, name := range names {
		of := placement.Types(0)
		for kind, node := range n.m.Kinds {
			if node.GPUType == name && kinds.Has(int32(kind)) {
				of |= 1 << uint(kind)
			}
		}
		if of != 0 {
			all = append(all, of)
		}
	}
	return all
}

func (n *naive) fits(j *cluster.Job, kinds placement.Types) bool {
	r := n.m.Request(j, kinds)
	if _, fits := n.m.Nodes.Fit(r, nil); fits || r.Nodes == 1 {
		return fits
	}
	w := &walk{nodes: n.m, now: n.m.Nodes, mixes: map[placement.Types]*placement.Nodes{}}
	return w.place(r, n.gpuTypes(kinds))
}

func (n *naive) cause(j *cluster.Job) plan.Cause {
	if j.Reason == "QOSMaxGRESPerUser" {
		return plan.AtLimit
	}
	kinds, _ := n.m.Types(j)
	types := n.gpuTypes(kinds)
	reserve := func() {
		for _, h := range n.holds {
			if h.kinds&kinds != 0 {
				return
			}
		}
		h := hold{kinds: kinds, at: math.Inf(1)}
		for _, of := range types {
			for second := range 10 {
				free := n.free(of, true)
				for i := range n.s.Jobs {
					if r := &n.s.Jobs[i]; r.State == cluster.Running && r.Remaining(noon) <= float64(second) {
						for _, share := range n.m.Shares(r) {
							if of.Has(n.m.Nodes.Type(share.Node)) && !n.m.Nodes.Down(share.Node) {
								free += int(share.GPUs)
							}
						}
					}
				}
				if free >= j.GPUs {
					if float64(second) < h.at {
						h.at, h.extra = float64(second), free-j.GPUs
					}
					break
				}
			}
		}
		n.holds = append(n.holds, h)
	}
	if kinds == 0 {
		return plan.NoNode
	}
	if !slices.ContainsFunc(types, func(of placement.Types) bool { return n.free(of, false) >= j.GPUs }) {
		reserve()
		return plan.Capacity
	}
	i := slices.IndexFunc(types, func(of placement.Types) bool { return n.free(of, true) >= j.GPUs })
	if i < 0 {
		reserve()
		return plan.Precedence
	}
	of := types[i]
	late := func(h *hold) bool { return h.kinds&of != 0 && (j.TimeLimit < 0 || j.TimeLimit.Seconds() > h.at) }
	for i := range n.holds {
		if h := &n.holds[i]; n.strict && h.kinds&of != 0 || late(h) && j.GPUs > h.extra {
			return plan.Precedence
		}
	}
	for i := range n.holds {
		if late(&n.holds[i]) {
			n.holds[i].extra -= j.GPUs
		}
	}
	defer func() {
		for range j.TaskCount {
			if n.free(of, true) < j.GPUs {
				return
			}
			left := j.GPUs
			for kind := range int32(len(n.m.Kinds)) {
				if of.Has(kind) {
					some := min(left, n.free(1<<uint(kind), true))
					n.taken[kind] += some
					left -= some
				}
			}
		}
	}()
	if !n.fits(j, kinds) {
		n.blocked = append(n.blocked, kinds)
		return plan.Fragmentation
	}
	if slices.ContainsFunc(n.blocked, func(b placement.Types) bool { return b&kinds != 0 }) {
		return plan.Precedence
	}
	cause := plan.Precedence
	for range j.TaskCount {
		nodes := n.m.Nodes.Clone()
		nodes.Take(n.placed)
		shares, fits := nodes.Fit(n.m.Request(j, kinds), nil)
		if !fits {
			break
		}
		cause, n.placed = plan.Starting, append(n.placed, slices.Clone(shares)...)
	}
	return cause
}

// Each job has one cause, the one of the definition, whatever is kept for jobs that ask
// alike.
func TestWalkIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := someCluster(t)
		strict := rapid.Bool().Draw(t, "strict")
		n := &naive{s: s, m: nodemap.New(s), strict: strict, taken: map[int32]int{}}
		var order []*cluster.Job
		for i := range s.Jobs {
			if s.Jobs[i].State == cluster.Pending {
				order = append(order, &s.Jobs[i])
			}
		}
		slices.SortStableFunc(order, func(a, b *cluster.Job) int { return cmp.Compare(b.Priority, a.Priority) })
		want := map[cluster.JobID]plan.Cause{}
		for _, j := range order {
			want[j.ID] = n.cause(j)
		}
		w := newWalk(s, nodemap.New(s), strict)
		if len(order) > 0 && rapid.Bool().Draw(t, "twice") {
			w.judgeAll(map[cluster.JobID]string{order[0].ID: "switches"})
		}
		w.judgeAll(nil)
		verdicts := w.verdicts
		if len(verdicts) != len(order) {
			t.Fatalf("%d verdicts on %d jobs", len(verdicts), len(order))
		}
		for i := range verdicts {
			v := &verdicts[i]
			j := &s.Jobs[v.job]
			if v.cause != want[j.ID] {
				t.Fatalf("job %s: %s, want %s", j.ID, v.cause, want[j.ID])
			}
			if !slices.Contains(plan.Causes, v.cause) {
				t.Fatalf("job %s: no such cause as %q", j.ID, v.cause)
			}
			_, words, fits := w.explain(v)
			if fits != nil {
				checkFits(t, w, v, words, fits)
			}
		}
	})
}

// A job that locality keeps waiting waits for that, and those behind it for it; what Slurm's
// reason alone tells comes first.
func TestKeptWaiting(t *testing.T) {
	node := func(name string) cluster.Node {
		return cluster.Node{Name: name, Usable: true, GPUType: "a", GPUs: 4, CPUs: 16, MemMB: 64, Partitions: []string{"p"}}
	}
	job := func(id uint32, reason string, nodes int) cluster.Job {
		return cluster.Job{ID: slurmplug.Plain(id), State: cluster.Pending, Partition: "p", Reason: reason, Priority: int64(10 - id), GPUs: 4 * nodes, Nodes: nodes, TaskCount: 1, TimeLimit: time.Hour}
	}
	s := &cluster.Snapshot{At: noon, Nodes: []cluster.Node{node("n0"), node("n1")}, Jobs: []cluster.Job{job(1, "Resources", 2), job(2, "Priority", 1), job(3, "QOSMaxGRESPerUser", 1)}}
	for name, c := range map[string]struct {
		kept map[cluster.JobID]string
		want []plan.Cause
		says string
	}{
		"nobody":         {nil, []plan.Cause{plan.Starting, plan.Precedence, plan.AtLimit}, ""},
		"for switches":   {map[cluster.JobID]string{slurmplug.Plain(1): "switches"}, []plan.Cause{plan.Locality, plan.Precedence, plan.AtLimit}, "it could start now on more switches than it accepts so far"},
		"for both":       {map[cluster.JobID]string{slurmplug.Plain(1): "switches,slow-nodes"}, []plan.Cause{plan.Locality, plan.Precedence, plan.AtLimit}, "it could start now on more switches than it accepts so far or on slow nodes, which it avoids so far"},
		"one at a limit": {map[cluster.JobID]string{slurmplug.Plain(3): "slow-nodes"}, []plan.Cause{plan.Starting, plan.Precedence, plan.AtLimit}, ""},
	} {
		w := newWalk(s, nodemap.New(s), false)
		w.judgeAll(nil)
		w.judgeAll(c.kept)
		verdicts := w.verdicts
		var got []plan.Cause
		for i := range verdicts {
			got = append(got, verdicts[i].cause)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if what, words, _ := w.explain(&verdicts[0]); c.says != "" && (words != c.says || what != c.kept[slurmplug.Plain(1)]) {
			t.Errorf("%s: %q, %q", name, what, words)
		}
	}
}
