package policies

import "slices"

// packedFIFO is fifo with space sharing (Gavel, section 4.2, as its code has
// it): jobs that found no room join, in order, the placed single job of equal
// gang with which they run best,
//
//	maximise  sum over the two of  speed in the pair / speed alone  > 1.5
//
// on its type. The first that finds nobody ends it: no job overtakes.
func packedFIFO(p *Problem) (*Allocation, error) {
	order := p.Arrivals()
	a := p.inOrder(order)
	speed, _ := p.together()
	on := make([]int, len(p.Jobs)) // type of each single job; -1: none, -2: in a pair
	for i, x := range a.Time {
		on[i] = slices.Index(x, 1)
	}
	for place, i := range order {
		if on[i] != -1 || slices.Max(p.Speeds(&p.Jobs[i])) == 0 {
			continue
		}
		mate, most := -1, 1.5
		for _, o := range order {
			t := on[o]
			if t < 0 || p.Jobs[o].GPUs != p.Jobs[i].GPUs || !p.Usable(&p.Jobs[i], t) {
				continue
			}
			first, second := speed(o, i, t)
			if sum := first/p.Jobs[o].Speed[t] + second/p.Jobs[i].Speed[t]; first > 0 && second > 0 && sum > most {
				mate, most = o, sum
			}
		}
		if mate < 0 {
			break
		}
		t := on[mate]
		first, second := speed(mate, i, t)
		time := make([]float64, len(p.Types))
		time[t], a.Time[mate][t] = 1, 0
		a.Pairs = append(a.Pairs, PairTime{A: mate, B: i, Time: time, Rate: [2]float64{first, second}})
		on[mate], on[i] = -2, -2
		value := func(place, job int, rate float64) float64 {
			return float64(len(order)-place-1) * rate / slices.Max(p.Speeds(&p.Jobs[job]))
		}
		before := slices.Index(order, mate)
		a.Objective += value(before, mate, first-p.Jobs[mate].Speed[t]) + value(place, i, second)
	}
	return a, nil
}
