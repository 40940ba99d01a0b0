package allocate

import (
	"fmt"
	"math"
	"slices"
	"sort"

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

func (p *Problem) mostValue(priced bool) (*Allocation, error) {
	a, g, err := p.MostValue(priced, p.Fits, func(least []float64) *Program {
		g := &Program{Classes: p.Classify(func(i int) Traits { return Traits{least[i]} })}
		for class := range g.Jobs {
			g.Columns = append(g.Columns, g.Alone(class)...)
		}
		return g
	})
	if err == nil && g != nil {
		a.Time = g.times()
	}
	return a, err
}

// MostValue maximises what rates are worth, over the columns of a program that
// build makes for jobs which their least rates tell apart; fits reports whether
// these jobs can have theirs at once. The allocation lacks its times; without a
// program no job can have any.
func (p *Problem) MostValue(priced bool, fits func(jobs []int, least []float64) (bool, error), build func(least []float64) *Program) (*Allocation, *Program, error) {
	price := make([]float64, len(p.Types))
	for t := range price {
		price[t] = 1
		if priced {
			if price[t] = p.Types[t].Price; price[t] == 0 {
				return nil, nil, fmt.Errorf("GPU type %.80q has no price", p.Types[t].Name)
			}
		}
	}
	floor, notes, err := p.deadlines(fits)
	if err != nil {
		return nil, nil, err
	}
	g := build(floor)
	need := make([]float64, len(g.Jobs))
	for i := range need {
		need[i] = floor[g.First[i]]
	}
	value := func(column int) float64 {
		c, sum := &g.Columns[column], 0.0
		for _, r := range c.Runs {
			sum += r.Speed
		}
		return sum / price[c.Type]
	}
	a := p.NoTimes()
	most, scale := 0.0, 0.0
	for i := range g.Columns {
		scale = max(scale, value(i))
	}
	if scale == 0 {
		a.Objective, a.Bound = 0, 0
		return a, nil, nil
	}
	t, _, err := g.Solve(need, 1, func(column int) float64 { return value(column) / scale })
	if err != nil {
		return nil, nil, err
	}
	if t < 1-1e-6 {
		return nil, nil, fmt.Errorf("deadlines that fit are kept to %v only", t)
	}
	for i := range g.Columns {
		most += g.Value(i) * value(i)
	}
	a.Objective, a.Bound, a.Notes = most, g.bound(1)*scale, notes
	return a, g, nil
}

// deadlines are the least rates that keep them, where all of them together
// can be kept.
func (p *Problem) deadlines(all func(jobs []int, least []float64) (bool, error)) (floor []float64, notes []string, err error) {
	floor = make([]float64, len(p.Jobs))
	var with []int
	for _, i := range p.Arrivals() {
		j := &p.Jobs[i]
		if math.IsInf(j.Deadline, 1) || j.StepsLeft == 0 {
			continue
		}
		rate := j.StepsLeft / j.Deadline
		if j.Deadline <= 0 || rate > slices.Max(p.Speeds(j))*(1+1e-12) {
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

// Fits reports whether these jobs can all have their least rates at once.
func (p *Problem) Fits(jobs []int, floor []float64) (bool, error) {
	if len(jobs) == 0 {
		return true, nil
	}
	m := &market.Market{GPUs: p.gpus()}
	need := make(linearTarget, len(jobs))
	for k, i := range jobs {
		need[k] = floor[i]
		m.Jobs = append(m.Jobs, market.Job{Speed: p.Speeds(&p.Jobs[i]), GPUs: float64(p.Jobs[i].GPUs), Count: 1})
	}
	a, err := market.MaxLevel(m, need, 0, 1)
	return err == nil && a.Level >= 1-Slack, err
}

type linearTarget []float64

func (l linearTarget) At(job int, level float64) (float64, float64) { return l[job] * level, l[job] }
