package policies

import (
	"math"
	"math/rand/v2"
	"slices"
)

// gandiva is packing by trial as in Gandiva (OSDI 2018), a baseline of Gavel's
// section 7: a rule without an objective. If all gangs together fit, nobody
// shares. Else jobs of equal gangs are paired at random; a pair stays together
// while both are there and
//
//	sum over both jobs and all types of  speed in the pair / speed alone >= 1
//
// with no term 0, and what is not paired runs alone. Of K that run, pairs and
// singles, each has the time GPUs_j / (K x gang) on type j, a row that sums to
// more than 1 divided by its sum. Time on types that a job cannot use is lost.
//
// Which type suits whom it does not ask. Drawn keeps the pairs from one
// allocation to the next; the draws are the same for the same problem.
func gandiva(p *Problem) (*Allocation, error) {
	speed, _ := p.together()
	asked, gpus := 0, make([]int, len(p.Types))
	total := 0
	for t := range p.Types {
		gpus[t] = p.Types[t].GPUs
		total += gpus[t]
	}
	for i := range p.Jobs {
		asked += p.Jobs[i].GPUs
	}
	mate := make([]int, len(p.Jobs))
	for i := range mate {
		mate[i] = -1
	}
	if asked > total {
		p.pairUp(mate, func(a, b int) bool { return p.worthwhile(a, b, speed) })
	}
	var gangs, leader []int
	for i := range p.Jobs {
		if mate[i] < 0 || i < mate[i] {
			gangs, leader = append(gangs, p.Jobs[i].GPUs), append(leader, i)
		}
	}
	x := make([]float64, len(gangs)*len(gpus))
	Isolated(gpus, gangs, x)
	a := p.nothing()
	for n, i := range leader {
		row := x[n*len(gpus) : (n+1)*len(gpus)]
		pair := PairTime{A: i, B: mate[i], Time: make([]float64, len(gpus))}
		for t, part := range row {
			switch {
			case !p.Usable(&p.Jobs[i], t):
			case mate[i] < 0:
				a.Time[i][t] = part
			default:
				pair.Time[t] = part
				first, second := speed(i, mate[i], t)
				pair.Rate[0] += part * first
				pair.Rate[1] += part * second
			}
		}
		if mate[i] >= 0 {
			a.Pairs = append(a.Pairs, pair)
		}
	}
	return a, nil
}

// Drawn is what gandiva keeps from one allocation to the next.
type Drawn struct {
	pairs [][2]string // ids
	draws uint64      // problems solved with it
}

// pairUp keeps the pairs of last time that are still worth it and draws others
// for the rest, as often as there are jobs without one.
func (p *Problem) pairUp(mate []int, worth func(a, b int) bool) {
	seed := uint64(0)
	if w := p.Drawn; w != nil {
		w.draws++
		seed = w.draws
		here := make(map[string]int, len(p.Jobs))
		for i := range p.Jobs {
			here[p.Jobs[i].ID] = i
		}
		for _, two := range w.pairs {
			a, okA := here[two[0]]
			b, okB := here[two[1]]
			if okA && okB && p.Jobs[a].GPUs == p.Jobs[b].GPUs && worth(a, b) {
				mate[a], mate[b] = b, a
			}
		}
	}
	var single []int
	for i := range mate {
		if mate[i] < 0 {
			single = append(single, i)
		}
	}
	draw := rand.New(rand.NewPCG(1, seed))
	for n := len(single); n > 0 && len(single) > 1; n-- {
		x, y := draw.IntN(len(single)), draw.IntN(len(single)-1)
		if y >= x {
			y++
		}
		if a, b := single[x], single[y]; p.Jobs[a].GPUs == p.Jobs[b].GPUs && worth(a, b) {
			mate[a], mate[b] = b, a
			single = slices.Delete(single, max(x, y), max(x, y)+1)
			single = slices.Delete(single, min(x, y), min(x, y)+1)
		}
	}
	if w := p.Drawn; w != nil {
		w.pairs = w.pairs[:0]
		for a, b := range mate {
			if a < b {
				w.pairs = append(w.pairs, [2]string{p.Jobs[a].ID, p.Jobs[b].ID})
			}
		}
	}
}

// worthwhile is the rule above, over the types that both can use.
func (p *Problem) worthwhile(a, b int, speed func(a, b, t int) (float64, float64)) bool {
	sum := 0.0
	for t := range p.Types {
		x, y := &p.Jobs[a], &p.Jobs[b]
		if !p.Usable(x, t) || !p.Usable(y, t) {
			continue
		}
		first, second := speed(a, b, t)
		if first <= 0 || second <= 0 {
			return false
		}
		sum += first/x.Speed[t] + second/y.Speed[t]
	}
	return sum >= 1 && !math.IsInf(sum, 1)
}
