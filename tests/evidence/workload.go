package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"slurmprio/priod/workload"
)

// gpuTypes are those of Gavel's measurements, fastest first.
var gpuTypes = []string{"v100", "p100", "k80"}

// curveOf names for each family of Gavel's programs the one of Synergy's whose need of CPUs and
// memory it gets.
var curveOf = map[string]string{
	"a3c": "deepspeech", "cyclegan": "mobilenet", "lm": "lstm", "recommendation": "alexnet",
	"resnet-18": "res18", "resnet-50": "res50", "transformer": "transformer",
}

// program is one workload of the study.
type program struct {
	workload.Workload
	steps map[string]map[int]float64 // steps a second of the whole job, by GPU type, by GPUs
}

// best returns the steps a second on the fastest type, mean the mean of the types.
func (p *program) best(gpus int) float64 {
	best := 0.0
	for _, bySize := range p.steps {
		best = max(best, bySize[gpus])
	}
	return best
}

func (p *program) mean(gpus int) float64 {
	sum := 0.0
	for _, bySize := range p.steps {
		sum += bySize[gpus]
	}
	return sum / float64(len(p.steps))
}

// slowest returns how many times longer the job takes on its slowest type than on a V100.
func (p *program) slowest(gpus int) float64 {
	least := math.Inf(1)
	for _, bySize := range p.steps {
		least = min(least, bySize[gpus])
	}
	return p.steps["v100"][gpus] / least
}

// programs are Gavel's workloads with one of Synergy's CPU and memory curves each. A number of GPUs
// that was not measured is 1.7 times as fast as half of it, and no gang is slower than half of it. A
// slower GPU type needs fewer CPUs: its curve ends where the GPU is the bottleneck.
func programs() ([]program, error) {
	table, err := workload.Default()
	if err != nil {
		return nil, err
	}
	var all []program
	for _, w := range table.All() {
		if w.Source != "gavel" {
			continue
		}
		family, known := curveOf[familyOf(w.Name)]
		id, found := table.Lookup(family)
		if !known || !found {
			return nil, fmt.Errorf("workload %s: no curve of Synergy's is named for its family", w.Name)
		}
		curve := table.Get(id).Curves["v100"]
		p := program{workload.Workload{Name: w.Name, Class: w.Class, Source: "study", Speeds: map[string][]workload.Speed{},
			Curves: map[string]workload.Curve{}}, map[string]map[int]float64{}}
		for _, t := range gpuTypes {
			bySize := map[int]float64{}
			for _, s := range w.Speeds[t] {
				bySize[s.GPUs] = s.StepsPerS
			}
			for gpus := 2; gpus <= 16; gpus *= 2 {
				if bySize[gpus] == 0 {
					bySize[gpus] = 1.7 * bySize[gpus/2]
				}
				bySize[gpus] = max(bySize[gpus], 1.02*bySize[gpus/2])
			}
			p.steps[t] = bySize
			for _, gpus := range slices.Sorted(maps.Keys(bySize)) {
				p.Speeds[t] = append(p.Speeds[t], workload.Speed{GPUs: gpus, StepsPerS: bySize[gpus]})
			}
		}
		for _, t := range gpuTypes {
			p.Curves[t] = capped(curve, p.steps[t][1], p.steps[t][1]/p.steps["v100"][1])
		}
		all = append(all, p)
	}
	return all, nil
}

// familyOf returns the longest name of curveOf that the workload's begins with.
func familyOf(name string) string {
	best := ""
	for family := range curveOf {
		if len(name) >= len(family) && name[:len(family)] == family && len(family) > len(best) {
			best = family
		}
	}
	return best
}

// capped is the curve on a GPU type that is so fast, relative to a V100.
func capped(c workload.Curve, stepsPerS, relative float64) workload.Curve {
	most := 0.0
	for _, row := range c.Speed {
		most = max(most, slices.Max(row))
	}
	limit := max(1, most*min(1, relative))
	c.IterationS = 1 / stepsPerS
	rows := make([][]float64, len(c.Speed))
	for i, row := range c.Speed {
		for _, v := range row {
			rows[i] = append(rows[i], min(v, limit))
		}
	}
	if c.Speed = rows; limit < most {
		for i, row := range rows {
			if slices.Max(row) >= limit-1e-9 {
				c.DemandCPUs = c.CPUs[i]
				break
			}
		}
	}
	return c
}

// job is one row of a trace.
type job struct {
	submit  int // s
	gpus    int
	program *program
	steps   int
	limit   int // s
	te      bool
	grace   int // s; 0: no tag says so
	ckpt    int // s; 0: starts again from nothing
	user    int // account: user modulo 6

	partition string // list of partitions; "": it names none
}

// v100S is how long the job runs on V100s at the proportional share, in s.
func (j *job) v100S() float64 { return float64(j.steps) / j.program.steps["v100"][j.gpus] }

// generate draws jobs that offer so much load to nodes of 8 GPUs, nodesPerType of each type. At load 1
// each type does the average job at its average speed.
func generate(all []program, seed uint64, jobs int, load float64, nodesPerType int) []job {
	draw := rand.New(rand.NewPCG(seed, 0))
	pick := func(sizes []int, weights []float64) int { return sizes[weighted(draw, weights)] }
	users := zipf()
	trace, work, byType := make([]job, jobs), 0.0, map[string]float64{}
	for i := range trace {
		j := job{te: draw.Float64() < 0.3, program: &all[draw.IntN(len(all))], user: weighted(draw, users)}
		var seconds float64
		if j.te {
			j.gpus = pick([]int{1, 2, 4, 8}, []float64{65, 15, 12, 8})
			minutes := min(normalWithin(draw, 6, 6, 0.5, 30), 50/j.program.slowest(j.gpus)) // ends within its limit on every type
			seconds = max(minutes*60, 20)
		} else {
			j.gpus = pick([]int{1, 2, 4, 8, 16}, []float64{68, 10, 13, 7, 2})
			from, to := 1.5, 3.0
			if draw.Float64() >= 0.8 {
				from, to = 3, 3.4
			}
			seconds = math.Pow(10, from+(to-from)*draw.Float64()) * 60
		}
		j.steps = max(1, int(math.Round(seconds*j.program.steps["v100"][j.gpus])))
		j.limit = 3590
		if !j.te {
			j.limit = int(j.v100S() * j.program.slowest(j.gpus) * (1.1 + 1.4*draw.Float64()))
			j.grace = int(normalWithin(draw, 60, 60, 5, 300))
		}
		if draw.Float64() < 0.5 {
			j.ckpt = []int{900, 1800, 3600}[draw.IntN(3)]
		}
		gpuS := float64(j.gpus) * j.v100S()
		work += gpuS
		for _, t := range gpuTypes {
			byType[t] += gpuS * j.program.steps[t][j.gpus] / j.program.steps["v100"][j.gpus]
		}
		trace[i] = j
	}
	capacity := 0.0 // V100 GPU-seconds a second
	for _, t := range gpuTypes {
		capacity += float64(8*nodesPerType) * byType[t] / work
	}
	gap, at := work/(capacity*load)/float64(jobs), 0.0
	for i := range trace {
		at += draw.ExpFloat64() * gap
		trace[i].submit = int(math.Round(at))
	}
	return trace
}

// bounds are the mean run times, s, of the jobs alone on their fastest types: at the proportional share of CPUs and memory, and
// with all that they gain from.
func bounds(trace []job) (proportional, best float64) {
	for i := range trace {
		j := &trace[i]
		fastest := 0.0
		for t, bySize := range j.program.steps {
			curve := j.program.Curves[t]
			fastest = max(fastest, bySize[j.gpus]*max(1, curve.Best()))
		}
		proportional += float64(j.steps) / j.program.best(j.gpus) / float64(len(trace))
		best += float64(j.steps) / fastest / float64(len(trace))
	}
	return proportional, best
}

// zipf is how often each of 40 users submits.
func zipf() []float64 {
	weights := make([]float64, 40)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -0.8)
	}
	return weights
}

// weighted draws an index.
func weighted(draw *rand.Rand, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	at := draw.Float64() * sum
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(weights) - 1
}

func normalWithin(draw *rand.Rand, mean, deviation, low, high float64) float64 {
	for {
		if x := mean + deviation*draw.NormFloat64(); x >= low && x <= high {
			return x
		}
	}
}

// writeTrace writes jobs in priod's own CSV format; the jobs of one in so many users carry no tag. 0: all do.
func writeTrace(path string, trace []job, untagged int) error {
	rows := [][]string{{"job_id", "submit_s", "gpus", "workload", "steps", "limit_s", "type", "grace_s", "ckpt_s", "user", "account"}}
	text := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	divided := slices.ContainsFunc(trace, func(j job) bool { return j.partition != "" })
	if divided {
		rows[0] = append(rows[0], "partition")
	}
	for i, j := range trace {
		class := "be"
		switch {
		case untagged > 0 && j.user%untagged == untagged-1:
			class = "none"
		case j.te:
			class = "te"
		}
		row := []string{strconv.Itoa(i + 1), strconv.Itoa(j.submit), strconv.Itoa(j.gpus), j.program.Name, strconv.Itoa(j.steps),
			strconv.Itoa(j.limit), class, text(j.grace), text(j.ckpt), fmt.Sprintf("u%02d", j.user), fmt.Sprintf("acc%d", j.user%6)}
		if divided {
			row = append(row, j.partition)
		}
		rows = append(rows, row)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return cmp.Or(csv.NewWriter(f).WriteAll(rows), f.Close())
}

// writeWorkloads writes what --workloads reads; wrong returns how many times too fast a program counts on
// a GPU type, nil: not at all. The curves stay.
func writeWorkloads(path string, all []program, wrong func(program, gpuType int) float64) error {
	list := make([]workload.Workload, len(all))
	for i := range all {
		list[i] = all[i].Workload
		if wrong == nil {
			continue
		}
		list[i].Speeds = map[string][]workload.Speed{}
		for t, name := range gpuTypes {
			for _, s := range all[i].Speeds[name] {
				list[i].Speeds[name] = append(list[i].Speeds[name], workload.Speed{GPUs: s.GPUs, StepsPerS: s.StepsPerS * wrong(i, t)})
			}
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return cmp.Or(workload.WriteTOML(f, "Gavel's speeds, Synergy's curves: made by tests/evidence.", list), f.Close())
}
