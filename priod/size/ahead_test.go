package size

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// A job that no node has room for is raised to its share before it starts, and keeps
// that however long it waits; but not where it would find a place with its own.
func TestSizesAhead(t *testing.T) {
	q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 8, 24, 512000)})
	n := &q.s.Nodes[0]
	n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = 8, 8, 64000
	j := q.add(t, 0, 1, 64000, 1, "cpu=v100:1x1-3x3-12x4&v=1")
	cycle := func(after time.Duration) []plan.Action {
		q.s.At, q.p.Actions, q.p.Decisions[0].Size = q.s.At.Add(after), nil, ""
		q.z.Decide(&q.s, q.h, &q.p)
		return q.p.Actions
	}
	first := cycle(0)
	if len(first) != 1 || !strings.HasSuffix(first[0].After.String(), "NumCPUs=3 MinMemoryNode=64000 ReqNodeList=") || first[0].Reason != plan.SizeAhead {
		t.Fatalf("%+v, %q", first, q.p.Decisions[0].Size)
	}
	q.wrote(first[0])
	*j.Asked = j.Asked.Of(first[0].After)
	for _, free := range []struct{ gpus, cpus int }{{0, 16}, {1, 16}} {
		n.GPUsUsed, n.CPUsUsed = 8-free.gpus, 24-free.cpus
		if kept := cycle(time.Hour); len(kept) != 0 || !strings.Contains(q.p.Decisions[0].Size, "size: requested 1 CPU") {
			t.Fatalf("%+v: %+v, %q", free, kept, q.p.Decisions[0].Size)
		}
	}
	n.GPUsUsed, n.CPUsUsed = 7, 22 // jobs without GPUs hold the rest
	if back := cycle(time.Second); len(back) != 1 || back[0].After != first[0].Was {
		t.Errorf("%+v, %q", back, q.p.Decisions[0].Size)
	}
}

// plannedQueue is a job that waits for n2, where another one leaves what it gains from, and
// what a cycle writes after so long.
func plannedQueue(t *testing.T) (q *sizeQueue, j *cluster.Job, written plan.Action, cycle func(time.Duration) []plan.Action) {
	t.Helper()
	q = newSizeQueue(t, []cluster.Node{sizeNode("n1", 2, 12, 128000), sizeNode("n2", 2, 12, 128000)})
	for i, at := range []struct {
		node string
		cpus int
	}{{"n1", 6}, {"n1", 6}, {"n2", 1}, {"n2", 3}} {
		r := q.add(t, 0, at.cpus, 64000, 1, "cpu=v100:1x1-3x1&v=1")
		r.State, r.NodeList, r.Start = cluster.Running, at.node, q.s.At
		n := &q.s.Nodes[i/2]
		n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUsUsed+1, n.CPUsUsed+at.cpus, n.MemUsedMB+64000
	}
	q.add(t, 0, 6, 64000, 1, "cpu=v100:1x1-6x3-10x4-12x5&v=1").TimeLimit = time.Hour
	cycle = func(after time.Duration) []plan.Action {
		q.s.At, q.p.Actions = q.s.At.Add(after), nil
		for i := range q.p.Decisions {
			q.p.Decisions[i].Size = ""
		}
		q.z.Decide(&q.s, q.h, &q.p)
		for _, a := range q.p.Actions {
			q.wrote(a)
			asked := &q.s.Jobs[a.Job.ID-1].Asked
			now := (*asked).Of(a.After)
			*asked = &now
		}
		return q.p.Actions
	}
	first := cycle(0)
	if len(first) != 1 || !strings.HasSuffix(first[0].After.String(), "NumCPUs=10 MinMemoryNode=64000 ReqNodeList=n2") || first[0].Reason != plan.SizeAhead {
		t.Fatalf("%+v, %q", first, q.p.Decisions[4].Size)
	}
	if kept := cycle(59 * time.Minute); len(kept) != 0 || !strings.Contains(q.p.Decisions[4].Size, "gets 10 CPUs and 64000 MB") {
		t.Fatalf("%+v, %q", kept, q.p.Decisions[4].Size)
	}
	return q, &q.s.Jobs[4], first[0], cycle
}

// A job that gains from more than its share waits for the node that has it once a job
// there ends, and keeps that; when GPUs are free it is sized for what is there then.
// Once later jobs have started before it for as long as its time limit is, it has its
// own request again, and no other for ten times within.
func TestSizesAheadOnNode(t *testing.T) {
	q, _, _, cycle := plannedQueue(t)
	q.s.Jobs[2].State = cluster.Other
	q.s.Nodes[1].GPUsUsed, q.s.Nodes[1].CPUsUsed, q.s.Nodes[1].MemUsedMB = 1, 4, 64000 // and a job without GPUs came
	if now := cycle(time.Second); len(now) != 1 || !strings.Contains(now[0].After.String(), "NumCPUs=6 ") || now[0].Reason == plan.SizeAhead {
		t.Errorf("%+v, %q", now, q.p.Decisions[4].Size)
	}

	q, _, first, cycle := plannedQueue(t)
	was := first.Was
	if kept := cycle(time.Hour); len(kept) != 0 { // nobody has passed it
		t.Fatalf("%+v", kept)
	}
	later := q.add(t, 0, 1, 64000, 1, "cpu=v100:1x1-3x1&v=1")
	later.State, later.NodeList, later.Submit, later.Start = cluster.Running, "n1", q.s.At, q.s.At
	if back := cycle(time.Second); len(back) != 1 || back[0].After != was || back[0].Reason != plan.SizeRests {
		t.Fatalf("%+v, %q", back, q.p.Decisions[4].Size)
	}
	for _, after := range []time.Duration{time.Second, 9*time.Minute + 58*time.Second} {
		if again := cycle(after); len(again) != 0 {
			t.Fatalf("%+v", again)
		}
	}
}

// goesFirst puts a job that did not agree to another size in front of the queue.
func (q *sizeQueue) goesFirst(t *testing.T) {
	q.add(t, 0, 1, 1000, 1, "type=be&v=1")
	q.p.Decisions[len(q.p.Decisions)-1].Own = 2_000_000
	q.p.MakeQueue(&q.s)
}

// ends lets all jobs of n2 end at once; what has no GPU keeps two CPUs of it.
func (q *sizeQueue) ends() {
	q.s.Jobs[2].State, q.s.Jobs[3].State = cluster.Other, cluster.Other
	n := &q.s.Nodes[1]
	n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = 0, 2, 0
}

// A job that waits for a node where two jobs end at once does not keep what it was to
// have after one end, where the other GPU would lack its share: neither when the mechanism
// gives it nothing, nor when its turn is far off.
func TestSizesAheadOfTwoEnds(t *testing.T) {
	for name, c := range map[string]struct{ first, jobs int }{"no grant": {1, 100}, "far off": {2, 1}} {
		q, j, was, cycle := plannedQueue(t)
		for range c.first {
			q.goesFirst(t)
		}
		q.z.set.Jobs = c.jobs
		q.ends()
		j = &q.s.Jobs[j.ID.ID-1]
		if now := cycle(time.Second); len(now) != 1 || now[0].Job != j.ID || now[0].After == was.After || j.Asked.CPUs > 6 {
			t.Errorf("%s: %+v, %q", name, now, q.p.Decisions[4].Size)
		}
	}
}

// What a job that waits for a node is to give back, and Slurm refuses, is tried again.
func TestSizesAheadThatSlurmKeeps(t *testing.T) {
	q, j, was, cycle := plannedQueue(t)
	later := q.add(t, 0, 1, 64000, 1, "cpu=v100:1x1-3x1&v=1")
	j = &q.s.Jobs[j.ID.ID-1]
	later.State, later.NodeList, later.Submit, later.Start = cluster.Running, "n1", q.s.At, q.s.At
	had := *j.Asked
	for i, tried := range []bool{true, false, false, true, false} { // every half minute, with start_timeout = 1m
		after := 29 * time.Second
		if i == 0 {
			after = time.Hour
		}
		past, request := q.h.Sizes[j.ID], q.h.Requests[j.ID][slurmplug.Size]
		got := cycle(after)
		if is := len(got) == 1 && got[0].After == was.Was; is != tried {
			t.Fatalf("cycle %d: %+v, %q", i, got, q.p.Decisions[4].Size)
		}
		if tried { // it has all that it had
			*j.Asked = had
			q.h.Sizes[j.ID], q.h.Requests[j.ID] = past, map[slurmplug.Lever]cluster.Requested{slurmplug.Size: request}
			q.h.Refuse(j.ID, slurmplug.Size, "veto", q.s.At)
		}
	}
}

// A job does not wait for a node with a size with which it could start when a job of two
// GPUs ends there, beside a GPU that would then lack its share.
func TestSizesAheadBesideLargerEnds(t *testing.T) {
	for gpus, planned := range map[int]bool{2: false, 1: true} {
		q := newSizeQueue(t, []cluster.Node{sizeNode("n1", 2+gpus, 8*(2+gpus), 400000)})
		for _, r := range []struct{ gpus, cpus int }{{1, 10}, {1, 10}, {gpus, 12 - 8*(2-gpus)}} {
			j := q.add(t, 0, r.cpus, 1000, r.gpus, "cpu=v100:1x1-3x1&v=1")
			j.State, j.NodeList, j.Start = cluster.Running, "n1", q.s.At
		}
		n := &q.s.Nodes[0]
		n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUs, n.CPUs, 3000
		q.add(t, 0, 8, 1000, 1, "cpu=v100:1x1-8x3-10x4&v=1")
		q.z.Decide(&q.s, q.h, &q.p)
		if is := len(q.p.Actions) == 1 && strings.HasSuffix(q.p.Actions[0].After.String(), "NumCPUs=10 MinMemoryNode=1000 ReqNodeList=n1"); is != planned {
			t.Errorf("an end of %d GPUs: %+v, %q", gpus, q.p.Actions, q.p.Decisions[3].Size)
		}
	}
}

// A job that waits for a node goes to a better one, also where a later job waits for that;
// and its waiting counts from the first of its nodes: after a day in which later jobs start
// before it, it has its own request again.
func TestSizesAheadMovesToABetterNode(t *testing.T) {
	q, _, was, cycle := plannedQueue(t)
	q.add(t, 0, 6, 64000, 1, "cpu=v100:1x1-6x3-10x4-12x5&v=1").TimeLimit = time.Hour
	q.s.Jobs[4].TimeLimit = 30 * 24 * time.Hour
	n := &q.s.Nodes[0]
	q.s.Jobs[0].CPUs, q.s.Jobs[1].CPUs, n.CPUsUsed = 3, 5, 7 // n1 has as much to give as n2
	later := &q.s.Jobs[5]
	if got := cycle(time.Second); len(got) != 1 || got[0].Job != later.ID || !strings.HasSuffix(got[0].After.String(), "ReqNodeList=n1") {
		t.Fatalf("%+v", got)
	}
	q.s.Jobs[0].CPUs, q.s.Jobs[1].CPUs, n.CPUsUsed = 1, 1, 1 // and now more
	got := cycle(time.Second)
	j := &q.s.Jobs[4]
	if len(got) == 0 || j.Asked.Nodes != "n1" || j.Asked.CPUs != 12 || later.Asked.Nodes == "n1" {
		t.Fatalf("%+v: %q, %q", got, j.Asked.Holds, later.Asked.Holds)
	}
	passer := q.add(t, 0, 1, 64000, 1, "cpu=v100:1x1-3x1&v=1")
	passer.State, passer.NodeList, passer.Submit, passer.Start = cluster.Running, "n2", q.s.At, q.s.At
	if back := cycle(23*time.Hour - 2*time.Second); slices.ContainsFunc(back, func(a plan.Action) bool { return a.Job == was.Job }) {
		t.Fatalf("within a day: %+v, %q", back, q.p.Decisions[4].Size)
	}
	if back := cycle(time.Minute); !slices.ContainsFunc(back, func(a plan.Action) bool { return a.Job == was.Job && a.After == was.Was }) {
		t.Errorf("after a day: %+v, %q", back, q.p.Decisions[4].Size)
	}
}

// A job within its account's share waits for no node: others leave for it where they lose least.
func TestEntitledWaitsForNoNode(t *testing.T) {
	_, j, _, cycle := plannedQueue(t)
	j.Right = cluster.Entitled
	if got := cycle(time.Second); len(got) != 1 || strings.Contains(got[0].After.String(), "ReqNodeList=n") {
		t.Errorf("%+v", got)
	}
	if again := cycle(time.Second); len(again) != 0 {
		t.Errorf("%+v", again)
	}
}
