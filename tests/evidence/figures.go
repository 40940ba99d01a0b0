package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
)

// outcome is what became of one job, in s.
type outcome struct {
	completion, wait float64
	gpuType          string
}

// figures are those of one run.
type figures struct {
	MeanH                        float64 // of all jobs' completion: from submission to end
	LaterH                       float64 // the same of jobs from number firstTaught on
	TEMeanS, TEP95S              float64 // completion
	TESlowdownP95                float64 // completion over the run on the fastest type at the proportional share
	TEWaitP95S, TEWaitP99S       float64
	TESlowestPart                float64 // of TE jobs on the slowest type
	BEMeanH                      float64 // completion
	BESlowdownP50, BESlowdownP95 float64
	Evictions, GPUHoursLost      float64
	WorstUser                    float64         // of users with 10 jobs and more: mean completion over the run at the mean of the types' speeds
	users                        map[int]float64 // the same of each
}

// firstTaught jobs of a trace are over before what they taught is measured.
const firstTaught = 500

// measured reads a run's CSV (--jobs-out) and JSON; but for evictions and GPU-hours lost the figures are those of the jobs of which of is
// true; nil: all.
func measured(trace []job, jobsCSV, runJSON string, of func(*job) bool) (f figures, err error) {
	outcomes, err := readOutcomes(jobsCSV, len(trace))
	if err != nil {
		return f, err
	}
	text, err := os.ReadFile(runJSON)
	if err != nil {
		return f, err
	}
	var run struct {
		Preemptions float64 `json:"preemptions"`
		Wasted      float64 `json:"wasted_gpu_s"`
	}
	if err := json.Unmarshal(text, &run); err != nil {
		return f, fmt.Errorf("%s: %w", runJSON, err)
	}
	f.Evictions, f.GPUHoursLost = run.Preemptions, run.Wasted/3600
	var hours, te, teWait, teSlowdown, be, beSlowdown []float64
	byUser, jobsOf := map[int]float64{}, map[int]int{}
	slowest := 0.0
	for i, o := range outcomes {
		j := &trace[i]
		if of != nil && !of(j) {
			continue
		}
		hours = append(hours, o.completion/3600)
		slowdown := o.completion / (float64(j.steps) / j.program.best(j.gpus))
		if j.te {
			te, teWait = append(te, o.completion), append(teWait, o.wait)
			teSlowdown = append(teSlowdown, slowdown)
			if o.gpuType == gpuTypes[len(gpuTypes)-1] {
				slowest++
			}
		} else {
			be, beSlowdown = append(be, o.completion/3600), append(beSlowdown, slowdown)
		}
		byUser[j.user] += o.completion / (float64(j.steps) / j.program.mean(j.gpus))
		jobsOf[j.user]++
	}
	f.LaterH = stat.Mean(hours[min(firstTaught, len(hours)-1):], nil)
	for _, list := range [][]float64{hours, te, teSlowdown, teWait, beSlowdown} {
		slices.Sort(list)
	}
	f.MeanH = stat.Mean(hours, nil)
	f.TEMeanS, f.TEP95S, f.TESlowdownP95 = stat.Mean(te, nil), quantile(0.95, te), quantile(0.95, teSlowdown)
	f.TEWaitP95S, f.TEWaitP99S = quantile(0.95, teWait), quantile(0.99, teWait)
	f.TESlowestPart = slowest / float64(len(te))
	f.BEMeanH = stat.Mean(be, nil)
	f.BESlowdownP50, f.BESlowdownP95 = quantile(0.5, beSlowdown), quantile(0.95, beSlowdown)
	f.users = map[int]float64{}
	for user, sum := range byUser {
		if jobsOf[user] >= 10 {
			f.users[user] = sum / float64(jobsOf[user])
			f.WorstUser = max(f.WorstUser, f.users[user])
		}
	}
	return f, nil
}

// quantile of ascending values; of none it is 0.
func quantile(p float64, sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return stat.Quantile(p, stat.LinInterp, sorted, nil)
}

// worseOff counts users with 10 jobs and more whose mean slowdown is more than a tenth above that in base.
func (f *figures) worseOff(base *figures) int {
	n := 0
	for user, slowdown := range f.users {
		if slowdown > 1.1*base.users[user] {
			n++
		}
	}
	return n
}

// readOutcomes reads what --jobs-out wrote, by job id.
func readOutcomes(path string, jobs int) ([]outcome, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	if len(rows)-1 != jobs {
		return nil, fmt.Errorf("%s: %d jobs ended, want %d", path, len(rows)-1, jobs)
	}
	all := make([]outcome, jobs)
	for _, row := range rows[1:] {
		id, err := strconv.Atoi(row[column["job_id"]])
		if err != nil || id < 1 || id > jobs || all[id-1].completion != 0 {
			return nil, fmt.Errorf("%s: job_id %q: want each of 1 to %d once", path, row[column["job_id"]], jobs)
		}
		value := map[string]float64{}
		for _, name := range []string{"submit_s", "end_s", "wait_s"} {
			if value[name], err = strconv.ParseFloat(row[column[name]], 64); err != nil {
				return nil, fmt.Errorf("%s: job %d: %s: %w", path, id, name, err)
			}
		}
		all[id-1] = outcome{value["end_s"] - value["submit_s"], value["wait_s"], row[column["gpu_type"]]}
	}
	return all, nil
}

// mean is the mean of the seeds' figures.
func mean(of []figures) (m figures) {
	n := float64(len(of))
	for _, f := range of {
		m.MeanH += f.MeanH / n
		m.TEMeanS += f.TEMeanS / n
		m.TESlowdownP95 += f.TESlowdownP95 / n
		m.TEWaitP95S += f.TEWaitP95S / n
		m.TEWaitP99S += f.TEWaitP99S / n
		m.TESlowestPart += f.TESlowestPart / n
		m.BEMeanH += f.BEMeanH / n
		m.BESlowdownP50 += f.BESlowdownP50 / n
		m.BESlowdownP95 += f.BESlowdownP95 / n
		m.Evictions += f.Evictions / n
		m.GPUHoursLost += f.GPUHoursLost / n
		m.WorstUser += f.WorstUser / n
	}
	return m
}
