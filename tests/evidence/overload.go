package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// mix is a cluster of 84 nodes with 8 GPUs, 32 CPUs and 256 GB under a load of 1.1: trials want more than
// BE jobs do, and CPUs, memory or neither are short before GPUs are.
type mix struct {
	name         string
	beCPUs, beGB int // for each GPU
	teCPUs, teGB int
}

var mixes = []mix{{"CPUs", 5, 24, 8, 32}, {"memory", 3, 36, 4, 48}, {"GPUs", 3, 24, 4, 32}}

// overload is a mix under one setup: a run for each seed.
type overload struct {
	mix   *mix
	setup setup
	runs  []*run
	jobs  [][]weekJob
	rows  []figures
}

// Trials first in the order, without evictions: what others are measured against.
var teFirst = setup{"te-first", "TE first, EASY, no evictions", "", []string{"--order", "multifactor", "--preemption", "te-first"}}

const (
	overloadNodes = 84
	overloadSeeds = 2
	overloadLoad  = 1.1
)

// overloads writes the traces and says what is run; jobs is how many each trace has.
func overloads(dir string, jobs int) (all []*overload, err error) {
	for i := range mixes {
		var byMix []*overload
		for _, set := range []setup{teFirst, alone[0], expert, profile, waits, noHeadroom} {
			byMix = append(byMix, &overload{mix: &mixes[i], setup: set})
		}
		for seed := range overloadSeeds {
			path := filepath.Join(dir, fmt.Sprintf("jobs-overload-%s-%d.csv", mixes[i].name, seed+1))
			trace, err := mixes[i].write(path, uint64(seed+1), jobs)
			if err != nil {
				return nil, err
			}
			for _, o := range byMix {
				flags := append([]string{"--backfill", "easy", "--prolog", "10s", "--restart-cost", "60s", "--nodes", fmt.Sprintf("%d:gpu:8:32:262144", overloadNodes)}, o.setup.flags...)
				o.runs = append(o.runs, &run{name: fmt.Sprintf("overload-%s-%d-%s", o.mix.name, seed+1, o.setup.name), config: o.setup.config, trace: path, flags: flags})
				o.jobs = append(o.jobs, trace)
			}
		}
		all = append(all, byMix...)
	}
	return all, nil
}

// write draws the jobs. The load is that of what is scarcest.
func (m *mix) write(path string, seed uint64, jobs int) ([]weekJob, error) {
	draw, users := rand.New(rand.NewPCG(seed, 2)), zipf()
	list, rows := make([]weekJob, jobs), [][]string{{"job_id", "submit_s", "gpus", "duration_s", "limit_s", "type", "cpus", "mem_mb", "grace_s", "ckpt_s", "user", "account"}}
	var gpuS, cpuS, gbS float64
	amount := func(j *weekJob) (cpus, gb int) {
		perGPU := []int{m.beCPUs, m.beGB}
		if j.te() {
			perGPU = []int{m.teCPUs, m.teGB}
		}
		return min(32, perGPU[0]*j.gpus), min(256, perGPU[1]*j.gpus)
	}
	for i := range list {
		j := &list[i]
		if j.user = weighted(draw, users); draw.Float64() < 0.3 {
			j.seconds = int(180 + 420*draw.Float64())
			if j.gpus = []int{2, 4}[draw.IntN(2)]; draw.Float64() < 0.15 {
				j.gpus = 8
			}
		} else {
			j.seconds = int(min(max(7200*math.Exp(draw.NormFloat64()), 1801), 2*86400))
			j.gpus = []int{1, 2, 4}[weighted(draw, []float64{60, 25, 15})]
		}
		j.limit = int(float64(j.seconds) * (1.1 + 1.4*draw.Float64()))
		cpus, gb := amount(j)
		gpuS += float64(j.gpus * j.seconds)
		cpuS += float64(cpus * j.seconds)
		gbS += float64(gb * j.seconds)
	}
	gap := max(gpuS/(8*overloadNodes), cpuS/(32*overloadNodes), gbS/(256*overloadNodes)) / overloadLoad / float64(jobs)
	at := 0.0
	for i := range list {
		j := &list[i]
		at += draw.ExpFloat64() * gap
		j.submit = int(at)
		cpus, gb := amount(j)
		class, grace, ckpt := "te", "", ""
		if !j.te() {
			class, grace = "be", strconv.Itoa(int(min(max(120*math.Exp(draw.NormFloat64()), 20), 1200)))
			if draw.Float64() < 0.5 {
				ckpt = "1800"
			}
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), strconv.Itoa(j.submit), strconv.Itoa(j.gpus), strconv.Itoa(j.seconds), strconv.Itoa(j.limit), class,
			strconv.Itoa(cpus), strconv.Itoa(gb * 1024), grace, ckpt, fmt.Sprintf("u%02d", j.user), fmt.Sprintf("acc%d", j.user%6)})
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := csv.NewWriter(f).WriteAll(rows); err != nil {
		return nil, err
	}
	return list, f.Close()
}

// read reads the results.
func (o *overload) read() error {
	for i, r := range o.runs {
		f, err := measured(plain(o.jobs[i]), r.csv, r.json)
		if err != nil {
			return err
		}
		o.rows = append(o.rows, f)
	}
	return nil
}

// plain are jobs that run as long on any GPU.
func plain(jobs []weekJob) []job {
	trace := make([]job, len(jobs))
	for i, j := range jobs {
		one := &program{steps: map[string]map[int]float64{"gpu": {j.gpus: 1}}}
		trace[i] = job{submit: j.submit, gpus: j.gpus, program: one, steps: j.seconds, te: j.te(), user: j.user}
	}
	return trace
}
