package allocate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// in puts a node into partitions.
func in(n cluster.Node, partitions ...string) cluster.Node {
	n.Partitions = partitions
	return n
}

func of(partitions string, j cluster.Job) cluster.Job {
	j.Partition = partitions
	return j
}

func timesOf(s *site, ids ...uint32) (times [][]float64) {
	shares := s.allocate(0)
	for _, id := range ids {
		times = append(times, shares.Jobs.Get(slurmplug.Plain(id)).Time)
	}
	return times
}

// A type in two partitions is divided among the jobs that reach each of them: three jobs of one share its two GPUs, whatever is
// idle in the other, by every policy.
func TestTypeInSeveralPartitions(t *testing.T) {
	for _, policy := range Names() {
		s := newSite(of("p", waiting(1, 1, speeds(1, 1))), of("p", waiting(2, 1, speeds(1, 1))), of("p", waiting(3, 1, speeds(1, 1))), of("p,q", waiting(4, 1, speeds(1, 1))))
		s.set.Policy = Policy(policy)
		s.Nodes = []cluster.Node{in(gpuNode("p1", "a100", 2), "p"), in(gpuNode("q1", "a100", 2), "q")}
		sum := 0.0
		for _, x := range timesOf(s, 1, 2, 3) {
			sum += x[0]
		}
		if math.Abs(sum-2) > 1e-6 {
			t.Errorf("%s: three jobs have %v of the 2 GPUs that they reach", policy, sum)
		}
	}
}

// On random sites with random partitions no jobs have more of a type than the nodes that they reach have, however they are put
// together; and where each job reaches all nodes, partitions change no digit.
func TestNoMoreThanIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"p", "q", "r", "s"}
		some := func(label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID[string]).Draw(t, label)
		}
		whole, divided, types := newSite(), newSite(), []string{"a100", "v100"}
		whole.Nodes, divided.Nodes = nil, nil
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			n := gpuNode(fmt.Sprint("n", i), rapid.SampledFrom(types).Draw(t, "type"), rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus"))
			n.Usable = i == 0 || rapid.IntRange(0, 9).Draw(t, "up") > 0
			divided.Nodes = append(divided.Nodes, in(n, some("of a node")...))
			whole.Nodes = append(whole.Nodes, in(n, "p"))
		}
		for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
			j := waiting(uint32(i+1), rapid.SampledFrom([]int{1, 1, 2, 4, 6}).Draw(t, "gang"), speeds(1, rapid.SampledFrom([]float64{0.1, 0.5, 1, 2}).Draw(t, "speed")))
			j.Nodes = 0
			divided.Jobs = append(divided.Jobs, of(strings.Join(some("of a job"), ","), j))
			j.GPUs = 1 // a gang lies on nodes of the same partitions
			whole.Jobs = append(whole.Jobs, of("p", j))
		}
		divided.set.Policy = Policy(rapid.SampledFrom(Names()).Draw(t, "policy"))
		whole.set.Policy = divided.set.Policy
		shares := divided.allocate(0)
		if divided.l.failure != "" {
			t.Fatal(divided.l.failure)
		}
		for of := range 1 << len(names) {
			reached := func(partitions []string) bool {
				return slices.ContainsFunc(partitions, func(p string) bool { return of&(1<<slices.Index(names, p)) != 0 })
			}
			for at, gpuType := range shares.Types {
				gpus, used := 0, 0.0
				for _, n := range divided.Nodes {
					if n.GPUType == gpuType && n.Usable && reached(n.Partitions) {
						gpus += n.GPUs
					}
				}
				for i := range divided.Jobs {
					j := &divided.Jobs[i]
					outside := slices.ContainsFunc(names, func(p string) bool {
						return of&(1<<slices.Index(names, p)) == 0 && (&cluster.Node{Partitions: []string{p}}).In(j.Partition)
					})
					if x := shares.Jobs.Get(j.ID).Time; x != nil && !outside {
						used += x[at] * float64(j.GPUs)
					}
				}
				if used > float64(gpus)+1e-5 {
					t.Fatalf("jobs of partitions %b have %v of the %d %s that they reach", of, used, gpus, gpuType)
				}
			}
		}
		before := whole.allocate(0)
		for i := range whole.Nodes {
			whole.Nodes[i].Partitions = append([]string{"p"}, some("more of a node")...)
		}
		again := newSite(whole.Jobs...)
		again.Nodes, again.set = whole.Nodes, whole.set
		after := again.allocate(0)
		for i := range whole.Jobs {
			id := whole.Jobs[i].ID
			if a, b := before.Jobs.Get(id).Time, after.Jobs.Get(id).Time; !slices.Equal(a, b) {
				t.Fatalf("job %s has %v, and %v where its nodes are in other partitions, too", id, a, b)
			}
		}
	})
}

// More pools than the optimiser is to have columns are put together, the smallest first.
func TestManyPools(t *testing.T) {
	s := newSite()
	s.Nodes = []cluster.Node{gpuNode("v", "v100", 4)}
	for i := range 150 {
		own := fmt.Sprint("owner", i)
		s.Nodes = append(s.Nodes, in(gpuNode(own, "a100", 1+i), own, "gpu"))
		job := of(own, waiting(uint32(i+1), 1+i, speeds(1, 0.5)))
		job.CPUs = 1
		s.Jobs = append(s.Jobs, job)
	}
	s.Jobs = append(s.Jobs, waiting(1000, 2, speeds(1, 0.5)))
	shares := s.allocate(0)
	if n := len(s.l.columns); n != mostColumns || s.l.failure != "" {
		t.Fatalf("%d columns, want %d; %s", n, mostColumns, s.l.failure)
	}
	placed := 0
	for i := range s.Jobs {
		if x := shares.Jobs.Get(s.Jobs[i].ID).Time; x != nil { // else its node is of one kind too many
			placed++
			if math.Abs(x[0]+x[1]-1) > 1e-6 {
				t.Errorf("job %s has %v of its time", s.Jobs[i].ID, x)
			}
		}
	}
	if placed < 50 {
		t.Errorf("%d jobs have time", placed)
	}
}
