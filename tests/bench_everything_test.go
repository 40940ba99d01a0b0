package tests

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/cycle"
	"slurmprio/tests/lab"
	"slurmprio/tests/usage"
)

// scaleEnv is how many jobs wait in BenchmarkScaleEverything; half as many run.
const scaleEnv = "SLURMPRIO_SCALE"

// The cluster of BenchmarkScaleEverything: nodes of 8 GPUs and of four types, in leaf switches of
// 32, on each of which six jobs run.
const (
	perScaleNode = 6 // jobs: two of two GPUs, four of one
	scaleLeaf    = 32
	scaleParts   = 4 // partitions in which jobs run, for each GPU type
)

var scaleTypes = []string{"a100", "h100", "t4", "v100"}

// scaleSpeeds is what a tag says of them.
const scaleSpeeds = "speed=a100:1,h100:2,t4:0.3,v100:0.6&"

// scaleSettings switch everything on.
const scaleSettings = `
[ranking]
order = "owed"
[allocation]
policy = "max-min"
[te_budget.account]
gpus = 20000
[steering]
enabled = true
[sizing]
enabled = true
[rounds]
enabled = true
[retry]
enabled = true
[locality]
enabled = true
slow_nodes = true
[preemption]
enabled = true
defrag = true
`

// everyNode are the names of the nodes of a type.
func everyNode(gpuType string, from, to int) string {
	return fmt.Sprintf("%s-[%d-%d]", gpuType, from, to)
}

// newEverythingLab has as many nodes as the jobs that run on them need. One slurmd stands for
// all of them: slurmctld asks each whether it is there, and it answers to each name. It starts no
// script on them; a job without one (salloc --no-shell) runs there, as far as slurmctld knows.
func newEverythingLab(b *testing.B, waiting int) *scaleLab {
	b.Helper()
	running := waiting / 2
	each := (running + perScaleNode*len(scaleTypes)*scaleParts - 1) / (perScaleNode * len(scaleTypes) * scaleParts) * scaleParts // nodes of a type
	l := &scaleLab{waiting: waiting / scaleArray * scaleArray, running: each * len(scaleTypes) * perScaleNode, nodes: each*len(scaleTypes) + 1}
	topology, leaves := "", 0
	for _, gpuType := range scaleTypes {
		for first := 1; first <= each; first += scaleLeaf {
			topology += fmt.Sprintf("SwitchName=leaf%d Nodes=%s\n", leaves, everyNode(gpuType, first, min(first+scaleLeaf-1, each)))
			leaves++
		}
	}
	topology += fmt.Sprintf("SwitchName=leaf%d Nodes=real-1\nSwitchName=top Switches=leaf[0-%d]\n", leaves, leaves)
	options := lab.Options{
		Nodes:         []lab.NodeSpec{{Prefix: "real-", Count: 1}},
		Partitions:    []string{"real Nodes=real-1 Default=YES MaxTime=INFINITE State=UP"},
		MaxJobs:       2 * (l.waiting + l.running),
		MaxArrayTasks: scaleArray + 1,
		PreemptMode:   "OFF",
		ExtraConf:     []string{"SchedulerParameters=bf_interval=300", "PriorityCalcPeriod=5", "SlurmctldDebug=error", "GresTypes=gpu"},
	}
	l.Lab = lab.ForTest(b, options)
	l.addNodes(b, each, topology)
	l.run(b, "scontrol", "update", "NodeName="+l.all(each), "State=RESUME")
	b.Logf("%d nodes, %d jobs to run, %d to wait", l.nodes, l.running, l.waiting)
	l.fillNodes(b, each)
	l.queueUp(b)
	return l
}

func (l *scaleLab) all(each int) string {
	var names []string
	for _, gpuType := range scaleTypes {
		names = append(names, everyNode(gpuType, 1, each))
	}
	return strings.Join(names, ",")
}

// addNodes writes them into the lab's slurm.conf, with the port of its one slurmd.
func (l *scaleLab) addNodes(b *testing.B, each int, topology string) {
	b.Helper()
	conf, err := os.ReadFile(l.Conf())
	if err != nil {
		b.Fatal(err)
	}
	own := regexp.MustCompile(`NodeName=real-1 NodeAddr=(\S+) Port=(\d+)`).FindSubmatch(conf)
	if own == nil {
		b.Fatalf("no node real-1 in\n%s", conf)
	}
	text := string(conf) + "TopologyPlugin=topology/tree\n"
	for _, gpuType := range scaleTypes {
		text += fmt.Sprintf("NodeName=%s NodeAddr=%s Port=%s CPUs=64 RealMemory=512000 Gres=gpu:%s:8 Feature=%s,ib State=DOWN\n", everyNode(gpuType, 1, each), own[1], own[2], gpuType, gpuType)
		for k := range scaleParts {
			text += fmt.Sprintf("PartitionName=run-%s-%d Nodes=%s MaxTime=INFINITE State=UP\n", gpuType, k, everyNode(gpuType, 1+k*each/scaleParts, (k+1)*each/scaleParts))
		}
	}
	text += "PartitionName=gpu Nodes=" + l.all(each) + " MaxTime=INFINITE State=UP\n"
	for name, text := range map[string]string{l.Conf(): text, strings.TrimSuffix(l.Conf(), "slurm.conf") + "topology.conf": topology} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, daemon := range []string{"slurmctld", lab.Slurmd("real-1")} {
		if err := l.Restart(b.Context(), daemon); err != nil {
			b.Fatal(err)
		}
	}
}

// fillNodes lets jobs take all GPUs, those of two first. They agree to nothing but to a GPU type:
// Slurm requeues no job without a script, so that nobody could leave.
func (l *scaleLab) fillNodes(b *testing.B, each int) {
	b.Helper()
	begun := time.Now()
	tags := []string{"prio:" + scaleSpeeds + "v=1", teTag, "my own words", ""}
	for _, gpus := range []int{2, 1} {
		var work [][]string
		for k := range each * len(scaleTypes) * perScaleNode * (3 - gpus) / 3 {
			gpuType := scaleTypes[k%len(scaleTypes)]
			part := k / len(scaleTypes) % scaleParts
			work = append(work, []string{"--no-shell", "--quiet", fmt.Sprintf("--partition=run-%s-%d", gpuType, part), fmt.Sprintf("--gres=gpu:%d", gpus),
				fmt.Sprintf("--cpus-per-task=%d", 4+k%3), "--mem=30000", fmt.Sprintf("--time=%d", 600+k%700), "--comment=" + tags[k%len(tags)]})
		}
		l.parallel(b, work, func(n int, args []string) error {
			_, err := l.as(n).Run(b.Context(), "salloc", args...)
			return err
		})
	}
	b.Logf("%d jobs run after %s", l.running, time.Since(begun).Round(time.Second))
}

// parallel does work with four at a time.
func (l *scaleLab) parallel(b *testing.B, work [][]string, do func(n int, args []string) error) {
	b.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	next := 0
	for range 4 {
		group.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				stop := failed != nil || n >= len(work)
				mu.Unlock()
				if stop {
					return
				}
				if err := do(n, work[n]); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if failed != nil {
		b.Fatal(failed)
	}
}

// queueUp submits the jobs that wait, of many kinds, each task of an array a record of its own.
func (l *scaleLab) queueUp(b *testing.B) {
	b.Helper()
	for n := range l.waiting / scaleArray {
		args := []string{"--partition=gpu", fmt.Sprintf("--array=0-%d", scaleArray-1), fmt.Sprintf("--time=%d", 60+n), fmt.Sprintf("--gres=gpu:%d", 1<<(n%4)), "--mem=30000", fmt.Sprintf("--cpus-per-task=%d", 2+n%5)}
		te := n%scaleTE == 0
		switch {
		case te:
			args = append(args, "--comment="+teTag)
		case n%5 == 1:
			args = append(args, "--comment=prio:"+scaleSpeeds+"type=be&v=1")
		case n%5 == 2:
			args = append(args, "--comment=prio:cpu=a100:1x1-8x2,h100:1x1-8x2,t4:1x1-4x2,v100:1x1-6x2&"+scaleSpeeds+"type=be&v=1")
		case n%5 == 3:
			args = append(args, "--comment=prio:grace=300&retry=infra&type=be&v=1 of user "+strconv.Itoa(n), "--nodes=2")
		default:
			args = append(args, "--nice="+strconv.Itoa(n))
		}
		if n%7 == 0 {
			args = append(args, "--constraint=a100|v100")
		}
		id, err := l.as(n).Sbatch(b.Context(), append(args, "--wrap", "sleep 86400")...)
		if err != nil {
			b.Fatal(err)
		}
		if te {
			l.te = append(l.te, id)
		}
		l.split(b, id)
	}
}

// BenchmarkScaleEverything is BenchmarkScale with everything on, on a cluster whose nodes are all
// in use, with as many jobs that wait as SLURMPRIO_SCALE says and half as many that run. Beside
// squeue stand the other commands of each poll alone; sdiag tells what slurmctld took for each.
func BenchmarkScaleEverything(b *testing.B) {
	waiting := 4_000
	if text := os.Getenv(scaleEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < scaleArray {
			b.Fatalf("%s=%q: want a number of %d at least", scaleEnv, text, scaleArray)
		}
		waiting = n
	}
	s := newScale(b, newEverythingLab(b, waiting), scaleSettings)
	s.everything(b)
	for _, part := range []struct {
		name   string
		cycles int
		change func(*testing.B)
	}{{"first", 1, func(*testing.B) {}}, {"quiet", quietCycles, func(*testing.B) {}}, {"moved", 2, s.moveTE()}} {
		b.Run(part.name, func(b *testing.B) {
			for done := false; b.Loop(); done = true {
				if !done {
					s.measure(b, part.cycles, part.change)
				}
			}
		})
		s.rest(b)
	}
}

// everything has the cycles do what the daemon's do with everything on.
func (s *scale) everything(b *testing.B) {
	b.Helper()
	state := cycle.NewState()
	var errs [3]error
	state.Journal, errs[0] = s.store.LoadEvictions(b.Context())
	state.Failures, errs[1] = s.store.LoadFailures(b.Context())
	state.Ledger, errs[2] = s.store.LoadShares(b.Context())
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	s.features = func() cycle.Settings {
		set := s.config.Features(s.cluster, nil, state)
		set.Evictions.Recorder, set.Evictions.Now = s.store, time.Now
		set.Retries.Recorder = s.store
		return set
	}
}

// measure reports the medians of some cycles, each after a change.
func (s *scale) measure(b *testing.B, cycles int, change func(*testing.B)) {
	b.Helper()
	var all []figures
	for range cycles {
		change(b)
		s.run(b, "sdiag", "--reset")
		debug.FreeOSMemory()
		usage.Self(b).ForgetPeak()
		_, f := s.cycle(b)
		f["peak_MB"] = float64(usage.Self(b).Peak()) / 1e6
		f["squeue_s"], f["sprio_s"], f["nodes_s"] = s.bare(b, "squeue"), s.bare(b, "sprio"), s.bare(b, "scontrol show node")
		all = append(all, f)
	}
	b.Logf("commands of the last cycle %v, took %v\n%s", s.runner.count, s.runner.took, s.rpcs(b))
	report(b, all, maxMemoryEverything)
}

// rpcs is what slurmctld says of the requests since its counters were reset.
func (s *scale) rpcs(b *testing.B) string {
	b.Helper()
	var lines []string
	for line := range strings.Lines(s.run(b, "sdiag")) {
		if strings.Contains(line, "REQUEST_") && strings.Contains(line, "ave_time") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(lines, "\n")
}

// rest runs cycles until one has nothing to write, or twenty at most.
func (s *scale) rest(b *testing.B) {
	b.Helper()
	for n := range 20 {
		if _, f := s.cycle(b); f["writes"] == 0 {
			b.Logf("nothing to write in cycle %d", n+1)
			return
		}
	}
	b.Log("each of twenty cycles has something to write")
}

// moveTE makes every second task of a TE array BE, and at the next call TE again.
func (s *scale) moveTE() func(*testing.B) {
	be := true
	return func(b *testing.B) {
		array := s.te[len(s.te)-1]
		var tasks []string
		for n := range scaleMoved {
			tasks = append(tasks, strconv.Itoa(2*n+1))
		}
		tag := map[bool]string{true: beTag, false: teTag}[be]
		s.run(b, "scontrol", "update", fmt.Sprintf("JobId=%s_[%s]", array, strings.Join(tasks, ",")), "Comment="+tag)
		be = !be
	}
}
