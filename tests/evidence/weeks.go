package main

import (
	"compress/gzip"
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
}

var publicLogs = []publicLog{
	{"venus", "helios_venus_gpu_jobs.csv.gz", "Helios Venus", "submit_s", "run_s", "gpus"},
	{"philly", "philly_passed_jobs.csv.gz", "Philly", "submit_s", "duration_s", "num_gpus"},
}

var weekSetups = []setup{shipped, expert, profile, noHeadroom, waits}

// week is one of a log on 8-GPU nodes of one type, as many as make its load 0.9. Jobs of less than half
// an hour are TE, limits are drawn from 1.2 to 4 times the run, users as in the main workload (the logs
// have none in common).
type week struct {
	log   *publicLog
	first int // day of the log
	nodes int
	jobs  []weekJob
	runs  []*run // of weekSetups
	rows  []figures
}

type weekJob struct{ submit, seconds, gpus, limit, user int }

func (j *weekJob) te() bool { return j.seconds < 1800 }

// weeksOf returns three weeks of each log, spread over it; none without data.
func weeksOf(o *options) (all []*week, err error) {
	if o.data == "" {
		return nil, nil
	}
	for i := range publicLogs {
		log := &publicLogs[i]
		jobs, err := log.read(o.data)
		if err != nil {
			return nil, err
		}
		last := jobs[len(jobs)-1].submit
		for part := 1; part <= 3; part++ {
			w := &week{log: log, first: last * part / 4 / 86400}
			if err := w.cut(jobs, o); err != nil {
				return nil, err
			}
			all = append(all, w)
		}
	}
	return all, nil
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

// cut takes the week's jobs, gives them limits and a cluster, and says what is to be run.
func (w *week) cut(jobs []weekJob, o *options) error {
	draw, users, work, widest := rand.New(rand.NewPCG(uint64(w.first), 1)), zipf(), 0.0, 0
	rows := [][]string{{"job_id", "submit_s", "gpus", "duration_s", "limit_s", "type", "grace_s", "ckpt_s", "user", "account"}}
	for _, j := range jobs {
		if j.submit -= w.first * 86400; j.submit < 0 || j.submit >= 7*86400 {
			continue
		}
		j.limit, j.user = int(float64(j.seconds)*(1.2+2.8*draw.Float64())), weighted(draw, users)
		work += float64(j.gpus) * float64(j.seconds)
		widest = max(widest, j.gpus)
		w.jobs = append(w.jobs, j)
		class, grace, ckpt := "be", "60", "1800"
		if j.te() {
			class, grace, ckpt = "te", "", ""
		}
		rows = append(rows, []string{strconv.Itoa(len(w.jobs)), strconv.Itoa(j.submit), strconv.Itoa(j.gpus), strconv.Itoa(j.seconds), strconv.Itoa(j.limit), class, grace, ckpt, fmt.Sprintf("u%02d", j.user), fmt.Sprintf("acc%d", j.user%6)})
	}
	w.nodes = max(int(math.Ceil(work/(7*86400)/0.9/8)), (widest+7)/8)
	path := filepath.Join(o.dir, fmt.Sprintf("jobs-%s-%d.csv", w.log.name, w.first))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := csv.NewWriter(f).WriteAll(rows); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, set := range weekSetups {
		flags := slices.Concat(set.flags, []string{"--backfill", "easy", "--prolog", "10s", "--restart-cost", "60s", "--nodes", fmt.Sprintf("%d:gpu:8:64:512000", w.nodes)})
		w.runs = append(w.runs, &run{name: fmt.Sprintf("%s-%d-%s", w.log.name, w.first, set.name), config: set.config, trace: path, flags: flags})
	}
	return nil
}

// read reads the results.
func (w *week) read() error {
	trace := plain(w.jobs)
	for _, r := range w.runs {
		f, err := measured(trace, r.csv, r.json)
		if err != nil {
			return err
		}
		w.rows = append(w.rows, f)
	}
	return nil
}
