package market

import "math"

// mix is an extreme way of reaching a rate: x of the time on type hi, y on
// type lo; none stands for no time at all.
type mix struct {
	hi, lo int8
	x, y   float64
}

const none = -1

// cheapest returns the mix that reaches rate at the least cost, that cost for
// one job, and how much more the next best mix costs. Types are tried in order
// and only a cheaper mix replaces an earlier one, so that equal prices always
// give equal answers. A rate above the job's fastest type costs +Inf.
func (j *Job) cheapest(rate float64, price []float64) (best mix, cost, margin float64) {
	best = mix{hi: none, lo: none}
	if rate <= 0 {
		return best, 0, math.Inf(1)
	}
	cost, next := math.Inf(1), math.Inf(1)
	price = price[:len(j.Speed)]
	for h, fast := range j.Speed { // costs are compared before they are divided: most are too high
		if fast < rate {
			continue
		}
		ph := price[h]
		if c := ph * rate; c < cost*fast { // the rest of the time idle
			best.hi, best.lo, cost, next = int8(h), none, c/fast, cost
		} else if c < next*fast {
			next = c / fast
		}
		for l, slow := range j.Speed {
			if slow <= 0 || slow >= rate {
				continue
			}
			pl := price[l]
			if pl >= ph { // dearer than h alone: at least ph
				next = min(next, ph)
				continue
			}
			more, gain := (rate-slow)*(ph-pl), fast-slow
			if more < (cost-pl)*gain {
				best.hi, best.lo, cost, next = int8(h), int8(l), pl+more/gain, cost
			} else if more < (next-pl)*gain {
				next = pl + more/gain
			}
		}
	}
	switch {
	case best.hi == none:
	case best.lo == none:
		best.x = rate / j.Speed[best.hi]
	default:
		slow := j.Speed[best.lo]
		best.x = (rate - slow) / (j.Speed[best.hi] - slow)
		best.y = 1 - best.x
	}
	return best, cost * j.GPUs, (next - cost) * j.GPUs
}

// cost is what the cheapest mix costs, for one job, and what one more unit of
// rate would: all that a search for a level asks, at two thirds of the time. At a
// type's own speed, where the slope jumps, it may be less than on either side: the
// search brackets the level and takes a step more.
func (j *Job) cost(rate float64, price []float64) (cost, slope float64) {
	if rate <= 0 {
		return 0, 0
	}
	cost = math.Inf(1)
	price = price[:len(j.Speed)]
	for h, fast := range j.Speed {
		if fast < rate {
			continue
		}
		ph := price[h]
		if c := ph * rate; c < cost*fast {
			cost, slope = c/fast, ph/fast
		}
		for l, slow := range j.Speed {
			pl := price[l]
			if slow <= 0 || slow >= rate || pl >= ph {
				continue
			}
			if more, gain := (rate-slow)*(ph-pl), fast-slow; more < (cost-pl)*gain {
				cost, slope = pl+more/gain, (ph-pl)/gain
			}
		}
	}
	return cost * j.GPUs, slope * j.GPUs
}

// load adds scale times the GPUs that the class occupies in this mix.
func (j *Job) load(m mix, scale float64, into []float64) {
	if m.hi == none {
		return
	}
	g := scale * j.GPUs * j.Count
	into[m.hi] += g * m.x
	if m.lo != none {
		into[m.lo] += g * m.y
	}
}

// worth is the cost of the class's load at these prices.
func (j *Job) worth(m mix, price []float64) float64 {
	if m.hi == none {
		return 0
	}
	c := m.x * price[m.hi]
	if m.lo != none {
		c += m.y * price[m.lo]
	}
	return c * j.GPUs * j.Count
}

// Marginal is what one more unit of rate would cost at these prices, for one
// job that has this rate: +Inf at its fastest type.
func (j *Job) Marginal(rate float64, price []float64) float64 {
	const part = 1e-6
	more := max(rate*(1+part), part*j.Fastest())
	_, now, _ := j.cheapest(rate, price)
	_, then, _ := j.cheapest(more, price)
	return (then - now) / (more - rate)
}
