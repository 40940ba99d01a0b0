package evict

import (
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/slurmplug"
)

const day = 24 * time.Hour

// within reports whether something happened no longer ago than a span. What lies in the
// future by more than that was dated by a clock that was ahead, and is past.
func within(span time.Duration, now, at time.Time) bool { return now.Sub(at).Abs() < span }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// costNow is what the eviction cost, or is expected to cost.
func (e *Eviction) costNow() float64 {
	if e.Paid > 0 || !e.Open() {
		return e.Paid
	}
	return e.Promised
}

// recent are the evictions of the last day that count against limits.
func (j *Journal) recent(now time.Time) (all []*Eviction) {
	for i := range j.Evictions {
		e := &j.Evictions[i]
		if c := j.Claim(e.Claim); e.Counts() && within(day, now, e.At) && (c == nil || c.Purpose != ForWindow) {
			all = append(all, e)
		}
	}
	return all
}

// owner is the user for whose TE job or gang an eviction was.
func (j *Journal) owner(e *Eviction) (user string, known bool) {
	if claim := j.Claim(e.Claim); claim != nil && claim.Purpose != ForRound {
		return claim.User, true
	}
	return "", false
}

// hoursByOwner are the GPU-hours of work that such evictions lost, by owner.
func (j *Journal) hoursByOwner(recent []*Eviction) map[string]float64 {
	hours := map[string]float64{}
	for _, e := range recent {
		if owner, known := j.owner(e); known {
			hours[owner] += e.costNow() / 3600
		}
	}
	return hours
}

// countPast counts the evictions of the last hour and day, for the limits.
func (c *Choice) countPast() {
	for _, e := range c.recent {
		if within(time.Hour, c.Snapshot.At, e.At) {
			c.search.PastHour++
		}
		c.search.PastDay += e.costNow() / 3600
	}
	c.search.PastOwner = c.Journal.hoursByOwner(c.recent)
}

// unsatisfiedWeight is how many releases one counts for that came because no node
// satisfies the job: the next claim would most likely end in the same way.
const unsatisfiedWeight = 4

// maxDoubled is how often the wait before another claim is doubled at most.
const maxDoubled = 6

// releasedUntil returns a function that tells until when a job gets no other claim; zero: it may get one. After the first release a job
// waits for retry before its next claim, after each further one twice as long. A place that was free does not count. When no node
// satisfies a job, that is due to the request, which all tasks of an array share.
func (j *Journal) releasedUntil(now time.Time, retry time.Duration) func(cluster.JobID) time.Time {
	released, last := map[cluster.JobID]int{}, map[cluster.JobID]time.Time{}
	for i := range j.Claims {
		if x := &j.Claims[i]; x.State == Released && x.Purpose != ForWindow && (!x.Free || x.Reason == unsatisfied) {
			id, n := x.Job, 1
			if x.Reason == unsatisfied {
				id, n = slurmplug.Plain(x.Job.ID), unsatisfiedWeight
			}
			released[id] += n
			last[id] = x.Ended
		}
	}
	until := func(id cluster.JobID) (at time.Time) {
		if wait := retry << min(max(released[id]-1, 0), maxDoubled); released[id] > 0 && within(wait, now, last[id]) {
			at = last[id].Add(wait)
		}
		return at
	}
	return func(id cluster.JobID) time.Time { return cluster.Later(until(id), until(slurmplug.Plain(id.ID))) }
}

// givenUp are the claims of trials, by user, that were released by their owner's doing after a victim had its signal.
type givenUp struct {
	times map[string]int
	until map[string]time.Time // no trial of the user gets a claim until then
	open  map[string]bool      // a trial of the user has one
}

// givenUp counts such claims. For so long as after as many failed claims of one job (releasedUntil) no trial of such a
// user gets one, and for Memory one at a time.
func (j *Journal) givenUp(now time.Time, retry time.Duration) givenUp {
	told, g := map[int64]bool{}, givenUp{map[string]int{}, map[string]time.Time{}, map[string]bool{}}
	for i := range j.Evictions {
		e := &j.Evictions[i]
		told[e.Claim] = told[e.Claim] || e.Counts()
	}
	for i := range j.Claims {
		c := &j.Claims[i]
		switch {
		case c.Purpose != ForTrial || c.User == "":
		case c.Open():
			g.open[c.User] = true
		case c.State == Released && told[c.Number] && slices.Contains([]string{leftQueue, isHeld, notTE, otherNodes}, c.Reason):
			wait := retry << min(g.times[c.User], maxDoubled)
			if g.times[c.User]++; within(wait, now, c.Ended) {
				g.until[c.User] = cluster.Later(g.until[c.User], c.Ended.Add(wait))
			}
		}
	}
	return g
}

// waits reports whether a trial of a user gets no claim now. One that may is the user's only one.
func (g givenUp) waits(user string) bool {
	if g.times[user] == 0 {
		return false
	}
	waits := g.open[user] || !g.until[user].IsZero()
	g.open[user] = true
	return waits
}

// setOpens finds when the limits let the next eviction pass, at the earliest, that keep claimants waiting.
func (c *Choice) setOpens() {
	byTime := slices.SortedStableFunc(slices.Values(c.recent), func(a, b *Eviction) int { return a.At.Compare(b.At) })
	for i := range c.Claimants {
		c.Claimants[i].Opens = c.opens(&c.Claimants[i], byTime)
	}
}

// opens is when the limit opens at the earliest that a claimant waits behind; zero: unknown, or no time opens it.
func (c *Choice) opens(x *Claimant, byTime []*Eviction) (at time.Time) {
	now, limits := c.Snapshot.At, &c.policy.Limits
	switch x.Why {
	case preemption.GraceGPUs: // when the first victim on its way has left
		_, evictions := c.Journal.live()
		for _, e := range evictions {
			if left := e.SignalledAt.Add(e.Grace); e.State == Signalled && (at.IsZero() || left.Before(at)) {
				at = left
			}
		}
		if !at.After(now) {
			return time.Time{}
		}
	case preemption.PerHour:
		hour := slices.DeleteFunc(slices.Clone(byTime), func(e *Eviction) bool { return !within(time.Hour, now, e.At) })
		if over := len(hour) - limits.MaxPerHour; over >= 0 && over < len(hour) {
			return hour[over].At.Add(time.Hour)
		}
	case preemption.PerDay:
		return fallsBelow(limits.GPUHoursPerDay, byTime)
	case preemption.PerOwner:
		return fallsBelow(limits.UserGPUMinutesPerDay/60, slices.DeleteFunc(slices.Clone(byTime), func(e *Eviction) bool {
			owner, known := c.Journal.owner(e)
			return !known || owner != x.User
		}))
	case TooSoon:
		return c.waitsUntil(x)
	case Cancelled:
		return c.careless.until[x.User]
	}
	return at
}

// fallsBelow is when the GPU-hours that these lost within a day are below a limit again, if nothing more is lost.
func fallsBelow(limit float64, evictions []*Eviction) time.Time {
	sum := 0.0
	for _, e := range evictions {
		sum += e.costNow() / 3600
	}
	for _, e := range evictions {
		if sum -= e.costNow() / 3600; sum < math.Nextafter(limit, 0) {
			return e.At.Add(day)
		}
	}
	return time.Time{}
}
