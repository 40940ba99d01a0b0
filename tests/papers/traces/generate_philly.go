package traces

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"slurmprio/priod/trace"
)

// PhillyParams are the parameters of GeneratePhilly.
type PhillyParams struct {
	Seed        uint64
	Jobs        int
	JobsPerHour float64 // Poisson; PhillyJobsPerHour in the paper; +Inf: all at once
	Failures    bool    // the paper's outcomes; false: all jobs pass
}

// PhillyJobsPerHour is the paper's 96,260 jobs in 75 days.
const PhillyJobsPerHour = 96260.0 / (75 * 24)

// Outcomes of the paper's Table 6: shares of jobs and of GPU time.
var (
	phillyOutcomes = []float64{passed: 69.3, killed: 13.5, failed: 17.2}
	phillyGPUTime  = []float64{passed: 44.53, killed: 37.69}
)

const (
	passed = iota
	killed
	failed
)

// phillySizes are the numbers of GPUs of the jobs that passed in the public
// log (github.com/msr-fiddle/philly-traces, CC-BY-4.0; counted by us).
var phillySizes = []struct{ gpus, jobs int }{
	{1, 76627}, {2, 1818}, {4, 1870}, {8, 1643}, {16, 199}, {32, 67}, {64, 6}, {128, 3},
}

// quantile is one point of a distribution.
type quantile struct{ at, seconds float64 }

// phillyRuns are run times of the jobs that passed in the public log, by the
// paper's classes of size: 1, 2 to 4, 5 to 8 and more GPUs (measured by us).
var phillyRuns = []struct {
	maxGPUs int
	times   []quantile
}{
	{1, []quantile{{0, 1}, {.1, 62}, {.25, 122}, {.5, 1117}, {.75, 2716}, {.9, 8512}, {.95, 19137}, {.99, 135404}, {.999, 863786}, {1, 3256045}}},
	{4, []quantile{{0, 2}, {.1, 15}, {.25, 21}, {.5, 367}, {.75, 45359}, {.9, 166086}, {.95, 233725}, {.99, 747114}, {1, 2750674}}},
	{8, []quantile{{0, 1}, {.1, 216}, {.25, 1881}, {.5, 23683}, {.75, 173288}, {.9, 352409}, {.95, 525631}, {.99, 1066894}, {1, 4628226}}},
	{math.MaxInt, []quantile{{0, 1}, {.1, 73}, {.25, 566}, {.5, 21137}, {.75, 104218}, {.9, 246825}, {.95, 446126}, {.99, 891298}, {1, 1710643}}},
}

// phillyFailures are the paper's Table 7 without its rarest reasons: trials,
// jobs, minutes to failure at 50, 90 and 95 %, and trials on 1, 2 to 4 and more
// GPUs.
var phillyFailures = []struct {
	trials, jobs  int
	p50, p90, p95 float64
	size          [3]int
}{
	{12076, 2803, 13.45, 17.73, 33.97, [3]int{11465, 235, 376}},   // CPU out of memory
	{9690, 4936, 1.87, 404.83, 2095.73, [3]int{5844, 2638, 1208}}, // incorrect inputs
	{2943, 2049, 2.72, 376.00, 1436.88, [3]int{1603, 494, 846}},   // semantic error
	{2912, 1784, 0.85, 72.75, 431.65, [3]int{1936, 496, 480}},     // core dump
	{2602, 1235, 1.03, 403.50, 1357.38, [3]int{712, 774, 1116}},   // invalid memory access
	{1995, 948, 181.67, 3728.93, 8196.02, [3]int{743, 384, 868}},  // model checkpoint error
	{1484, 571, 1.32, 19.87, 82.17, [3]int{133, 1153, 198}},       // CUDA failure
	{1132, 883, 0.58, 5.02, 12.00, [3]int{780, 184, 168}},         // syntax error
	{777, 271, 1.02, 894.33, 1394.07, [3]int{356, 277, 144}},      // traceback from crash
	{634, 166, 1.62, 3015.27, 5143.98, [3]int{456, 54, 124}},      // MPI error
	{487, 261, 18.53, 353.62, 2740.28, [3]int{237, 70, 180}},      // GPU out of memory
	{478, 420, 1389.48, 13778.60, 18090.88, [3]int{240, 141, 97}}, // MPI runtime failure
	{299, 151, 1.00, 8.15, 15.85, [3]int{56, 202, 41}},            // permission error
	{148, 148, 0.67, 4.58, 10.73, [3]int{108, 30, 10}},            // import error
	{147, 95, 559.08, 2682.85, 5892.23, [3]int{25, 95, 27}},       // job preempted
	{141, 69, 1.08, 2.18, 4.63, [3]int{16, 66, 59}},               // CUDA init failed
	{1684, 698, 1.87, 28.00, 95.17, [3]int{1235, 294, 155}},       // no signature
}

// Parameters of ours: how many users and virtual clusters there are, the n-th
// of which has a share in proportion to 1/n.
const (
	phillyUsers    = 300 // "hundreds" in the paper
	phillyClusters = 14  // as in the paper; their shares are ours
)

// GeneratePhilly makes a workload like that of Microsoft's Philly (Jeon et
// al., ATC'19). The paper's: the rate of arrival, the shares of jobs that pass,
// are killed and fail, how much GPU time killed jobs take, and for failed jobs
// reason, size, trials and minutes to failure (Tables 6 and 7; its text was not
// at hand, see docs/reference/traces.md). From the public log: sizes and run times of
// jobs that pass. Ours: Poisson arrivals; a logarithmic line between known
// percentiles, no trial longer than the 95th percentile and none shorter than
// a tenth of the median; killed jobs as those that pass, all longer by one
// factor; a geometric number of trials, run back to back as one job; accounts
// for virtual clusters and users, by Zipf's law.
func GeneratePhilly(p PhillyParams) ([]trace.Job, error) {
	if err := errors.Join(checkJobs(p.Jobs), checkRate(p.JobsPerHour)); err != nil {
		return nil, err
	}
	r, arrivals := newRand(p.Seed, streamJobs), newRand(p.Seed, streamArrivals)
	sizes := make([]int, len(phillySizes))
	for i, s := range phillySizes {
		sizes[i] = s.jobs
	}
	reasons := make([]int, len(phillyFailures))
	for i, f := range phillyFailures {
		reasons[i] = f.jobs
	}
	users, clusters := zipf("user", phillyUsers), zipf("vc", phillyClusters)
	// What a killed job takes for each GPU-second of one that passes.
	longer := phillyGPUTime[killed] / phillyOutcomes[killed] / (phillyGPUTime[passed] / phillyOutcomes[passed])
	jobs := make([]trace.Job, p.Jobs)
	at := 0.0
	for i := range jobs {
		j := generated(i, at)
		at += exponential(arrivals, 3600/p.JobsPerHour)
		outcome := pick(r, phillyOutcomes)
		if !p.Failures {
			outcome = passed
		}
		if outcome == failed {
			j.GPUs, j.Duration = failure(r, pick(r, reasons))
		} else {
			j.GPUs = phillySizes[pick(r, sizes)].gpus
			j.Duration = phillyRun(r, j.GPUs)
			if outcome == killed {
				j.Duration = wholeSeconds(j.Duration * longer)
			}
		}
		j.Account, j.User = clusters.draw(r), users.draw(r)
		jobs[i] = j
	}
	return jobs, nil
}

func phillyRun(r *rand.Rand, gpus int) float64 {
	for _, class := range phillyRuns {
		if gpus <= class.maxGPUs {
			return wholeSeconds(between(class.times, r.Float64()))
		}
	}
	panic(fmt.Sprintf("no class of size for %d GPUs", gpus)) // the last has no bound
}

// failure draws a failed job's GPUs and the time that all its trials take.
func failure(r *rand.Rand, reason int) (gpus int, seconds float64) {
	f := &phillyFailures[reason]
	class := pick(r, f.size[:])
	var sizes []int // weights of phillySizes within the class
	for _, s := range phillySizes {
		in := s.gpus == 1 && class == 0 || s.gpus > 1 && s.gpus <= 4 && class == 1 || s.gpus > 4 && class == 2
		if !in {
			s.jobs = 0
		}
		sizes = append(sizes, s.jobs)
	}
	gpus = phillySizes[pick(r, sizes)].gpus
	times := []quantile{{0, 6 * f.p50}, {.5, 60 * f.p50}, {.9, 60 * f.p90}, {.95, 60 * f.p95}, {1, 60 * f.p95}}
	again := 1 - float64(f.jobs)/float64(f.trials)
	for {
		seconds += between(times, r.Float64())
		if r.Float64() >= again {
			return gpus, wholeSeconds(seconds)
		}
	}
}

// between is the quantile at u, on a logarithmic line between known ones.
func between(q []quantile, u float64) float64 {
	i := 0
	for i < len(q)-2 && q[i+1].at <= u {
		i++
	}
	part := (u - q[i].at) / (q[i+1].at - q[i].at)
	return q[i].seconds * math.Pow(q[i+1].seconds/q[i].seconds, part)
}

// names with weights.
type names struct {
	names   []string
	weights []float64
}

func zipf(prefix string, n int) names {
	var z names
	for i := range n {
		z.names = append(z.names, prefix+strconv.Itoa(i+1))
		z.weights = append(z.weights, 1/float64(i+1))
	}
	return z
}

func (n *names) draw(r *rand.Rand) string { return n.names[pick(r, n.weights)] }
