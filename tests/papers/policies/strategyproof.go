package policies

import (
	"math"
	"slices"

	"slurmprio/priod/allocate"
	"slurmprio/priod/allocate/market"
)

// strategyProof is Gavel's policy under which nobody gains by reporting other
// speeds (section 4.4), the partial allocation mechanism of Cole, Gkatzelis and
// Goel (EC 2013):
//
//	maximise  sum over jobs m of  weight_m x log rate_m
//
// and then every job keeps only a part of its time,
//
//	discount_m = product over the other jobs i of  (rate_i / rate_i without m)^(weight_i / weight_m)
//
// where the last is i's rate in the same problem without m: a job pays for what
// it takes from the others, in time that is left idle. The objective is the
// geometric mean, by weight, of (gang_m / weight_m) x rate_m / P_m before the
// discount. It costs one solution more for each class of jobs.
func strategyProof(p *Problem) (*Allocation, error) {
	c := p.Classify(nil)
	could := runnableOf(c)
	if len(could.Jobs) == 0 {
		return p.nothing(), nil
	}
	weight := make([]float64, len(could.Jobs))
	for k, i := range could.index {
		weight[k] = p.Jobs[c.First[i]].Weight
	}
	rate, gap, err := nash(&could.Market, weight)
	if err != nil {
		return nil, err
	}
	// The rates leave each job a choice of mixes: the market's have few types.
	need := make(linear, len(rate))
	for k := range need {
		need[k] = rate[k] * (1 - allocate.Slack)
	}
	answer, err := market.MaxLevel(&could.Market, need, 0, 1)
	if err != nil {
		return nil, err
	}
	time := make([][]float64, len(c.Jobs))
	for i := range time {
		time[i] = make([]float64, len(p.Types))
	}
	mean, total := 0.0, 0.0
	keep := slices.Repeat([]float64{1}, len(c.Jobs))
	for k, i := range could.index {
		d, err := could.discount(k, weight, rate)
		if err != nil {
			return nil, err
		}
		keep[i] = d
		for t, x := range answer.Time[k] {
			time[i][t] = x * d
		}
		mean += c.Jobs[i].Count * weight[k] * math.Log(rate[k]*c.Jobs[i].GPUs/(weight[k]*c.Proportional(i)))
		total += c.Jobs[i].Count * weight[k]
	}
	c.Tidy(time)
	a := &Allocation{Allocation: *c.Allocation(time)}
	a.Objective, a.Bound = math.Exp(mean/total), math.Exp((mean+gap)/total)
	for _, i := range c.Of {
		a.Discount = append(a.Discount, keep[i])
	}
	return a, nil
}

// runnable are the classes that some type suits, and which they are.
type runnable struct {
	market.Market
	index []int
}

func runnableOf(c *allocate.Classes) *runnable {
	r := &runnable{Market: market.Market{GPUs: c.GPUs}}
	for i := range c.Jobs {
		if c.Jobs[i].Fastest() > 0 {
			r.Jobs, r.index = append(r.Jobs, c.Jobs[i]), append(r.index, i)
		}
	}
	return r
}

// discount of a job of class k, from the problem with one job less.
func (r *runnable) discount(k int, weight, rate []float64) (float64, error) {
	less := market.Market{GPUs: r.GPUs}
	var share, with []float64
	for i, j := range r.Jobs {
		if i == k {
			j.Count--
		}
		if j.Count > 0 {
			less.Jobs, share, with = append(less.Jobs, j), append(share, weight[i]), append(with, rate[i])
		}
	}
	if len(less.Jobs) == 0 {
		return 1, nil
	}
	without, _, err := nash(&less, share)
	if err != nil {
		return 0, err
	}
	log := 0.0
	for i, j := range less.Jobs {
		log += j.Count * share[i] / weight[k] * math.Log(with[i]/without[i])
	}
	return min(1, math.Exp(log)), nil
}

// linear is a target in proportion to the level.
type linear []float64

func (l linear) At(job int, level float64) (float64, float64) { return l[job] * level, l[job] }
