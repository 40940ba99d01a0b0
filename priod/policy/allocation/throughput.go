package allocation

import (
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/policy/allocation/market"
)

// maxThroughput (Gavel, section 4.2):
//
//	maximise  sum over jobs m of rate_m
//	such that rate_m >= steps left_m / deadline_m  for jobs with a deadline
//
// Rates of different jobs are added as they are: jobs of many steps a second
// go first. Deadlines that cannot be kept are given up one by one, the latest
// arrival first, and reported.
func maxThroughput(p *Problem) (*Allocation, error) { return p.mostValue(false, false) }

// minCost (Gavel, section 4.2) is the same for what GPUs cost:
//
//	maximise  sum over jobs m and types j of speed_mj x time_mj / price_j
func minCost(p *Problem) (*Allocation, error) { return p.mostValue(true, false) }

func packedThroughput(p *Problem) (*Allocation, error) { return p.mostValue(false, true) }
func packedCost(p *Problem) (*Allocation, error)       { return p.mostValue(true, true) }

func (p *Problem) mostValue(priced, pairs bool) (*Allocation, error) {
	price := make([]float64, len(p.Types))
	for t := range price {
		price[t] = 1
		if priced {
			if price[t] = p.Types[t].Price; price[t] == 0 {
				return nil, fmt.Errorf("GPU type %.80q has no price", p.Types[t].Name)
			}
		}
	}
	q := *p
	if !pairs {
		q.Pairs, q.Together = nil, nil
	}
	floor, notes, err := q.deadlines()
	if err != nil {
		return nil, err
	}
	k := newPacking(&q, func(i int) traits { return traits{floor[i]} })
	need := make([]float64, len(k.classes.Jobs))
	for i := range need {
		need[i] = floor[k.first[i]]
	}
	value := func(w packed) float64 { return (w.speed[0] + w.speed[1]) / price[w.t] }
	most, scale := 0.0, 0.0
	for _, w := range k.what {
		scale = max(scale, value(w))
	}
	if scale == 0 {
		a := p.nothing()
		a.Objective, a.Bound = 0, 0
		return a, nil
	}
	t, _, err := k.solve(need, 1, func(w packed) float64 { return value(w) / scale })
	if err != nil {
		return nil, err
	}
	if t < 1-1e-6 {
		return nil, fmt.Errorf("deadlines that fit are kept to %v only", t)
	}
	for j, w := range k.what {
		most += k.program.Value(j) * value(w)
	}
	a := k.result()
	a.Objective, a.Bound, a.Notes = most, k.program.Bound(1)*scale, notes
	return a, nil
}

// deadlines are the least rates that keep them, where all of them together
// can be kept.
func (p *Problem) deadlines() (floor []float64, notes []string, err error) {
	floor = make([]float64, len(p.Jobs))
	var with []int
	for _, i := range p.arrivals() {
		j := &p.Jobs[i]
		if math.IsInf(j.Deadline, 1) || j.StepsLeft == 0 {
			continue
		}
		rate := j.StepsLeft / j.Deadline
		if j.Deadline <= 0 || rate > slices.Max(p.speeds(j))*(1+1e-12) {
			notes = append(notes, fmt.Sprintf("job %.80q misses its deadline even on its fastest GPU type: relaxed", j.ID))
			continue
		}
		floor[i] = min(rate, slices.Max(p.speeds(j)))
		with = append(with, i)
	}
	fits := func(n int) (bool, error) { return p.fits(with[:n], floor) }
	keep := len(with)
	if ok, err := fits(keep); err != nil {
		return nil, nil, err
	} else if !ok { // fewer fit whenever more do
		low, high := 0, len(with)
		for high-low > 1 {
			middle := (low + high) / 2
			ok, err := fits(middle)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				low = middle
			} else {
				high = middle
			}
		}
		keep = low
	}
	for _, i := range slices.Backward(with[keep:]) {
		floor[i] = 0
		notes = append(notes, fmt.Sprintf("the deadline of job %.80q cannot be kept beside those of earlier jobs: relaxed", p.Jobs[i].ID))
	}
	return floor, notes, nil
}

// fits tells whether these jobs can all have their least rates at once.
func (p *Problem) fits(jobs []int, floor []float64) (bool, error) {
	if len(jobs) == 0 {
		return true, nil
	}
	if len(p.Pairs) > 0 || p.Together != nil {
		least := make([]float64, len(floor))
		for _, i := range jobs {
			least[i] = floor[i]
		}
		k := newPacking(p, func(i int) traits { return traits{least[i]} })
		need := make([]float64, len(k.classes.Jobs))
		for c := range need {
			need[c] = least[k.first[c]]
		}
		t, _, err := k.solve(need, 1, nil)
		return t >= 1-slack, err
	}
	m := &market.Market{GPUs: p.gpus()}
	need := make(linearTarget, len(jobs))
	for k, i := range jobs {
		need[k] = floor[i]
		m.Jobs = append(m.Jobs, market.Job{Speed: p.speeds(&p.Jobs[i]), GPUs: float64(p.Jobs[i].GPUs), Count: 1})
	}
	a, err := market.MaxLevel(m, need, 0, 1)
	return err == nil && a.Level >= 1-slack, err
}

type linearTarget []float64

func (l linearTarget) At(job int, level float64) (float64, float64) { return l[job] * level, l[job] }
