package slurmplug

import "time"

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
