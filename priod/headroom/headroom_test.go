package headroom

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
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

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// stay is one of a TE job on 8-GPU nodes, in minutes before now; to 0: it runs.
func stay(gpus int, from, to float64) *cluster.Stay {
	at := func(minutes float64) time.Time { return now.Add(-time.Duration(minutes * float64(time.Minute))) }
	return &cluster.Stay{GPUType: "a100", GPUs: gpus, Class: cluster.TE, Start: at(from), End: at(to), Closed: to > 0}
}

// nodes are so many of 8 GPUs.
func nodes(count int) (all []cluster.Node) {
	for i := range count {
		all = append(all, cluster.Node{Name: "n" + strconv.Itoa(i), Usable: true, Partitions: []string{"gpu"}, State: "IDLE", GPUType: "a100", GPUs: 8, CPUs: 32, MemMB: 1000})
	}
	return all
}

// Half an hour of 8 GPUs within two hours, begun once: idle for 90 minutes, 8 starts.
func TestGain(t *testing.T) {
	d := demandOf([]*cluster.Stay{stay(8, 60, 30)}, "a100", 1, now)
	if got, want := d.gain(0, 8, 5400), 8*5400.0/(8*5400); math.Abs(got-want) > 1e-9 {
		t.Errorf("gain %v, want %v", got, want)
	}
	if got := d.gain(8, 8, 5400); got != 0 {
		t.Errorf("a second node gains %v", got)
	}
	if got := d.gain(4, 8, 5400); math.Abs(got-4*5400.0/(7200*8-4*1800)) > 1e-9 {
		t.Errorf("the GPUs from the fifth on gain %v", got)
	}
	busy := demandOf([]*cluster.Stay{stay(8, 119, 60), stay(8, 200, 119), stay(8, 60, 0)}, "a100", 1, now)
	if got := busy.gain(0, 8, 1); !math.IsInf(got, 1) {
		t.Errorf("a node that was never idle gains %v", got)
	}
}

// What TE jobs did at this time yesterday counts as the last hours do, where it is known.
func TestYesterdayCounts(t *testing.T) {
	yesterday := []*cluster.Stay{stay(8, 1430, 1425), stay(8, 1420, 1410)}
	if d := demandOf(yesterday, "a100", 1, now); d.seconds != 3*3600 || len(d.starts) != 2 {
		t.Errorf("%v s, %d starts", d.seconds, len(d.starts))
	}
	if d := demandOf([]*cluster.Stay{stay(8, 60, 30)}, "a100", 1, now); d.seconds != 2*3600 {
		t.Errorf("a day that is not known counts: %v s", d.seconds)
	}
}

// seen is a memory of TE jobs that ran in the partition gpu.
func seen() *Memory {
	return &Memory{partitions: map[string]map[string]time.Time{"a100": {"gpu": now}}}
}

func choice(s *cluster.Snapshot, stays []*cluster.Stay, cost float64) []string {
	return seen().choose(s, stays, &Settings{Share: 0.5}, cost, func(string) bool { return false })
}

func TestChoose(t *testing.T) {
	stays := []*cluster.Stay{stay(8, 100, 70), stay(8, 60, 30), stay(16, 20, 0)}
	s := &cluster.Snapshot{At: now, Nodes: nodes(6)}
	s.Jobs = []cluster.Job{{State: cluster.Running, GPUs: 8, NodeList: "n0", Start: now, TimeLimit: time.Hour}}
	if got := choice(s, stays, 1e5); !slices.Equal(got, []string{"n1", "n2"}) {
		t.Errorf("kept %v: want two nodes without BE jobs", got)
	}
	if got := choice(s, stays, 1); got != nil {
		t.Errorf("kept %v where evictions cost nothing", got)
	}
	s.Nodes[4].State, s.Nodes[1].Usable, s.Nodes[2].State = "IDLE"+cluster.StateHeadroom, false, "IDLE+RESERVED"
	if got := choice(s, stays, 1e5); !slices.Equal(got, []string{"n4", "n3"}) {
		t.Errorf("kept %v: want first the one that is kept, and no node that is reserved or down", got)
	}
	s.Nodes[4].Usable, s.Nodes[3].State = false, "IDLE+POWERED_DOWN"
	if got := choice(s, stays, 1e5); slices.Contains(got, "n3") {
		t.Errorf("kept %v, of which one is powered down", got)
	}
	s.Nodes[3].State = "IDLE"
	if got := choice(s, stays, 1e5); slices.Contains(got, "n4") {
		t.Errorf("kept %v, of which one is down", got)
	}
	if got := seen().choose(s, stays, &Settings{Share: 0.2}, 1e5, func(n string) bool { return n == "n3" }); !slices.Equal(got, []string{"n5"}) {
		t.Errorf("kept %v: want one of those without a claim, a fifth of all at most", got)
	}
}

// Jobs that want more CPUs for each GPU than the node has fill it with fewer GPUs.
func TestPartsOfNodes(t *testing.T) {
	m := &Memory{}
	s := &cluster.Snapshot{At: now, Nodes: nodes(2), Jobs: []cluster.Job{{State: cluster.Running, GPUType: "a100", GPUs: 2, CPUs: 16, Partition: "gpu"}}}
	isTE := func(*cluster.Job) bool { return true }
	m.note(s, isTE)
	m.measure(s, sizesByType(s.Nodes), isTE)
	if m.factors["a100"] != 2 {
		t.Errorf("factor %v: 16 of 32 CPUs are 4 of 8 GPUs", m.factors["a100"])
	}
	if s.Nodes[1].Partitions = []string{"long"}; !m.serves(&s.Nodes[0], now.Add(23*time.Hour)) || m.serves(&s.Nodes[0], now.Add(25*time.Hour)) || m.serves(&s.Nodes[1], now) {
		t.Error("a node of a partition in which no TE job ran within a day may be kept")
	}
}

// A share below one node is one node, but never the only one of a type.
func TestShareOfFewNodes(t *testing.T) {
	var stays []*cluster.Stay
	for i := range 10 {
		stays = append(stays, stay(8, float64(100-i), float64(99-i)))
	}
	for n, want := range map[int]int{1: 0, 2: 1, 3: 1} {
		s := &cluster.Snapshot{At: now, Nodes: nodes(n)}
		got := seen().choose(s, stays, &Settings{Share: 0.25}, 1e6, func(string) bool { return false })
		if len(got) != want {
			t.Errorf("%d nodes: kept %v, want %d", n, got, want)
		}
	}
}

// Whatever TE jobs did: usable nodes once each, no more than the share, and no fewer where evictions cost more.
func TestChooseWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &cluster.Snapshot{At: now, Nodes: nodes(rapid.IntRange(1, 12).Draw(t, "nodes"))}
		for i := range s.Nodes {
			s.Nodes[i].Usable = rapid.IntRange(0, 3).Draw(t, "usable") > 0
			if rapid.Bool().Draw(t, "kept") {
				s.Nodes[i].State += cluster.StateHeadroom
			}
		}
		var stays []*cluster.Stay
		for range rapid.IntRange(0, 20).Draw(t, "stays") {
			from := rapid.Float64Range(0.1, 2000).Draw(t, "from")
			stays = append(stays, stay(rapid.IntRange(1, 40).Draw(t, "gpus"), from, from*rapid.SampledFrom([]float64{0, 0.2, 0.9}).Draw(t, "to")))
		}
		cost := rapid.Float64Range(0, 1e5).Draw(t, "cost")
		got, more := choice(s, stays, cost), choice(s, stays, 2*cost)
		if len(got) > len(s.Nodes)/2 || len(got) > len(more) {
			t.Fatalf("%d of %d nodes; %d where evictions cost twice as much", len(got), len(s.Nodes), len(more))
		}
		for i, name := range got {
			at := slices.IndexFunc(s.Nodes, func(n cluster.Node) bool { return n.Name == name })
			if !s.Nodes[at].Usable || slices.Contains(got[:i], name) {
				t.Fatalf("kept %v", got)
			}
		}
	})
}

// fakeSlurm remembers what it was asked to keep.
type fakeSlurm struct {
	nodes []string
	fails error
}

func (s *fakeSlurm) KeepNodes(_ context.Context, nodes string, _ time.Duration) error {
	s.nodes = append(s.nodes, nodes)
	return s.fails
}

type costs float64

func (c costs) StartCost(time.Time) float64    { return float64(c) }
func (costs) Claimed(string) (kept, free bool) { return false, false }
func (costs) Beside(m *nodemap.Map) (*placement.Nodes, map[cluster.JobID]bool) {
	return m.Nodes.Clone(), nil
}

// turn is one cycle of a feature: what it writes into jobs, and what it notes.
func turn(t *testing.T, f *Feature, s *cluster.Snapshot, h *cluster.History, classes []cluster.Class, paused string) *plan.Plan {
	t.Helper()
	p := &plan.Plan{}
	for i := range s.Jobs {
		p.Decisions = append(p.Decisions, plan.Decision{Job: s.Jobs[i].ID, Ranked: true, Class: classes[i]})
		p.Queue = append(p.Queue, plan.Queued{Job: i, Decision: i})
	}
	c := &plan.Cycle{Snapshot: s, History: h, Plan: p, Paused: paused}
	if err := errors.Join(f.Plan(t.Context(), c), f.Act(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	return p
}

// kept is a feature that keeps n0 of three nodes, and the cluster at that time.
func kept(t *testing.T) (*Feature, *fakeSlurm, *cluster.Snapshot, *cluster.History) {
	h, slurm := cluster.NewHistory(), &fakeSlurm{}
	h.Observe(&cluster.Snapshot{At: now})
	for i := range 10 {
		x := *stay(8, float64(100-i), float64(99-i))
		x.Job = slurmplug.Plain(uint32(100 + i))
		h.Restore(x)
	}
	f := &Feature{Settings: Settings{Enabled: true, Share: 1, Every: time.Minute}, Memory: seen(), Slurm: slurm, Evictions: costs(1e4)}
	s := &cluster.Snapshot{At: now, Nodes: nodes(3)}
	if turn(t, f, s, h, nil, "paused"); slurm.nodes != nil {
		t.Errorf("paused: %v", slurm.nodes)
	}
	if turn(t, f, s, h, nil, ""); !slices.Equal(slurm.nodes, []string{"n0"}) {
		t.Fatalf("kept %v", slurm.nodes)
	}
	s.Nodes[0].State += cluster.StateHeadroom
	slurm.nodes = nil
	return f, slurm, s, h
}

func waiting(id uint32, gpus int, more cluster.Job) cluster.Job {
	more.ID, more.State, more.GPUs, more.Partition, more.Reason = slurmplug.Plain(id), cluster.Pending, gpus, "gpu", "Resources"
	return more
}

// The reservation is written when the nodes change and when it has to be renewed, and a refusal is noted.
func TestFeature(t *testing.T) {
	f, slurm, s, h := kept(t)
	told := ""
	f.OnChange = func(nodes string) { told = nodes }
	if p := turn(t, f, s, h, nil, ""); slurm.nodes != nil || told != "n0" || len(p.Notes) != 0 {
		t.Errorf("wrote %v, told of %q, notes %v: nothing has changed", slurm.nodes, told, p.Notes)
	}
	slurm.fails = errors.New("Access/permission denied")
	s.At = now.Add(2 * time.Minute)
	if turn(t, f, s, h, nil, ""); !slices.Equal(slurm.nodes, []string{"n0"}) {
		t.Errorf("wrote %v: it ends soon", slurm.nodes)
	}
	if p := turn(t, f, s, h, nil, ""); len(p.Notes) != 1 || p.Notes[0].Kind != plan.HeadroomRefused || !strings.Contains(p.Notes[0].Text, "denied") {
		t.Errorf("notes %v after a refusal", p.Notes)
	}
	slurm.nodes, f.Settings.Enabled = nil, false
	if turn(t, f, s, h, nil, ""); !slices.Equal(slurm.nodes, []string{""}) {
		t.Errorf("wrote %q: no node is kept any more", slurm.nodes)
	}
}

// A kept node is opened for the TE job that fits there and nowhere else, until it has started, and for no other job.
func TestOpens(t *testing.T) {
	full := func(n *cluster.Node) { n.GPUsUsed, n.State = n.GPUs, strings.Replace(n.State, "IDLE", "ALLOCATED", 1) }
	other := waiting(1, 8, cluster.Job{})
	for name, c := range map[string]struct {
		job    cluster.Job
		class  cluster.Class
		change func(*cluster.Snapshot)
		want   []string
	}{
		"nowhere else": {other, cluster.TE, func(s *cluster.Snapshot) { full(&s.Nodes[1]); full(&s.Nodes[2]) }, []string{""}},
		"two nodes":    {waiting(1, 16, cluster.Job{Nodes: 2}), cluster.TE, func(s *cluster.Snapshot) { full(&s.Nodes[1]) }, []string{""}},
		"elsewhere":    {other, cluster.TE, func(*cluster.Snapshot) {}, nil},
		"BE":           {other, cluster.BE, func(s *cluster.Snapshot) { full(&s.Nodes[1]); full(&s.Nodes[2]) }, nil},
		"a part":       {waiting(1, 24, cluster.Job{Nodes: 3}), cluster.TE, func(s *cluster.Snapshot) { full(&s.Nodes[1]) }, []string{""}},
		"all are busy": {other, cluster.TE, func(s *cluster.Snapshot) { full(&s.Nodes[0]); full(&s.Nodes[1]); full(&s.Nodes[2]) }, nil},
		"a dependency": {other, cluster.TE, func(s *cluster.Snapshot) { full(&s.Nodes[1]); full(&s.Nodes[2]); s.Jobs[0].Reason = "Dependency" }, nil},
		"other partitions": {other, cluster.TE, func(s *cluster.Snapshot) {
			full(&s.Nodes[1])
			full(&s.Nodes[2])
			s.Jobs[0].Reason = "BadConstraints"
			s.Jobs[0].Partition += ",other"
		}, []string{""}},
		"drained":     {other, cluster.TE, func(s *cluster.Snapshot) { full(&s.Nodes[1]); full(&s.Nodes[2]); s.Nodes[0].Usable = false }, nil},
		"still waits": {other, cluster.TE, func(s *cluster.Snapshot) { full(&s.Nodes[1]); full(&s.Nodes[2]); s.Nodes[0].State = "IDLE" }, nil},
		"started":     {other, cluster.TE, func(s *cluster.Snapshot) { s.Nodes[0].State = "IDLE"; full(&s.Nodes[0]); s.Jobs = nil }, []string{"n0"}},
		"reserved by Slurm": {other, cluster.TE, func(s *cluster.Snapshot) {
			full(&s.Nodes[1])
			full(&s.Nodes[2])
			s.Jobs[0].Reason = "ReqNodeNotAvail, May be reserved for other job"
		}, []string{""}},
	} {
		f, slurm, s, h := kept(t)
		s.Jobs = []cluster.Job{c.job}
		c.change(s)
		turn(t, f, s, h, []cluster.Class{c.class}, "")
		if !slices.Equal(slurm.nodes, c.want) {
			t.Errorf("%s: wrote %q, want %q", name, slurm.nodes, c.want)
		}
		if admitted := len(s.Jobs) > 0 && s.Jobs[0].Admitted; admitted != (c.class == cluster.TE && len(s.Jobs) > 0 && s.Nodes[0].Headroom()) {
			t.Errorf("%s: admitted %v", name, admitted)
		}
	}
}

// The part that may be kept is of the nodes that TE jobs can use: of a partition beside others of the same GPUs not all
// is kept.
func TestShareOfPartitionsWithTrials(t *testing.T) {
	stays := []*cluster.Stay{stay(8, 100, 70), stay(8, 60, 30), stay(16, 20, 0)}
	s := &cluster.Snapshot{At: now, Nodes: nodes(8)}
	for i := 2; i < 8; i++ {
		s.Nodes[i].Partitions = []string{"owners"}
	}
	if got := choice(s, stays, 1e5); len(got) != 1 {
		t.Errorf("kept %v, want half of the two nodes on which TE jobs ran", got)
	}
}

// claimed are costs where a place on a node is kept for a job.
type claimed struct {
	costs
	node string
	own  bool
}

func (c claimed) Claimed(node string) (kept, own bool) {
	return node == c.node, node == c.node && c.own
}

// A node on which a place is kept stays reserved, however little it saves, until the place has a reservation of its own.
func TestKeptUntilThePlaceIsReserved(t *testing.T) {
	for own, want := range map[bool]string{false: "n0", true: ""} {
		f, slurm, s, h := kept(t)
		f.Evictions = claimed{costs(0), "n0", own}
		s.At = s.At.Add(time.Hour)
		turn(t, f, s, h, nil, "")
		if !slices.Equal(slurm.nodes, []string{want}) {
			t.Errorf("own %v: wrote %q, want %q", own, slurm.nodes, want)
		}
	}
}
