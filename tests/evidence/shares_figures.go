package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"slurmprio/priod/simulate/metrics"
)

// sharesFigures are those of a week, or of the combined workload.
type sharesFigures struct {
	metrics.Returns                          // of the run with shares, by priod's own clock
	systems         map[string]systemFigures // by the names of shareSystems
	untagged        map[string]float64       // s, the worst wait of jobs that do not agree to leave and were beyond their share
}

// systemFigures are what jobs had of one system.
type systemFigures struct {
	MeanH, GPUHours, Evictions float64
	entitled, later            int     // jobs that fitted their account's share as they came; of these, over 2 minutes later than on a private cluster
	p95                        float64 // s, wait of the entitled
}

const sharesHead = "| | entitled jobs that waited | p50, p95, p99, worst s | later than on a private cluster | GPU-hours | mean completion | GPUs evicted for each asked | worst wait of jobs that may not borrow |\n" +
	"| --- | --- | --- | --- | --- | --- | --- | --- |"

// row is that of the first table; parts are of the same without shares.
func (f *sharesFigures) row(name string) string {
	with, without := f.systems["with"], f.systems["without"]
	later, hours := "-", "-"
	if with.entitled > 0 {
		later = fmt.Sprintf("%d of %d", with.later, with.entitled)
	}
	if without.GPUHours > 0 {
		hours = fmt.Sprintf("%.3f", with.GPUHours/without.GPUHours)
	}
	return fmt.Sprintf("| %s | %d | %.0f, %.0f, %.0f, %.0f | %s | %s | %.3f (%.2f h) | %.2f | %.2f (%.1f h) |", name, f.Jobs, f.P50, f.P95, f.P99, f.Worst, later,
		hours, with.MeanH/without.MeanH, with.MeanH, f.EvictedGPUs/max(f.AskedGPUs, 1), f.untagged["with"]/max(f.untagged["without"], 1), f.untagged["with"]/3600)
}

// sums are the means over weeks of each system.
type sums struct {
	weeks   float64
	systems map[string]systemFigures
}

func newSums() *sums { return &sums{systems: map[string]systemFigures{}} }

func (s *sums) add(f *sharesFigures) {
	s.weeks++
	for name, x := range f.systems {
		y := s.systems[name]
		y.MeanH, y.GPUHours, y.Evictions, y.p95 = y.MeanH+x.MeanH, y.GPUHours+x.GPUHours, y.Evictions+x.Evictions, y.p95+x.p95
		y.entitled, y.later = y.entitled+x.entitled, y.later+x.later
		s.systems[name] = y
	}
}

func (s *sums) table() string {
	var b strings.Builder
	fmt.Fprintln(&b, "| means of the weeks | mean completion, h | GPU-hours | entitled jobs: wait p95, min | later than on a private cluster, % | evictions |\n| --- | --- | --- | --- | --- | --- |")
	for _, x := range shareSystems {
		y := s.systems[x.name]
		fmt.Fprintf(&b, "| %s | %.2f | %.0f | %.1f | %.1f | %.0f |\n", x.name, y.MeanH/s.weeks, y.GPUHours/s.weeks, y.p95/s.weeks/60, 100*float64(y.later)/max(float64(y.entitled), 1), y.Evictions/s.weeks)
	}
	return b.String()
}

// sharedRun is what became of one job of a run, s.
type sharedRun struct {
	submit, start, end, wait, ran float64
	preemptions                   float64
	entitled                      bool // at some time while it waited, as priod saw it
	job                           *sharedJob
}

// readShared reads a run's jobs by their ids.
func readShared(r *run, jobs map[string]*sharedJob) (map[string]*sharedRun, error) {
	all := map[string]*sharedRun{}
	return all, eachRow(r.csv, func(row map[string]string) (err error) {
		x := &sharedRun{job: jobs[row["job_id"]], entitled: row["entitled_s"] != ""}
		for name, to := range map[string]*float64{"submit_s": &x.submit, "start_s": &x.start, "end_s": &x.end, "wait_s": &x.wait, "ran_s": &x.ran, "preemptions": &x.preemptions} {
			v, bad := strconv.ParseFloat(row[name], 64)
			*to, err = v, cmp.Or(err, bad)
		}
		if all[row["job_id"]] = x; x.job == nil {
			return fmt.Errorf("job %q is not in the trace", row["job_id"])
		}
		return err
	})
}

// figures reads the results of a week.
func (k *sharedWeek) figures() (*sharesFigures, error) {
	alone := map[string]*sharedRun{}
	for _, r := range k.alone {
		jobs, err := readShared(r, k.jobs)
		if err != nil {
			return nil, err
		}
		for id, x := range jobs {
			alone[id] = x
		}
	}
	owned := map[string]int{}
	for _, a := range k.accounts {
		owned[a.account] = a.gpus
	}
	f := &sharesFigures{systems: map[string]systemFigures{}, untagged: map[string]float64{}}
	runs := map[string]map[string]*sharedRun{}
	for _, x := range shareSystems {
		jobs, err := readShared(k.runs[x.name], k.jobs)
		if err != nil {
			return nil, err
		}
		runs[x.name], f.systems[x.name] = jobs, measureShared(jobs, alone, owned)
	}
	f.compareUntagged(runs["with"], runs["without"])
	return f, f.readReturns(k.runs["with"].json)
}

// compareUntagged finds the worst waits, with and without shares, of the jobs that do not agree to leave and were never
// entitled while they waited.
func (f *sharesFigures) compareUntagged(with, without map[string]*sharedRun) {
	for id, x := range with {
		if x.job.tag == "untagged" && !x.entitled && !x.job.there && without[id] != nil {
			f.untagged["with"] = max(f.untagged["with"], x.start-x.submit)
			f.untagged["without"] = max(f.untagged["without"], without[id].start-without[id].submit)
		}
	}
}

// readReturns reads priod's own figures of a run.
func (f *sharesFigures) readReturns(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var run struct {
		Returns *metrics.Returns `json:"returns"`
	}
	if err := json.Unmarshal(text, &run); err != nil || run.Returns == nil {
		return fmt.Errorf("%s: no returns: %w", path, err)
	}
	f.Returns = *run.Returns
	return nil
}

// measureShared are the figures of one system. A job is entitled that fits its account's share beside what the account holds
// and waits for already, as it comes.
func measureShared(jobs, alone map[string]*sharedRun, owned map[string]int) (f systemFigures) {
	var hours, waits []float64
	held, queued := steps(jobs, func(x *sharedRun) (float64, float64) { return x.start, x.end }), steps(jobs, func(x *sharedRun) (float64, float64) { return x.submit, x.start })
	for id, x := range jobs {
		g, part := float64(x.job.gpus), 1.0
		if x.preemptions > 0 && x.end > x.start {
			part = min(1, x.ran/(x.end-x.start))
		}
		f.GPUHours += g * max(0, min(x.end, weekSeconds)-min(x.start, weekSeconds)) * part / 3600
		if f.Evictions += x.preemptions; x.job.there {
			continue
		}
		hours = append(hours, (x.end-x.submit)/3600)
		use := held[x.job.account].at(x.submit) + queued[x.job.account].at(x.submit) - g // it counts in one of them
		private := alone[id]
		if private == nil || use+g > float64(owned[x.job.account]) {
			continue
		}
		f.entitled++
		wait := x.start - x.submit
		if waits = append(waits, wait); wait > private.start-private.submit+120 {
			f.later++
		}
	}
	slices.Sort(waits)
	f.MeanH, f.p95 = stat.Mean(hours, nil), quantile(0.95, waits)
	return f
}

// count is a number of GPUs that changes at times.
type count struct{ times, gpus []float64 }

// at is the number at a time, changes at that time included.
func (c count) at(t float64) float64 {
	i, found := slices.BinarySearch(c.times, t)
	if found {
		return c.gpus[i]
	}
	if i == 0 {
		return 0
	}
	return c.gpus[i-1]
}

// steps counts for each account the GPUs of its jobs between two times of theirs.
func steps(jobs map[string]*sharedRun, of func(*sharedRun) (from, to float64)) map[string]count {
	changes := map[string]map[float64]float64{}
	for _, x := range jobs {
		from, to := of(x)
		if from >= to {
			continue
		}
		if changes[x.job.account] == nil {
			changes[x.job.account] = map[float64]float64{}
		}
		changes[x.job.account][from] += float64(x.job.gpus)
		changes[x.job.account][to] -= float64(x.job.gpus)
	}
	all := map[string]count{}
	for account, at := range changes {
		var c count
		for t := range at {
			c.times = append(c.times, t)
		}
		slices.Sort(c.times)
		sum := 0.0
		for _, t := range c.times {
			sum += at[t]
			c.gpus = append(c.gpus, sum)
		}
		all[account] = c
	}
	return all
}

// sharesOf are the figures of the combined workload, whose cells are without shares, with them, and Slurm's fair share.
func (m *matrix) sharesOf(accounts []ownedShare) (*sharesFigures, string, error) {
	f := &sharesFigures{systems: map[string]systemFigures{}, untagged: map[string]float64{}}
	byAccount := make([][3]float64, len(accounts))
	seeds := float64(len(m.cells[0].runs))
	for c, name := range []string{"without", "with", simulateFair} {
		x := systemFigures{}
		for _, r := range m.cells[c].runs {
			jobs := m.traces[r.trace]
			outcomes, err := readOutcomes(r.csv, len(jobs))
			if err != nil {
				return nil, "", err
			}
			n := make([]float64, len(accounts))
			sum := make([]float64, len(accounts))
			for i, o := range outcomes {
				at := jobs[i].user % len(accounts)
				n[at], sum[at] = n[at]+1, sum[at]+o.completion/3600
				x.MeanH += o.completion / 3600 / float64(len(jobs)) / seeds
			}
			for a := range accounts {
				byAccount[a][c] += sum[a] / n[a] / seeds
			}
			one := &sharesFigures{}
			if name == "with" {
				if err := one.readReturns(r.json); err != nil {
					return nil, "", err
				}
				f.Jobs, f.AskedGPUs, f.EvictedGPUs = f.Jobs+one.Jobs, f.AskedGPUs+one.AskedGPUs, f.EvictedGPUs+one.EvictedGPUs
				f.P50, f.P95, f.P99, f.Worst = f.P50+one.P50/seeds, f.P95+one.P95/seeds, f.P99+one.P99/seeds, max(f.Worst, one.Worst)
			}
		}
		f.systems[name] = x
	}
	var b strings.Builder
	fmt.Fprintln(&b, "| combined | GPUs | without, h | with | Slurm's fair share |\n| --- | --- | --- | --- | --- |")
	for a, h := range byAccount {
		fmt.Fprintf(&b, "| %s | %d | %.2f | %.2f | %.2f |\n", accounts[a].account, accounts[a].gpus, h[0], h[1], h[2])
	}
	return f, b.String(), nil
}

// simulateFair names Slurm's fair share among the cells of the combined workload.
const simulateFair = "fair share"
