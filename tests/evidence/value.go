package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/simulate"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

// valueReplays is how often priod report value replays a week without priod.
const valueReplays = 5

// startValue lets a cluster run with priod in virtual time, keeps what accounting would hold of it, and compares what priod report value makes
// of that with the truth: the same jobs, in the same virtual Slurm, without priod.
func startValue(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("evidence value", flag.ContinueOnError)
	dir := flags.String("dir", "bin/evidence", "results are kept in this `FOLDER`")
	seeds := flags.Int("seeds", 4, "`NUMBER` of seeds")
	jobs := flags.Int("jobs", 2000, "`NUMBER` of jobs of each trace")
	load := flags.Float64("load", 0.7, "`LOAD` of the cluster")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	s, err := newStudy(ctx, *dir, 1)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "| seed | with priod, h | without, truth | without, found | off by | saved, truth | found |\n| --- | --- | --- | --- | --- | --- | --- |")
	for seed := 1; seed <= *seeds; seed++ {
		with, without, found, err := s.valueOf(ctx, seed, *jobs, *load)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %d | %.2f | %.2f | %.2f | **%+.1f %%** | %.0f %% | %.0f %% |\n", seed, with, without, found, 100*(found/without-1), 100*(1-with/without), 100*(1-with/found))
	}
	return nil
}

// valueOf is the mean completion, h, with priod, without it, and what is found of the latter from accounting.
func (s *study) valueOf(ctx context.Context, seed, jobs int, load float64) (with, without, found float64, err error) {
	all, err := programs()
	if err != nil {
		return 0, 0, 0, err
	}
	base := filepath.Join(s.dir, fmt.Sprintf("value-%d", seed))
	table, nodes := base+"-workloads.toml", base+"-nodes.toml"
	if err := errors.Join(writeWorkloads(table, all, nil), os.WriteFile(nodes, []byte(clusterTOML()), 0o644)); err != nil {
		return 0, 0, 0, err
	}
	if err := writeTrace(base+".csv", generate(all, uint64(seed), jobs, load, 6), 0); err != nil {
		return 0, 0, 0, err
	}
	known, err := workload.Load(table)
	if err != nil {
		return 0, 0, 0, err
	}
	of, err := trace.ReadCluster(nodes)
	if err != nil {
		return 0, 0, 0, err
	}
	r, err := trace.Open(base+".csv", trace.Options{Format: trace.CSV, Workloads: known})
	if err != nil {
		return 0, 0, 0, err
	}
	defer r.Close()
	var list []trace.Job
	for j, err := range r.All() {
		if err != nil {
			return 0, 0, 0, err
		}
		list = append(list, j)
	}
	runs := accounted{jobs: list, cpus: map[string]int{}}
	once := func(order string, jitter uint64) (float64, error) {
		spec := simulate.Spec{Order: order, Backfill: "easy", Seed: uint64(seed), SpreadCosts: []float64{0.146, 0.199, 0.441}}
		spec.Overheads.Prolog, spec.Overheads.Restart, spec.Overheads.Requeue = 10, 60, 121
		in := simulate.Input{Cluster: of, Jobs: trace.Each(trace.Jittered(list, jitter)), Speed: simulate.Speeds(known), Curve: simulate.Curves(known)}
		if order == "priod" {
			if in.Config, err = config.Load(os.DevNull, "profile=balanced"); err != nil {
				return 0, err
			}
			in.Table = known
			spec.Overheads.Hold = 20
			spec.Adjust = func(o *virtual.Options) {
				o.Daemon.Seen, o.Daemon.LearnEvery, o.Daemon.LearnFrom = runs.seen, time.Hour, 10_000*24*time.Hour
				o.Daemon.Learn = func(_ *cycle.Settings, past []cluster.PastStay) { runs.past = append(runs.past[:0], past...) }
			}
		}
		if err := spec.Check(); err != nil {
			return 0, err
		}
		result, err := simulate.Run(ctx, spec, in)
		if order == "priod" && jitter == 0 {
			runs.outcomes = result
		}
		return result.Figures.MeanJCT / 3600, err
	}
	mean := func(order string) (sum float64, err error) { // of replays as report value makes them
		for k := range uint64(valueReplays) {
			v, err := once(order, k)
			if err != nil {
				return 0, err
			}
			sum += v / valueReplays
		}
		return sum, nil
	}
	if with, err = once("priod", 0); err != nil {
		return 0, 0, 0, err
	}
	if without, err = mean("multifactor"); err != nil {
		return 0, 0, 0, err
	}
	if err := os.WriteFile(base+".sacct", []byte(runs.text()), 0o600); err != nil {
		return 0, 0, 0, err
	}
	asked := map[string]int{}
	for i := range list {
		asked[strconv.Itoa(i+1)] = 3 * list[i].GPUs // the share of a node of 8 GPUs and 24 CPUs
	}
	past, err := trace.Open(base+".sacct", trace.Options{Format: trace.Sacct, Workloads: known, CPUs: asked, Sort: true})
	if err != nil {
		return 0, 0, 0, err
	}
	defer past.Close()
	list = list[:0]
	var recorded []float64
	for j, err := range past.All() {
		if err != nil {
			return 0, 0, 0, err
		}
		list, recorded = append(list, j), append(recorded, (j.End-j.Submit)/3600)
	}
	again, err := mean("priod")
	if err != nil {
		return 0, 0, 0, err
	}
	alone, err := mean("multifactor")
	return with, without, stat.Mean(recorded, nil) * alone / again, err // as priod report value has it
}

// accounted is what accounting would hold of a simulated cluster.
type accounted struct {
	jobs     []trace.Job
	past     []cluster.PastStay
	cpus     map[string]int // by run
	outcomes simulate.Result
}

func runKey(id uint32, start time.Time) string { return fmt.Sprint(id, " ", start.Unix()) }

// seen notes the CPUs of each run, which priod may have changed.
func (a *accounted) seen(r *cycle.Result) {
	for i := range r.Snapshot.Jobs {
		if j := &r.Snapshot.Jobs[i]; j.State == cluster.Running {
			a.cpus[runKey(j.RawID, j.Start)] = j.CPUs
		}
	}
}

// text is what sacct -P would print.
func (a *accounted) text() string {
	var b strings.Builder
	b.WriteString("JobID|Submit|Eligible|Start|End|ElapsedRaw|State|TimelimitRaw|NNodes|ReqTRES|AllocTRES|User|Account|QOS|Comment\n")
	whole := map[uint32]bool{}
	for i := range a.past {
		p := &a.past[i]
		j := &a.jobs[p.RawID-1]
		a.row(&b, int(p.RawID), j, p.Start, p.End, p.State, p.GPUType, cpusOr(a.cpus[runKey(p.RawID, p.Start)], j), p.Tag)
		if p.State != "PREEMPTED" && p.State != "NODE_FAIL" && p.State != "REQUEUED" {
			whole[p.RawID] = true
		}
	}
	for i := range a.jobs { // those that ended after the last reading
		if o := &a.outcomes.Outcomes[i]; !whole[uint32(i+1)] && o.Done {
			ran := o.Ran
			for k := range a.past {
				if a.past[k].RawID == uint32(i+1) {
					ran -= a.past[k].End.Sub(a.past[k].Start).Seconds()
				}
			}
			end := virtual.Epoch.Add(time.Duration(o.End * float64(time.Second)))
			start := end.Add(-time.Duration(max(ran, 1) * float64(time.Second)))
			tag := ""
			for k := range a.past {
				if a.past[k].RawID == uint32(i+1) {
					tag = a.past[k].Tag
				}
			}
			a.row(&b, i+1, &a.jobs[i], start, end, "COMPLETED", a.outcomes.Types[o.Type], cpusOr(a.cpus[runKey(uint32(i+1), start)], &a.jobs[i]), tag)
		}
	}
	return b.String()
}

func cpusOr(cpus int, j *trace.Job) int {
	if cpus == 0 {
		return 3 * j.GPUs // the share of a node of 8 GPUs and 24 CPUs
	}
	return cpus
}

func (a *accounted) row(b *strings.Builder, id int, j *trace.Job, start, end time.Time, state, gpuType string, cpus int, tag string) {
	submit := virtual.Epoch.Add(time.Duration(j.Submit * float64(time.Second)))
	if tag == "" {
		class := "be"
		if j.Class == cluster.TE {
			class = "te"
		}
		tag = "prio:"
		if j.Ckpt > 0 {
			tag += fmt.Sprintf("ckpt=%.0f&", j.Ckpt)
		}
		if j.Grace > 0 {
			tag += fmt.Sprintf("grace=%.0f&", j.Grace)
		}
		tag += "type=" + class + "&v=1&workload=" + j.Workload
	}
	nodes := (j.GPUs + 7) / 8
	fmt.Fprintf(b, "%d|%d|%d|%d|%d|%d|%s|%.0f|%d|cpu=%d,gres/gpu=%d,node=%d|cpu=%d,gres/gpu=%d,gres/gpu:%s=%d,node=%d|%s|%s|normal|%s\n",
		id, submit.Unix(), submit.Unix(), start.Unix(), end.Unix(), int(math.Round(end.Sub(start).Seconds())), state, math.Ceil(j.Limit/60), nodes,
		cpus, j.GPUs, nodes, cpus, j.GPUs, gpuType, j.GPUs, nodes, j.User, j.Account, tag)
}
