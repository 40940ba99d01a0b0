package allocate

import (
	"hash/maphash"
	"math"
	"slices"

	"slurmprio/priod/allocate/market"
)

// Classes are the jobs as the optimiser sees them: those with the same speeds,
// gang, weight and traits are one job with a count. Averaging an optimum over
// equal jobs leaves it feasible and optimal, so nothing is lost, and the work
// does not grow with the queue.
type Classes struct {
	market.Market
	Of    []int32 // class of each job
	First []int32 // a job of each class
}

// Traits are what a policy tells jobs apart by, beside speeds, gang, weight.
type Traits [4]float64

// Classify groups the jobs; trait is nil when speeds, gang and weight are all
// that counts. Jobs keep their order: a class stands where its first job does.
func (p *Problem) Classify(trait func(i int) Traits) *Classes {
	c := &Classes{Market: market.Market{GPUs: p.gpus()}, Of: make([]int32, len(p.Jobs))}
	if p.Warm != nil && len(p.Warm.price) == len(c.GPUs) {
		c.Guess = p.Warm.price
	}
	var own []Traits
	byHash := map[uint64][]int32{}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		var t Traits
		if trait != nil {
			t = trait(i)
		}
		h := hash(j, t)
		same := func(n int32) bool { return equal(&p.Jobs[c.First[n]], j) && own[n] == t }
		if k := slices.IndexFunc(byHash[h], same); k >= 0 {
			c.Of[i] = byHash[h][k]
			c.Jobs[c.Of[i]].Count++
			continue
		}
		c.Of[i] = int32(len(c.First))
		byHash[h] = append(byHash[h], c.Of[i])
		c.First, own = append(c.First, int32(i)), append(own, t)
		c.Jobs = append(c.Jobs, market.Job{Speed: p.Speeds(j), GPUs: float64(j.GPUs), Count: 1})
	}
	return c
}

func equal(a, b *ProblemJob) bool {
	return a.GPUs == b.GPUs && a.Weight == b.Weight && slices.Equal(a.Speed, b.Speed)
}

var seed = maphash.MakeSeed()

func hash(j *ProblemJob, t Traits) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, j.Weight)
	for _, s := range j.Speed {
		maphash.WriteComparable(&h, s)
	}
	maphash.WriteComparable(&h, t)
	return h.Sum64()
}

// Speeds of a job where it may run, 0 elsewhere.
func (p *Problem) Speeds(j *ProblemJob) []float64 {
	for t := range j.Speed {
		if j.Speed[t] > 0 && !p.Usable(j, t) {
			s := slices.Clone(j.Speed)
			for u := t; u < len(s); u++ {
				if !p.Usable(j, u) {
					s[u] = 0
				}
			}
			return s
		}
	}
	return j.Speed
}

// Proportional is Gavel's reference P of a class: its speed if it spent its
// time on the types in proportion to their GPUs.
func (c *Classes) Proportional(class int) float64 {
	sum, total := 0.0, 0.0
	for t, s := range c.Jobs[class].Speed {
		sum += s * c.GPUs[t]
		total += c.GPUs[t]
	}
	return sum / total
}

// isolated is Gavel's reference I of a class, see isolatedRate.
func (c *Classes) isolated(class, n int) float64 {
	return isolatedRate(c.GPUs, c.Jobs[class].Speed, c.Jobs[class].GPUs, n)
}

// Allocation gives each job its class's times.
func (c *Classes) Allocation(time [][]float64) *Allocation {
	a := &Allocation{Time: make([][]float64, len(c.Of)), Bound: math.NaN(), Objective: math.NaN()}
	for i, n := range c.Of {
		a.Time[i] = time[n]
	}
	return a
}

// rates of a job of each class with these times.
func (c *Classes) rates(time [][]float64) []float64 {
	rate := make([]float64, len(time))
	for i, x := range time {
		for t, s := range c.Jobs[i].Speed {
			rate[i] += s * x[t]
		}
	}
	return rate
}

// Crumb is a fraction of the time, or of the GPUs, too small to be worth a move.
const Crumb = 1e-9

// Tidy removes rounding errors: times below Crumb, and what exceeds the time of a job
// or the GPUs of a type.
func (c *Classes) Tidy(time [][]float64) {
	used := make([]float64, len(c.GPUs))
	for i, x := range time {
		sum := 0.0
		for t := range x {
			if x[t] < Crumb || c.Jobs[i].Speed[t] == 0 {
				x[t] = 0
			}
			sum += x[t]
		}
		for t := range x {
			if sum > 1 {
				x[t] /= sum
			}
			used[t] += x[t] * c.Jobs[i].GPUs * c.Jobs[i].Count
		}
	}
	for t := range used {
		if used[t] > c.GPUs[t] {
			for _, x := range time {
				x[t] *= c.GPUs[t] / used[t]
			}
		}
	}
}

// fill gives what is left of each type to the jobs that can use it, in order:
// first to idle time, then to time that they spend on slower types.
func (c *Classes) fill(time [][]float64) {
	free := slices.Clone(c.GPUs)
	for i, x := range time {
		for t := range x {
			free[t] -= x[t] * c.Jobs[i].GPUs * c.Jobs[i].Count
		}
	}
	for pass, moved := 0, true; moved && pass <= len(free); pass++ {
		moved = false
		for i, x := range time {
			for t := range x {
				moved = c.fillOne(i, t, x, free) || moved
			}
		}
	}
}

// fillOne gives the class more of a type while there is some.
func (c *Classes) fillOne(class, t int, x, free []float64) (moved bool) {
	j := &c.Jobs[class]
	size := j.GPUs * j.Count
	for free[t] > Crumb*c.GPUs[t] && j.Speed[t] > 0 {
		idle := 1.0
		for _, v := range x {
			idle -= v
		}
		give, from := idle, -1
		if idle <= Crumb { // its slowest time goes first
			for u, v := range x {
				if v > Crumb && j.Speed[u] < j.Speed[t] && (from < 0 || j.Speed[u] < j.Speed[from]) {
					from, give = u, v
				}
			}
			if from < 0 {
				return moved
			}
		}
		give = min(give, free[t]/size)
		if give <= Crumb {
			return moved
		}
		x[t] += give
		free[t] -= give * size
		if from >= 0 {
			x[from] = max(0, x[from]-give)
			free[from] += give * size
		}
		moved = true
	}
	return moved
}
