package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// publicLog is a cluster's log of GPU jobs.
type publicLog struct {
	name, file, text      string
	submit, seconds, gpus string // columns
	further               []int  // days at which weeks begin, beside three that are spread over it
}

var publicLogs = []publicLog{
	{"venus", "helios_venus_gpu_jobs.csv.gz", "Venus", "submit_s", "run_s", "gpus", []int{20, 40, 60, 80, 100, 120}},
	// At day 0 there are 9 jobs in a week: day 90 stands for it.
	{"philly", "philly_passed_jobs.csv.gz", "Philly", "submit_s", "duration_s", "num_gpus", []int{20, 40, 60, 80, 90, 100}},
}

// week is one of a log on 8-GPU nodes of one type, as many as make its load 0.9. Jobs of less than half
// an hour are TE, limits are drawn from 1.2 to 4 times the run, users as in the main workload (the logs
// have none in common). As it was it begins empty, and run time beyond it counts for the load. Steady it begins
// with the jobs that ran, of which what remains is submitted at 0, and only GPU time within it counts.
type week struct {
	log    *publicLog
	first  int // day of the log
	steady bool
	nodes  int
	jobs   []weekJob
	trace  string // file
	rows   []figures
}

// weekJob's times are in s.
type weekJob struct {
	submit, seconds, gpus, limit, user int
	before                             int // it ran before the week
}

func (j *weekJob) te() bool { return j.before+j.seconds < 1800 }

const weekSeconds = 7 * 86400

// days are those at which weeks of the log begin: three spread over it, and those of a fixed list that end within it.
func (l *publicLog) days(jobs []weekJob) (days []int) {
	last := jobs[len(jobs)-1].submit
	for part := 1; part <= 3; part++ {
		days = append(days, last*part/4/86400)
	}
	for _, day := range l.further {
		if day*86400+weekSeconds <= last {
			days = append(days, day)
		}
	}
	return days
}

// read returns the log's jobs by submission.
func (l *publicLog) read(folder string) (jobs []weekJob, err error) {
	path := filepath.Join(folder, l.file)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	rows, err := csv.NewReader(plain).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var columns []int
	for _, name := range []string{l.submit, l.seconds, l.gpus} {
		columns = append(columns, slices.Index(rows[0], name))
	}
	if slices.Contains(columns, -1) {
		return nil, fmt.Errorf("%s: columns %q: want %s, %s and %s among them", path, rows[0], l.submit, l.seconds, l.gpus)
	}
	for i, row := range rows[1:] {
		var v [3]int
		for c, at := range columns {
			x, err := strconv.ParseFloat(row[at], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", path, i+2, err)
			}
			v[c] = int(x)
		}
		if v[1] > 0 && v[2] > 0 {
			jobs = append(jobs, weekJob{submit: v[0], seconds: v[1], gpus: v[2]})
		}
	}
	slices.SortStableFunc(jobs, func(a, b weekJob) int { return a.submit - b.submit })
	return jobs, nil
}

// pick says which weeks are wanted; its zero value: all.
type pick struct {
	log, kind string // venus, philly; was, steady
	days      []int
}

// weeksOf cuts the weeks that are wanted of the logs in the folder data, each as it was and steady; their traces are files in dir.
func weeksOf(data, dir string, want pick) (all []*week, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for i := range publicLogs {
		log := &publicLogs[i]
		if want.log != "" && want.log != log.name {
			continue
		}
		jobs, err := log.read(data)
		if err != nil {
			return nil, err
		}
		days := want.days
		if days == nil {
			days = log.days(jobs)
		}
		for _, day := range days {
			for _, kind := range weekKinds {
				if want.kind != "" && want.kind != kind {
					continue
				}
				w := &week{log: log, first: day, steady: kind == "steady"}
				if err := w.cut(jobs, dir); err != nil {
					return nil, err
				}
				all = append(all, w)
			}
		}
	}
	return all, nil
}

var weekKinds = []string{"was", "steady"}

// within are the jobs of the week from that day on, with submissions from its start.
func within(jobs []weekJob, day int, steady bool) (in []weekJob) {
	for _, j := range jobs {
		j.submit -= day * 86400
		if steady && j.submit < 0 && j.submit+j.seconds > 0 {
			j.before = -j.submit
			j.submit, j.seconds = 0, j.seconds-j.before
		}
		if j.submit >= 0 && j.submit < weekSeconds {
			in = append(in, j)
		}
	}
	return in
}

// cut takes the week's jobs, and gives them limits, users and a cluster; its trace is a file in dir.
func (w *week) cut(jobs []weekJob, dir string) error {
	draw, users, work, widest := rand.New(rand.NewPCG(uint64(w.first), 1)), zipf(), 0.0, 0
	rows := [][]string{{"job_id", "submit_s", "gpus", "duration_s", "limit_s", "type", "grace_s", "ckpt_s", "user", "account"}}
	if w.jobs = within(jobs, w.first, w.steady); len(w.jobs) == 0 {
		return fmt.Errorf("%s: no jobs in the week from day %d on", w.log.file, w.first)
	}
	for i := range w.jobs {
		j := &w.jobs[i]
		j.limit, j.user = int(float64(j.seconds)*(1.2+2.8*draw.Float64())), weighted(draw, users)
		counted := j.seconds
		if w.steady {
			counted = min(counted, weekSeconds-j.submit)
		}
		work += float64(j.gpus) * float64(counted)
		widest = max(widest, j.gpus)
		class, grace, ckpt := "be", "60", "1800"
		if j.te() {
			class, grace, ckpt = "te", "", ""
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), strconv.Itoa(j.submit), strconv.Itoa(j.gpus), strconv.Itoa(j.seconds), strconv.Itoa(j.limit), class, grace, ckpt, fmt.Sprintf("u%02d", j.user), fmt.Sprintf("acc%d", j.user%6)})
	}
	w.nodes = max(int(math.Ceil(work/weekSeconds/0.9/8)), (widest+7)/8)
	w.trace = filepath.Join(dir, "jobs-"+w.name()+".csv")
	f, err := os.Create(w.trace)
	if err != nil {
		return err
	}
	return cmp.Or(csv.NewWriter(f).WriteAll(rows), f.Close())
}

// name is that of its files.
func (w *week) name() string {
	if w.steady {
		return fmt.Sprintf("%s-%d-steady", w.log.name, w.first)
	}
	return fmt.Sprintf("%s-%d", w.log.name, w.first)
}

// runs are the week's under each setup.
func (w *week) runs(sets []setup) (all []*run) {
	for _, set := range sets {
		flags := slices.Concat(set.flags, []string{"--backfill", "easy", "--prolog", "10s", "--restart-cost", "60s", "--nodes", fmt.Sprintf("%d:gpu:8:64:512000", w.nodes)})
		all = append(all, &run{name: w.name() + "-" + set.name, config: set.config, trace: w.trace, flags: flags})
	}
	return all
}

// measure does the runs of weeks under each setup, and reads their results.
func (s *study) measure(ctx context.Context, weeks []*week, sets []setup) error {
	var runs []*run
	for _, w := range weeks {
		runs = append(runs, w.runs(sets)...)
	}
	if err := s.all(ctx, runs); err != nil {
		return err
	}
	for i, r := range runs {
		w := weeks[i/len(sets)]
		f, err := measured(plain(w.jobs), r.csv, r.json, nil)
		if err != nil {
			return err
		}
		w.rows = append(w.rows, f)
	}
	return nil
}
