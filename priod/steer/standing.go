package steer

import "math"

// The verdicts stand as long as no comparison that led to them comes out differently. As time passes and nothing happens, moments that are
// known keep their distances from each other and come nearer: the ends of running jobs, and the starts and ends that were planned after
// them. The present and what is planned from it on does not. So only comparisons between the two can change, and scores that fall at
// different rates.

// sameScore is how far apart, s, two scores are at least that do not count as equal.
const sameScore = 1e-3

// standsFor notes for how long, s, a comparison comes out the same.
func (sh *shadow) standsFor(seconds float64) { sh.stands = min(sh.stands, seconds) }

// standing is for how long the verdicts stand by what Decide was told. A job that could start now is counted (Job.Ready) and may be
// planned from any moment on: that stands for no time.
func (p *planner) standing() float64 {
	stands := math.Inf(1)
	if len(p.Jobs) == 0 {
		return stands
	}
	for i := range p.Jobs {
		if p.verdicts[i].Start == 0 {
			return 0
		}
		for _, limit := range [...]float64{p.rule.Keep, p.rule.Away} {
			if held := p.Jobs[i].Held; held < limit {
				stands = min(stands, limit-held)
			}
		}
	}
	for _, r := range p.Running {
		stands = min(stands, r.Sure-soon)
	}
	return stands
}

// score is a weighted completion time: now, and what it falls by in a second.
type score struct{ now, falls float64 }

func (p *planner) score(start, run float64) score {
	s := score{now: start*p.rule.Wait + run}
	if start > 0 {
		s.falls = p.rule.Wait
	}
	return s
}

// less is the score divided by a discount.
func (s score) less(discount float64) score { return score{s.now / discount, s.falls / discount} }

// until is when the greater of two scores becomes the smaller one, s from now.
func (s score) until(other score) float64 {
	if s.now > other.now {
		s, other = other, s
	}
	switch gap := other.now - s.now; {
	case gap < sameScore:
		return 0
	case other.falls > s.falls:
		return gap / (other.falls - s.falls)
	}
	return math.Inf(1)
}
