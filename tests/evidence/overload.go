package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// Trials first in the order, without evictions: what others are measured against. Evictions alone have the defaults of a feature, not the
// profile's.
var (
	teFirst   = setup{"te-first", "TE first, EASY, no evictions", "", []string{"--order", "multifactor", "--preemption", "te-first"}}
	evictions = setup{"preemption", "`[preemption]` alone", "[preemption]\nenabled = true\n", nil}

	overloadSetups = []setup{teFirst, alone[0], expert, evictions, profile, noHeadroom}
	overloadSeeds  = []int{1, 2}
)

const (
	overloadNodes = 84
	overloadLoad  = 1.1
)

// overloads writes the traces and says what is run; jobs is how many each trace has. The first setup is what others are measured against.
func overloads(dir string, jobs int, sets []setup, seeds []int) (all []*overload, err error) {
	for i := range mixes {
		var byMix []*overload
		for _, set := range sets {
			byMix = append(byMix, &overload{mix: &mixes[i], setup: set})
		}
		for _, seed := range seeds {
			path := filepath.Join(dir, fmt.Sprintf("jobs-overload-%s-%d.csv", mixes[i].name, seed))
			trace, err := mixes[i].write(path, uint64(seed), jobs)
			if err != nil {
				return nil, err
			}
			for _, o := range byMix {
				flags := append([]string{"--backfill", "easy", "--prolog", "10s", "--restart-cost", "60s", "--nodes", fmt.Sprintf("%d:gpu:8:32:262144", overloadNodes)}, o.setup.flags...)
				o.runs = append(o.runs, &run{name: fmt.Sprintf("overload-%s-%d-%s", o.mix.name, seed, o.setup.name), config: o.setup.config, trace: path, flags: flags})
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
		f, err := measured(plain(o.jobs[i]), r.csv, r.json, nil)
		if err != nil {
			return err
		}
		o.rows = append(o.rows, f)
	}
	return nil
}

// overloadTable writes a row of each, its seeds apart.
func overloadTable(w io.Writer, all []*overload) {
	fmt.Fprintln(w, "| short are | | TE wait p99, s | against TE first, % | TE slowdown p95 | BE slowdown p50 | BE slowdown p95 | mean completion, h | evictions | GPU-h lost |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	base := all[0]
	for _, o := range all {
		if o.mix != base.mix {
			base = o
		}
		each := func(format string, of func(f, base *figures) float64) string {
			var values []string
			for i := range o.rows {
				values = append(values, fmt.Sprintf(format, of(&o.rows[i], &base.rows[i])))
			}
			return strings.Join(values, "; ")
		}
		against := ""
		if o != base {
			against = each("%+.0f", func(f, b *figures) float64 { return 100 * (f.TEWaitP99S/b.TEWaitP99S - 1) })
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", o.mix.name, shortName(o.setup),
			each("%.0f", func(f, _ *figures) float64 { return f.TEWaitP99S }), against,
			each("%.1f", func(f, _ *figures) float64 { return f.TESlowdownP95 }),
			each("%.2f", func(f, _ *figures) float64 { return f.BESlowdownP50 }), each("%.1f", func(f, _ *figures) float64 { return f.BESlowdownP95 }),
			each("%.1f", func(f, _ *figures) float64 { return f.MeanH }), each("%.0f", func(f, _ *figures) float64 { return f.Evictions }),
			each("%.0f", func(f, _ *figures) float64 { return f.GPUHoursLost }))
	}
}

// startOverload measures the mixes with evictions alone and the profile, or what is tried in place of it, beside trials first.
func startOverload(ctx context.Context, args []string, w io.Writer) error {
	var o options
	flags, configs := o.flags("overload")
	flags.IntVar(&o.jobs, "jobs", 8000, "`NUMBER` of jobs of each trace")
	seeds := flags.String("seeds", "1,2", "seeds, with commas")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	var list []int
	for text := range strings.SplitSeq(*seeds, ",") {
		seed, err := strconv.Atoi(text)
		if err != nil || seed < 0 {
			return fmt.Errorf("%w: --seeds %q: want whole numbers from 0", errUsage, *seeds)
		}
		list = append(list, seed)
	}
	tries, err := tried(*configs)
	if err != nil {
		return err
	}
	s, err := newStudy(ctx, o.dir, o.workers)
	if err != nil {
		return err
	}
	m := matrix{o: &o}
	if m.mixes, err = overloads(o.dir, o.jobs, append([]setup{teFirst, evictions}, tries...), list); err != nil {
		return err
	}
	if err := m.run(ctx, s); err != nil {
		return err
	}
	overloadTable(w, m.mixes)
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
