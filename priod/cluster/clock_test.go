package cluster

import (
	"testing"
	"time"

	"slurmprio/slurmplug"
)

const year = 365 * 24 * 3600

// A clock that was a year ahead for one poll leaves no use behind that did not
// happen: neither of what ended then, nor of what runs on.
func TestClockWasAhead(t *testing.T) {
	h := NewHistory()
	both := []Job{running(1, 2, 0), running(2, 1, 0)}
	see(h, 0, both...)
	see(h, year, both...)
	see(h, year+15, both[1]) // job 1 ended, as it seems in a year
	c := see(h, 100, both[1])
	if len(c) != 1 || c[0].Job.ID != 1 || !c[0].End.Equal(at(100)) {
		t.Fatalf("%+v", c)
	}
	if got := gpuSeconds(h, 100); got != 300 {
		t.Errorf("%v GPU-seconds, want 300", got)
	}
	if c = see(h, 200); len(c) != 1 || !c[0].End.Equal(at(100)) {
		t.Fatalf("%+v", c)
	}
	if got := gpuSeconds(h, 50_000); got != 300 {
		t.Errorf("later: %v GPU-seconds, want 300", got)
	}
}

// Hours back: no use is negative, and all of it counts again when the clock is
// right.
func TestClockGoesBack(t *testing.T) {
	h := NewHistory()
	see(h, 0, running(1, 2, 0))
	see(h, 3600, running(1, 2, 0))
	see(h, -7200, running(1, 2, 0))
	if got := gpuSeconds(h, -7200); got != 0 {
		t.Errorf("%v GPU-seconds before the start", got)
	}
	see(h, 3700, running(1, 2, 0))
	if got := gpuSeconds(h, 3700); got != 7400 {
		t.Errorf("%v GPU-seconds, want 7400", got)
	}
}

// Slurm's own word that a job can run beats a clock that is behind; a job that
// begins later still waits.
func TestEligibleByAClockThatIsBehind(t *testing.T) {
	job := func(id uint32, ranked bool) Job {
		return Job{ID: slurmplug.Plain(id), State: Pending, Eligible: at(0), SiteFactorKnown: ranked}
	}
	h := NewHistory()
	see(h, -7200, job(1, true), job(2, false))
	if _, known := h.FirstEligible.Find(slurmplug.Plain(1)); !known {
		t.Error("a job that Slurm ranks does not count as eligible")
	}
	if _, known := h.FirstEligible.Find(slurmplug.Plain(2)); known {
		t.Error("a job that begins later counts as eligible")
	}
}

// A value that is written again after the clock went back is no fight.
func TestRevertsAcrossAStep(t *testing.T) {
	h, id := NewHistory(), slurmplug.Plain(1)
	for i := range 5 {
		h.Wrote(id, Written{Lever: slurmplug.SiteFactor, Value: 7, At: t0.Add(-time.Duration(i) * time.Hour)}, false)
	}
	if n := h.Written[id].Reverts; n != 0 {
		t.Errorf("%d reverts", n)
	}
	h.Wrote(id, Written{Lever: slurmplug.SiteFactor, Value: 7, At: t0.Add(-4 * time.Hour)}, false)
	if n := h.Written[id].Reverts; n != 1 {
		t.Errorf("%d reverts, want 1", n)
	}
}

// A value whose replacement never arrived is still priod's own, however old.
func TestHoldingKeepsAnOldValue(t *testing.T) {
	h, id := NewHistory(), slurmplug.Plain(1)
	write := func(after time.Duration, v int64) {
		h.Written[id] = h.Written[id].Holding(81000, t0.Add(after))
		h.Try(id, Written{Lever: slurmplug.SiteFactor, Value: v, At: t0.Add(after)})
	}
	write(0, 81000)
	write(time.Second, 67000)
	write(24*time.Hour, 70000)
	if w := h.Written[id]; !w.Sent(81000) || !w.Sent(70000) {
		t.Errorf("%+v", w)
	}
}
