package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload/runtimes"
	"slurmprio/slurmplug"
)

// etaLog is a public log of which weeks are replayed.
type etaLog struct {
	name, file string
	node       int // GPUs of a node; of a log of CPU jobs its CPUs
}

var etaLogs = []etaLog{
	{"MetaCentrum 2013", "metacentrum_2013_first.csv.gz", 64}, {"Helios Venus", "helios_venus_gpu_jobs.csv.gz", 8}, {"Philly", "philly_passed_jobs.csv.gz", 8},
}

// etaWarm is the time before the one that is scored.
const etaWarm = 7 * 24 * time.Hour

// etaSetups are how the weeks are scheduled.
var etaSetups = []struct {
	name string
	set  []string
}{{"Slurm's", nil}, {"`balanced`", []string{"profile=balanced"}}}

// startETA replays weeks of public logs through the daemon's cycles, and scores what was first said of when each job starts; it prints
// the table of docs/evidence/eta.md.
func startETA(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("evidence eta", flag.ContinueOnError)
	data := flags.String("data", "", "`FOLDER` of the logs")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if *data == "" || flags.NArg() > 0 {
		return fmt.Errorf("%w: want --data FOLDER and no arguments", errUsage)
	}
	times, err := limitTimes(filepath.Join(*data, "nrel_eagle_1000_slurm_jobs.csv.gz"))
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "| log, day | order | jobs | waited | held | before fitting | off by, median | by limits | within 1, 10 min | of all jobs |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, l := range etaLogs {
		runs, err := readRuns(filepath.Join(*data, l.file))
		if err != nil {
			return err
		}
		slices.SortStableFunc(runs, func(a, b runtimes.Run) int { return a.Submit.Compare(b.Submit) })
		last := runs[len(runs)-1].Submit
		all := make([]etaScore, len(etaSetups))
		for part := 1; part <= 3; part++ {
			from := runs[0].Submit.Add(last.Sub(runs[0].Submit) * time.Duration(part) / 4)
			for i, set := range etaSetups {
				s, jobs, err := etaWeek(ctx, runs, from, l.node, times, set.set)
				if err != nil {
					return err
				}
				day := int(from.Sub(runs[0].Submit).Hours() / 24)
				fmt.Fprintf(w, "| %s, %d | %s | %d | %s |\n", l.name, day, set.name, jobs, s)
				all[i].add(s)
			}
		}
		for i := range all {
			fmt.Fprintf(w, "| **%s, all** | %s | %.0f | %s |\n", l.name, etaSetups[i].name, all[i].all, &all[i])
		}
	}
	return nil
}

// limitTimes are how many times their run times users of a log asked for.
func limitTimes(path string) (times []float64, err error) {
	runs, err := readRuns(path)
	for i := range runs {
		if ran := runs[i].End.Sub(runs[i].Start); ran >= time.Minute && runs[i].Limit >= ran {
			times = append(times, runs[i].Limit.Seconds()/ran.Seconds())
		}
	}
	return times, err
}

// etaWeek replays a week from a time on, after the week before it, whose promises fit those of this one, on as many nodes as make
// the load of both 0.9. The four weeks before have taught run times. Jobs of less than half an hour are TE where the configuration
// knows classes.
func etaWeek(ctx context.Context, runs []runtimes.Run, from time.Time, node int, times []float64, keys []string) (s *etaScore, n int, err error) {
	draw := rand.New(rand.NewPCG(uint64(from.Unix()), 1))
	s = &etaScore{model: runtimes.NewModel(), state: map[cluster.JobID]bool{}, promises: map[cluster.JobID]*etaPromise{}, fit: 1}
	var past []runtimes.Run
	var jobs []trace.Job
	work, widest := 0.0, 0
	from = from.Add(-etaWarm)
	for i := range runs {
		r := &runs[i]
		seconds, size := r.End.Sub(r.Start).Seconds(), max(r.GPUs, r.CPUs)
		limit := r.Limit.Seconds()
		if limit == 0 {
			limit = min(max(seconds, 60)*times[draw.IntN(len(times))], max(30*86400, seconds))
		}
		at := r.Submit.Sub(from)
		switch {
		case at >= etaWarm+7*24*time.Hour || at < -28*24*time.Hour || seconds <= 0:
		case at < 0: // as if it had not waited
			kind := runtimes.Kind{User: r.User, GPUs: size, Limit: time.Duration(limit) * time.Second}
			if end := r.Submit.Add(r.End.Sub(r.Start)); end.Before(from) {
				past = append(past, runtimes.Run{Kind: kind, Submit: r.Submit, Start: r.Submit, End: end})
			}
		default:
			j := trace.Job{ID: strconv.Itoa(len(jobs) + 1), Submit: at.Seconds(), Duration: seconds, GPUs: size, Limit: limit, User: r.User, Class: cluster.BE, Grace: 60, Ckpt: 1800}
			if seconds < 1800 {
				j.Class, j.Grace, j.Ckpt = cluster.TE, 0, 0
			}
			jobs = append(jobs, j)
			work, widest = work+float64(size)*seconds, max(widest, size)
		}
	}
	for i := range past {
		shift := virtualStart.Sub(from)
		past[i].Submit, past[i].Start, past[i].End = past[i].Submit.Add(shift), past[i].Start.Add(shift), past[i].End.Add(shift)
	}
	s.model = runtimes.Learn(past, virtualStart)
	set, err := config.Load(os.DevNull, keys...)
	if err != nil {
		return nil, 0, err
	}
	nodes := max(int(math.Ceil(work/(etaWarm.Seconds()+7*86400)/0.9/float64(node))), (widest+node-1)/node)
	opt := virtual.Options{Placement: placement.Consolidated, Backfill: virtual.EASY, Order: virtual.Priod, Own: virtual.Own{Multifactor: virtual.FIFOWeights}, Prolog: 10, RestartCost: 60}
	opt.Daemon = virtual.Daemon{Interval: 30 * time.Second, Watch: 5 * time.Second, Settings: set.Features(nil, nil, cycle.NewState()), Seen: s.seen}
	s.node = node
	r, err := virtual.Run(ctx, trace.Cluster{Nodes: []trace.NodeGroup{{Count: nodes, GPUs: node, CPUs: 8 * node, MemMB: 1 << 20, GPUType: "gpu"}}}, trace.Each(jobs), opt)
	if err != nil {
		return nil, 0, err
	}
	for i, o := range r.Outcomes {
		if r.Jobs[i].Submit < etaWarm.Seconds() {
			continue
		}
		n++
		s.outcome(slurmplug.Plain(uint32(i+1)), r.Jobs[i].Submit, o.Start)
	}
	return s, n, nil
}

// virtualStart is when virtual time begins.
var virtualStart = virtual.Epoch

// etaPromise is what was first said of a job, s from then.
type etaPromise struct {
	at                          time.Time
	limits, median, raw, fitted float64
	was                         float64 // -1: it waits
}

// etaScore is what the daemon would say, and what came of it.
type etaScore struct {
	model    *runtimes.Model
	state    map[cluster.JobID]bool // whether it runs
	promises map[cluster.JobID]*etaPromise
	asked    time.Time
	fitted   time.Time
	fit      float64
	node     int

	scored, held, heldRaw, one, ten float64
	all, allOne, allTen             float64
	errors, byLimits                []float64
}

// seen takes in a cycle, and says each ten minutes when waiting jobs start.
func (s *etaScore) seen(r *cycle.Result) {
	snapshot := &r.Snapshot
	there := map[cluster.JobID]bool{}
	for i := range snapshot.Jobs {
		j := &snapshot.Jobs[i]
		running, known := s.state[j.ID]
		if there[j.ID] = true; !known {
			s.state[j.ID] = false
			s.model.Submit(uint64(j.ID.ID), runtimes.KindOf(j), j.Submit)
		}
		if j.State == cluster.Running && !running {
			s.state[j.ID] = true
			if p := s.promises[j.ID]; p != nil && p.was < 0 {
				p.was = j.Start.Sub(p.at).Seconds()
			}
			s.model.Start(uint64(j.ID.ID), j.Start)
		}
	}
	for id := range s.state {
		if !there[id] {
			if p := s.promises[id]; p != nil && p.was < 0 { // it ran between two cycles
				p.was = snapshot.At.Sub(p.at).Seconds()
			}
			s.model.End(uint64(id.ID), snapshot.At, false)
			delete(s.state, id)
		}
	}
	if snapshot.At.Sub(s.asked) < 10*time.Minute {
		return
	}
	s.asked = snapshot.At
	if snapshot.At.Sub(s.fitted) >= time.Hour {
		s.fitted = snapshot.At
		var waited []advise.Waited
		for _, p := range s.promises {
			w := advise.Waited{Was: p.was, Said: p.raw}
			if p.was < 0 {
				w.Was, w.Cut = snapshot.At.Sub(p.at).Seconds(), true
			}
			waited = append(waited, w)
		}
		s.fit = advise.FitP90(waited)
	}
	var order []*cluster.Job
	news := false
	for _, q := range r.Plan.Queue {
		j := snapshot.Jobs[q.Job]
		j.Nodes = (j.GPUs + s.node - 1) / s.node // a trace does not say
		order, news = append(order, &j), news || s.promises[j.ID] == nil
	}
	if !news {
		return
	}
	queue := forecast.Queue{Now: snapshot, Order: order, Memory: true}
	limits := queue.Starts()
	for id, e := range queue.Expect(forecast.ByPast(s.model, snapshot.At), 20) {
		if l, planned := limits[id]; planned && s.promises[id] == nil {
			s.promises[id] = &etaPromise{snapshot.At, l, e.Median, e.P90, max(e.P90*s.fit, e.Median), -1}
		}
	}
}

// outcome scores a job; start < 0: it never started.
func (s *etaScore) outcome(id cluster.JobID, submit, start float64) {
	if start < 0 {
		return
	}
	s.all++
	off := start - submit // it started before it was asked about: it fitted at once, and was said to
	if p := s.promises[id]; p != nil {
		after := start - p.at.Sub(virtualStart).Seconds()
		off = math.Abs(after - p.median)
		s.errors, s.byLimits = append(s.errors, off), append(s.byLimits, math.Abs(after-p.limits))
		s.scored++
		count := func(is bool, of *float64) {
			if is {
				*of++
			}
		}
		count(after <= p.fitted+30, &s.held)
		count(after <= p.raw+30, &s.heldRaw)
		count(off <= 60, &s.one)
		count(off <= 600, &s.ten)
	}
	if off <= 60 {
		s.allOne++
	}
	if off <= 600 {
		s.allTen++
	}
}

// add takes in another week.
func (s *etaScore) add(o *etaScore) {
	for to, x := range map[*float64]float64{
		&s.scored: o.scored, &s.held: o.held, &s.heldRaw: o.heldRaw, &s.one: o.one, &s.ten: o.ten, &s.all: o.all, &s.allOne: o.allOne, &s.allTen: o.allTen,
	} {
		*to += x
	}
	s.errors, s.byLimits = append(s.errors, o.errors...), append(s.byLimits, o.byLimits...)
}

// String is the row of the table, from the jobs that waited on.
func (s *etaScore) String() string {
	if s.scored == 0 {
		return "0 | | | | | | |"
	}
	slices.Sort(s.errors)
	slices.Sort(s.byLimits)
	return fmt.Sprintf("%.0f | **%.1f %%** | %.1f %% | **%.0f s** | %.0f s | %.0f %%, %.0f %% | %.0f %%, %.0f %%", s.scored, 100*s.held/s.scored, 100*s.heldRaw/s.scored,
		quantile(0.5, s.errors), quantile(0.5, s.byLimits), 100*s.one/s.scored, 100*s.ten/s.scored, 100*s.allOne/s.all, 100*s.allTen/s.all)
}
