package evict

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// vacate begins the evictions of jobs that have to leave before a window. A run is evicted once.
func (e *Feature) vacate(ctx context.Context, c *plan.Cycle) error {
	if len(c.Vacating) == 0 || c.DryRun || e.failed {
		return nil
	}
	t, learned := Changes{}, e.Journal.leavingByUser()
	for i := range c.Vacating {
		v := &c.Vacating[i]
		j := v.Job
		known := func(x Eviction) bool {
			return x.Job == j.ID && (x.Leaving() || x.Start.Equal(j.Start) && x.Restarts == j.Restarts)
		}
		if slices.ContainsFunc(e.Journal.Evictions, known) {
			continue
		}
		at := c.Snapshot.At
		grace, unsaved := learned.expect(j, &e.Settings, at.Sub(j.Start).Seconds())
		t.Evictions = append(t.Evictions, Eviction{
			Claim: int64(len(t.Claims)), Job: j.ID, RawID: j.RawID, User: j.User, Start: j.Start, Restarts: j.Restarts, GPUs: j.GPUs,
			Signal: j.Signal(), Grace: e.Settings.grace(j), Eligible: j.Eligible, Unsaved: seconds(unsaved), Restart: e.Settings.Restart,
			Promised: float64(j.GPUs) * (grace + unsaved + e.Settings.Restart.Seconds()), State: Recorded, At: at,
		})
		why := "the window " + v.Window
		if v.Window == "" {
			why = "a window that is over"
		}
		hosts, _ := slurmplug.ExpandHosts(j.NodeList) // which are read: a window is on them
		shares := make([]ClaimShare, len(hosts))
		for i := range hosts {
			shares[i].Node = hosts[i]
		}
		t.Claims = append(t.Claims, Claim{
			Purpose: ForWindow, Job: j.ID, RawID: j.RawID, User: j.User, GPUs: j.GPUs, Shares: shares, State: Released, Reason: why, At: at, Changed: at, Ended: at,
		})
	}
	if t.Empty() {
		return nil
	}
	e.Journal.Number(&t)
	return e.save(ctx, &t, "none was begun")
}

// BackFromWindows is when jobs that left before windows ran again, as far as the journal reaches; zero: they did not yet, or not any more.
func (j *Journal) BackFromWindows() (all []time.Time) {
	for i := range j.Evictions {
		x := &j.Evictions[i]
		if c := j.Claim(x.Claim); c == nil || c.Purpose != ForWindow || x.SignalledAt.IsZero() {
			continue
		}
		back := time.Time{}
		if x.State == Done && x.Reason == "" {
			back = x.Ended
		}
		all = append(all, back)
	}
	return all
}
