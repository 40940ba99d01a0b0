package decide

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/policy/allocation"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

func gpuNode(name, gpuType string, gpus int) cluster.Node {
	return cluster.Node{Name: name, Usable: true, State: "IDLE", GPUType: gpuType, GPUs: gpus, CPUs: 64, MemMB: 256 << 10, Partitions: []string{"gpu"}, Features: []string{gpuType}}
}

func speeds(a100, v100 float64) jobtag.Tag {
	return jobtag.Tag{Type: "be", Speed: map[string]float64{"a100": a100, "v100": v100}}
}

func waiting(id uint32, gpus int, tag jobtag.Tag) cluster.Job {
	return cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, Priority: 1,
		GPUs: gpus, CPUs: gpus, Nodes: 1, TimeLimit: time.Hour, Submit: start, Eligible: start, SiteFactorKnown: true, Tag: tag,
	}
}

func maxMin() AllocationSettings {
	return AllocationSettings{Policy: allocation.Policy{Name: "max-min"}, Every: 30 * time.Minute}
}

func close(a, b float64) bool { return math.Abs(a-b) < 1e-6*(1+math.Abs(b)) }

// Two programs on two types: each gets the one that it gains most from.
func TestAllocate(t *testing.T) {
	s := &cluster.Snapshot{At: start, Nodes: []cluster.Node{gpuNode("a", "a100", 1), gpuNode("v", "v100", 1)}}
	s.Jobs = []cluster.Job{waiting(1, 1, speeds(1, 0.1)), waiting(2, 1, speeds(1, 0.9)), waiting(3, 2, speeds(1, 0.9)), waiting(4, 0, jobtag.Tag{})}
	s.Jobs[2].GPUType = "v100"
	h, l := cluster.NewHistory(), &Ledger{}
	h.Observe(s)
	set := maxMin()
	set.Policy.Name = "max-throughput"
	got := l.Allocate(s, h, set)
	if len(got.Jobs) != 3 {
		t.Fatalf("%d jobs", len(got.Jobs))
	}
	one, two, three := got.Jobs[slurmplug.Plain(1)], got.Jobs[slurmplug.Plain(2)], got.Jobs[slurmplug.Plain(3)]
	if one.Time[0] < 0.9 || two.Time[1] < 0.9 {
		t.Errorf("times %v and %v", one.Time, two.Time)
	}
	if three.Speed[0] != 0 || three.Speed[1] != 0 || three.Time != nil || !math.IsInf(three.Run[1], 1) {
		t.Errorf("a gang of two fits nowhere: %+v", three)
	}
	if !close(one.Priority, plan.Untouched) || three.Priority != 0 || !close(one.Run[0], 360) || !close(one.Run[1], 3600) {
		t.Errorf("%+v", one)
	}
}

// BenchmarkAllocate is a cycle of a large site: 100,000 jobs, a fifth of them
// running, of 60 programs and 5 sizes, on 10,000 nodes of three types.
func BenchmarkAllocate(b *testing.B) {
	s := &cluster.Snapshot{At: start, Multifactor: cluster.Multifactor{Span: span}}
	for n := range 10_000 {
		s.Nodes = append(s.Nodes, gpuNode(fmt.Sprintf("n%05d", n), []string{"a100", "k80", "v100"}[n%3], 4))
	}
	for id := range uint32(100_000) {
		p := float64(id % 60)
		j := waiting(id+1, 1<<(id/60%5%3), jobtag.Tag{Type: "be", Speed: map[string]float64{"a100": 1, "v100": 0.2 + p/100, "k80": 0.05 + p/200}})
		if id%5 == 0 {
			j.State, j.Start, j.GPUType = cluster.Running, start.Add(-time.Duration(id)*time.Second), s.Nodes[id%3].GPUType
		}
		s.Jobs = append(s.Jobs, j)
	}
	for _, changed := range []bool{false, true} {
		b.Run(fmt.Sprint("changed=", changed), func(b *testing.B) {
			h, l := cluster.NewHistory(), &Ledger{}
			h.Observe(s)
			shares := l.Allocate(s, h, maxMin())
			set := settings(slurmplug.SiteFactor)
			set.Order, set.Shares = GavelOrder, shares
			for _, a := range Decide(s, h, set).Actions {
				v, _ := strconv.ParseInt(a.After, 10, 64)
				s.Jobs[a.Job.ID-1].SiteFactor = v
				h.Wrote(a.Job, Effect(a, h), false)
			}
			at := s.At
			b.ReportAllocs()
			for b.Loop() {
				s.At = s.At.Add(time.Second)
				h.Observe(s)
				l.dirty = changed
				set.Shares = l.Allocate(s, h, maxMin())
			}
			s.At = at
		})
	}
	b.Run("decide", func(b *testing.B) {
		h, l := cluster.NewHistory(), &Ledger{}
		for i := range s.Jobs {
			s.Jobs[i].SiteFactor = 0
		}
		h.Observe(s)
		set := settings(slurmplug.SiteFactor)
		set.Order, set.Shares = GavelOrder, l.Allocate(s, h, maxMin())
		for _, a := range Decide(s, h, set).Actions {
			v, _ := strconv.ParseInt(a.After, 10, 64)
			s.Jobs[a.Job.ID-1].SiteFactor = v
			h.Wrote(a.Job, Effect(a, h), false)
		}
		b.ReportAllocs()
		for b.Loop() {
			if n := len(Decide(s, h, set).Actions); n != 0 {
				b.Fatal(n, "writes")
			}
		}
	})
}
