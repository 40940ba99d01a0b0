package evict

import "time"

// enoughClaims is how many claims say more of what evictions cost than the settings do.
const enoughClaims = 10

// waitWorth is what a second of waiting of each GPU of a TE job counts as where evictions have no price, in
// GPU-seconds: the default of preemption.urgency.
const waitWorth = 5

// StartCost is what the start of each GPU of a TE job by evictions has cost within a day, in GPU-seconds:
// the work that its victims lost, and its own wait for them, at the price of Settings.Policy.Urgency.
func (e *Feature) StartCost(now time.Time) float64 {
	price := e.Settings.Policy.Urgency
	if price == 0 {
		price = waitWorth
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
		evictions := e.Journal.evictionsFrom(c.Number)
		for i := range evictions {
			if x := &evictions[i]; x.Claim == c.Number && x.Counts() {
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

// Claimed reports whether an open claim keeps a place on a node.
func (e *Feature) Claimed(node string) bool {
	claims, _ := e.Journal.live()
	for c := range claims {
		for _, s := range c.Shares {
			if c.Open() && s.Node == node {
				return true
			}
		}
	}
	return false
}
