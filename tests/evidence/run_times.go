package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"slurmprio/priod/workload/runtimes"
)

// startRunTimes scores learned run times on public logs, each job at its submission from what had ended by then, from a
// fifth of the log on, and prints the table of docs/evidence/run-times.md.
func startRunTimes(ctx context.Context, args []string, w io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: want logs: .csv or .csv.gz with columns such as submit_s, wait_s, run_s, cpus, gpus, limit_s, user", errUsage)
	}
	fmt.Fprintln(w, "| log | jobs scored | by | median absolute log error | within a factor 2 | 80 % interval holds, by quarters | width, median, factor |\n| --- | --- | --- | --- | --- | --- | --- |")
	for _, path := range args {
		runs, err := readRuns(path)
		if err != nil {
			return err
		}
		if err := scoreRunTimes(ctx, w, strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".csv"), runs); err != nil {
			return err
		}
	}
	return nil
}

// guess is what was said of one job's run time, natural logs of s.
type guess struct{ median, low, high float64 }

// predictor says how long a job will run, and hears of jobs in the order of time.
type predictor interface {
	submit(i int, r *runtimes.Run, at time.Time) (guess, bool)
	start(i int, r *runtimes.Run)
	end(i int, r *runtimes.Run)
}

// scoreRunTimes replays a log for each predictor.
func scoreRunTimes(ctx context.Context, w io.Writer, name string, runs []runtimes.Run) error {
	limited := slices.ContainsFunc(runs, func(r runtimes.Run) bool { return r.Limit > 0 })
	for _, p := range []struct {
		name string
		of   predictor
	}{
		{"time limit", limitGuess{}}, {"mean of the user's last two", &lastTwo{}}, {"weighted median of the narrowest group with three", &narrowest{}},
		{"**priod/workload/runtimes**", modelGuess{runtimes.NewModel()}},
	} {
		if p.name == "time limit" && !limited {
			continue
		}
		guesses, err := replay(ctx, runs, p.of)
		if err != nil {
			return err
		}
		var errors, widths []float64
		var held, all [4]float64
		first := len(runs) / 5
		for i := first; i < len(runs); i++ {
			g, is := guesses[i]
			if !is {
				continue
			}
			x := math.Log(max(runs[i].End.Sub(runs[i].Start).Seconds(), 1))
			errors = append(errors, math.Abs(g.median-x))
			if g.high > g.low {
				quarter := (i - first) * 4 / (len(runs) - first)
				all[quarter]++
				if x >= g.low-1e-6 && x <= g.high+1e-6 {
					held[quarter]++
				}
				widths = append(widths, g.high-g.low)
			}
		}
		slices.Sort(errors)
		slices.Sort(widths)
		near, _ := slices.BinarySearch(errors, math.Log(2))
		interval, width := "", ""
		if len(widths) > 0 {
			for q := range held {
				interval += fmt.Sprintf("%.0f %%, ", 100*held[q]/all[q])
			}
			interval, width = strings.TrimSuffix(interval, ", "), fmt.Sprintf("%.0f", math.Exp(quantile(0.5, widths)))
		}
		fmt.Fprintf(w, "| %s | %d | %s | %.2f | %.0f %% | %s | %s |\n", name, len(errors), p.name, quantile(0.5, errors), 100*float64(near)/float64(max(len(errors), 1)), interval, width)
	}
	return nil
}

// replay asks a predictor about each job at its submission.
func replay(ctx context.Context, runs []runtimes.Run, p predictor) (map[int]guess, error) {
	const submit, start, end = 0, 1, 2
	type event struct {
		at      time.Time
		i, kind int
	}
	var events []event
	for i := range runs {
		r := &runs[i]
		events = append(events, event{r.Submit, i, submit}, event{r.Start, i, start}, event{r.End, i, end})
	}
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.i, b.i), cmp.Compare(a.kind, b.kind))
	})
	guesses := make(map[int]guess, len(runs))
	for n, e := range events {
		if n%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r := &runs[e.i]
		switch e.kind {
		case submit:
			if g, is := p.submit(e.i, r, e.at); is {
				guesses[e.i] = g
			}
		case start:
			p.start(e.i, r)
		case end:
			p.end(e.i, r)
		}
	}
	return guesses, nil
}

// modelGuess asks the daemon's own model.
type modelGuess struct{ *runtimes.Model }

func (m modelGuess) submit(i int, r *runtimes.Run, at time.Time) (g guess, is bool) {
	if d := m.Predict(r.Kind, at); d != nil {
		log := func(p float64) float64 { return math.Log(d.Quantile(p).Seconds()) }
		g, is = guess{log(0.5), log(0.1), log(0.9)}, true
	}
	m.Submit(uint64(i), r.Kind, at)
	return g, is
}
func (m modelGuess) start(i int, r *runtimes.Run) { m.Start(uint64(i), r.Start) }
func (m modelGuess) end(i int, r *runtimes.Run)   { m.End(uint64(i), r.End, r.Cut) }

// limitGuess believes the time limit.
type limitGuess struct{}

func (limitGuess) submit(_ int, r *runtimes.Run, _ time.Time) (guess, bool) {
	return guess{median: math.Log(max(r.Limit.Seconds(), 1))}, r.Limit > 0
}
func (limitGuess) start(int, *runtimes.Run) {}
func (limitGuess) end(int, *runtimes.Run)   {}

// lastTwo is the mean of the user's last two runs (Tsafrir, Etsion and Feitelson 2007).
type lastTwo struct{ of map[string][]float64 }

func (l *lastTwo) submit(_ int, r *runtimes.Run, _ time.Time) (guess, bool) {
	last := l.of[r.User]
	if len(last) == 0 {
		return guess{median: math.Log(max(r.Limit.Seconds(), 1))}, r.Limit > 0
	}
	return guess{median: math.Log(stat.Mean(last, nil))}, true
}
func (l *lastTwo) start(int, *runtimes.Run) {}
func (l *lastTwo) end(_ int, r *runtimes.Run) {
	if l.of == nil {
		l.of = map[string][]float64{}
	}
	last := append(l.of[r.User], max(r.End.Sub(r.Start).Seconds(), 1))
	l.of[r.User] = last[max(len(last)-2, 0):]
}

// narrowest is the median, with weight 0.9 for each later one, of the last 40 runs of the first group that has three, with their
// 10 and 90 % quantiles.
type narrowest struct{ of map[string][]float64 }

func (n *narrowest) groups(r *runtimes.Run) []string {
	return []string{
		fmt.Sprint("a", r.User, r.Program, r.GPUs, r.CPUs, r.Limit), fmt.Sprint("b", r.User, r.GPUs, r.CPUs, r.Limit), fmt.Sprint("c", r.User, r.Limit), fmt.Sprint("d", r.User),
	}
}

func (n *narrowest) submit(_ int, r *runtimes.Run, _ time.Time) (guess, bool) {
	for _, name := range n.groups(r) {
		last := n.of[name]
		if len(last) < 3 {
			continue
		}
		type run struct{ log, weight float64 }
		sorted := make([]run, len(last))
		for i, x := range last {
			sorted[i] = run{x, math.Pow(0.9, float64(len(last)-1-i))}
		}
		slices.SortFunc(sorted, func(a, b run) int { return cmp.Compare(a.log, b.log) })
		logs, weights := make([]float64, len(sorted)), make([]float64, len(sorted))
		for i, s := range sorted {
			logs[i], weights[i] = s.log, s.weight
		}
		at := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, logs, weights) }
		return guess{at(0.5), at(0.1), at(0.9)}, true
	}
	return guess{median: math.Log(max(r.Limit.Seconds(), 1))}, r.Limit > 0
}
func (n *narrowest) start(int, *runtimes.Run) {}
func (n *narrowest) end(_ int, r *runtimes.Run) {
	if n.of == nil {
		n.of = map[string][]float64{}
	}
	for _, name := range n.groups(r) {
		last := append(n.of[name], math.Log(max(r.End.Sub(r.Start).Seconds(), 1)))
		n.of[name] = last[max(len(last)-40, 0):]
	}
}

// readRuns reads a log by the names of its columns, in the order of submission.
func readRuns(path string) (runs []runtimes.Run, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	rows, err := csv.NewReader(text).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) < 2 {
		return nil, fmt.Errorf("%s: no rows", path)
	}
	column := func(names ...string) int {
		return slices.IndexFunc(rows[0], func(s string) bool { return slices.Contains(names, s) })
	}
	submit, wait, started := column("submit_s"), column("wait_s"), column("start_time")
	ran, limit, user, name := column("run_s", "duration_s", "run_time"), column("limit_s", "wallclock_req"), column("user"), column("name")
	cpus, gpus, state, clamped := column("cpus", "processors_req"), column("gpus", "num_gpus", "gpus_req"), column("state"), column("run_clamped_48h")
	submitted := column("submit_time")
	if ran < 0 || submit < 0 && submitted < 0 {
		return nil, fmt.Errorf("%s: no column run_s, or no submit_s", path)
	}
	var bad error
	for line, row := range rows[1:] {
		number := func(column int) float64 {
			if column < 0 {
				return 0
			}
			v, err := strconv.ParseFloat(row[column], 64)
			if err != nil {
				bad = errors.Join(bad, fmt.Errorf("%s:%d: %w", path, line+2, err))
			}
			return v
		}
		clock := func(column int) time.Time {
			t, err := time.Parse(time.DateTime, row[column])
			if err != nil {
				bad = errors.Join(bad, fmt.Errorf("%s:%d: %w", path, line+2, err))
			}
			return t
		}
		seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
		var r runtimes.Run
		if r.Submit = time.Unix(0, 0).Add(seconds(number(submit))); submit < 0 {
			r.Submit = clock(submitted)
		}
		if r.Start = r.Submit.Add(seconds(number(wait))); started >= 0 {
			r.Start = clock(started)
		}
		r.End, r.Limit = r.Start.Add(seconds(number(ran))), seconds(number(limit))
		r.CPUs, r.GPUs = int(number(cpus)), int(number(gpus))
		if user >= 0 {
			r.User = row[user]
		}
		if name >= 0 {
			r.Program = row[name]
		}
		r.Cut = r.Limit > 0 && r.End.Sub(r.Start) >= r.Limit || state >= 0 && row[state] == "TIMEOUT" || clamped >= 0 && row[clamped] == "1"
		runs = append(runs, r)
	}
	slices.SortStableFunc(runs, func(a, b runtimes.Run) int { return a.Submit.Compare(b.Submit) })
	return runs, bad
}
