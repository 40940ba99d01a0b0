package advise

import (
	"fmt"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/forecast"
	"slurmprio/slurmplug"
)

// inOrder is the queue in the order of the snapshot.
func (s *Site) inOrder() *forecast.Queue {
	q := &forecast.Queue{Now: s.Snapshot, Memory: true}
	for i := range s.Snapshot.Jobs {
		q.Order = append(q.Order, &s.Snapshot.Jobs[i])
	}
	return q
}

// Jobs start where those before them leave room, by time limits; one that waits for more
// than room, or for ever, is not told.
func TestStarts(t *testing.T) {
	s := small()
	s.run(0, 4, 10*time.Minute, time.Hour)
	s.run(1, 4, 0, 2*time.Hour)
	s.wait(4, "a100", time.Hour)                         // 3: behind the first
	s.wait(4, "v100", slurmplug.Unlimited)               // 4: now
	s.wait(4, "a100", time.Hour)                         // 5: behind 3 or the second
	s.wait(1, "v100", time.Hour)                         // 6: never, by what is known
	s.wait(1, "a100", time.Hour).Reason = "JobHeldAdmin" // 7
	s.wait(1, "a100", time.Hour).Dependency = true       // 8
	s.wait(2, "a100", 30*time.Minute).TaskCount = 3      // 9: the first two tasks behind 5
	s.run(2, 0, 0, time.Hour)
	want := "map[3:3000 4:0 5:6600 9:7200]"
	if got := fmt.Sprint(s.inOrder().Starts()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A plan gives no node to two jobs: what starts now fits now, and a queue in which only the
// order of like jobs differs starts at the same times.
func TestStartsOfLikeJobs(t *testing.T) {
	s := small()
	for range 9 {
		s.wait(2, "a100", time.Hour)
	}
	starts := s.inOrder().Starts()
	for i, want := range []float64{0, 0, 0, 0, 3600, 3600, 3600, 3600, 7200} {
		if got := starts[slurmplug.Plain(uint32(i+1))]; got != want {
			t.Errorf("job %d starts after %v s, want %v", i+1, got, want)
		}
	}
}

// The first 1,000 of 100,000 waiting jobs, on a cluster of 1,000 nodes.
func BenchmarkStarts(b *testing.B) {
	s := &Site{Snapshot: &cluster.Snapshot{At: now}, Memory: true}
	for i := range 1000 {
		s.Snapshot.Nodes = append(s.Snapshot.Nodes, cluster.Node{Name: fmt.Sprint("n", i), Usable: true, State: "IDLE", Partitions: []string{"gpu"}, GPUType: "a100", GPUs: 8, CPUs: 64, MemMB: 512000})
	}
	for i := range 1000 {
		s.run(i, 8, time.Duration(i)*time.Minute, 48*time.Hour)
	}
	for i := range 100_000 {
		j := s.wait(1+i%8, "a100", time.Duration(1+i%48)*time.Hour)
		if i%20 == 0 {
			j.GPUs, j.Nodes = 16, 2
		}
	}
	queue := s.inOrder()
	queue.Order = queue.Order[1000:2000]
	for b.Loop() {
		if n := len(queue.Starts()); n == 0 {
			b.Fatal(n)
		}
	}
}
