package size

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/size/giveback"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// attic is a node of 4 GPUs with 10000 MB each, on which job 1 holds 35000 MB, and job 2
// waits for one of its GPUs.
func attic() (*cluster.Snapshot, *cluster.History, *GiveBack) {
	s := &cluster.Snapshot{At: start, Nodes: []cluster.Node{{
		Name: "n1", Usable: true, GPUType: "t4", GPUs: 4, GPUsUsed: 1, CPUs: 16, CPUsUsed: 2, MemMB: 40000, MemUsedMB: 35000, Partitions: []string{"gpu"},
	}}}
	s.Jobs = []cluster.Job{
		{
			ID: slurmplug.Plain(1), User: "ann", Partition: "gpu", State: cluster.Running, Start: start.Add(-time.Hour), Nodes: 1, NodeList: "n1",
			GPUs: 1, GPUType: "t4", CPUs: 2, MemMB: 35000, AskedMB: 35000, Tag: jobtag.Tag{GiveBack: true},
		},
		{ID: slurmplug.Plain(2), Partition: "gpu", State: cluster.Pending, Priority: 5, Reason: "Resources", Nodes: 1, GPUs: 1, CPUs: 2, MemMB: 10000},
	}
	g := &GiveBack{}
	g.Set(GiveBackSettings{Enabled: true, After: 15 * time.Minute, Ranking: plan.Classes{Partitions: []string{"gpu"}}})
	return s, cluster.NewHistory(), g
}

// cycleOf is one cycle's writes, by what jobs have used.
func cycleOf(g *GiveBack, s *cluster.Snapshot, h *cluster.History, peaks map[cluster.JobID]int64) []plan.Action {
	var p plan.Plan
	candidates := g.Candidates(s, h)
	g.Measured(candidates, s.At)
	g.Decide(s, h, &p, Lowered(s, h), candidates, peaks)
	return p.Actions
}

func TestGiveBack(t *testing.T) {
	own := plan.Action{Job: slurmplug.Plain(1), Lever: slurmplug.MinMemoryNode, Before: slurmplug.Number(35000), After: slurmplug.Number(5024), Was: slurmplug.Number(35000), Reason: "memory"}
	for name, c := range map[string]struct {
		change func(s *cluster.Snapshot, h *cluster.History, g *GiveBack)
		peak   int64
		want   string
	}{
		"lowered":               {nil, 4000, "5024"},
		"a quarter more":        {nil, 8000, "10000"},
		"not measured":          {nil, 0, ""},
		"it uses what it holds": {nil, 28000, ""},
		"no GPU gets its share": {nil, 27000, ""},
		"off": {func(_ *cluster.Snapshot, _ *cluster.History, g *GiveBack) {
			g.Set(GiveBackSettings{After: time.Minute})
		}, 4000, ""},
		"did not agree": {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) {
			s.Jobs[0].Tag = jobtag.Tag{Type: "be"}
		}, 4000, ""},
		"a bad tag": {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].TagErr = "bad" }, 4000, ""},
		"too early": {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) {
			s.Jobs[0].Start = start.Add(-14 * time.Minute)
		}, 4000, ""},
		"its clock is ahead":     {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].Start = start.Add(time.Hour) }, 4000, ""},
		"another partition":      {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].Partition = "cpu" }, 4000, ""},
		"several nodes":          {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].Nodes = 2 }, 4000, ""},
		"het":                    {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].HetLeader = 1 }, 4000, ""},
		"suspended":              {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].State = cluster.Suspended }, 4000, ""},
		"asks in another way":    {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].AskedMB = -1 }, 4000, ""},
		"not looked at":          {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].AskedMB = 0 }, 4000, ""},
		"holds other than asked": {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[0].AskedMB = 36000 }, 4000, ""},
		"no GPU lacks memory":    {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Nodes[0].MemMB = 140000 }, 4000, ""},
		"no free GPU":            {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Nodes[0].GPUsUsed = 4 }, 4000, ""},
		"a node that is down":    {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Nodes[0].Usable = false }, 4000, ""},
		"nobody waits":           {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[1].Reason = "BeginTime" }, 4000, ""},
		"who waits is held":      {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[1].Priority = 0 }, 4000, ""},
		"who waits needs no GPU": {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[1].GPUs = 0 }, 4000, ""},
		"for another type":       {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[1].GPUType = "a100" }, 4000, ""},
		"in another partition":   {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) { s.Jobs[1].Partition = "cpu" }, 4000, ""},
		"for this type": {func(s *cluster.Snapshot, _ *cluster.History, _ *GiveBack) {
			s.Jobs[1].GPUType, s.Jobs[1].Partition = "t4", "cpu,gpu"
		}, 4000, "5024"},
		"carries a size": {func(_ *cluster.Snapshot, h *cluster.History, _ *GiveBack) {
			h.Asked(slurmplug.Plain(1), slurmplug.Size, slurmplug.Size.Value("a"), slurmplug.Size.Value("b"), true, start)
		}, 4000, ""},
		"had a size": {func(_ *cluster.Snapshot, h *cluster.History, _ *GiveBack) {
			h.Asked(slurmplug.Plain(1), slurmplug.Size, slurmplug.Size.Value("a"), slurmplug.Size.Value("a"), false, start)
		}, 4000, "5024"},
		"lowered in this run": {func(_ *cluster.Snapshot, h *cluster.History, _ *GiveBack) {
			h.Asked(slurmplug.Plain(1), slurmplug.MinMemoryNode, slurmplug.Number(50000), slurmplug.Number(35000), true, start)
		}, 4000, ""},
		"a write that was lost": {func(_ *cluster.Snapshot, h *cluster.History, _ *GiveBack) {
			h.Asked(slurmplug.Plain(1), slurmplug.MinMemoryNode, slurmplug.Number(35000), slurmplug.Number(4000), false, start)
		}, 4000, "5024"},
		"refused in this run": {func(s *cluster.Snapshot, _ *cluster.History, g *GiveBack) { g.Refused(slurmplug.Plain(1), s) }, 4000, ""},
		"measured just now": {func(s *cluster.Snapshot, _ *cluster.History, g *GiveBack) {
			g.Measured([]*cluster.Job{&s.Jobs[0]}, start.Add(-4*time.Minute))
		}, 4000, ""},
		"measured some time ago": {func(s *cluster.Snapshot, _ *cluster.History, g *GiveBack) {
			g.Measured([]*cluster.Job{&s.Jobs[0]}, start.Add(-5*time.Minute))
		}, 4000, "5024"},
		"measured by a fast clock": {func(s *cluster.Snapshot, _ *cluster.History, g *GiveBack) {
			g.Measured([]*cluster.Job{&s.Jobs[0]}, start.Add(time.Hour))
		}, 4000, "5024"},
		"refused in an earlier run": {func(s *cluster.Snapshot, _ *cluster.History, g *GiveBack) {
			g.Refused(slurmplug.Plain(1), s)
			s.Jobs[0].Start = s.Jobs[0].Start.Add(time.Second)
		}, 4000, "5024"},
	} {
		s, h, g := attic()
		if c.change != nil {
			c.change(s, h, g)
		}
		got := cycleOf(g, s, h, map[cluster.JobID]int64{slurmplug.Plain(1): c.peak})
		var want []plan.Action
		if c.want != "" {
			own.After = slurmplug.MinMemoryNode.Value(c.want)
			want = []plan.Action{own}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// What a job was lowered by it gets again while it waits, whoever agrees to what by then.
func TestLoweredJobsGetTheirOwnAgain(t *testing.T) {
	back := "[{1  false MinMemoryNode 5000 35000 memory  35000}]"
	for name, c := range map[string]struct {
		change func(j *cluster.Job, h *cluster.History)
		want   string
	}{
		"requeued":                {nil, back},
		"held":                    {func(j *cluster.Job, _ *cluster.History) { j.Priority, j.Reason = 0, "JobHeldUser" }, back},
		"does not agree any more": {func(j *cluster.Job, _ *cluster.History) { j.Tag = jobtag.Tag{} }, back},
		"moved away":              {func(j *cluster.Job, _ *cluster.History) { j.Partition = "cpu" }, back},
		"runs again":              {func(j *cluster.Job, _ *cluster.History) { j.State = cluster.Running }, "[]"},
		"not looked at":           {func(j *cluster.Job, _ *cluster.History) { j.AskedMB = 0 }, "[]"},
		"changed by its user":     {func(j *cluster.Job, _ *cluster.History) { j.AskedMB = 6000 }, "[]"},
		"asks in another way now": {func(j *cluster.Job, _ *cluster.History) { j.AskedMB = -1 }, "[]"},
		"has its own already":     {func(j *cluster.Job, _ *cluster.History) { j.AskedMB = 35000 }, "[]"},
		"had a size before": {func(j *cluster.Job, h *cluster.History) {
			h.Asked(j.ID, slurmplug.Size, slurmplug.Size.Value("a"), slurmplug.Size.Value("a"), false, start.Add(-time.Hour))
		}, back},
		"has had a size since then": {func(j *cluster.Job, h *cluster.History) {
			h.Asked(j.ID, slurmplug.Size, slurmplug.Size.Value("a"), slurmplug.Size.Value("b"), true, start.Add(time.Hour))
		}, "[]"},
	} {
		s, h, g := attic()
		g.Set(GiveBackSettings{})
		j := &s.Jobs[0]
		h.Asked(j.ID, slurmplug.MinMemoryNode, slurmplug.Number(35000), slurmplug.Number(5000), true, start)
		j.State, j.Priority, j.Reason, j.NodeList, j.AskedMB = cluster.Pending, 5, "BeginTime", "", 5000
		if c.change != nil {
			c.change(j, h)
		}
		if got := fmt.Sprint(cycleOf(g, s, h, nil)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if lowered := h.Lowered(j); j.State == cluster.Pending && lowered != (j.AskedMB == 5000 || j.AskedMB == 0) {
			t.Errorf("%s: sizes take it for lowered: %v", name, lowered)
		}
	}
}

// Whatever runs and waits: only those are lowered that agreed, were measured and hold more
// than they need, never above what they hold, and only where a free GPU lacks memory.
func TestGiveBackHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, h, g := attic()
		n, own := &s.Nodes[0], s.Jobs[0]
		n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = rapid.IntRange(0, 4).Draw(t, "used"), rapid.IntRange(0, 16).Draw(t, "cpus"), 0
		s.Jobs = s.Jobs[1:]
		peaks := map[cluster.JobID]int64{}
		for i := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			j := own
			j.ID = slurmplug.Plain(uint32(10 + i))
			j.MemMB = rapid.Int64Range(100, 40000).Draw(t, "holds")
			j.AskedMB = rapid.SampledFrom([]int64{j.MemMB, j.MemMB, j.MemMB, -1, 0}).Draw(t, "asks")
			j.Tag.GiveBack = rapid.Bool().Draw(t, "agreed")
			if rapid.Bool().Draw(t, "measured") {
				peaks[j.ID] = rapid.Int64Range(0, 2*j.MemMB).Draw(t, "peak")
			}
			n.MemUsedMB += j.MemMB
			s.Jobs = append(s.Jobs, j)
		}
		before := lacksMemory(n)
		for _, a := range cycleOf(g, s, h, peaks) {
			for i := range s.Jobs {
				j := &s.Jobs[i]
				if j.ID != a.Job {
					continue
				}
				after := a.After.Number()
				if !before || !j.Tag.GiveBack || j.AskedMB != j.MemMB || peaks[j.ID] == 0 || after < peaks[j.ID]+max(peaks[j.ID]/4, 1024) || after > j.MemMB-giveback.Margin || a.Was != slurmplug.Number(j.MemMB) {
					t.Fatalf("%+v of %+v, which has used %d", a, j, peaks[j.ID])
				}
			}
		}
	})
}

// Many jobs are measured over several cycles, each once in a while.
func TestGiveBackMeasuresFew(t *testing.T) {
	s, h, g := attic()
	node, job := s.Nodes[0], s.Jobs[0]
	for i := range 3 * maxMeasured {
		n, j := node, job
		n.Name, j.ID = fmt.Sprint("m", i), slurmplug.Plain(uint32(100+i))
		j.NodeList = n.Name
		s.Nodes, s.Jobs = append(s.Nodes, n), append(s.Jobs, j)
	}
	seen := map[cluster.JobID]bool{}
	for range 4 {
		candidates := g.Candidates(s, h)
		if len(candidates) > maxMeasured {
			t.Fatalf("%d jobs at once", len(candidates))
		}
		g.Measured(candidates, s.At)
		for _, j := range candidates {
			seen[j.ID] = true
		}
	}
	if again := g.Candidates(s, h); len(seen) != 3*maxMeasured+1 || len(again) > 0 {
		t.Errorf("%d jobs are measured, then %d again", len(seen), len(again))
	}
}

// No size is made from memory that a waiting job was lowered to while it ran: that would
// count as its user's own.
func TestNoSizeFromLoweredMemory(t *testing.T) {
	for asked, sized := range map[int64]bool{64000: false, 0: false, 70000: true} { // lowered, not looked at, changed by its user since
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
		j := q.add(t, 0, 9, 64000, 1, "cpu=v100:1x1-3x1&v=1")
		j.AskedMB = asked
		q.h.Asked(j.ID, slurmplug.MinMemoryNode, slurmplug.Number(200000), slurmplug.Number(64000), true, q.s.At)
		q.z.Decide(&q.s, q.h, &q.p)
		if got := len(q.p.Actions) > 0; got != sized {
			t.Errorf("it asks for %d MB: %+v, %s", asked, q.p.Actions, q.p.Decisions[0].Size)
		}
	}
}
