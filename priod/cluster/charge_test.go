package cluster_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// charged is a cluster of two nodes of 4 a100, one of 8 v100 of a partition of its own, and one of 16 CPUs.
func charged(jobs ...cluster.Job) *cluster.Snapshot {
	node := func(name, gpuType string, gpus, cpus int, gb int64, partitions ...string) cluster.Node {
		return cluster.Node{Name: name, GPUType: gpuType, GPUs: gpus, CPUs: cpus, MemMB: gb << 10, Threads: 2, Usable: true, Partitions: partitions}
	}
	s := &cluster.Snapshot{Jobs: jobs, Nodes: []cluster.Node{
		node("a1", "a100", 4, 32, 128, "gpu", "both"), node("a2", "a100", 4, 32, 128, "gpu", "both"), node("v1", "v100", 8, 32, 64, "big"), node("c1", "", 0, 32, 64, "cpu", "both"),
	}}
	s.Nodes[2].Features = []string{"nvlink"}
	return s
}

func TestChargeIsOfWhatSlurmAllocates(t *testing.T) {
	for name, c := range map[string]struct {
		job  cluster.Job
		want float64
	}{
		"GPUs with their share":              {cluster.Job{Partition: "gpu", GPUs: 2, CPUs: 16, MemMB: 64 << 10}, 2},
		"CPUs beyond it":                     {cluster.Job{Partition: "gpu", GPUs: 1, CPUs: 24}, 3},
		"memory beyond it":                   {cluster.Job{Partition: "gpu", GPUs: 1, CPUs: 1, MemMB: 96 << 10}, 3},
		"all memory, as by --mem=0":          {cluster.Job{Partition: "gpu", GPUs: 1, CPUs: 1, MemMB: 128 << 10}, 4},
		"one CPU is a core":                  {cluster.Job{Partition: "gpu", CPUs: 1}, 0.25},
		"each CPU takes a core":              {cluster.Job{Partition: "gpu", GPUs: 1, CPUs: 8, OneThread: true}, 2},
		"memory grows with CPUs":             {cluster.Job{Partition: "gpu", CPUs: 8, MemMB: 32 << 10, OneThread: true, MemByCPU: true}, 2},
		"--exclusive":                        {cluster.Job{Partition: "gpu", Nodes: 2, GPUs: 2, CPUs: 2, Whole: true}, 8},
		"--exclusive without GPUs":           {cluster.Job{Partition: "gpu", Nodes: 2, CPUs: 2, Whole: true}, 8},
		"--exclusive, the cheapest":          {cluster.Job{Partition: "big,gpu", Nodes: 1, CPUs: 1, Whole: true}, 4},
		"--exclusive, by a feature":          {cluster.Job{Partition: "big,gpu", Features: "nvlink", Nodes: 1, CPUs: 1, Whole: true}, 8},
		"--exclusive, a type":                {cluster.Job{Partition: "big,gpu", GPUType: "v100", GPUs: 1, CPUs: 1, Whole: true}, 8},
		"more than a node":                   {cluster.Job{Partition: "gpu", GPUs: 5, CPUs: 5, Whole: true}, 8},
		"CPUs of each node":                  {cluster.Job{Partition: "gpu", Nodes: 2, GPUs: 2, CPUs: 2, Node: cluster.Least{CPUs: 16}}, 4},
		"no GPUs: a node of CPUs":            {cluster.Job{Partition: "cpu", CPUs: 32}, 4},
		"no GPUs: by memory":                 {cluster.Job{Partition: "cpu", CPUs: 2, MemMB: 32 << 10}, 2},
		"the kind that costs less":           {cluster.Job{Partition: "both", CPUs: 2, MemMB: 64 << 10}, 2},
		"the kind that has GPUs":             {cluster.Job{Partition: "both", GPUs: 1, CPUs: 2}, 1},
		"nothing fits":                       {cluster.Job{Partition: "gpu", GPUType: "h100", GPUs: 3}, 3},
		"a partition that is not known":      {cluster.Job{Partition: "new", GPUs: 3, CPUs: 100}, 3},
		"a constraint that is not known":     {cluster.Job{Partition: "gpu", Features: "((", GPUs: 1, CPUs: 16}, 2},
		"runs on a node":                     {cluster.Job{State: cluster.Running, NodeList: "v1", GPUs: 1, CPUs: 32}, 8},
		"runs on several":                    {cluster.Job{State: cluster.Running, NodeList: "a[1-2]", GPUs: 2, CPUs: 32}, 4},
		"runs on several, uneven":            {cluster.Job{State: cluster.Running, NodeList: "a[1-2]", GPUs: 2, CPUs: 32, Parts: []cluster.Part{{GPUs: 1, CPUs: 24}, {GPUs: 1, CPUs: 8}}}, 4},
		"runs on several, one of which full": {cluster.Job{State: cluster.Running, NodeList: "a[1-2]", GPUs: 5, CPUs: 10, Parts: []cluster.Part{{GPUs: 4, CPUs: 8}, {GPUs: 1, CPUs: 2}}}, 5},
		"runs alone there":                   {cluster.Job{State: cluster.Running, NodeList: "a[1-2]", CPUs: 2, Whole: true}, 8},
		"runs on CPUs alone":                 {cluster.Job{State: cluster.Running, NodeList: "c1", CPUs: 16}, 2},
		"runs where no node is known":        {cluster.Job{State: cluster.Running, NodeList: "x1", GPUs: 2, CPUs: 99}, 2},
		"ended":                              {cluster.Job{State: cluster.Other, GPUs: 2}, 2},
	} {
		if c.job.State == cluster.Other && name != "ended" {
			c.job.State = cluster.Pending
		}
		if got := cluster.NewCharges(charged()).Of(&c.job); got != c.want {
			t.Errorf("%s: charged %g, want %g", name, got, c.want)
		}
	}
}

// A heterogeneous job that waits starts as a whole; each component that runs has what it holds.
func TestChargeOfComponents(t *testing.T) {
	s := charged(
		cluster.Job{ID: slurmplug.Plain(1), State: cluster.Pending, HetLeader: 1, Partition: "gpu", GPUs: 1, CPUs: 1},
		cluster.Job{ID: slurmplug.Plain(2), State: cluster.Pending, HetLeader: 1, HetOffset: 1, Partition: "gpu", CPUs: 32},
		cluster.Job{ID: slurmplug.Plain(3), State: cluster.Running, HetLeader: 3, NodeList: "a1", GPUs: 1, CPUs: 1})
	of := cluster.NewCharges(s)
	if a, b := of.Of(&s.Jobs[0]), of.Of(&s.Jobs[2]); a != 5 || b != 1 {
		t.Fatalf("%g waiting, %g running: want 5 and 1", a, b)
	}
}

// Where Slurm does not hand out memory, no GPU is stranded by it.
func TestChargeWithoutMemory(t *testing.T) {
	s := charged()
	s.MemShared = true
	if got := cluster.NewCharges(s).Of(&cluster.Job{State: cluster.Pending, Partition: "gpu", GPUs: 1, CPUs: 1, MemMB: 128 << 10}); got != 1 {
		t.Fatalf("charged %g", got)
	}
}

// What a job is charged while it waits is no less than the GPUs that it asks for, whole nodes where it has them for itself,
// more than nothing on nodes with GPUs, and no more than what it is charged once placement has it run.
func TestChargeOfRandomJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &cluster.Snapshot{}
		kinds := rapid.IntRange(1, 3).Draw(t, "kinds")
		for k := range kinds {
			n := cluster.Node{
				GPUs: rapid.IntRange(0, 8).Draw(t, "GPUs of a node"), CPUs: 4 * rapid.IntRange(2, 32).Draw(t, "quarter of its CPUs"), MemMB: 1000 * rapid.Int64Range(1, 500).Draw(t, "its GB"),
				Threads: rapid.IntRange(1, 2).Draw(t, "threads"), Usable: true, Partitions: []string{"p"}, Features: []string{fmt.Sprint("f", k)},
			}
			if n.GPUs > 0 {
				n.GPUType = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type")
			}
			for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
				n.Name = fmt.Sprintf("n%d-%d", k, i)
				s.Nodes = append(s.Nodes, n)
			}
		}
		j := cluster.Job{
			State: cluster.Pending, Partition: "p", GPUs: rapid.IntRange(0, 12).Draw(t, "GPUs"), Nodes: rapid.IntRange(0, 3).Draw(t, "on nodes"), CPUs: rapid.IntRange(1, 150).Draw(t, "CPUs"),
			MemMB: rapid.Int64Range(0, 600_000).Draw(t, "MB"), Whole: rapid.Bool().Draw(t, "whole"), OneThread: rapid.Bool().Draw(t, "one thread"),
			MemByCPU: rapid.Bool().Draw(t, "memory by CPU"), GPUType: rapid.SampledFrom([]string{"", "", "a"}).Draw(t, "asks for"),
		}
		charges := cluster.NewCharges(s)
		asks := charges.Of(&j)
		if asks < float64(j.GPUs) || math.IsInf(asks, 0) || math.IsNaN(asks) {
			t.Fatalf("charged %g for %d GPUs", asks, j.GPUs)
		}
		if again := charges.Of(&j); again != asks {
			t.Fatalf("charged %g, then %g", asks, again)
		}
		m := nodemap.New(s)
		types, _ := m.Types(&j)
		shares, fits := m.Nodes.Fit(m.Request(&j, types), nil)
		if !fits {
			return
		}
		run := j
		run.State, run.GPUs, run.CPUs, run.MemMB = cluster.Running, 0, 0, 0
		var names []string
		whole, gpuNodes, oneKind := 0, true, true
		for _, share := range shares {
			names = append(names, m.Names[share.Node])
			run.Parts = append(run.Parts, cluster.Part{GPUs: int(share.GPUs), CPUs: int(share.CPUs), MemMB: share.MemMB})
			run.GPUs, run.CPUs, run.MemMB = run.GPUs+int(share.GPUs), run.CPUs+int(share.CPUs), run.MemMB+share.MemMB
			size := m.Nodes.Size(share.Node)
			whole, gpuNodes = whole+int(size.GPUs), gpuNodes && size.GPUs > 0
			oneKind = oneKind && m.Nodes.Type(share.Node) == m.Nodes.Type(shares[0].Node)
		}
		run.NodeList = strings.Join(names, ",")
		holds := charges.Of(&run)
		switch {
		case oneKind && holds < asks-1e-9:
			t.Fatalf("charged %g while it waits, and %g on %s with %+v", asks, holds, run.NodeList, run.Parts)
		case gpuNodes && (asks <= 0 || holds <= 0):
			t.Fatalf("charged %g and %g on nodes with GPUs", asks, holds)
		case gpuNodes && j.Whole && holds != float64(whole):
			t.Fatalf("charged %g for nodes of %d GPUs that it has for itself", holds, whole)
		case gpuNodes && j.Whole && kinds == 1 && j.Nodes > 1 && asks != float64(whole):
			t.Fatalf("charged %g for as many while it waits", asks)
		}
	})
}

// A TE job without GPUs uses what it takes; a BE job without GPUs has no stay. What is there for GPUs does not hear of either.
func TestUseWithoutGPUs(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	run := func(id uint32, class string) cluster.Job {
		return cluster.Job{ID: slurmplug.Plain(id), TaskCount: 1, State: cluster.Running, User: "ann", CPUs: 16, NodeList: "a1", Start: at, Tag: jobtag.Tag{Type: class}}
	}
	h, s := cluster.NewHistory(), charged(run(1, "te"), run(2, "be"))
	s.At = at
	if stays := h.Observe(s); len(stays) != 1 || stays[0].Job != slurmplug.Plain(1) || stays[0].GPUs != 0 || stays[0].Charge != 2 {
		t.Fatalf("%+v", stays)
	}
	unlimited := func(string, string) time.Duration { return 0 }
	if users, _, _ := h.TEUse(at.Add(time.Minute), unlimited); users["ann"] != (cluster.Use{GPUs: 2, GPUSeconds: 120}) {
		t.Errorf("%+v", users)
	}
	for stay := range h.Stays(true) {
		t.Errorf("on GPUs: %+v", stay)
	}
	s.Jobs, s.At = nil, at.Add(2*time.Minute)
	h.Observe(s)
	unseen := cluster.PastStay{Stay: cluster.Stay{Job: slurmplug.Plain(3), Start: at, End: at.Add(time.Minute), Closed: true, Charge: 1, User: "ann", Class: cluster.TE}}
	best := unseen
	best.Job, best.Class = slurmplug.Plain(4), cluster.BE
	h.Fill([]cluster.PastStay{unseen, best})
	if users, _, _ := h.TEUse(s.At, unlimited); users["ann"] != (cluster.Use{GPUSeconds: 60}) {
		t.Errorf("%+v", users)
	}
}
