package slurmplug

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// pace is a token bucket: so many updates a second on average, so many at once.
type pace struct {
	perSecond float64
	burst     float64
	left      float64 // below 0: taken ahead of time
	at        time.Time
}

func newPace(perSecond float64, burst int) pace {
	return pace{perSecond: perSecond, burst: float64(burst), left: float64(burst)}
}

// delay is how long to wait from now before taking n.
func (p *pace) delay(n int, now time.Time) time.Duration {
	if !p.at.IsZero() && now.After(p.at) {
		p.left = min(p.burst, p.left+p.perSecond*now.Sub(p.at).Seconds())
	}
	p.at = now
	missing := min(float64(n), p.burst) - p.left
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / p.perSecond * float64(time.Second))
}

// take takes n, which may leave the bucket in debt.
func (p *pace) take(n int) { p.left -= float64(n) }

// budget keeps this process below slurmctld's rate limit. A client that slurmctld
// tells to back off sleeps for 1, 2, 3 ... s, says nothing and tries again for ever
// (common/slurm_protocol_api.c): its time-out would hide why.
type budget struct {
	mu    sync.Mutex
	limit RateLimit
	pace  pace
}

// set takes in the limit that holds. A part of it stays for what else the account
// runs. slurmctld refills at the end of each period: until then no more may be made
// than were in the bucket.
func (b *budget) set(l RateLimit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l == b.limit {
		return
	}
	b.limit = l
	if !l.Holds() {
		return
	}
	const most = 3 // requests that one command makes at once, for each thing that it is about
	inPeriod := min(0.9*float64(min(l.Refill, l.Bucket)), float64(max(1, (l.Bucket-most)/2)))
	b.pace = newPace(inPeriod/l.Period.Seconds(), max(1, l.Bucket*3/4-int(math.Ceil(inPeriod))-most+1))
}

// at is the limit that holds, the zero value when none does.
func (b *budget) at() RateLimit {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.limit.Holds() {
		return RateLimit{}
	}
	return b.limit
}

// pollRequests is how many requests one poll makes, about: squeue, the nodes, sprio
// and sdiag. Writes leave as many for it.
const pollRequests = 7

// reserve is how many requests writes leave for reads.
func (l RateLimit) reserve() int { return min(pollRequests, l.Bucket/4) }

// portion is how many updates one command may carry out, so that it runs through
// without a pause and the first ones do not wait long for the others.
func (l RateLimit) portion() int {
	if !l.Holds() {
		return maxSession
	}
	return max(1, min(l.Bucket/5, int(5*l.perSecond())))
}

// delay is how long to wait for n requests more than are kept in reserve.
func (b *budget) delay(n, reserve int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.limit.Holds() {
		return 0
	}
	return b.pace.delay(n+reserve, time.Now())
}

// take waits for n requests and takes them.
func (b *budget) take(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	for {
		b.mu.Lock()
		if !b.limit.Holds() {
			b.mu.Unlock()
			return nil
		}
		d := b.pace.delay(n, time.Now())
		if d == 0 {
			b.pace.take(n)
		}
		b.mu.Unlock()
		if d == 0 {
			return nil
		}
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
}

// sleep waits, and returns why it was ended before its time.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// requests is how many requests a command makes to slurmctld, by sdiag's statistics
// by user on 24.11.5 and 26.05.5; the rate limit counts all of them
// (slurmctld/rate_limit.c). sacct and sacctmgr ask slurmdbd.
func (c *Command) requests() int {
	if c.Requests > 0 {
		return c.Requests
	}
	if slices.ContainsFunc(c.Args, func(a string) bool { return a == "--help" || a == "--helpFormat" || a == "--version" }) {
		return 0
	}
	switch c.Name {
	case "sacct", "sacctmgr":
		return 0
	case "squeue", "sinfo":
		return 2
	case "scancel":
		return 3
	case "scontrol":
		for i, arg := range c.Args {
			if arg == "show" && i+1 < len(c.Args) {
				switch c.Args[i+1] {
				case "config", "node", "job":
					return 2
				}
			}
		}
	}
	return 1
}
