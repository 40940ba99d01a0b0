package size

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// sizeQueue is a queue of jobs with consent on nodes of one type.
type sizeQueue struct {
	s cluster.Snapshot
	h *cluster.History
	p plan.Plan
	z Sizes

	texts []string // as scontrol shows the jobs
}

func newSizeQueue(t interface{ Fatal(...any) }, nodes []cluster.Node) *sizeQueue {
	q := &sizeQueue{h: cluster.NewHistory()}
	q.s = cluster.Snapshot{At: time.Unix(1_000_000, 0), Nodes: nodes}
	table, err := workload.Default()
	if err != nil {
		t.Fatal(err)
	}
	q.z.Set(Settings{Enabled: true, Within: time.Minute, Jobs: 100_000, Table: table})
	return q
}

// asks are the ways in which jobs may ask: CPUs, MB and GPUs go in.
var asks = []string{
	"NumCPUs=%[1]d NumTasks=1 CPUs/Task=%[1]d MinCPUsNode=%[1]d MinMemoryNode=%[2]dM TresPerNode=gres:gpu:%[3]d",
	"NumCPUs=%[1]d NumTasks=1 CPUs/Task=%[1]d MinCPUsNode=%[1]d MinMemoryCPU=%[2]dM TresPerNode=gres:gpu:%[3]d",
	"NumCPUs=1 NumTasks=1 CPUs/Task=1 MinCPUsNode=1 MinMemoryNode=0 CpusPerTres=gpu:%[1]d MemPerTres=gpu:%[2]d TresPerJob=gres:gpu:%[3]d",
	"NumCPUs=%[1]d NumTasks=%[1]d CPUs/Task=1 MinCPUsNode=1 MinMemoryNode=%[2]dM TresPerNode=gres:gpu:%[3]d",
	byCPUsPerGPU: "NumCPUs=1 NumTasks=1 CPUs/Task=1 MinCPUsNode=1 MinMemoryNode=%[2]dM CpusPerTres=gres:gpu:%[1]d TresPerNode=gres:gpu:%[3]d",
	byMemPerGPU:  "NumCPUs=%[1]d NumTasks=1 CPUs/Task=%[1]d MinCPUsNode=%[1]d MinMemoryCPU=0 MemPerTres=gres:gpu:%[2]d TresPerNode=gres:gpu:%[3]d",
	byBoth:       "NumCPUs=1 NumTasks=1 CPUs/Task=1 MinCPUsNode=1 MinMemoryCPU=0 CpusPerTres=gres:gpu:%[1]d MemPerTres=gres:gpu:%[2]d TresPerNode=gres:gpu:%[3]d",
}

// The ways in which a user asks by GPU.
const (
	byCPUsPerGPU = 4 + iota
	byMemPerGPU
	byBoth
)

// add puts a job at the end of the queue.
func (q *sizeQueue) add(t interface{ Fatal(...any) }, way, cpus int, memMB int64, gpus int, tag string) *cluster.Job {
	q.append(t, way, cpus, memMB, gpus, tag)
	q.p.MakeQueue(&q.s)
	return &q.s.Jobs[len(q.s.Jobs)-1]
}

// append is add before the queue is made, for many.
func (q *sizeQueue) append(t interface{ Fatal(...any) }, way, cpus int, memMB int64, gpus int, tag string) {
	id := slurmplug.Plain(uint32(len(q.s.Jobs) + 1))
	parsed, err := jobtag.Parse("prio:" + tag)
	if err != nil {
		t.Fatal(tag, err)
	}
	text := fmt.Sprintf("JobState=PENDING NumNodes=1-1 "+asks[way]+
		" ReqB:S:C:T=0:0:*:* Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* OverSubscribe=OK ReqNodeList=(null) ExcNodeList=(null)", cpus, memMB, gpus)
	asked, err := parseAsked(text)
	if err != nil {
		t.Fatal(err)
	}
	q.texts = append(q.texts, text)
	q.s.Jobs = append(q.s.Jobs, cluster.Job{
		ID: id, RawID: id.ID, TaskCount: 1, State: cluster.Pending, Partition: "gpu", GPUs: gpus, CPUs: cpus, MemMB: memMB, Nodes: 1,
		Priority: 1000 - int64(id.ID), Submit: q.s.At, Eligible: q.s.At, Tag: parsed, TagText: "prio:" + tag, Asked: asked,
	})
	q.h.FirstEligible.Set(id, q.s.At)
	q.p.Decisions = append(q.p.Decisions, plan.Decision{Job: id, Ranked: true, Own: 1_000_000 - int64(id.ID)})
}

// wrote takes in a write as cycle.Step does.
func (q *sizeQueue) wrote(a plan.Action) {
	for _, id := range a.Jobs() {
		q.h.Sized(id, a.Reason == plan.SizeRests, a.Reason == plan.SizeAhead, q.s.At)
		q.h.Asked(id, a.Lever, a.Was, a.After, true, q.s.At)
	}
}

// anew is what a priod that has just been started would write.
func (q *sizeQueue) anew() []plan.Action {
	p, z := q.p, Sizes{}
	p.Decisions = slices.Clone(p.Decisions)
	z.Set(q.z.set)
	z.Decide(&q.s, q.h, &p)
	return p.Actions
}

func sizeNode(name string, gpus, cpus int, memMB int64) cluster.Node {
	return cluster.Node{Name: name, Usable: true, State: "IDLE", Partitions: []string{"gpu"}, GPUType: "v100", GPUs: gpus, CPUs: cpus, MemMB: memMB, Threads: 1}
}

// One node of Synergy's, four jobs that one core is enough for and four that gain
// from twelve: what the ones leave the others get.
func TestSizes(t *testing.T) {
	q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
	for i := range 8 {
		tag := "cpu=v100:1x1-3x1&v=1"
		if i%2 == 1 {
			tag = "cpu=v100:3x1-5x2-12x3&v=1"
		}
		q.add(t, 0, 3, 64000, 1, tag)
	}
	q.z.Decide(&q.s, q.h, &q.p)
	if len(q.p.Actions) != 8 {
		t.Fatalf("%d writes: %+v", len(q.p.Actions), q.p.Actions)
	}
	for i, a := range q.p.Actions {
		want := "CPUsPerTask=1 MinCPUsNode=1 NumCPUs=1 MinMemoryNode=64000 ReqNodeList=n1"
		if i%2 == 1 {
			want = "CPUsPerTask=5 MinCPUsNode=5 NumCPUs=5 MinMemoryNode=64000 ReqNodeList=n1"
		}
		if a.After.String() != want || !strings.HasSuffix(a.Was.String(), "MinMemoryNode=64000 ReqNodeList=") || a.Before != a.Was {
			t.Errorf("job %s: %q, want %q; was %q", a.Job, a.After, want, a.Was)
		}
	}
	if d := q.p.Decisions[1].Size; !strings.Contains(d, "requested 3 CPUs and 64000 MB, its share of a node like n1 is 3 CPUs and 64000 MB; gets 5 CPUs and 64000 MB, expected at 2.00 times the speed (its tag's cpu)") {
		t.Error(d)
	}
}

// Who is left as it is, and why.
func TestSizesLeftAlone(t *testing.T) {
	const gains = "cpu=v100:1x1-3x1&v=1"
	for _, c := range []struct {
		name   string
		change func(*sizeQueue, *cluster.Job)
		says   string
	}{
		{"no consent", func(_ *sizeQueue, j *cluster.Job) { j.Tag = jobtag.Tag{Type: "be"} }, ""},
		{"bad tag", func(_ *sizeQueue, j *cluster.Job) { j.TagErr = "no" }, ""},
		{"held", func(_ *sizeQueue, j *cluster.Job) { j.Priority = 0 }, ""},
		{"reservation", func(_ *sizeQueue, j *cluster.Job) { j.Reservation = "r" }, ""},
		{"dependency", func(_ *sizeQueue, j *cluster.Job) { j.Dependency = true }, ""},
		{"not ranked", func(q *sizeQueue, _ *cluster.Job) { q.p.Decisions[0].Ranked = false }, "priod does not rank it"},
		{"claim", func(q *sizeQueue, j *cluster.Job) { q.h.Claiming = map[cluster.JobID]bool{j.ID: true} }, "room is being made"},
		{"fixed", func(_ *sizeQueue, j *cluster.Job) { j.Asked.Fixed = "asks for its node alone" }, "it asks for its node alone"},
		{"not read", func(_ *sizeQueue, j *cluster.Job) { j.Asked = nil }, "too far from the head"},
		{"names a node", func(_ *sizeQueue, j *cluster.Job) { j.Asked.Nodes = "n1" }, "names its nodes"},
		{"unknown", func(_ *sizeQueue, j *cluster.Job) { j.Tag = jobtag.Tag{Workload: "nobody-knows"} }, "no curve is known"},
		{"heterogeneous", func(_ *sizeQueue, j *cluster.Job) { j.HetLeader = j.ID.ID }, "it is part of a heterogeneous job"},
		{"prefers nodes", func(_ *sizeQueue, j *cluster.Job) { j.Prefer = "ib" }, "it uses --prefer"},
		{"a curve that falls", func(_ *sizeQueue, j *cluster.Job) {
			j.Tag.CPU = map[string]jobtag.Curve{"v100": {{Amount: 1, Speed: 1}, {Amount: 3, Speed: 2}, {Amount: 6, Speed: 1.5}}}
		}, "no curve is known for CPUs and memory on v100; its tag's cpu for v100 falls from 2 to 1.5 at 6: not used"},
		{"curves of other types", func(_ *sizeQueue, j *cluster.Job) {
			j.Tag.CPU = map[string]jobtag.Curve{"h100": {{Amount: 1, Speed: 1}, {Amount: 3, Speed: 2}}}
		}, "its tag's cpu says nothing about v100"},
		{"refused", func(q *sizeQueue, j *cluster.Job) { q.h.Refuse(j.ID, slurmplug.Size, "veto", q.s.At) }, "Slurm refused the change: veto"},
		{"full", func(q *sizeQueue, _ *cluster.Job) { q.s.Nodes[0].Usable = false }, ""},
	} {
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
		j := q.add(t, 0, 3, 64000, 1, gains)
		c.change(q, j)
		q.z.Decide(&q.s, q.h, &q.p)
		if c.name == "full" { // down to what it can use, and nowhere in particular
			if len(q.p.Actions) != 1 || !strings.HasSuffix(q.p.Actions[0].After.String(), "NumCPUs=1 MinMemoryNode=64000 ReqNodeList=") {
				t.Errorf("%s: %+v", c.name, q.p.Actions)
			}
			continue
		}
		if d := q.p.Decisions[0].Size; len(q.p.Actions) != 0 || !strings.Contains(d, c.says) || c.says == "" && d != "" {
			t.Errorf("%s: %q, %+v", c.name, d, q.p.Actions)
		}
	}
}

// What a user asked for by GPU stays, because srun asks for it again; the other of CPUs
// and memory changes.
func TestSizesByGPU(t *testing.T) {
	for _, c := range []struct {
		way  int
		tag  string
		want string // of the write, "" for none
		says string
	}{
		{byCPUsPerGPU, "cpu=v100:1x1-3x1&mem=v100:1000x1-64000x1&v=1", "MinCPUsNode=1 NumCPUs=1 MinMemoryNode=1000 ", "3 CPUs and 1000 MB"},
		{byCPUsPerGPU, "cpu=v100:1x1-3x1&v=1", "", "no curve is known for memory on v100; it requests CPUs by GPU"},
		{byCPUsPerGPU, "cpu=v100:1x1-9x9&v=1", "", "its script's environment keeps"},
		{byMemPerGPU, "cpu=v100:1x1-3x1&mem=v100:1000x1-64000x1&v=1", "CPUsPerTask=1 MinCPUsNode=1 NumCPUs=1 MemPerTres=gres:gpu:64000 ", "1 CPU and 64000 MB"},
		{byMemPerGPU, "mem=v100:1000x1-64000x1&v=1", "", "no curve is known for CPUs on v100; it requests memory by GPU"},
		{byBoth, "cpu=v100:1x1-3x1&mem=v100:1000x1-64000x1&v=1", "", "it requests CPUs by GPU (--cpus-per-gpu), which its script's environment keeps, and srun asks for those; it requests memory by GPU"},
	} {
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
		q.add(t, c.way, 3, 64000, 1, c.tag)
		q.z.Decide(&q.s, q.h, &q.p)
		if d := q.p.Decisions[0].Size; !strings.Contains(d, c.says) || (len(q.p.Actions) == 0) != (c.want == "") || len(q.p.Actions) > 0 && !strings.HasPrefix(q.p.Actions[0].After.String(), c.want) {
			t.Errorf("way %d with %s: %q, %+v", c.way, c.tag, d, q.p.Actions)
		}
	}
}

// A job on the node of its size that prefers others since then gets its own request back.
func TestPinnedSizePrefers(t *testing.T) {
	q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
	q.add(t, 0, 21, 64000, 7, "cpu=v100:1x1-3x1&v=1")
	q.add(t, 0, 3, 64000, 1, "cpu=v100:3x1-12x3&v=1")
	j := &q.s.Jobs[0]
	q.z.Decide(&q.s, q.h, &q.p)
	if len(q.p.Actions) != 2 || !strings.HasSuffix(q.p.Actions[0].After.String(), "ReqNodeList=n1") {
		t.Fatalf("%+v", q.p.Actions)
	}
	first := q.p.Actions[0]
	q.wrote(first)
	j.Asked.Holds, j.Asked.Nodes, j.Prefer = first.After, "n1", "ib"
	q.p.Actions, q.p.Decisions[0].Size = nil, ""
	q.z.Decide(&q.s, q.h, &q.p)
	got := slices.DeleteFunc(q.p.Actions, func(a plan.Action) bool { return a.Job != j.ID })
	if len(got) != 1 || got[0].After != first.Was || !strings.Contains(q.p.Decisions[0].Size, "its own request restored, because it uses --prefer") {
		t.Errorf("%+v, %q", got, q.p.Decisions[0].Size)
	}
}

// A user who changes the size of a waiting job does not see to the node that priod wrote
// beside it: that goes, and the rest is the user's own from then on.
func TestChangedSizeIsFreed(t *testing.T) {
	q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
	j := q.add(t, 0, 21, 64000, 7, "cpu=v100:1x1-3x1&v=1")
	q.add(t, 0, 3, 64000, 1, "cpu=v100:3x1-12x3&v=1")
	own := j.Asked.Holds
	q.z.Decide(&q.s, q.h, &q.p)
	if len(q.p.Actions) != 2 || !strings.HasSuffix(q.p.Actions[0].After.String(), "ReqNodeList=n1") {
		t.Fatalf("%+v", q.p.Actions)
	}
	pinned := q.p.Actions[0].After
	for now, want := range map[string]string{
		strings.Replace(pinned.String(), "64000", "70000", 1):                               strings.Replace(pinned.String(), "64000 ReqNodeList=n1", "70000 ReqNodeList=", 1),
		strings.Replace(pinned.String(), "64000 ReqNodeList=n1", "70000 ReqNodeList=n2", 1): "",
		strings.Replace(own.String(), "64000", "70000", 1):                                  "",
	} {
		clear(q.h.Sizes)
		q.h.Requests = map[cluster.JobID]map[slurmplug.Lever]cluster.Requested{}
		q.h.Asked(j.ID, slurmplug.Size, own, pinned, true, q.s.At)
		j.Asked.Holds = slurmplug.Size.Value(now)
		_, j.Asked.Nodes, _ = strings.Cut(now, "ReqNodeList=")
		for i := range q.p.Decisions {
			q.p.Decisions[i].Size = ""
		}
		q.p.Actions = nil
		q.z.Decide(&q.s, q.h, &q.p)
		got := slices.DeleteFunc(q.p.Actions, func(a plan.Action) bool { return a.Job != j.ID })
		switch {
		case want == "":
			if len(got) != 0 {
				t.Errorf("%q: %+v", now, got)
			}
			continue
		case len(got) != 1 || got[0].Before.String() != now || got[0].After.String() != want || got[0].Was.String() != want:
			t.Fatalf("%q: %+v", now, got)
		}
		q.wrote(got[0])
		j.Asked.Holds, j.Asked.Nodes = slurmplug.Size.Value(want), ""
		q.p.Actions = nil
		q.z.Decide(&q.s, q.h, &q.p)
		if len(q.h.Requests) != 0 || slices.ContainsFunc(q.p.Actions, func(a plan.Action) bool { return a.Job == j.ID }) {
			t.Errorf("its user's own: %+v, %+v", q.h.Requests, q.p.Actions)
		}
	}
}

// A job that got a place and did not start gets its own back, and is not tried
// again for a while; one whose user changed it is the user's.
func TestSizesBack(t *testing.T) {
	q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
	q.add(t, 0, 21, 64000, 7, "cpu=v100:1x1-3x1&v=1")
	q.add(t, 0, 3, 64000, 1, "cpu=v100:3x1-12x3&v=1")
	cycle := func(after time.Duration) []plan.Action {
		q.s.At = q.s.At.Add(after)
		q.p.Actions = nil
		for i := range q.p.Decisions {
			q.p.Decisions[i].Size = ""
		}
		q.z.Decide(&q.s, q.h, &q.p)
		for _, a := range q.p.Actions {
			j := &q.s.Jobs[a.Job.ID-1]
			q.wrote(a)
			asked := *j.Asked
			asked.Holds, asked.Nodes = a.After, a.After.Size().Nodes
			j.Asked = &asked
		}
		return q.p.Actions
	}
	first := cycle(0)
	if len(first) != 2 {
		t.Fatalf("%+v", first)
	}
	own := *q.s.Jobs[0].Asked
	elsewhere := own.Holds.Size()
	elsewhere.Nodes = "n9"
	q.s.Jobs[0].Asked.Holds = elsewhere.Value()
	q.h.Claiming = map[cluster.JobID]bool{slurmplug.Plain(1): true}
	if pinned := cycle(time.Second); len(pinned) != 0 || strings.Contains(q.p.Decisions[0].Size, "changed by another program") {
		t.Errorf("room is made for it: %+v, %q", pinned, q.p.Decisions[0].Size)
	}
	q.h.Claiming, *q.s.Jobs[0].Asked = nil, own
	if again := cycle(29 * time.Second); len(again) != 0 || !strings.Contains(q.p.Decisions[1].Size, "gets 12 CPUs") {
		t.Errorf("%+v, %q", again, q.p.Decisions[1].Size)
	}
	q.s.Jobs[0].Asked.Holds = slurmplug.Size.Value("NumCPUs=4") // its user's
	back := cycle(31 * time.Second)
	if len(back) != 1 || back[0].Job.ID != 2 || back[0].After != first[1].Was || back[0].Before != first[1].After {
		t.Fatalf("%+v", back)
	}
	if len(q.h.Requests) != 1 {
		t.Errorf("%+v", q.h.Requests)
	}
	if again := cycle(time.Minute); len(again) != 0 || !strings.Contains(q.p.Decisions[1].Size, "priod tries again") || !strings.Contains(q.p.Decisions[0].Size, "changed by another program") {
		t.Errorf("%+v, %q, %q", again, q.p.Decisions[1].Size, q.p.Decisions[0].Size)
	}
	if again := cycle(10 * time.Minute); len(again) != 0 { // with the first job's GPUs at its user's size there is nothing to gain
		t.Logf("%+v", again)
	}
	q.z.set.Enabled = false
	q.h.Asked(slurmplug.Plain(2), slurmplug.Size, slurmplug.Size.Value("own"), q.s.Jobs[1].Asked.Holds, true, q.s.At)
	if off := cycle(0); len(off) != 1 || off[0].After.String() != "own" {
		t.Errorf("turned off: %+v", off)
	}
}

// Whatever others hold and jobs ask: all that is sized fits, no free GPU is left
// with less than its share of CPUs and memory that was there for it, and nobody
// gets less than the smaller of its share and what it can use, nor CPUs or
// memory cut whose use nobody knows.
func TestSizesKeepShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []cluster.Node
		threads := rapid.IntRange(1, 2).Draw(t, "threads")
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
			n := sizeNode(fmt.Sprintf("n%d", i), gpus, threads*(gpus*rapid.IntRange(1, 6).Draw(t, "ratio")+rapid.IntRange(0, 3).Draw(t, "odd")), int64(gpus)*64000)
			n.Threads = threads // whole cores are there, and held
			n.GPUsUsed = rapid.IntRange(0, gpus).Draw(t, "used")
			n.CPUsUsed = threads * rapid.IntRange(0, n.CPUs/threads).Draw(t, "cpus used")
			n.MemUsedMB = rapid.Int64Range(0, n.MemMB).Draw(t, "mem used")
			nodes = append(nodes, n)
		}
		q := &sizeQueue{h: cluster.NewHistory(), s: cluster.Snapshot{At: time.Unix(1_000_000, 0), Nodes: nodes}}
		q.z.Set(Settings{Enabled: true, Within: time.Minute, Jobs: 1000, Table: &workload.Table{}})
		for range rapid.IntRange(1, 12).Draw(t, "jobs") {
			gpus := rapid.IntRange(1, 8).Draw(t, "job gpus")
			tag := rapid.SampledFrom([]string{
				"cpu=v100:1x1-3x1&v=1", "cpu=v100:1x1-3x3-12x6&v=1", "cpu=v100:2x1-6x4&mem=v100:1000x1-90000x2&v=1", "mem=v100:500x1-2000x3&v=1", "type=be&v=1",
			}).Draw(t, "tag")
			q.add(t, rapid.IntRange(0, len(asks)-1).Draw(t, "way"), rapid.IntRange(1, 16).Draw(t, "cpus"), rapid.Int64Range(1, 100000).Draw(t, "mem"), gpus, tag)
		}
		own := map[cluster.JobID]slurmplug.Asked{}
		for i := range q.s.Jobs {
			own[q.s.Jobs[i].ID] = *q.s.Jobs[i].Asked
		}
		q.z.Decide(&q.s, q.h, &q.p)
		free := map[string][3]int64{} // GPUs, CPUs, MB
		for _, n := range nodes {
			free[n.Name] = [3]int64{int64(n.GPUs - n.GPUsUsed), int64(n.CPUs - n.CPUsUsed), n.MemMB - n.MemUsedMB}
		}
		before := map[string][3]int64{}
		for name, f := range free {
			before[name] = f
		}
		for _, a := range q.p.Actions {
			j := &q.s.Jobs[a.Job.ID-1]
			was := own[a.Job]
			now, err := parseAsked(resized(q.texts[a.Job.ID-1], a.After.String()))
			if err != nil {
				t.Fatal(a.After, err)
			}
			if a.Was != was.Holds || now.Holds != a.After {
				t.Fatalf("job %s: was %q for %q, after %q for %q", a.Job, a.Was, was.Holds, a.After, now.Holds)
			}
			if was.KeepsCPUs != "" && now.CPUs != was.CPUs || was.KeepsMemory != "" && now.MemMB != was.MemMB {
				t.Fatalf("job %s, which %s %s: %d CPUs and %d MB of %d and %d", a.Job, was.KeepsCPUs, was.KeepsMemory, now.CPUs, now.MemMB, was.CPUs, was.MemMB)
			}
			if now.Fixed != "" {
				t.Fatalf("job %s was sized to what cannot be sized: %s", a.Job, now.Fixed)
			}
			if len(j.Tag.CPU) == 0 && now.CPUs < was.CPUs || len(j.Tag.Mem) == 0 && now.MemMB < was.MemMB {
				t.Fatalf("job %s lost what nobody knows it can do without: %d CPUs and %d MB of %d and %d", a.Job, now.CPUs, now.MemMB, was.CPUs, was.MemMB)
			}
			if now.Nodes == "" {
				if now.CPUs > was.CPUs && !placedAny(nodes, *now) || now.MemMB > was.MemMB+int64(now.CPUs+j.GPUs) && len(j.Tag.Mem) == 0 {
					t.Fatalf("job %s grows to %d CPUs and %d MB anywhere", a.Job, now.CPUs, now.MemMB)
				}
				continue
			}
			f, known := free[now.Nodes]
			if !known {
				t.Fatalf("job %s goes to %q", a.Job, now.Nodes)
			}
			free[now.Nodes] = [3]int64{f[0] - int64(j.GPUs), f[1] - int64(roundUp(now.CPUs, threads)), f[2] - now.MemMB}
		}
		for _, n := range nodes {
			f, b := free[n.Name], before[n.Name]
			if f[0] < 0 || f[1] < 0 || f[2] < 0 {
				t.Fatalf("%s is overfull: %v of %v", n.Name, f, b)
			}
			// Each free GPU keeps its share as far as that was there.
			for k, all := range map[int]int64{1: int64(n.CPUs), 2: n.MemMB} {
				share := all * f[0] / int64(n.GPUs)
				missing := max(all*b[0]/int64(n.GPUs)-b[k], 0)
				if f[k] < b[k] && f[k] < share-missing-1 {
					t.Fatalf("%s: %d GPUs stay free with %d of resource %d, their share is %d and %d were missing before", n.Name, f[0], f[k], k, share, missing)
				}
			}
		}
	})
}

// placedAny reports whether some node's share for the job's GPUs has so many CPUs.
func placedAny(nodes []cluster.Node, a slurmplug.Asked) bool {
	for _, n := range nodes {
		if a.CPUs <= n.CPUs*a.GPUs/n.GPUs {
			return true
		}
	}
	return a.CPUs <= a.Least
}

// parseAsked reads words that scontrol shows of a job, put in their places.
func parseAsked(text string) (*slurmplug.Asked, error) {
	record := &slurmplug.Job{}
	head, tail := "UserId=root(0)", "StdOut=/dev/null"
	for word := range strings.FieldsSeq(text) {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "TresPerJob":
			record.TresPerJob = value
		case "TresPerNode":
			record.TresPerNode = value
		case "CpusPerTres", "MemPerTres":
			tail += " " + word
		default:
			head += " " + word
		}
	}
	return slurmplug.ParseAsked(slurmplug.Config{}, record, "JobId=1 JobName= "+head+" Command=x WorkDir=/ "+tail)
}

// resized is what scontrol shows of a job after an update.
func resized(text, value string) string {
	words := map[string]string{}
	for _, word := range append(strings.Fields(text), strings.Fields(value)...) {
		key, v, _ := strings.Cut(word, "=")
		if key == "CPUsPerTask" {
			key = "CPUs/Task"
		}
		words[key] = v
	}
	var all []string
	for key, v := range words {
		all = append(all, key+"="+v)
	}
	return strings.Join(all, " ")
}

// asksTasks makes a job ask by tasks of some CPUs each, on one node.
func asksTasks(t *testing.T, j *cluster.Job, tasks, each int) {
	asked, err := parseAsked(fmt.Sprintf("JobState=PENDING NumNodes=1-1 NumCPUs=%d NumTasks=%d CPUs/Task=%d MinCPUsNode=%[3]d "+
		"MinMemoryNode=%dM TresPerNode=gres:gpu:%d ReqB:S:C:T=0:0:*:* Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* OverSubscribe=OK ReqNodeList=(null) ExcNodeList=(null)",
		tasks*each, tasks, each, j.MemMB, j.GPUs))
	if err != nil || asked.Fixed != "" {
		t.Fatal(err, asked.Fixed)
	}
	j.CPUs, j.Asked = tasks*each, asked
}

// Eight tasks on four GPUs can use 12 CPUs, three a GPU. In multiples of eight that
// is 16: with eight they would be slower than with their share.
func TestSizesRoundUp(t *testing.T) {
	for _, usable := range []bool{true, false} { // it starts now; it waits
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 32, 512000)})
		q.s.Nodes[0].Usable = usable
		asksTasks(t, q.add(t, 0, 24, 64000, 4, "cpu=v100:1x1-2x2-3x3&v=1"), 8, 3)
		q.z.Decide(&q.s, q.h, &q.p)
		if len(q.p.Actions) != 1 || !strings.HasPrefix(q.p.Actions[0].After.String(), "CPUsPerTask=2 MinCPUsNode=2 NumCPUs=16 ") {
			t.Errorf("usable %v: %+v", usable, q.p.Actions)
		}
	}
}

// Three tasks of a CPU take two cores of two threads, and what they take nobody else
// may count on: the last free GPU keeps its four CPUs.
func TestSizesWholeCores(t *testing.T) {
	q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 4, 16, 512000)})
	q.s.Nodes[0].Threads = 2
	for range 2 {
		asksTasks(t, q.add(t, 0, 6, 64000, 1, "cpu=v100:1x1-3x3&v=1"), 3, 2)
	}
	q.add(t, 0, 2, 64000, 1, "cpu=v100:1x1-4x4-5x5-6x6&v=1")
	q.z.Decide(&q.s, q.h, &q.p)
	left := 16
	for _, a := range q.p.Actions {
		left -= roundUp(a.After.Size().CPUs, 2)
	}
	if len(q.p.Actions) != 3 || left < 4 {
		t.Errorf("%d CPUs are left: %+v", left, q.p.Actions)
	}
}

// A job that got more than it asked for and did not start could start elsewhere
// with its own; so could one that may no longer be sized.
func TestSizesRaisedBack(t *testing.T) {
	for _, change := range []func(*sizeQueue, *slurmplug.Asked){
		func(q *sizeQueue, _ *slurmplug.Asked) { q.s.At = q.s.At.Add(time.Minute) },
		func(_ *sizeQueue, a *slurmplug.Asked) { a.Fixed = "is under a limit" },
	} {
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
		j := q.add(t, 0, 1, 64000, 1, "cpu=v100:1x1-3x3&v=1")
		q.z.Decide(&q.s, q.h, &q.p)
		if len(q.p.Actions) != 1 || !strings.HasSuffix(q.p.Actions[0].After.String(), "NumCPUs=3 MinMemoryNode=64000 ReqNodeList=") {
			t.Fatalf("%+v", q.p.Actions)
		}
		raised := q.p.Actions[0]
		q.h.Asked(j.ID, raised.Lever, raised.Was, raised.After, true, q.s.At)
		*j.Asked = j.Asked.Of(raised.After)
		change(q, j.Asked)
		q.p.Actions = nil
		q.z.Decide(&q.s, q.h, &q.p)
		if len(q.p.Actions) != 1 || q.p.Actions[0].After != raised.Was {
			t.Errorf("%+v", q.p.Actions)
		}
	}
}

// A job that begins within a minute gets its size before, and keeps it until it could
// have started for a while; one that begins later is left alone.
func TestSizesBeforeTheyBegin(t *testing.T) {
	for begins, sized := range map[time.Duration]bool{20 * time.Second: true, 2 * time.Minute: false} {
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
		j := q.add(t, 0, 1, 64000, 1, "cpu=v100:1x1-3x3&v=1")
		j.Reason, j.Eligible = "BeginTime", q.s.At.Add(begins)
		q.h.FirstEligible.Delete(j.ID)
		q.p.Decisions[0].Ranked, q.p.Decisions[0].Why = false, string(plan.NotYet)
		q.z.Decide(&q.s, q.h, &q.p)
		if (len(q.p.Actions) == 1) != sized {
			t.Fatalf("begins in %s: %+v", begins, q.p.Actions)
		}
		if !sized {
			continue
		}
		q.wrote(q.p.Actions[0])
		*j.Asked = j.Asked.Of(q.p.Actions[0].After)
		for _, c := range []struct {
			after time.Duration
			back  bool
		}{{10 * time.Second, false}, {79 * time.Second, false}, {80 * time.Second, true}} {
			if q.s.At = time.Unix(1_000_000, 0).Add(c.after); c.after > begins {
				j.Reason, q.p.Decisions[0].Ranked = "Resources", true
				q.h.FirstEligible.Set(j.ID, j.Eligible)
			}
			q.p.Actions = nil
			if q.z.Decide(&q.s, q.h, &q.p); (len(q.p.Actions) == 1) != c.back {
				t.Errorf("after %s: %+v", c.after, q.p.Actions)
			}
		}
	}
}

// Over several cycles, while Slurm starts what it likes where it may, jobs end, are
// cancelled and come: nobody is raised above its share but for a node, and whenever
// such a job starts, each GPU that then is free on its node, and not meant for another
// sized job, has its share of CPUs and memory; but for what others took in this cycle.
func TestSizesKeepSharesOverCycles(t *testing.T) {
	raised := 0
	rapid.Check(t, func(t *rapid.T) {
		type held struct {
			node         int
			gpus, cpus   int
			memMB        int64
			placed, over bool // by priod, on the node; above the share
		}
		var nodes []cluster.Node
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			gpus := rapid.SampledFrom([]int{1, 2, 4, 8, 8}).Draw(t, "gpus")
			nodes = append(nodes, sizeNode(fmt.Sprintf("n%d", i), gpus, gpus*rapid.IntRange(2, 5).Draw(t, "ratio")+rapid.IntRange(0, 2).Draw(t, "odd"), int64(gpus)*64000))
		}
		q := &sizeQueue{h: cluster.NewHistory(), s: cluster.Snapshot{At: time.Unix(1_000_000, 0), Nodes: nodes}}
		q.z.Set(Settings{Enabled: true, Within: time.Minute, Jobs: 1000, Table: &workload.Table{}})
		running, own := map[int]held{}, map[cluster.JobID]slurmplug.Asked{}
		take := func(h held, sign int) {
			n := &q.s.Nodes[h.node]
			n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUsUsed+sign*h.gpus, n.CPUsUsed+sign*h.cpus, n.MemUsedMB+int64(sign)*h.memMB
		}
		free := func(n *cluster.Node) [3]int64 {
			return [3]int64{int64(n.GPUs - n.GPUsUsed), int64(n.CPUs - n.CPUsUsed), n.MemMB - n.MemUsedMB}
		}
		// lacks is how much the free GPUs of a node lack of their share.
		lacks := func(n *cluster.Node, f [3]int64) [3]int64 {
			return [3]int64{0, max(int64(n.CPUs)*f[0]/int64(n.GPUs)-f[1], 0), max(n.MemMB*f[0]/int64(n.GPUs)-f[2], 0)}
		}
		for range rapid.IntRange(3, 9).Draw(t, "cycles") {
			for i := range q.s.Jobs {
				j := &q.s.Jobs[i]
				h, runs := running[i]
				switch chance := rapid.IntRange(0, 5).Draw(t, "fate"); {
				case runs && chance < 2: // ends
					take(h, -1)
					delete(running, i)
					j.State = cluster.Other
				case j.State == cluster.Pending && chance == 0: // is cancelled
					j.State = cluster.Other
				}
			}
			for range rapid.IntRange(0, 5).Draw(t, "new jobs") {
				tag := rapid.SampledFrom([]string{
					"cpu=v100:1x1-3x1&v=1", "cpu=v100:1x1-3x3-12x6&v=1", "cpu=v100:2x1-6x4&mem=v100:1000x1-90000x2&v=1", "mem=v100:500x1-2000x3&v=1", "type=be&v=1",
				}).Draw(t, "tag")
				q.add(t, rapid.IntRange(0, len(asks)-1).Draw(t, "way"), rapid.IntRange(1, 4).Draw(t, "cpus"), rapid.Int64Range(1, 64000).Draw(t, "mem"), rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(t, "job gpus"), tag)
				j := &q.s.Jobs[len(q.s.Jobs)-1]
				own[j.ID] = *j.Asked
			}
			q.s.At = q.s.At.Add(time.Duration(rapid.IntRange(1, 70).Draw(t, "pause")) * time.Second)
			q.p.Actions = nil
			for i := range q.p.Decisions {
				q.p.Decisions[i].Size = ""
			}
			q.p.MakeQueue(&q.s) // without those that have ended, or run
			before := make([][3]int64, len(nodes))
			for i := range q.s.Nodes {
				before[i] = lacks(&q.s.Nodes[i], free(&q.s.Nodes[i]))
			}
			anew := q.anew()
			q.z.Decide(&q.s, q.h, &q.p)
			if !slices.Equal(q.p.Actions, anew) {
				t.Fatalf("a priod that was started anew writes\n%+v, the other\n%+v", anew, q.p.Actions)
			}
			for _, a := range q.p.Actions {
				i := int(a.Job.ID) - 1
				q.texts[i] = resized(q.texts[i], a.After.String())
				asked, err := parseAsked(q.texts[i])
				if err != nil || asked.Holds != a.After {
					t.Fatal(err, asked.Holds, a.After)
				}
				q.s.Jobs[i].Asked = asked
				q.wrote(a)
			}
			started := map[int]held{}
			for _, i := range rapid.Permutation(indices(len(q.s.Jobs))).Draw(t, "order") {
				j := &q.s.Jobs[i]
				if j.State != cluster.Pending || rapid.IntRange(0, 2).Draw(t, "starts") == 0 {
					continue
				}
				r, sized := q.h.Requests[j.ID][slurmplug.Size]
				sized = sized && r.Ours(j.Asked.Holds)
				for at := range q.s.Nodes {
					n := &q.s.Nodes[at]
					if f := free(n); j.Asked.Nodes != "" && j.Asked.Nodes != n.Name || f[0] < int64(j.GPUs) || f[1] < int64(j.Asked.CPUs) || f[2] < j.Asked.MemMB {
						continue
					}
					h := held{node: at, gpus: j.GPUs, cpus: j.Asked.CPUs, memMB: j.Asked.MemMB, placed: sized && j.Asked.Nodes != ""}
					moreCPUs, moreMB := h.cpus*n.GPUs > n.CPUs*h.gpus, h.memMB*int64(n.GPUs) > n.MemMB*int64(h.gpus)
					h.over = moreCPUs || moreMB
					if was := own[j.ID]; sized && !h.placed && (moreCPUs && h.cpus > was.CPUs || moreMB && h.memMB > was.MemMB+int64(h.cpus+h.gpus)) {
						t.Fatalf("job %s starts anywhere with %d CPUs and %d MB, asked for %d and %d", j.ID, h.cpus, h.memMB, was.CPUs, was.MemMB)
					}
					take(h, 1)
					running[i], started[i], j.State = h, h, cluster.Running
					j.NodeList, j.CPUs, j.MemMB, j.Start, j.TimeLimit = n.Name, h.cpus, h.memMB, q.s.At, time.Hour
					break
				}
			}
			for at := range q.s.Nodes {
				n := &q.s.Nodes[at]
				f, over, others := free(n), false, [3]int64{}
				for _, h := range started {
					if h.node == at && !h.placed {
						others[1] += max(int64(h.cpus)-int64(n.CPUs*h.gpus/n.GPUs), 0)
						others[2] += max(h.memMB-n.MemMB*int64(h.gpus)/int64(n.GPUs), 0)
					}
					over = over || h.node == at && h.placed && h.over
				}
				for i := range q.s.Jobs {
					if j := &q.s.Jobs[i]; j.State == cluster.Pending && j.Asked.Nodes == n.Name {
						f[0], f[1], f[2] = f[0]-int64(j.GPUs), f[1]-int64(j.Asked.CPUs), f[2]-j.Asked.MemMB
					}
				}
				if !over || f[0] <= 0 {
					continue
				}
				raised++
				now := lacks(n, f)
				for k := 1; k < 3; k++ {
					if now[k] > before[at][k]+others[k]+1 {
						t.Fatalf("%s: %v free of %d GPUs, %d CPUs, %d MB beside a job above its share: %v are lacking, %v before, others took %v", n.Name, f, n.GPUs, n.CPUs, n.MemMB, now, before[at], others)
					}
				}
			}
		}
	})
	if raised == 0 && !testing.Short() { // which draws a fifth of the cases
		t.Error("no job started with more than its share")
	}
}

// A job that gives back what it has above its share leaves a GPU that lacks what another
// one has: that one gives it back in the same cycle.
func TestSizesOverShareOneAfterTheOther(t *testing.T) {
	q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 3, 12, 120000)})
	for _, size := range []struct {
		cpus  int
		memMB int64
	}{{2, 60000}, {7, 20000}} {
		j := q.add(t, 0, 4, 40000, 1, "cpu=v100:1x1-12x2&mem=v100:1000x1-90000x2&v=1")
		own := j.Asked.Holds
		value, _, _ := j.Asked.Resize(size.cpus, size.memMB, "n1")
		q.h.Asked(j.ID, slurmplug.Size, own, value, true, q.s.At)
		*j.Asked = j.Asked.Of(value)
	}
	q.z.Decide(&q.s, q.h, &q.p)
	for i := range 2 {
		if d := q.p.Decisions[i].Size; !strings.Contains(d, "its own request restored, because a free GPU of n1 would lack its share") {
			t.Errorf("job %d: %q, %+v", i+1, d, q.p.Actions)
		}
	}
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
