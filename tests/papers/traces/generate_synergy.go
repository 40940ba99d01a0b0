package traces

import (
	"errors"
	"fmt"
	"math"

	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

// SynergyParams are the parameters of GenerateSynergy.
type SynergyParams struct {
	Seed        uint64
	Jobs        int
	JobsPerHour float64 // Poisson; +Inf: all at once
	// Split is the percentage of image, language and speech jobs: (20, 70, 10)
	// in the paper's main experiments.
	Split     [3]float64
	MultiGPU  bool // 1, 2, 4 and 8 GPUs instead of 1
	Workloads *workload.Table
}

// synergyClasses are in the order in which ties are broken.
var synergyClasses = [3]string{"image", "language", "speech"}

// GenerateSynergy makes the dynamic traces of Synergy (OSDI'22): the class
// whose share lags most behind the split is next, its models take turns;
// iterations for a run time at the proportional share of 10^1.5 to 10^3
// minutes (80 %) or 10^3 to 10^4 (20 %); Poisson arrivals in whole seconds, the
// first after a gap; sizes 1, 2, 4, 8 as 70:10:15:5, the mix of the released
// code. All of these are the authors'; the sizes of the paper's Figure 7 come
// from Philly's log and are not remade.
func GenerateSynergy(p SynergyParams) ([]trace.Job, error) {
	if err := errors.Join(checkJobs(p.Jobs), checkRate(p.JobsPerHour)); err != nil {
		return nil, err
	}
	sum := 0.0
	for _, s := range p.Split {
		if !(s >= 0) {
			return nil, fmt.Errorf("split %v: want three percentages from 0", p.Split)
		}
		sum += s
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return nil, fmt.Errorf("split %v: want three percentages, not all 0", p.Split)
	}
	var models [3][]*workload.Workload
	for i := range p.Workloads.All() {
		w := p.Workloads.Get(workload.ID(i))
		if _, ok := w.Curves[synergyReference]; ok && w.Source == SourceSynergy {
			for c, class := range synergyClasses {
				if w.Class == class {
					models[c] = append(models[c], w)
				}
			}
		}
	}
	for c := range models {
		if p.Split[c] > 0 && len(models[c]) == 0 {
			return nil, fmt.Errorf("no workloads with source = \"synergy\", class = %q and a curve on %s", synergyClasses[c], synergyReference)
		}
	}
	r, arrivals := newRand(p.Seed, streamJobs), newRand(p.Seed, streamArrivals)
	jobs := make([]trace.Job, p.Jobs)
	var count [3]int
	at := 0.0
	for i := range jobs {
		at += math.Ceil(exponential(arrivals, 3600/p.JobsPerHour))
		j := generated(i, at)
		if j.GPUs = gangs(r); !p.MultiGPU {
			j.GPUs = 1
		}
		c := lagging(p.Split, sum, count, i)
		w := models[c][count[c]%len(models[c])]
		count[c]++
		j.Workload = w.Name
		j.Steps = max(math.Floor(longTailed(r)/w.Curves[synergyReference].IterationS), 1)
		jobs[i] = j
	}
	return jobs, nil
}

// synergyReference is the GPU type that Synergy's figures are of.
const synergyReference = "v100"

// lagging is the class whose share of n jobs lags most behind the split. Among
// those that lag alike it is the first, and so it is before there are jobs.
func lagging(split [3]float64, sum float64, count [3]int, n int) int {
	best, most := -1, 0.0
	for c := range split {
		lag := split[c]*float64(n) - sum*float64(count[c])
		if split[c] > 0 && (best < 0 || lag > most) {
			best, most = c, lag
		}
	}
	return best
}
