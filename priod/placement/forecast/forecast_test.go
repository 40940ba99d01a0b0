package forecast

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload/runtimes"
	"slurmprio/slurmplug"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// some is a small cluster with jobs that run, and a queue.
func some(t *rapid.T) *Queue {
	s := &cluster.Snapshot{At: now}
	number := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
	id := uint32(0)
	job := func(state cluster.State, gpus int) cluster.Job {
		id++
		return cluster.Job{
			ID: slurmplug.Plain(id), State: state, Partition: "p", Reason: "Priority", GPUs: gpus, CPUs: gpus, MemMB: int64(1000 * gpus), Nodes: 1, TaskCount: 1, Priority: 1,
			TimeLimit: time.Duration(number("limit, min", 1, 300)) * time.Minute,
		}
	}
	for i := range number("nodes", 1, 4) {
		n := cluster.Node{Name: fmt.Sprint("n", i), Usable: true, State: "IDLE", Partitions: []string{"p"}, GPUType: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type"), GPUs: 4, CPUs: 16, MemMB: 64000}
		for n.GPUsUsed < 4 && number("runs", 0, 2) > 0 {
			j := job(cluster.Running, number("held", 1, 4-n.GPUsUsed))
			j.NodeList, j.GPUType, j.Start = n.Name, n.GPUType, now.Add(-time.Duration(number("ran, s", 0, 600))*time.Second)
			n.GPUsUsed, n.CPUsUsed, n.MemUsedMB = n.GPUsUsed+j.GPUs, n.CPUsUsed+j.CPUs, n.MemUsedMB+j.MemMB
			s.Jobs = append(s.Jobs, j)
		}
		s.Nodes = append(s.Nodes, n)
	}
	for range number("waiting", 1, 10) {
		j := job(cluster.Pending, number("GPUs", 1, 4))
		j.GPUType = rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "asks for")
		s.Jobs = append(s.Jobs, j)
	}
	q := &Queue{Now: s, Memory: true}
	for i := range s.Jobs {
		if s.Jobs[i].State == cluster.Pending {
			q.Order = append(q.Order, &s.Jobs[i])
		}
	}
	return q
}

// No job is said to start before now, or never where it fits the empty cluster. One that comes directly before another does not
// let that start sooner, and changes nothing for those ahead of it. (It may let a job farther behind start sooner: what it
// delays leaves a gap that others fit.)
func TestNoStartIsTooSoon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := some(t)
		before := q.Starts()
		types := map[string]bool{"": true}
		for i := range q.Now.Nodes {
			types[q.Now.Nodes[i].GPUType] = true
		}
		for _, j := range q.Order {
			if at, planned := before[j.ID]; planned != types[j.GPUType] || at < 0 || math.IsNaN(at) {
				t.Fatalf("job %s starts after %v s, planned: %v", j.ID, at, planned)
			}
		}
		place := rapid.IntRange(0, len(q.Order)-1).Draw(t, "place")
		next := q.Order[place]
		first := *next
		first.ID, first.GPUs, first.TimeLimit = slurmplug.Plain(1000), rapid.IntRange(1, 4).Draw(t, "GPUs of the first"), time.Duration(rapid.IntRange(1, 300).Draw(t, "limit"))*time.Minute
		more := *q
		more.Order = append(append(append([]*cluster.Job{}, q.Order[:place]...), &first), q.Order[place:]...)
		after := more.Starts()
		for _, j := range q.Order[:place] {
			if before[j.ID] != after[j.ID] {
				t.Fatalf("job %s starts after %v s, with another behind it after %v s", j.ID, before[j.ID], after[j.ID])
			}
		}
		if types[next.GPUType] && after[next.ID] < before[next.ID] {
			t.Fatalf("job %s starts after %v s, with another before it after %v s", next.ID, before[next.ID], after[next.ID])
		}
	})
}

// What a draw says of a job depends on nothing but the job and the draw: not on who else is in the queue, nor on who asks.
// Over the draws of many jobs it is even.
func TestDrawsAreOfTheJob(t *testing.T) {
	var past []runtimes.Run
	for i := range 60 {
		start := now.Add(time.Duration(i-200) * time.Minute)
		past = append(past, runtimes.Run{Kind: runtimes.Kind{GPUs: 1, Limit: time.Hour}, Submit: start, Start: start, End: start.Add(time.Duration(60*i) * time.Second)})
	}
	m := runtimes.Learn(past, now)
	rapid.Check(t, func(t *rapid.T) {
		q := some(t)
		all := q.Expect(ByPast(m, now), 5)
		less := *q
		less.Order = q.Order[:rapid.IntRange(1, len(q.Order)).Draw(t, "first")]
		for id, eta := range less.Expect(ByPast(m, now), 5) {
			if all[id] != eta || eta.Median < 0 || eta.P90 < eta.Median {
				t.Fatalf("job %s: %+v, in the whole queue %+v", id, eta, all[id])
			}
		}
	})
	counts := [10]int{}
	const jobs, draws = 500, 20
	for id := range uint32(jobs) {
		for n := range draws {
			counts[int(10*Drawn{Draw: n}.Uniform(slurmplug.Plain(id)))]++
		}
	}
	for tenth, n := range counts {
		if n < jobs*draws/10*9/10 || n > jobs*draws/10*11/10 {
			t.Errorf("%d of %d draws are in tenth %d", n, jobs*draws, tenth)
		}
	}
}
