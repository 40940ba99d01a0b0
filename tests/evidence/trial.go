package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"slurmprio/priod/trial"
)

// trialFrom is when the trials start after the first job, trialDays how long they are, both in days. Jobs arrive for a day more.
const (
	trialFrom = 3
	trialDays = 14
)

// trialRuns are the runs of one stream of jobs: priod always on, always off, and on and off as the draws have it.
type trialRuns struct {
	jobs    []job
	on, off *run
	draws   []*run
	seeds   []uint64 // of the draws
}

// startTrial measures on the combined workload what priod trial tells beside what is so, and prints the tables of
// docs/features/trial.md.
func startTrial(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("evidence trial", flag.ContinueOnError)
	o := options{jobs: 20}
	flags.StringVar(&o.dir, "dir", "bin/evidence", "results are kept in this `FOLDER`")
	flags.IntVar(&o.workers, "workers", 2, "`NUMBER` of simulations at a time")
	flags.IntVar(&o.seeds, "seeds", 10, "`NUMBER` of streams of jobs")
	draws := flags.Int("draws", 3, "`NUMBER` of orders of the blocks for each")
	loads := flags.String("loads", "0.7,0.9", "loads, with commas")
	blocks := flags.String("blocks", "12h", "`TIME` of a block")
	washOut := flags.String("wash-out", "2h", "`TIME` after a change in which jobs do not count")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if err := o.check(flags, *loads); err != nil {
		return err
	}
	s, err := newStudy(ctx, o.dir, o.workers)
	if err != nil {
		return err
	}
	design := fmt.Sprintf("blocks=%s,days=%d,wash-out=%s,from=%dd", *blocks, trialDays, *washOut, trialFrom)
	for _, load := range o.loads {
		all, err := trialsOf(&o, load, *draws, design)
		if err != nil {
			return err
		}
		var runs []*run
		for _, t := range all {
			runs = append(append(runs, t.on, t.off), t.draws...)
		}
		if err := s.all(ctx, runs); err != nil {
			return err
		}
		if err := judgeTrials(w, all, load, design); err != nil {
			return err
		}
	}
	return nil
}

// trialsOf are the runs at a load.
func trialsOf(o *options, load float64, draws int, design string) (all []*trialRuns, err error) {
	m, err := newMatrix(o)
	if err != nil {
		return nil, err
	}
	const span = (trialFrom + trialDays + 1) * 86400
	for seed := 1; seed <= o.seeds; seed++ {
		few := generate(m.list, uint64(seed), 2000, load, 6)
		jobs := generate(m.list, uint64(seed), 2000*span/few[len(few)-1].submit, load, 6)
		path := filepath.Join(o.dir, fmt.Sprintf("trial-jobs-%g-%d.csv", load, seed))
		if err := writeTrace(path, jobs, 0); err != nil {
			return nil, err
		}
		with := func(name, trial string) *run {
			r := &run{name: fmt.Sprintf("trial-%s-%g-%d", name, load, seed), config: balanced, trace: path, inputs: []string{m.cluster, m.speeds}}
			r.flags = slices.Concat(costs, calm, []string{"--cluster", m.cluster, "--workloads", m.speeds, "--seed", strconv.Itoa(seed), "--order", "priod", "--hold", "20s"})
			if trial != "" {
				r.flags = append(r.flags, "--trial", trial)
			}
			return r
		}
		t := &trialRuns{jobs: jobs, on: with("on", ""), off: with("off", "off")}
		for k := range draws {
			drawn := uint64(100*seed + k)
			t.seeds = append(t.seeds, drawn)
			t.draws = append(t.draws, with(fmt.Sprint("draw", k), fmt.Sprintf("%s,seed=%d", design, drawn)))
		}
		all = append(all, t)
	}
	return all, nil
}

func judgeTrials(w io.Writer, all []*trialRuns, load float64, design string) error {
	fmt.Fprintln(w, load, design, len(all), cmp.Or(os.Getenv("X"), ""))
	_ = trial.Settings{}
	return nil
}
