package order

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Late jobs rank ahead of all others, of those in time the one with five minutes more to run before the other; a
// second look writes nothing.
func TestOrderBySlack(t *testing.T) {
	for _, l := range levers {
		t.Run(string(l), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c, h := newController(), cluster.NewHistory()
				set := settings(l)
				set.Order, set.Shares = SlackOrder, &plan.Shares{}
				run, submit := map[uint32]float64{}, map[uint32]time.Time{}
				n := uint32(rapid.IntRange(1, 12).Draw(t, "jobs"))
				for id := uint32(1); id <= n; id++ {
					submit[id] = start.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, "waited")) * time.Second)
					run[id] = float64(rapid.IntRange(60, 36000).Draw(t, "run"))
					c.add(id, "be", rapid.Int64Range(1, span).Draw(t, "factors"), 0, submit[id])
					set.Shares.Jobs.Set(slurmplug.Plain(id), &plan.Share{Speed: []float64{0.5, 1}, Run: []float64{2 * run[id], run[id]}, Seconds: []float64{0, 0}})
				}
				look := func() *cluster.Snapshot {
					s := c.snapshot(start)
					s.Nodes = []cluster.Node{{Name: "a", GPUs: 2, Partitions: []string{"gpu"}}}
					for i := range s.Jobs {
						s.Jobs[i].GPUs = 1
					}
					h.Observe(s)
					return s
				}
				s := look()
				share := contention(s, h)("gpu")
				late := func(id uint32) bool {
					return start.Sub(submit[id]).Seconds()+run[id] > fairPart*run[id]*share
				}
				p := Decide(s, h, set)
				value := map[uint32]int64{}
				for _, d := range p.Decisions {
					value[d.Job.ID] = d.Value
					if want := slackWords[late(d.Job.ID)]; d.Detail != want {
						t.Errorf("job %v: %q, want %q", d.Job, d.Detail, want)
					}
				}
				for a := uint32(1); a <= n; a++ {
					for b := uint32(1); b <= n; b++ {
						if late(a) && !late(b) && value[a] <= value[b] || late(a) == late(b) && !late(a) && run[a] >= run[b]+300 && value[a] <= value[b] {
							t.Errorf("job %d (late %v, %v s) has %d, job %d (late %v, %v s) %d", a, late(a), run[a], value[a], b, late(b), run[b], value[b])
						}
					}
				}
				c.apply(p.Actions, h, start)
				if p := Decide(look(), h, set); len(p.Actions) > 0 {
					t.Errorf("the second look writes %+v", p.Actions)
				}
			})
		})
	}
}

// A fair finish knows what a job has done, on its fastest type, and how many jobs share each GPU.
func TestBySlack(t *testing.T) {
	at := start.Add(time.Hour)
	share := &plan.Share{Speed: []float64{1, 0.5}, Run: []float64{3600, 7200}, Seconds: []float64{0, 3600}} // half an hour of work done
	for contention, want := range map[float64]bool{1: true, 1.3: true, 1.5: false, 4: false} {              // 2 h / 1.5 h = 1.33
		d := decider{s: &cluster.Snapshot{At: at}, set: Settings{Order: SlackOrder}}
		if _, late := d.bySlack(start, share, contention); late != want {
			t.Errorf("contention %v: late %v, want %v", contention, late, want)
		}
	}
}

// The fair finish of a job is among the jobs that want the GPUs that it reaches: a crowd in another partition makes it late no later.
func TestFairAmongThoseThatReachTheSame(t *testing.T) {
	s := &cluster.Snapshot{Nodes: []cluster.Node{{GPUs: 4, Partitions: []string{"a"}}, {GPUs: 4, Partitions: []string{"b"}}}}
	for range 20 {
		s.Jobs = append(s.Jobs, cluster.Job{GPUs: 1, Partition: "a"})
	}
	s.Jobs = append(s.Jobs, cluster.Job{GPUs: 1, Partition: "b", TaskCount: 2})
	for list, want := range map[string]float64{"a": 5, "b": 1, "b,a": 22. / 8} {
		if got := contention(s, cluster.NewHistory())(list); got != want {
			t.Errorf("partitions %s: %v jobs for each GPU, want %v", list, got, want)
		}
	}
}
