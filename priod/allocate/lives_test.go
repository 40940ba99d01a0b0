package allocate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// The drained node of the pure case: a running job is the first to ask where its shape fits.
func TestRunningJobDoesNotSpeakForItsShape(t *testing.T) {
	runs := waiting(1, 1, speeds(1, 0.5))
	runs.State, runs.GPUType, runs.NodeList, runs.Start = cluster.Running, "a100", "a", start
	s := newSite(waiting(1, 1, speeds(1, 0.5)))
	s.allocate(0)
	s.Jobs[0] = runs
	s.allocate(time.Minute)
	for _, usable := range []bool{false, true} {
		s.Nodes[1].Usable = usable
		s.allocate(time.Minute)
	}
	s.Jobs = append(s.Jobs, waiting(2, 1, speeds(1, 0.5)))
	got := s.allocate(time.Minute).Jobs.Get(slurmplug.Plain(2))
	if !slices.Equal(got.Speed, []float64{1, 0.5}) {
		t.Errorf("speeds %v, want 1 on a100 and 0.5 on v100", got.Speed)
	}
}

// Over a random life of a cluster a ledger that has lived long knows of each waiting job what a
// new one knows from the same snapshot: where it fits and how fast it is there.
func TestLongLivedEqualsFresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSite()
		next := uint32(1)
		life := &life{t, s, &next}
		for range rapid.IntRange(5, 25).Draw(t, "steps") {
			life.change()
			old := s.allocate(time.Minute)
			fresh := (&Ledger{}).Allocate(&s.Snapshot, s.h, s.set)
			if !slices.Equal(old.Types, fresh.Types) {
				t.Fatalf("GPU types %v, a new ledger knows %v", old.Types, fresh.Types)
			}
			for i := range s.Jobs {
				j := &s.Jobs[i]
				was, is := old.Jobs.Get(j.ID), fresh.Jobs.Get(j.ID)
				if j.State != cluster.Pending || was == nil && is == nil {
					continue
				}
				if was == nil || is == nil || !slices.Equal(was.Speed, is.Speed) {
					t.Fatalf("job %s: %+v, a new ledger knows %+v; nodes %+v", j.ID, was, is, s.Nodes)
				}
			}
		}
	})
}

// life changes a cluster at random.
type life struct {
	*rapid.T
	*site
	next *uint32
}

func (l *life) change() {
	if len(l.Jobs) == 0 || rapid.IntRange(0, 2).Draw(l.T, "a job comes") == 0 {
		l.submit()
	}
	n := &l.Nodes[rapid.IntRange(0, len(l.Nodes)-1).Draw(l.T, "node")]
	switch rapid.SampledFrom([]string{"start", "start", "end", "requeue", "down", "up", "type", "GPUs", "memory", "partition", "joins"}).Draw(l.T, "change") {
	case "start":
		l.start(n)
	case "end":
		l.Jobs = l.Jobs[1:]
	case "requeue":
		for i := range l.Jobs {
			if j := &l.Jobs[i]; j.State == cluster.Running {
				j.State, j.GPUType, j.NodeList, j.CPUs, j.Restarts = cluster.Pending, "", "", j.GPUs, j.Restarts+1
				break
			}
		}
	case "down":
		n.Usable = false
	case "up":
		n.Usable = true
	case "type":
		n.GPUType = rapid.SampledFrom([]string{"a100", "v100", "h100"}).Draw(l.T, "type")
		n.Features = []string{n.GPUType}
	case "GPUs":
		n.GPUs = rapid.IntRange(0, 4).Draw(l.T, "GPUs")
	case "memory":
		n.MemMB = rapid.SampledFrom([]int64{16 << 10, 256 << 10}).Draw(l.T, "MB")
	case "partition":
		n.Partitions = rapid.SampledFrom([][]string{{"gpu"}, {"other"}, nil}).Draw(l.T, "partitions")
	case "joins":
		if len(l.Nodes) < 5 {
			l.Nodes = append(l.Nodes, gpuNode(fmt.Sprint("n", len(l.Nodes)), "v100", 4))
		}
	}
}

func (l *life) submit() {
	j := waiting(*l.next, rapid.IntRange(1, 3).Draw(l.T, "GPUs"), speeds(1, 0.5))
	j.Features = rapid.SampledFrom([]string{"", "a100", "a100|v100"}).Draw(l.T, "features")
	j.Whole = rapid.Bool().Draw(l.T, "exclusive")
	j.MemMB = rapid.SampledFrom([]int64{1 << 10, 64 << 10}).Draw(l.T, "MB")
	*l.next++
	l.Jobs = append(l.Jobs, j)
}

// start starts the first waiting job there, as Slurm shows it then: with the node's type, and
// with what it got.
func (l *life) start(n *cluster.Node) {
	for i := range l.Jobs {
		if j := &l.Jobs[i]; j.State == cluster.Pending && n.Usable && n.GPUs >= j.GPUs {
			j.State, j.GPUType, j.NodeList, j.Start, j.CPUs = cluster.Running, n.GPUType, n.Name, l.At, 2*j.GPUs
			return
		}
	}
}

// Of a running job an earlier process stored where its speed was above 0. When nodes change after
// that, it fits where it runs, and elsewhere as far as there is room for what it holds.
func TestRestoredRunningJob(t *testing.T) {
	runs := waiting(1, 1, speeds(1, 0.5))
	runs.State, runs.GPUType, runs.NodeList, runs.Start = cluster.Running, "a100", "a", start
	for _, c := range []struct {
		name   string
		stored []float64 // speeds on a100, v100
		change func(*site)
		want   []float64
	}{
		{"as stored", []float64{1, 0.5}, func(*site) {}, []float64{1, 0.5}},
		{"its own type was not usable", []float64{0, 1}, func(*site) {}, []float64{1, 0.5}},
		{"one type was asked for", []float64{1, 0}, func(*site) {}, []float64{1, 0}},
		{"the other type is drained", []float64{1, 0.5}, func(s *site) { s.Nodes[1].Usable = false }, []float64{1, 0.5}},
		{"the other type is in another partition", []float64{1, 0.5}, func(s *site) { s.Nodes[1].Partitions = []string{"other"} }, []float64{1, 0.5}},
	} {
		s := newSite(runs)
		s.l.Restore(runs.ID, Remembered{User: runs.User, Submit: runs.Submit, Born: runs.Submit, Types: []string{"a100", "v100"}, Speed: c.stored, Promised: []float64{0, 0}})
		c.change(s)
		if got := s.allocate(time.Minute).Jobs.Get(runs.ID); !slices.Equal(got.Speed, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got.Speed, c.want)
		}
	}
}
