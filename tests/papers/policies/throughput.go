package policies

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"slurmprio/priod/allocate"
	"slurmprio/priod/allocate/market"
)

// maxThroughput (Gavel, section 4.2):
//
//	maximise  sum over jobs m of rate_m
//	such that rate_m >= steps left_m / deadline_m  for jobs with a deadline
//
// Rates of different jobs are added as they are: jobs of many steps a second
// go first. Deadlines that cannot be kept are given up one by one, the latest
// arrival first, and reported.
func maxThroughput(p *Problem) (*Allocation, error) { return p.mostValue(false) }

// minCost (Gavel, section 4.2) is the same for what GPUs cost:
//
//	maximise  sum over jobs m and types j of speed_mj x time_mj / price_j
func minCost(p *Problem) (*Allocation, error) { return p.mostValue(true) }

// mostValue maximises what rates are worth, of jobs alone and of pairs.
func (p *Problem) mostValue(priced bool) (*Allocation, error) {
	price := make([]float64, len(p.Types))
	for t := range price {
		price[t] = 1
		if priced {
			if len(p.PerHour) == 0 || p.PerHour[t] == 0 {
				return nil, fmt.Errorf("GPU type %.80q has no price", p.Types[t].Name)
			}
			price[t] = p.PerHour[t]
		}
	}
	together, tell := p.together()
	build := func(least []float64) *packing {
		return pack(p, p.Classify(func(i int) allocate.Traits { return allocate.Traits{0: least[i], 3: tell(i)} }), together)
	}
	fits := p.fits
	if len(p.Pairs) > 0 || p.Together != nil {
		fits = func(jobs []int, floor []float64) (bool, error) { return fit(jobs, floor, build) }
	}
	floor, notes, err := p.deadlines(fits)
	if err != nil {
		return nil, err
	}
	k := build(floor)
	need := make([]float64, len(k.Program.Jobs))
	for i := range need {
		need[i] = floor[k.First[i]]
	}
	value := func(column int) float64 {
		c, sum := &k.Columns[column], 0.0
		for _, r := range c.Runs {
			sum += r.Speed
		}
		return sum / price[c.Type]
	}
	scale := 0.0
	for i := range k.Columns {
		scale = max(scale, value(i))
	}
	if scale == 0 {
		a := p.nothing()
		a.Objective, a.Bound = 0, 0
		return a, nil
	}
	t, _, err := k.Solve(need, 1, func(column int) float64 { return value(column) / scale })
	if err != nil {
		return nil, err
	}
	if t < 1-1e-6 {
		return nil, fmt.Errorf("deadlines that fit are kept to %v only", t)
	}
	a, most := k.result(), 0.0
	for i := range k.Columns {
		most += k.Value(i) * value(i)
	}
	a.Objective, a.Bound, a.Notes = most, k.bound(1)*scale, notes
	return a, nil
}

// deadlines are the least rates that keep them, where all of them together
// can be kept.
func (p *Problem) deadlines(all func(jobs []int, least []float64) (bool, error)) (floor []float64, notes []string, err error) {
	floor = make([]float64, len(p.Jobs))
	var with []int
	for _, i := range p.Arrivals() {
		j, deadline := &p.Jobs[i], p.deadline(i)
		if math.IsInf(deadline, 1) || j.StepsLeft == 0 {
			continue
		}
		rate := j.StepsLeft / deadline
		if deadline <= 0 || rate > slices.Max(p.Speeds(j))*(1+1e-12) {
			notes = append(notes, fmt.Sprintf("job %.80q misses its deadline even on its fastest GPU type: relaxed", j.ID))
			continue
		}
		floor[i] = min(rate, slices.Max(p.Speeds(j)))
		with = append(with, i)
	}
	fits := func(n int) (bool, error) { return all(with[:n], floor) }
	keep := len(with)
	if ok, err := fits(keep); err != nil {
		return nil, nil, err
	} else if !ok { // fewer fit whenever more do
		keep = sort.Search(keep, func(n int) bool {
			ok := false
			if err == nil {
				ok, err = fits(n + 1)
			}
			return !ok
		})
		if err != nil {
			return nil, nil, err
		}
	}
	for _, i := range slices.Backward(with[keep:]) {
		floor[i] = 0
		notes = append(notes, fmt.Sprintf("the deadline of job %.80q cannot be kept beside those of earlier jobs: relaxed", p.Jobs[i].ID))
	}
	return floor, notes, nil
}

// fits reports whether these jobs can all have their least rates at once.
func (p *Problem) fits(jobs []int, floor []float64) (bool, error) {
	if len(jobs) == 0 {
		return true, nil
	}
	m := &market.Market{}
	for _, g := range p.Types {
		m.GPUs = append(m.GPUs, float64(g.GPUs))
	}
	need := make(linear, len(jobs))
	for k, i := range jobs {
		need[k] = floor[i]
		m.Jobs = append(m.Jobs, market.Job{Speed: p.Speeds(&p.Jobs[i]), GPUs: float64(p.Jobs[i].GPUs), Count: 1})
	}
	a, err := market.MaxLevel(m, need, 0, 1)
	return err == nil && a.Level >= 1-allocate.Slack, err
}

// fit reports whether these jobs can all have their least rates at once.
func fit(jobs []int, floor []float64, build func(least []float64) *packing) (bool, error) {
	if len(jobs) == 0 {
		return true, nil
	}
	least := make([]float64, len(floor))
	for _, i := range jobs {
		least[i] = floor[i]
	}
	g := build(least)
	need := make([]float64, len(g.Program.Jobs))
	for c := range need {
		need[c] = least[g.First[c]]
	}
	t, _, err := g.Solve(need, 1, nil)
	return t >= 1-allocate.Slack, err
}
