package evict

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
)

// enoughClaims is how many claims say more of what evictions cost than the settings do.
const enoughClaims = 10

// StartCost is what the start of each GPU of a TE job by evictions has cost within a day, in GPU-seconds:
// the work that its victims lost, and its own wait for them, at the price of Settings.Policy.Urgency.
func (e *Feature) StartCost(now time.Time) float64 {
	price := e.Settings.Policy.Urgency
	if price == 0 {
		price = plan.Worth
	}
	claims, gpus, cost := 0, 0.0, 0.0
	for i := range e.Journal.Claims {
		c := &e.Journal.Claims[i]
		if c.Purpose != ForTrial || c.State != Started || !within(day, now, c.Ended) {
			continue
		}
		claims++
		gpus += float64(c.GPUs)
		cost += price * float64(c.GPUs) * max(c.Ended.Sub(c.At).Seconds(), 0)
		for _, x := range e.Journal.evictionsOf(c.Number) {
			if x.Counts() {
				cost += x.costNow()
			}
		}
	}
	if claims < enoughClaims || gpus == 0 {
		grace := e.Settings.Grace.Seconds()
		return grace*(1+price) + e.Settings.Restart.Seconds()
	}
	return cost / gpus
}

// Claimed reports whether an open claim keeps a place on a node, and whether it needs no other reservation there: it has
// its own, or its place is free and its job is to start there.
func (e *Feature) Claimed(node string) (kept, own bool) {
	claims, _ := e.Journal.live()
	for _, c := range claims {
		if c.Open() && slices.Contains(c.Nodes(), node) {
			kept, own = true, own || c.State == Holding || !c.ResvAt.IsZero()
		}
	}
	return kept, own
}

// Beside is what is free beside the places of open claims, and the jobs that these are for.
func (e *Feature) Beside(m *nodemap.Map) (free *placement.Nodes, jobs map[cluster.JobID]bool) {
	jobs = map[cluster.JobID]bool{}
	for id := range e.Journal.claimsByJob() {
		jobs[id] = true
	}
	return e.Journal.beside(m), jobs
}

// beside is what the open claims leave free.
func (j *Journal) beside(m *nodemap.Map) *placement.Nodes {
	free := m.Nodes.Clone()
	for _, claim := range j.claimsByJob() {
		free.Take(claim.places(m))
	}
	return free
}
