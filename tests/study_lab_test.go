package tests

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/tests/lab"
)

// studyTypes are the lab's GPU types, the fastest first; nodes have 4 GPUs and 12 CPUs.
var studyTypes = []struct {
	name  string
	nodes int
}{{"v100", 6}, {"p100", 5}, {"k80", 5}}

// studyPrograms have a speed on each type, relative to a V100 at 3 CPUs for each GPU, and gain so many times
// from 9 CPUs on the V100; a slower GPU gains less.
var studyPrograms = []struct {
	name   string
	speed  [3]float64
	gained float64
}{
	{"resnet", [3]float64{1, 0.55, 0.2}, 1.7},
	{"lstm", [3]float64{1, 0.8, 0.35}, 1},
	{"transformer", [3]float64{1, 0.7, 0.3}, 1.3},
	{"a3c", [3]float64{1, 0.8, 0.48}, 1.9},
	{"recommender", [3]float64{1, 0.9, 0.5}, 1},
}

// gain is that of a program on a type.
func gain(program, gpuType int) float64 {
	p := &studyPrograms[program]
	return max(1, p.gained*min(1, p.speed[gpuType]))
}

const (
	studyJobs  = 300
	studyLoad  = 1.1
	studyGrace = 5  // s
	studySave  = 20 // s between checkpoints
	studyDelay = 6  // s from a requeue to being eligible: RequeueDelay and one
	studyHold  = 4  // s: a cycle, and what it takes
)

// studyJob is one job of the workload.
type studyJob struct {
	arrival
	program int
	limit   time.Duration
	user    string
}

// slowest is how long the job runs on its slowest type at 3 CPUs for each GPU.
func (j *studyJob) slowest() time.Duration {
	return time.Duration(float64(j.work) / slices.Min(studyPrograms[j.program].speed[:]))
}

func studyWorkload(seed uint64) []studyJob {
	r := rand.New(rand.NewPCG(seed, 8))
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	all, work, onAll := make([]studyJob, studyJobs), 0.0, 0.0
	for i := range all {
		j := &all[i]
		j.program, j.user = r.IntN(len(studyPrograms)), []string{"", "", lab.PlainUser, lab.OtherUser}[r.IntN(4)]
		if j.te = r.Float64() < 0.3; j.te {
			j.gpus, j.work = pick(1, 1, 1, 2, 4), time.Duration(5+r.IntN(30))*time.Second
			j.limit = 5 * time.Minute
		} else {
			j.gpus = pick(1, 1, 1, 1, 1, 1, 2, 2, 4, 8)
			j.work = time.Duration(min(max(80*math.Exp(0.8*r.NormFloat64()), 30), 250)) * time.Second
			j.limit = (time.Duration(float64(j.slowest())*(1.1+1.4*r.Float64())) + time.Minute).Round(time.Minute)
		}
		s := float64(j.gpus) * j.work.Seconds()
		work += s
		for k, t := range studyTypes {
			onAll += s * float64(4*t.nodes) * studyPrograms[j.program].speed[k]
		}
	}
	gap, at := work/(onAll/work)/studyLoad/studyJobs, 0.0
	for i := range all {
		at += r.ExpFloat64() * gap
		all[i].at = time.Duration(at * float64(time.Second)).Round(time.Second)
	}
	return all
}

// studyWorkloads is what priod and the simulator are told: steps are seconds on a V100 at 3 CPUs for each GPU.
func studyWorkloads() string {
	var b strings.Builder
	for p, w := range studyPrograms {
		fmt.Fprintf(&b, "[[workload]]\nname = %q\n", w.name)
		for k, t := range studyTypes {
			fmt.Fprintf(&b, "speed.%s = { 1 = %v, 2 = %[2]v, 4 = %[2]v, 8 = %[2]v }\n", t.name, w.speed[k])
		}
		for k, t := range studyTypes {
			demand := 9
			if gain(p, k) == 1 {
				demand = 3
			}
			fmt.Fprintf(&b, "[workload.curve.%s]\niteration_s = %v\ndemand_cpus = %d\ndemand_mem_mb = 4096\ncpus = [1, 3, 9]\nmem_mb = [4096]\nspeed = [[0.4], [1], [%v]]\n",
				t.name, 1/w.speed[k], demand, gain(p, k))
		}
	}
	return b.String()
}

// studyCurves are the same speeds in the words of tests/training.
func studyCurves(program int) string {
	var curves []string
	for k, t := range studyTypes {
		s := studyPrograms[program].speed[k]
		curves = append(curves, fmt.Sprintf("%s:1x%v-3x%v-9x%v", t.name, 0.4*s, s, s*gain(program, k)))
	}
	return strings.Join(curves, ",")
}

// studyArm is one way to run the jobs.
type studyArm struct {
	name     string
	qos      bool     // Slurm's own preemption by QOS
	settings string   // of priod; "": it does not run
	simulate []string // the simulator's flags
	*site
}

// studySettings are the profile, with times that fit jobs of seconds and minutes in the place of hours.
const studySettings = `profile = "balanced"
[cycle]
interval = "2s"
[allocation]
interval = "1m"
[preemption]
min_run = "5s"
min_gain = "2s"
restart = "2s"
reserve_for = "10s"
retry_after = "30s"
[sizing]
start_timeout = "10s"
[slurm]
partitions = ["gpu"]
`

func studyArms() []*studyArm {
	return []*studyArm{
		{name: "Slurm as it ships", simulate: []string{"--order", "multifactor"}},
		{name: "expert: QOS preemption", qos: true, simulate: []string{"--order", "multifactor", "--preemption", "slurm-qos"}},
		{name: `priod, profile "balanced"`, settings: studySettings, simulate: []string{"--order", "priod", "--hold", fmt.Sprintf("%ds", studyHold)}},
	}
}

func (a *studyArm) open(t *testing.T) {
	o := lab.Options{RequeueDelay: studyDelay - 1, Partitions: []string{"gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP"}, PreemptMode: "OFF"}
	for _, k := range studyTypes {
		o.Nodes = append(o.Nodes, lab.NodeSpec{Count: k.nodes, GPUType: k.name, GPUs: 4, CPUs: 12})
	}
	if a.qos {
		o.PreemptMode = "REQUEUE"
		o.ExtraConf = []string{"PreemptType=preempt/qos", "SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=100000,bf_interval=1,preempt_youngest_first,preempt_reorder_count=5", "PriorityWeightQOS=1000000"}
		o.Sacctmgr = []string{fmt.Sprintf("modify qos be set PreemptMode=requeue GraceTime=%d", studyGrace)}
	}
	l := lab.ForTest(t, o)
	a.site = bareSite(t, l)
	if a.settings == "" {
		return
	}
	told := filepath.Join(a.dir, "workloads.toml")
	if err := os.WriteFile(told, []byte(studyWorkloads()), 0o644); err != nil {
		t.Fatal(err)
	}
	text := a.settings + fmt.Sprintf("bin_dir = %q\n[state]\ndir = %q\n[speeds]\nworkloads = %q\n[wake]\nlisten = [%q]\npolls_per_minute = 60\n", a.binDir, filepath.Join(a.dir, "state"), told, a.call())
	if err := os.WriteFile(a.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	a.daemon().waitLog("started")
}

func (a *studyArm) call() string { return "unix:" + filepath.Join(a.lab.Dir, "wake") }

// submit is how a user sends the job.
func (a *studyArm) arguments(j *studyJob) []string {
	nodes := max(1, j.gpus/4)
	class, save := "be", fmt.Sprintf("%ds", studySave)
	args := []string{"--parsable", "--output=/dev/null", fmt.Sprintf("--nodes=%d", nodes), "--ntasks-per-node=1", fmt.Sprintf("--gres=gpu:%d", j.gpus/nodes),
		fmt.Sprintf("--cpus-per-task=%d", 3*j.gpus/nodes), fmt.Sprintf("--mem=%d", 4096*j.gpus/nodes), fmt.Sprintf("--time=%d", int(j.limit.Minutes()))}
	if j.te {
		class = "te"
	} else {
		args = append(args, fmt.Sprintf("--prio-grace=%ds", studyGrace), "--prio-ckpt="+save)
	}
	if a.qos {
		args = append(args, "--qos="+class)
	}
	args = append(args, "--prio-type="+class, "--prio-workload="+studyPrograms[j.program].name, fmt.Sprintf("--prio-steps=%.0f", j.work.Seconds()))
	return append(args, "--wrap", fmt.Sprintf("exec %s -work %.0f -checkpoint $PWD/state.$SLURM_JOB_ID -save %s -curve %s", filepath.Join(bin, "training"), j.work.Seconds(), save, studyCurves(j.program)))
}

// play sends the jobs and waits for the last one to end.
func (a *studyArm) play(jobs []studyJob) (p played, err error) {
	ctx, cancel := context.WithTimeout(a.Context(), 90*time.Minute)
	defer cancel()
	p.jobs = make([]jobRun, len(jobs))
	begun := time.Now()
	for i := range jobs {
		j := &jobs[i]
		if err := rest(ctx, time.Until(begun.Add(j.at))); err != nil {
			return p, err
		}
		cmd := a.lab.As(j.user).Command(ctx, filepath.Join(bin, "sbatchwrap"), a.arguments(j)...)
		if a.settings != "" {
			cmd.Env = append(cmd.Env, "SBATCHWRAP_WAKE="+a.call(), fmt.Sprintf("SBATCHWRAP_HOLD=%ds", studyHold))
		}
		out, failed := cmd.Output()
		if failed != nil {
			return p, fmt.Errorf("job %d: %w", i+1, failed)
		}
		p.jobs[i] = jobRun{arrival: j.arrival, id: strings.TrimSpace(string(out))}
	}
	err = lab.WaitFor(ctx, "the last job to end", func(ctx context.Context) (bool, error) {
		_ = rest(ctx, 2*time.Second) // the wait sees why
		out, err := a.lab.Run(ctx, "squeue", "--noheader", "--format=%i")
		return err == nil && strings.TrimSpace(out) == "", nil // slurmctld may be busy
	})
	return p, errors.Join(err, p.read(a.lab))
}

// predict simulates the same jobs.
func (a *studyArm) predict(t *testing.T, jobs []studyJob) (p played) {
	dir := t.TempDir()
	rows := [][]string{{"job_id", "submit_s", "gpus", "workload", "steps", "limit_s", "type", "grace_s", "ckpt_s", "cpus", "mem_mb", "user", "account"}}
	for i, j := range jobs {
		class, grace, ckpt := "te", "", ""
		if !j.te {
			class, grace, ckpt = "be", strconv.Itoa(studyGrace), strconv.Itoa(studySave)
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), fmt.Sprintf("%.0f", j.at.Seconds()), strconv.Itoa(j.gpus), studyPrograms[j.program].name, fmt.Sprintf("%.0f", j.work.Seconds()),
			fmt.Sprintf("%.0f", j.limit.Seconds()), class, grace, ckpt, strconv.Itoa(3 * j.gpus), strconv.Itoa(4096 * j.gpus), cmp.Or(j.user, "root"), lab.Physics})
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var trace bytes.Buffer
	if err := csv.NewWriter(&trace).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	args := []string{"--config", file("priod.toml", a.settings), "simulate", "--trace", file("jobs.csv", trace.String()), "--workloads", file("workloads.toml", studyWorkloads()),
		"--backfill", "easy", "--prolog", "1s", "--requeue-delay", fmt.Sprintf("%ds", studyDelay), "--jobs-out", filepath.Join(dir, "out.csv"), "--json"}
	for _, k := range studyTypes {
		args = append(args, "--nodes", fmt.Sprintf("%d:%s:4:12:65536", k.nodes, k.name))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "priod"), append(args, a.simulate...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var figures struct {
		Preemptions int `json:"preemptions"`
	}
	if err = errors.Join(err, json.Unmarshal(out, &figures)); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, &errs)
	}
	f, err := os.Open(filepath.Join(dir, "out.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(row []string, name string) float64 {
		v, _ := strconv.ParseFloat(row[slices.Index(table[0], name)], 64)
		return v
	}
	p.jobs = make([]jobRun, len(jobs))
	at := func(s float64) time.Time { return time.UnixMicro(int64(s*1e6) + 1e15) }
	for _, row := range table[1:] {
		i := int(column(row, "job_id")) - 1
		p.jobs[i] = jobRun{arrival: jobs[i].arrival, submit: at(column(row, "submit_s")), start: at(column(row, "start_s")), end: at(column(row, "end_s")),
			ran: time.Duration(column(row, "ran_s") * 1e9), runs: 1 + int(column(row, "preemptions")), state: "COMPLETED"}
	}
	return p
}

// studyFigures are what an arm's jobs came to, in s.
type studyFigures struct {
	completion, wait, teCompletion, teWait95, teWait99, beSlowdown50, beSlowdown95 float64
	gangCompletion                                                                 float64 // of jobs on two nodes, which Slurm may spread over two GPU types
	evictions, lost                                                                int
}

func studied(p *played) (f studyFigures) {
	var completion, wait, te, teWait, slowdown, gang []float64
	for _, j := range p.jobs {
		if j.state != "COMPLETED" {
			f.lost++
			continue
		}
		f.evictions += j.runs - 1
		completion, wait = append(completion, j.end.Sub(j.submit).Seconds()), append(wait, j.start.Sub(j.submit).Seconds())
		if j.gpus > 4 {
			gang = append(gang, j.end.Sub(j.submit).Seconds())
		}
		if j.te {
			te, teWait = append(te, j.end.Sub(j.submit).Seconds()), append(teWait, j.start.Sub(j.submit).Seconds())
		} else {
			slowdown = append(slowdown, j.end.Sub(j.submit).Seconds()/j.work.Seconds())
		}
	}
	for _, list := range [][]float64{teWait, slowdown} {
		slices.Sort(list)
	}
	at, mean := metrics.Percentile, func(of []float64) (m float64) {
		for _, v := range of {
			m += v / float64(len(of))
		}
		return m
	}
	f.completion, f.wait, f.teCompletion, f.gangCompletion = mean(completion), mean(wait), mean(te), mean(gang)
	f.teWait95, f.teWait99, f.beSlowdown50, f.beSlowdown95 = at(teWait, 95), at(teWait, 99), at(slowdown, 50), at(slowdown, 95)
	return f
}

func (f *studyFigures) row(name string) string {
	return fmt.Sprintf("| %s | %.0f | %.1f | %.0f | %.0f, %.0f | %.2f, %.2f | %.0f | %d | %d |\n", name, f.completion, f.wait, f.teCompletion, f.teWait95, f.teWait99, f.beSlowdown50, f.beSlowdown95, f.gangCompletion, f.evictions, f.lost)
}

// What the simulator predicts of each arm, without a Slurm.
func TestStudyPredicted(t *testing.T) {
	if os.Getenv("SLURMPRIO_STUDY") == "" {
		t.Skip("part of the study: SLURMPRIO_STUDY=1")
	}
	for _, seed := range seeds(t) {
		jobs, table := studyWorkload(seed), ""
		for _, a := range studyArms() {
			predicted := a.predict(t, jobs)
			f := studied(&predicted)
			table += f.row(a.name)
		}
		t.Logf("seed %d\n%s", seed, table)
	}
}

// longest logs what priod says of the trials that waited longest.
func (a *studyArm) longest(t *testing.T, p *played) {
	trials := slices.DeleteFunc(slices.Clone(p.jobs), func(j jobRun) bool { return !j.te })
	slices.SortFunc(trials, func(x, y jobRun) int { return cmp.Compare(y.start.Sub(y.submit), x.start.Sub(x.submit)) })
	for _, j := range trials[:min(6, len(trials))] {
		explained, _, _ := a.priod("explain", j.id)
		history, _, _ := a.priod("explain", "--history", j.id)
		evictions, _, _ := a.priod("evictions", j.id)
		t.Logf("job %s, %d GPUs, %s alone, submitted %s, waited %s\n%s\n%s\n%s", j.id, j.gpus, j.work, j.submit.Format(time.TimeOnly), j.start.Sub(j.submit), explained, history, evictions)
	}
}

// Three hundred jobs on 16 nodes of three GPU types: Slurm as it ships, an expert's Slurm, and priod with its profile, on
// three labs side by side with the same jobs at the same moments, and what the simulator predicts of each.
// SLURMPRIO_SEEDS=1,2,3 selects; some half an hour each.
func TestStudyOnSlurm(t *testing.T) {
	if os.Getenv("SLURMPRIO_STUDY") == "" {
		t.Skip("takes half an hour for each of SLURMPRIO_SEEDS: SLURMPRIO_STUDY=1")
	}
	if os.Geteuid() != 0 {
		t.Skip("jobs of several users need a lab started by root")
	}
	for _, seed := range seeds(t) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			jobs, arms := studyWorkload(seed), studyArms()
			t.Logf("seed %d: %d jobs over %s", seed, len(jobs), jobs[len(jobs)-1].at)
			for _, a := range arms {
				a.open(t)
			}
			results, errs := make([]played, len(arms)), make([]error, len(arms))
			var group sync.WaitGroup
			for i, a := range arms {
				group.Go(func() { results[i], errs[i] = a.play(jobs) })
			}
			group.Wait()
			table := "| | mean completion, s | mean wait, s | TE completion, s | TE wait p95, p99, s | BE slowdown p50, p95 | completion of 8 GPUs, s | evictions | jobs lost |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
			var all []studyFigures
			for i, a := range arms {
				if errs[i] != nil {
					t.Errorf("%s: %v", a.name, errs[i])
				}
				real, predicted := studied(&results[i]), a.predict(t, jobs)
				simulated := studied(&predicted)
				table += real.row(a.name) + simulated.row(a.name+", simulated")
				if real.lost > 0 && a.settings != "" { // Slurm's own preemption now and then loses one
					t.Errorf("%s: %d jobs did not complete", a.name, real.lost)
				}
				all = append(all, real)
			}
			t.Logf("seed %d\n%s", seed, table)
			arms[2].longest(t, &results[2])
			for i, a := range arms[:2] {
				if ours, other := &all[2], &all[i]; ours.completion >= other.completion || i == 0 && ours.teWait95 >= other.teWait95 {
					t.Errorf("no better than %s", a.name)
				}
			}
		})
	}
}
