package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/trial"
)

// trialFrom is when the trials start after the first job, trialDays how long they are, both in days. Jobs arrive for a day more.
const (
	trialFrom = 3
	trialDays = 14
)

// firstJudged is the first stream of jobs on which trials are judged: on those before it the analysis was chosen.
const firstJudged = 11

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
	washOut := flags.String("wash-out", "2h", "`TIME` of a block's beginning in which jobs do not count")
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
	for seed := firstJudged; seed < firstJudged+o.seeds; seed++ {
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

// trialGroups are the jobs whose typical completion is judged.
var trialGroups = []struct {
	name string
	of   func(*trial.Analysis) trial.Effect
	is   func(*trial.Job) bool
}{
	{"all", func(a *trial.Analysis) trial.Effect { return a.Completion }, func(*trial.Job) bool { return true }},
	{"TE", func(a *trial.Analysis) trial.Effect { return ofClass(a, "te") }, func(j *trial.Job) bool { return j.TE }},
	{"BE", func(a *trial.Analysis) trial.Effect { return ofClass(a, "be") }, func(j *trial.Job) bool { return !j.TE }},
}

// ofClass is the effect on the typical completion of a class.
func ofClass(a *trial.Analysis, class string) trial.Effect {
	i := slices.IndexFunc(a.Effects, func(e trial.Effect) bool { return e.Class == class })
	return a.Effects[i]
}

// nulls is how many orders of blocks are tried on a run in which nothing changes.
const nulls = 100

// judgeTrials prints what the trials at a load told beside the true effects, and how often they find one where there is none.
func judgeTrials(w io.Writer, all []*trialRuns, load float64, design string) error {
	set, from, err := trial.Parse(design)
	if err != nil {
		return err
	}
	x := trial.Trial{Settings: set, Start: time.Unix(0, 0).Add(from)}
	later := x.Start.Add(100 * x.Length)
	type score struct {
		n, held, helps, falsely, tried int
		truth, told                    float64
	}
	scores := make([]score, len(trialGroups))
	for _, t := range all {
		on, err1 := trialJobs(t, t.on)
		off, err2 := trialJobs(t, t.off)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for k := range nulls {
			x.Seed = uint64(k)
			a := trial.Analyse(&x, off, later)
			for g := range trialGroups {
				e := trialGroups[g].of(a)
				scores[g].tried++
				if e.Helps() {
					scores[g].falsely++
				}
			}
		}
		for k, r := range t.draws {
			jobs, err := trialJobs(t, r)
			if err != nil {
				return err
			}
			x.Seed = t.seeds[k]
			a := trial.Analyse(&x, jobs, later)
			for g, group := range trialGroups {
				s, e, truth := &scores[g], group.of(a), trueEffect(&x, on, off, group.is)
				s.n, s.truth, s.told = s.n+1, s.truth+truth, s.told+math.Log1p(e.Change)
				if e.Told && math.Log1p(e.Low) <= truth && truth <= math.Log1p(e.High) {
					s.held++
				}
				if e.Helps() {
					s.helps++
				}
			}
		}
	}
	fmt.Fprintf(w, "load %g, %s\n| jobs | trials | true effect | told, mean | bias | intervals that hold it | say that priod helps | the same where nothing changes |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n", load, design)
	for g, group := range trialGroups {
		s := &scores[g]
		n := float64(s.n)
		fmt.Fprintf(w, "| %s | %d | %+.0f %% | %+.0f %% | %+.0f %% | %d | %d | %d of %d |\n", group.name, s.n, 100*math.Expm1(s.truth/n), 100*math.Expm1(s.told/n), 100*(s.told/s.truth-1), s.held, s.helps, s.falsely, s.tried)
	}
	return nil
}

// trueEffect is by how much, in log, the jobs of the trial complete sooner where priod is always on than where it never is.
func trueEffect(x *trial.Trial, on, off []trial.Job, is func(*trial.Job) bool) (mean float64) {
	n := 0.0
	for i := range on {
		if _, counts := x.At(on[i].Submit); counts && is(&on[i]) {
			mean += math.Log(on[i].End.Sub(on[i].Submit).Seconds() / off[i].End.Sub(off[i].Submit).Seconds())
			n++
		}
	}
	return mean / n
}

// trialJobs are the jobs of a run.
func trialJobs(t *trialRuns, r *run) (all []trial.Job, err error) {
	second := func(text string) time.Time {
		s, err2 := strconv.ParseFloat(text, 64)
		err = errors.Join(err, err2)
		return time.Unix(0, 0).Add(time.Duration(s * float64(time.Second)))
	}
	err2 := eachRow(r.csv, func(row map[string]string) error {
		j := &t.jobs[len(all)]
		all = append(all, trial.Job{
			Submit: second(row["submit_s"]), Start: second(row["start_s"]), End: second(row["end_s"]), Ran: second(row["ran_s"]).Sub(time.Unix(0, 0)),
			TE: j.te, Account: strconv.Itoa(j.user % 6), GPUs: j.gpus, Limit: time.Duration(j.limit) * time.Second,
		})
		return nil
	})
	return all, errors.Join(err, err2)
}
