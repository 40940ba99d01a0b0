package steer

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
)

// Until the time that Decide names, verdicts come out the same, when nothing happens.
func TestVerdictsStand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, with := drawn(t)
		for i := range s.Running {
			s.Running[i].Sure = s.Running[i].End - float64(rapid.IntRange(0, 3).Draw(t, "sure"))
		}
		was, stands := decide(s, with)
		// Dyadic fractions keep sums exact: two moments that are the same stay so.
		passed := math.Floor(min(stands, 1e6)*rapid.Float64Range(0, 1).Draw(t, "passed")*64) / 64
		if passed <= 0 || passed >= stands {
			return
		}
		for i := range s.Running {
			s.Running[i].End -= passed
		}
		for i := range s.Jobs {
			s.Jobs[i].Held += passed
		}
		for i, v := range Decide(s, with) {
			if w := was[i]; v.Type != w.Type || v.Why != w.Why || v.Back != w.Back || v.Start == 0 {
				t.Fatalf("job %d, %v of %v s later: %+v, was %+v", i, passed, stands, v, w)
			}
		}
	})
}

// A job that waits for one that ends in 50 s goes on to do so until then.
func TestVerdictsStandUntilAnEnd(t *testing.T) {
	held := holds(0, 1, 50)
	held.Sure = 50
	s := two(1, 0, held)
	s.Jobs = []Job{pending(100, math.Inf(1))}
	if v, stands := decide(s, set()); v[0].Why != Waits || stands != 50-soon {
		t.Errorf("%+v stands for %v s", v, stands)
	}
}

// The end of a job that runs on after all that it said stays the same moment until it
// outlives that: the steps double, and its time limit bounds them.
func TestEndOfJobThatRunsOn(t *testing.T) {
	for beyond, want := range map[float64][2]float64{0: {3, 0}, 1: {3, 0}, 2: {6, 3}, 3: {3, 0}, 4: {12, 9}, 100: {84, 81}, 1500: {600, 600}} {
		p := newTestCluster()
		p.node("v1", "v100", "v100").GPUsUsed = 4
		r := p.job(1, "")
		r.State, r.GPUs, r.GPUType, r.NodeList, r.Start = cluster.Running, 4, "v100", "v1", start.Add(-50*time.Minute)
		p.shares.Jobs.Get(r.ID).Speed[2], p.shares.Jobs.Get(r.ID).Run[2], p.shares.Jobs.Get(r.ID).Beyond = 1./3, 3, beyond
		in := inputs{set: &Settings{}, history: p.h, snapshot: &p.Snapshot, shares: &p.shares}
		types := newGPUTypes(&in)
		view := newNodeView(&in, &types, nodemap.New(&p.Snapshot))
		if got := view.snapshot().Running[0]; math.Abs(got.End-want[0]) > 1e-9 || math.Abs(got.Sure-want[1]) > 1e-9 {
			t.Errorf("%v s beyond: in %v s, surely for %v", beyond, got.End, got.Sure)
		}
	}
}
