package tests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/tests/lab"
)

// learner is a job that does so many steps at the speed that its workload has on
// the type of the node it got: a lab's node is named after its GPUs. On USR1 it
// saves what it has done and leaves, to go on from there when it is requeued.
const learner = `#!/bin/bash
steps=$1 state=$PWD/state.$SLURM_JOB_ID; shift
for s in "$@"; do [[ $SLURMD_NODENAME == ${s%%=*}* ]] && speed=${s#*=}; done
did=$(cat "$state" 2>/dev/null || echo 0) begun=$EPOCHREALTIME
trap told=1 USR1
sleep "$(awk "BEGIN { print ($steps - $did) / $speed }")" & wait $!
[ -n "$told" ] || exit 0
awk "BEGIN { print $did + ($EPOCHREALTIME - $begun) * $speed }" >"$state.new" && mv "$state.new" "$state"
kill $!
exit 99
`

// learnerTypes are the lab's GPU types, the fastest first, two nodes of four each.
var learnerTypes = []string{"a100", "v100", "t4"}

// learners are the workloads: steps a second by type.
var learners = []struct {
	name  string
	speed [3]float64
}{
	{"language", [3]float64{1, 0.35, 0.12}},
	{"image", [3]float64{1, 0.6, 0.3}},
	{"game", [3]float64{1, 0.9, 0.75}},
}

// lesson is one job of the workload.
type lesson struct {
	at    time.Duration
	what  int // of learners
	gpus  int
	steps int // s on the fastest type
}

// lessons come in faster than the three types together can do them, so that
// most wait.
func lessons(seed uint64, n int, within time.Duration) []lesson {
	r := rand.New(rand.NewPCG(seed, 7))
	all := make([]lesson, n)
	for i := range all {
		all[i] = lesson{time.Duration(r.Int64N(int64(within))), r.IntN(len(learners)), []int{1, 1, 1, 2}[r.IntN(4)], 10 + r.IntN(50)}
	}
	slices.SortFunc(all, func(a, b lesson) int { return int(a.at - b.at) })
	return all
}

// school is one way to choose GPU types.
type school struct {
	name    string
	fastest bool   // users ask for the fastest type
	order   string // priod's order of BE jobs; "": it does not run
	more    string // of its configuration, from [steering] on
	*site
}

func (a *school) open(t *testing.T) {
	var nodes []lab.NodeSpec
	for _, gpuType := range learnerTypes {
		nodes = append(nodes, lab.NodeSpec{Count: 2, GPUType: gpuType, GPUs: 4})
	}
	l := lab.ForTest(t, lab.Options{Nodes: nodes})
	a.site = bareSite(t, l)
	if err := os.WriteFile(filepath.Join(l.Dir, "work", "learner"), []byte(learner), 0o755); err != nil {
		t.Fatal(err)
	}
	if a.order == "" {
		return
	}
	table := ""
	for _, w := range learners {
		table += fmt.Sprintf("[[workload]]\nname = %q\n", w.name)
		for i, gpuType := range learnerTypes {
			table += fmt.Sprintf("speed.%s = { 1 = %v, 2 = %v }\n", gpuType, w.speed[i], w.speed[i])
		}
	}
	workloads := filepath.Join(a.dir, "workloads.toml")
	if err := os.WriteFile(workloads, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	a.configure(fmt.Sprintf("[cycle]\ninterval = \"2s\"\n[speeds]\nworkloads = %q\n[allocation]\npolicy = \"max-min\"\n[ranking]\norder = %q\n[steering]\nenabled = true\n%s", workloads, a.order, a.more))
	a.daemon().waitLog("started")
}

// lived is what an arm came to.
type lived struct {
	played
	idle  float64 // GPU-seconds that stood free while a job that could use them had waited for 10 s
	kept  float64 // of idle, those of GPUs that had stood so for longer than turnover
	total float64 // GPU-seconds while any job waited so long
}

// turnover is what it takes to see that a GPU is free and to fill it: a cycle of
// priod's, a pass of Slurm's, and a watcher that looks once a second.
const turnover = 5 * time.Second

// play sends all jobs to Slurm and watches until the last one has ended.
func (a *school) play(jobs []lesson) (p lived, err error) {
	ctx, cancel := context.WithTimeout(a.Context(), 25*time.Minute)
	defer cancel()
	var group sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	group.Go(func() { a.watch(watching, &p) })
	begun, script := time.Now(), filepath.Join(a.lab.Dir, "work", "learner")
	for _, j := range jobs {
		if err = rest(ctx, time.Until(begun.Add(j.at))); err != nil {
			break
		}
		gres := fmt.Sprintf("--gres=gpu:%d", j.gpus)
		if a.fastest {
			gres = fmt.Sprintf("--gres=gpu:%s:%d", learnerTypes[0], j.gpus)
		}
		w := &learners[j.what]
		args := []string{"--parsable", "--output=/dev/null", "--time=10", gres, "--signal=B:USR1@5", "--prio-type=be",
			"--prio-signal=B:USR1", "--prio-grace=5s", "--prio-workload=" + w.name, "--prio-steps=" + strconv.Itoa(j.steps), script, strconv.Itoa(j.steps)}
		for i, gpuType := range learnerTypes {
			args = append(args, fmt.Sprintf("%s=%v", gpuType, w.speed[i]))
		}
		out, failed := a.lab.Command(ctx, filepath.Join(bin, "sbatchwrap"), args...).Output()
		err = errors.Join(err, failed)
		work := time.Duration(j.steps) * time.Second
		p.jobs = append(p.jobs, jobRun{arrival: arrival{at: j.at, gpus: j.gpus, work: work}, id: strings.TrimSpace(string(out))})
	}
	err = errors.Join(err, lab.WaitFor(ctx, "the last job to end", func(ctx context.Context) (bool, error) {
		_ = rest(ctx, time.Second) // the wait sees why
		out, err := a.lab.Run(ctx, "squeue", "--noheader", "--format=%i")
		return err == nil && strings.TrimSpace(out) == "", nil // slurmctld may be busy
	}))
	stop()
	group.Wait()
	return p, errors.Join(err, p.read(a.lab))
}

// watch adds up GPUs that stand free while a job that fits there waits.
func (a *school) watch(ctx context.Context, p *lived) {
	last, since := time.Now(), map[string][]time.Time{} // by node, when each of its idle GPUs was seen first
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		out, err := a.lab.Run(ctx, "squeue", "--noheader", "--format=%T|%N|%b|%V|%r")
		if err != nil {
			continue
		}
		passed := time.Since(last).Seconds()
		last = time.Now()
		free := map[string]int{} // by node
		for _, n := range a.lab.Nodes {
			free[n] = 4
		}
		waits := 0 // smallest demand of the jobs that wait; 0: none does
		for line := range strings.Lines(out) {
			f := strings.Split(strings.TrimSpace(line), "|")
			if len(f) != 5 {
				continue
			}
			gpus, _ := strconv.Atoi(f[2][strings.LastIndex(f[2], ":")+1:])
			submit, _ := time.ParseInLocation("2006-01-02T15:04:05", f[3], time.Local)
			switch {
			case f[0] != "PENDING":
				free[f[1]] -= gpus
			case time.Since(submit) > 10*time.Second && !a.fastest && (waits == 0 || gpus < waits):
				waits = gpus
			}
		}
		if waits != 0 {
			p.total += passed * float64(4*len(a.lab.Nodes))
		}
		for node, n := range free {
			if waits == 0 || n < waits {
				n = 0
			}
			idle := since[node]
			idle = idle[:min(n, len(idle))] // the last to come is the first to go
			for len(idle) < n {
				idle = append(idle, last)
			}
			since[node] = idle
			p.idle += passed * float64(n)
			for _, at := range idle {
				if last.Sub(at) > turnover {
					p.kept += passed
				}
			}
		}
	}
}

// What a job that is nearly done is owed beyond its due, for jobs that run for a
// minute in place of a day.
const lead = `[rounds]
finish_bonus = "2m"
finish_bonus_half_life = "1m"
`

// schools are the ways that are compared.
var schools = []school{
	{name: "Slurm alone"},
	{name: "the fastest type asked for", fastest: true},
	{name: "priod, owed", order: "owed", more: lead},
	{name: "priod, owed, rounds of 20 s", order: "owed", more: lead + `enabled = true
length = "20s"
min_gain_ratio = 5.0
[preemption]
min_run = "5s"
restart = "2s"
max_evictions = 0
max_per_hour = 0
`},
}

// schoolSeeds are those of SLURMPRIO_SEED, "0 1 2" when it says nothing.
func schoolSeeds(t *testing.T) (seeds []uint64) {
	for _, text := range strings.Fields(cmp.Or(os.Getenv("SLURMPRIO_SEED"), "0 1 2")) {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SLURMPRIO_SEED=%q: want numbers, such as \"0 2\"", os.Getenv("SLURMPRIO_SEED"))
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

// 120 jobs of three workloads that left their GPU type open: on Slurm alone, with
// users who always ask for the fastest type, and with priod. The same jobs at the
// same time, each way in a lab of its own, so that the machine's load is the same.
// Figures are logged.
func TestSteeringInTheLab(t *testing.T) {
	longOnly(t)
	table := "\n| seed | | mean completion (s) | p50, p95, p99 | idle while one waits (% of GPU-s) | for longer than " + turnover.String() + " | requeued |\n| --- | --- | --- | --- | --- | --- | --- |\n"
	for _, seed := range schoolSeeds(t) {
		jobs := lessons(seed, 120, 200*time.Second)
		arms := slices.Clone(schools)
		results, errs := make([]lived, len(arms)), make([]error, len(arms))
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { // ends the labs
			for i := range arms {
				arms[i].open(t)
			}
			var group sync.WaitGroup
			for i := range arms {
				group.Go(func() { results[i], errs[i] = arms[i].play(jobs) })
			}
			group.Wait()
			arms[0].alive()
		})
		if t.Failed() {
			return
		}
		var means []float64
		for i, p := range results {
			if errs[i] != nil {
				t.Errorf("seed %d, %s: %v", seed, arms[i].name, errs[i])
			}
			var took []float64
			sum, requeued := 0.0, 0
			for _, j := range p.jobs {
				requeued += j.runs - 1
				if j.state != "COMPLETED" {
					t.Errorf("seed %d, %s: job %s ended %q", seed, arms[i].name, j.id, j.state)
				}
				took = append(took, j.end.Sub(j.submit).Seconds())
				sum += took[len(took)-1]
			}
			means = append(means, sum/float64(len(took)))
			idle := "not asked |"
			if !arms[i].fastest {
				idle = fmt.Sprintf("%.1f | %.1f", 100*p.idle/max(p.total, 1), 100*p.kept/max(p.total, 1))
			}
			table += fmt.Sprintf("| %d | %s | %.1f | %s | %s | %d |\n", seed, arms[i].name, means[i], spread(took), idle, requeued)
		}
		if better := min(means[0], means[1]) / means[2]; better < 1.3 {
			t.Errorf("seed %d: priod is %.2f times better than the better of the others, want 1.3", seed, better)
		}
	}
	t.Log(table)
}
