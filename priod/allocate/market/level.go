package market

// Target says what each job has to reach at a level, steps/s: continuous and
// not falling in the level. Slope is its derivative there. No target up to the
// top may exceed the job's fastest type.
type Target interface {
	At(job int, level float64) (rate, slope float64)
}

// Answer is an allocation with its proof.
type Answer struct {
	Level float64     // reached
	Bound float64     // no allocation reaches a higher one: the prices prove it
	Time  [][]float64 // the part of its time that a job of each class spends on each type
	Price []float64   // of each type, summing to 1 when anything is scarce
}

const (
	maxSteps    = 200
	maxAttempts = 6

	exact = 1e-13 // how near a level comes to what is affordable, as a part of the budget
	rough = 1e-2  // at prices that are only guessed
)

// perturb moves prices towards each other, the more the later the attempt, and then
// apart, each by its type's index.
func (m *Market) perturb(price []float64, attempt int) []float64 {
	out := make([]float64, len(price))
	part := float64(attempt) / float64(maxAttempts+1)
	for t, p := range price {
		out[t] = (1-part)*p + part*(1+float64(t*attempt)/16)
	}
	return normalised(out)
}

// MaxLevel finds the highest level from one that is known to fit up to top at
// which all targets fit, and a way to reach it.
func MaxLevel(m *Market, target Target, from, top float64) (*Answer, error) {
	price, near := m.Guess, exact
	if price == nil {
		near = rough
		price = m.guessPrices(target, from, top)
	}
	c := newClearing(m)
	level := m.affordableLevel(target, price, from, top, near)
	for range maxSteps {
		for i := range m.Jobs {
			c.rate[i], _ = target.At(i, level)
		}
		fits, err := c.run(price)
		for attempt := 1; err != nil && attempt <= maxAttempts; attempt++ {
			fits, err = c.run(m.perturb(price, attempt)) // another start, other pivots
		}
		if err != nil {
			return nil, err
		}
		next := level
		if !fits {
			price = normalised(c.price)
			next = m.affordableLevel(target, price, from, level, exact)
		}
		if fits || next >= level*(1-1e-13) || level <= from {
			a := &Answer{Level: level, Bound: level, Price: price, Time: make([][]float64, len(m.Jobs))}
			flat := make([]float64, len(m.Jobs)*len(m.GPUs))
			for i := range a.Time {
				a.Time[i], flat = flat[:len(m.GPUs):len(m.GPUs)], flat[len(m.GPUs):]
			}
			c.time(a.Time)
			return a, nil
		}
		level = next
	}
	return nil, ErrNumeric
}

// sampleAbove is how many classes a market has before its prices are first
// looked for in a smaller one.
const sampleAbove = 4096

// guessPrices returns prices to start from: those of a sample of the jobs, or for a
// small market each type's mean speed.
func (m *Market) guessPrices(target Target, from, top float64) []float64 {
	if len(m.Jobs) > sampleAbove {
		every := 16
		s := &Market{GPUs: m.GPUs}
		index := make([]int, 0, len(m.Jobs)/every+1)
		for i := 0; i < len(m.Jobs); i += every {
			j := m.Jobs[i]
			j.Count *= float64(every)
			s.Jobs = append(s.Jobs, j)
			index = append(index, i)
		}
		if a, err := MaxLevel(s, sampleTarget{target, index}, from, top); err == nil {
			return a.Price
		}
	}
	price := make([]float64, len(m.GPUs))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if f := j.Fastest(); f > 0 {
			for t, s := range j.Speed {
				price[t] += j.Count * j.GPUs * s / f
			}
		}
	}
	return normalised(price)
}

// sampleTarget is the target of a sample of the jobs.
type sampleTarget struct {
	Target
	index []int
}

func (s sampleTarget) At(job int, level float64) (float64, float64) {
	return s.Target.At(s.index[job], level)
}

// normalised returns prices scaled to a sum of 1.
func normalised(price []float64) []float64 {
	out := make([]float64, len(price))
	sum := 0.0
	for t, p := range price {
		out[t] = max(0, p)
		sum += out[t]
	}
	for t := range out {
		if sum > 0 {
			out[t] /= sum
		} else {
			out[t] = 1 / float64(len(out))
		}
	}
	return out
}

// affordableLevel returns the highest level up to top that the jobs' cheapest mixes
// reach for no more than all GPUs are worth at these prices: no allocation reaches a
// higher one. It may be too high by what costs near of that.
func (m *Market) affordableLevel(target Target, price []float64, from, top, near float64) float64 {
	budget := 0.0
	for t, n := range m.GPUs {
		budget += n * price[t]
	}
	over := func(level float64) (sum, slope float64) {
		sum = -budget
		for i := range m.Jobs {
			j := &m.Jobs[i]
			rate, ds := target.At(i, level)
			cost, dc := j.cost(rate, price)
			sum += j.Count * cost
			slope += j.Count * dc * ds
		}
		return sum, slope
	}
	high := top
	sum, slope := over(high)
	if sum <= 0 {
		return top
	}
	low := from
	for high-low > 1e-14*high {
		next := high - sum/slope
		if !(next > low && next < high) { // also when slope is 0
			next = low + (high-low)/2
		}
		if next <= low || next >= high {
			break
		}
		s, ds := over(next)
		if s > 0 {
			high, sum, slope = next, s, ds
			if s <= near*budget {
				break
			}
		} else {
			low = next
			if -s <= 1e-15*budget {
				return next
			}
		}
	}
	return high
}
