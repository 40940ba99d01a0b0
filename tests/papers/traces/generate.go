package traces

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"slurmprio/priod/trace"
)

// Streams of random numbers: what one part of a generator draws does not move
// what another part draws.
const (
	streamJobs = iota + 1
	streamArrivals
	streamDeadlines
)

// newRand is one stream of a seed. It is not Python's generator, with which
// the papers' own streams were drawn: same distributions, other jobs.
func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// maxJobs bounds what a generator makes.
const maxJobs = 100_000_000

func checkJobs(n int) error {
	if n < 1 || n > maxJobs {
		return fmt.Errorf("%d jobs: want 1 to %d", n, maxJobs)
	}
	return nil
}

// checkRate accepts +Inf: all jobs at once.
func checkRate(jobsPerHour float64) error {
	if !(jobsPerHour > 0) {
		return fmt.Errorf("%v jobs in an hour: want more than 0, inf for all at once", jobsPerHour)
	}
	return nil
}

// generated is job number i of a generator. All its times are whole
// milliseconds at most, so that the last bit of a logarithm does not show.
func generated(i int, submit float64) trace.Job {
	j := trace.NewJob()
	j.ID, j.Submit = strconv.Itoa(i), math.Round(submit*1000)/1000
	return j
}

// wholeSeconds rounds a run time, which takes at least a second.
func wholeSeconds(s float64) float64 { return max(math.Round(s), 1) }

// exponential draws a gap of a Poisson process with the given mean.
func exponential(r *rand.Rand, mean float64) float64 { return -math.Log(1-r.Float64()) * mean }

// longTailed draws the run time, s, that Gavel and Synergy use: 10^1.5 to
// 10^3 minutes, and 10^3 to 10^4 for one job in five; 16.8 h on average.
func longTailed(r *rand.Rand) float64 {
	if r.Float64() >= 0.8 {
		return 60 * math.Pow(10, 3+r.Float64())
	}
	return 60 * math.Pow(10, 1.5+1.5*r.Float64())
}

// gangs are the numbers of GPUs of Gavel's and Synergy's traces with more
// than one: 70 % of jobs have 1, 10 % 2, 15 % 4 and 5 % 8.
func gangs(r *rand.Rand) int {
	switch u := r.Float64(); {
	case u < 0.7:
		return 1
	case u < 0.8:
		return 2
	case u < 0.95:
		return 4
	}
	return 8
}

// truncatedNormal draws from a normal distribution until the number lies
// between low and high; mean and sd are those before truncation.
func truncatedNormal(r *rand.Rand, mean, sd, low, high float64) float64 {
	if low >= high {
		return low // a node with one GPU
	}
	for {
		if x := mean + sd*r.NormFloat64(); x >= low && x <= high {
			return x
		}
	}
}

// pick draws an index with the given weights.
func pick[T int | float64](r *rand.Rand, weights []T) int {
	sum := T(0)
	for _, w := range weights {
		sum += w
	}
	x := r.Float64() * float64(sum)
	for i, w := range weights {
		if x -= float64(w); x < 0 {
			return i
		}
	}
	return len(weights) - 1
}
