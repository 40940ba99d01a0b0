package order

import (
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// What a peer wrote is taken over with every lever, changes nothing, and is
// taken back; what no priod writes stays somebody else's.
func TestPeersValuesAreAdopted(t *testing.T) {
	c, peer := newController(), cluster.NewHistory()
	for id := uint32(1); id <= 3; id++ {
		c.add(id, "te", int64(id), 0, start.Add(time.Duration(id)*time.Second))
	}
	c.add(4, "be", 0, 0, start)
	set := settings()
	set.Peers = true
	s := c.snapshot(start)
	peer.Observe(s)
	c.apply(Decide(s, peer, set).Actions, peer, start)

	own := cluster.NewHistory()
	s = c.snapshot(start.Add(time.Minute))
	own.Observe(s)
	strangers := FindPeerValues(s, own, set)
	if len(strangers) != 3 {
		t.Fatalf("strangers %+v", strangers)
	}
	Adopt(strangers, s, own)
	if again := FindPeerValues(s, own, set); len(again) != 0 {
		t.Errorf("still strangers: %+v", again)
	}
	if p := Decide(s, own, set); len(p.Actions) != 0 {
		t.Errorf("after the take-over %+v", p.Actions)
	}
	for i := range s.Jobs {
		if w, ok := own.Written[s.Jobs[i].ID]; ok {
			if back, needed := plan.Restore(&s.Jobs[i], w); needed {
				c.apply([]plan.Action{back}, own, start)
			}
		}
	}
	for i := range c.jobs {
		if c.jobs[i].SiteFactor != 0 || c.jobs[i].Nice < 0 {
			t.Errorf("taken back to %+v", c.jobs[i])
		}
	}
}

func TestPeerValuesAreOnlyPriodsValues(t *testing.T) {
	c, h := newController(), cluster.NewHistory()
	for id, value := range []int64{77, -500_000, 500_000, 2_100_000_000, 100_000} {
		c.add(uint32(id), "be", 0, 0, start)
		c.jobs[id].SiteFactor = value
	}
	s := c.snapshot(start)
	s.Jobs[4].Partition = "elsewhere"
	h.Observe(s)
	set := settings()
	set.Ranking.Partitions = []string{s.Jobs[0].Partition}
	found := FindPeerValues(s, h, set)
	if len(found) != 1 || found[0].Job != s.Jobs[2].ID || found[0].Replaced {
		t.Fatalf("%+v", found)
	}
	h.Written[found[0].Job] = cluster.Written{Lever: slurmplug.SiteFactor, Value: 200_000, Tried: 200_000}
	if found = FindPeerValues(s, h, set); len(found) != 1 || !found[0].Replaced {
		t.Fatalf("%+v", found)
	}
}
