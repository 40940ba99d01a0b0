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
	if err := errors.Join(writeWorkloads(table, all, nil), os.WriteFile(nodes, []byte(clusterTOML()), 0o644), writeTrace(base+".csv", generate(all, uint64(seed), jobs, load, 6), 0)); err != nil {
		return 0, 0, 0, err
	}
	v := valued{seed: uint64(seed)}
	if v.programs, err = workload.Load(table); err != nil {
		return 0, 0, 0, err
	}
	if v.nodes, err = trace.ReadCluster(nodes); err != nil {
		return 0, 0, 0, err
	}
	if v.jobs, err = readJobs(base+".csv", trace.Options{Format: trace.CSV, Workloads: v.programs}); err != nil {
		return 0, 0, 0, err
	}
	runs, asked := accounted{jobs: v.jobs, cpus: map[string]int{}}, map[string]int{}
	for i := range v.jobs {
		asked[strconv.Itoa(i+1)] = 3 * v.jobs[i].GPUs // the share of a node of 8 GPUs and 24 CPUs
	}
	if with, err = v.replay(ctx, "priod", 0, &runs); err != nil {
		return 0, 0, 0, err
	}
	if without, err = v.mean(ctx, "multifactor"); err != nil {
		return 0, 0, 0, err
	}
	if err := os.WriteFile(base+".sacct", []byte(runs.text()), 0o600); err != nil {
		return 0, 0, 0, err
	}
	if v.jobs, err = readJobs(base+".sacct", trace.Options{Format: trace.Sacct, Workloads: v.programs, CPUs: asked, Sort: true}); err != nil {
		return 0, 0, 0, err
	}
	recorded := 0.0
	for i := range v.jobs {
		recorded += (v.jobs[i].End - v.jobs[i].Submit) / 3600 / float64(len(v.jobs))
	}
	again, err := v.mean(ctx, "priod")
	if err != nil {
		return 0, 0, 0, err
	}
	alone, err := v.mean(ctx, "multifactor")
	return with, without, recorded * alone / again, err // as priod report value has it
}

// readJobs are all jobs of a trace.
func readJobs(path string, o trace.Options) (jobs []trace.Job, err error) {
	r, err := trace.Open(path, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for j, err := range r.All() {
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// valued are jobs that are replayed with priod and without.
type valued struct {
	seed     uint64
	programs *workload.Table
	nodes    trace.Cluster
	jobs     []trace.Job
}

// replay is the mean completion, h, in one order with some seconds of submission; into, if not nil, gets what accounting would hold.
func (v *valued) replay(ctx context.Context, order string, draw uint64, into *accounted) (float64, error) {
	spec := simulate.Spec{Order: order, Backfill: "easy", Seed: v.seed, SpreadCosts: []float64{0.146, 0.199, 0.441}}
	spec.Overheads.Prolog, spec.Overheads.Restart, spec.Overheads.Requeue = 10, 60, 121
	in := simulate.Input{Cluster: v.nodes, Jobs: trace.Each(trace.Jittered(v.jobs, draw)), Speed: simulate.Speeds(v.programs), Curve: simulate.Curves(v.programs)}
	if order == "priod" {
		cfg, err := config.Load(os.DevNull, "profile=balanced")
		if err != nil {
			return 0, err
		}
		in.Config, in.Table, spec.Overheads.Hold = cfg, v.programs, 20
	}
	if err := spec.Check(); err != nil {
		return 0, err
	}
	opt, err := spec.Options(&in)
	if err != nil {
		return 0, err
	}
	if into != nil {
		opt.Daemon.Seen, opt.Daemon.LearnEvery, opt.Daemon.LearnFrom = into.seen, time.Hour, 10_000*24*time.Hour
		opt.Daemon.Learn = func(_ *cycle.Settings, past []cluster.PastStay) { into.past = append(into.past[:0], past...) }
	}
	result, err := in.Run(ctx, opt)
	if into != nil {
		into.outcomes = result
	}
	return result.Figures.MeanJCT / 3600, err
}

// mean is that of replays as priod report value makes them.
func (v *valued) mean(ctx context.Context, order string) (sum float64, err error) {
	for draw := range uint64(valueReplays) {
		x, err := v.replay(ctx, order, draw, nil)
		if err != nil {
			return 0, err
		}
		sum += x / valueReplays
	}
	return sum, nil
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
		a.row(&b, int(p.RawID), j, p.Start, p.End, p.State, p.GPUType, cpusOr(a.cpus[runKey(p.RawID, p.Start)], j), p.Tag.Text)
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
					tag = a.past[k].Tag.Text
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
