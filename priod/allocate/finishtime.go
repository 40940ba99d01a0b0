package allocate

import "math"

// finishTimeFairness is Themis' metric as Gavel has it (section 4.2), with
// weights:
//
//	minimise  max over jobs m of  weight_m x rho_m
//	rho_m = (elapsed_m + steps left_m / rate_m) / D_m
//	D_m   = isolated elapsed_m + steps left_m / I_m
//
// I is the rate of the isolated reference among the jobs that are there now. At
// level 1/(weight x rho) a job needs rate = R w l / (D - elapsed w l), which
// rises from 0 to infinity, so it is one curve for each job. Isolated elapsed
// is kept by the caller: each time, it grows by steps done / I.
func finishTimeFairness(p *Problem) (*Allocation, error) {
	return p.solveByLevel(p.Rise("finish-time-fairness", nil))
}

func finishTraits(p *Problem) func(i int) Traits {
	return func(i int) Traits {
		j := &p.Jobs[i]
		return Traits{j.StepsLeft, j.Elapsed, j.IsolatedElapsed}
	}
}

func finishCurves(p *Problem, c *Classes) finish {
	f := make(finish, len(c.Jobs))
	for i := range f {
		if c.Jobs[i].Fastest() == 0 {
			continue // it cannot run, and asks for nothing
		}
		j := &p.Jobs[c.First[i]]
		f[i] = finishJob{left: j.StepsLeft * j.Weight, elapsed: j.Elapsed * j.Weight, isolatedTotal: j.IsolatedElapsed + j.StepsLeft/c.isolated(i, len(p.Jobs))}
	}
	return f
}

type finishJob struct{ left, elapsed, isolatedTotal float64 } // steps and s times weight, s

type finish []finishJob

func (f finish) at(class int, level float64) (rate, slope float64) {
	j := &f[class]
	if j.left == 0 {
		return 0, 0
	}
	room := j.isolatedTotal - j.elapsed*level
	if room <= 0 {
		return math.Inf(1), 0
	}
	return j.left * level / room, j.left * j.isolatedTotal / (room * room)
}

func (f finish) level(class int, rate float64) float64 {
	j := &f[class]
	if j.left == 0 {
		return math.Inf(1)
	}
	return rate * j.isolatedTotal / (j.left + rate*j.elapsed)
}

// IsolatedRates returns the rate of each job in the isolated reference, with which
// IsolatedElapsed is kept.
func (p *Problem) IsolatedRates() []float64 {
	rates, gpus := make([]float64, len(p.Jobs)), p.gpus()
	for i := range p.Jobs {
		j := &p.Jobs[i]
		rates[i] = isolatedRate(gpus, p.Speeds(j), float64(j.GPUs), len(p.Jobs))
	}
	return rates
}

// isolatedRate is Gavel's reference I of one of n jobs: its speed if each had an equal
// part of every type.
func isolatedRate(gpus, speed []float64, gang float64, n int) float64 {
	sum, time := 0.0, 0.0
	for t, s := range speed {
		x := gpus[t] / (float64(n) * gang)
		sum += s * x
		time += x
	}
	return sum / max(1, time)
}
