package tests

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/live"
	"slurmprio/priod/order"
	"slurmprio/priod/store"
	"slurmprio/priod/waits"
	"slurmprio/slurmplug"
	"slurmprio/tests/lab"
	"slurmprio/tests/usage"
)

// The cluster of BenchmarkScale.
const (
	scaleJobs  = 100_000
	scaleNodes = 2_000
	scaleArray = 2_000 // tasks of one array; each gets a record of its own
	scaleTE    = 10    // every so many arrays one is TE
	scaleMoved = 1_000 // jobs that change place
)

// realNodes run jobs. The other nodes have no slurmd and are down: slurmctld
// shows and priod reads them like any other.
const realNodes = 2

// scaleLab is a lab whose slurmctld holds many separate records.
type scaleLab struct {
	*lab.Lab
	te                      []string // the TE arrays
	waiting, running, nodes int
}

// newScaleLab has Slurm's own pace of scheduling, not the quicker one of labs, and
// no line in the log for each of the split records.
func newScaleLab(b *testing.B) *scaleLab {
	b.Helper()
	down := scaleNodes - realNodes
	l := &scaleLab{waiting: scaleJobs - 4*realNodes, running: 4 * realNodes, nodes: scaleNodes, Lab: lab.ForTest(b, lab.Options{
		Nodes:         []lab.NodeSpec{{Count: realNodes, GPUType: "a100", GPUs: 4}},
		Partitions:    []string{"gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP"},
		MaxJobs:       2 * scaleJobs,
		MaxArrayTasks: scaleArray + 1,
		ExtraConf: []string{
			"SchedulerParameters=bf_interval=30",
			"PriorityCalcPeriod=5",
			"SlurmctldDebug=error",
			fmt.Sprintf("NodeName=down[1-%d] NodeAddr=127.0.0.1 Port=[20001-%d] CPUs=64 RealMemory=512000 Gres=gpu:a100:8 Feature=a100,ib State=DOWN", down, 20000+down),
		},
	})}
	for n := range scaleJobs / scaleArray {
		tag := []string{"--comment=prio:type=be&v=1", "--comment=prio:grace=300&type=be&v=1 of user " + strconv.Itoa(n), "--nice=" + strconv.Itoa(n)}[n%3]
		if n%scaleTE == 0 {
			tag = "--comment=" + teTag
		}
		id, err := l.as(n).Sbatch(b.Context(), tag, fmt.Sprintf("--array=0-%d", scaleArray-1), fmt.Sprintf("--gres=gpu:%d", 1+n%4),
			fmt.Sprintf("--time=%d", 60+n), "--wrap", "sleep 86400")
		if err != nil {
			b.Fatal(err)
		}
		if n%scaleTE == 0 {
			l.te = append(l.te, id)
		}
		l.split(b, id)
	}
	return l
}

// split gives each task of an array a record of its own, as an update of some of them does.
func (l *scaleLab) split(b *testing.B, id string) {
	b.Helper()
	for _, tasks := range []string{fmt.Sprintf("0-%d", scaleArray/2-1), fmt.Sprintf("%d-%d", scaleArray/2, scaleArray-2)} {
		l.run(b, "scontrol", "update", fmt.Sprintf("JobId=%s_[%s]", id, tasks), "Requeue=0")
	}
}

const (
	teTag = "prio:type=te&v=1"
	beTag = "prio:type=be&v=1"
)

// as gives the jobs to several users where the lab can act as them.
func (l *scaleLab) as(n int) lab.Client {
	if os.Geteuid() != 0 {
		return l.As("")
	}
	return l.As([]string{"", lab.PlainUser, lab.OtherUser}[n%3])
}

func (l *scaleLab) run(b *testing.B, name string, args ...string) string {
	b.Helper()
	out, err := l.As("").Run(b.Context(), name, args...)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// await waits until slurmctld has found every job eligible: sprio lists no
// others.
func (l *scaleLab) await(b *testing.B, c *slurmplug.Client) {
	b.Helper()
	err := lab.WaitFor(b.Context(), fmt.Sprint(l.waiting, " eligible jobs"), func(ctx context.Context) (bool, error) {
		factors, err := c.Factors(ctx)
		return len(factors) >= l.waiting, err
	})
	if err != nil {
		b.Fatal(err)
	}
	jobs, err := c.Jobs(b.Context())
	if err != nil || len(jobs) != l.waiting+l.running {
		b.Fatalf("slurmctld holds %d records, want %d: %v", len(jobs), l.waiting+l.running, err)
	}
	nodes, err := c.Nodes(b.Context())
	if err != nil || len(nodes) != l.nodes {
		b.Fatalf("slurmctld shows %d nodes, want %d: %v", len(nodes), l.nodes, err)
	}
}

// timedRunner takes the time during which at least one of Slurm's commands
// runs, and what each program was last asked and took. An scontrol that writes
// counts as "update", one that shows something as "scontrol show node" and the like, a look
// at single jobs as "squeue --jobs".
type timedRunner struct {
	slurmplug.Runner
	mu      sync.Mutex
	running int
	since   time.Time
	waited  time.Duration
	took    map[string]time.Duration
	last    map[string]slurmplug.Command
	count   map[string]int
}

func (r *timedRunner) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waited, r.took, r.last, r.count = 0, map[string]time.Duration{}, map[string]slurmplug.Command{}, map[string]int{}
}

func (r *timedRunner) Run(ctx context.Context, cmd slurmplug.Command) (slurmplug.Output, error) {
	begun, name := time.Now(), cmd.Name
	if cmd.Merge {
		name = "update"
	} else if at := slices.Index(cmd.Args, "show"); at >= 0 && at+1 < len(cmd.Args) {
		name += " show " + cmd.Args[at+1]
	} else if name == "squeue" && slices.ContainsFunc(cmd.Args, func(a string) bool { return strings.HasPrefix(a, "--jobs") }) {
		name = "squeue --jobs"
	}
	r.mu.Lock()
	if r.running++; r.running == 1 {
		r.since = begun
	}
	r.last[name] = cmd
	r.count[name]++
	r.mu.Unlock()
	out, err := r.Runner.Run(ctx, cmd)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running--; r.running == 0 {
		r.waited += time.Since(r.since)
	}
	r.took[name] += time.Since(begun)
	return out, err
}

// scale is priod in this process, on a scaleLab.
type scale struct {
	*scaleLab
	runner  *timedRunner
	dir     string
	cluster *live.Cluster
	store   *store.Store
	history *cluster.History
	config  *config.Config

	features func() cycle.Settings
	waits    waits.Tracker
}

// unlimited are settings without limits on writes: what is measured is the work, not the politeness.
const unlimited = "[te_budget.user]\ngpus = 0\ntime_limit = \"0s\"\ngpu_hours_per_day = 0.0\n[limits]\nwrites_per_cycle = 1000000\nwrites_per_second = 1e6\n"

func newScale(b *testing.B, l *scaleLab, settings string) *scale {
	b.Helper()
	s := &scale{scaleLab: l, dir: b.TempDir(), runner: &timedRunner{}}
	s.features = func() cycle.Settings {
		return cycle.Settings{Order: order.Feature{Settings: s.config.Decide()}, Waits: waits.Feature{Tracker: &s.waits, Gap: s.config.WaitsGap()}}
	}
	s.runner.reset()
	file := filepath.Join(s.dir, "priod.toml")
	if err := os.WriteFile(file, []byte(settings+unlimited), 0o600); err != nil {
		b.Fatal(err)
	}
	var err error
	if s.config, err = config.Load(file); err != nil {
		b.Fatal(err)
	}
	s.runner.Runner = slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: s.Conf()})
	client := slurmplug.NewClient(s.runner, slurmplug.Options{WritesPerSecond: s.config.Constants.Commands.WritesPerSecond, MaxWait: time.Minute})
	s.await(b, client)
	s.cluster = live.New(client)
	if s.store, err = store.Open(b.Context(), filepath.Join(s.dir, "state"), store.Options{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.store.Close() })
	if s.history, err = s.store.Load(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s
}

func processorTime(b *testing.B) time.Duration {
	user, system := usage.CPU(b)
	return user + system
}

// figures of one cycle, by the names under which they are reported.
type figures map[string]float64

// cycle runs one cycle as the daemon does.
func (s *scale) cycle(b *testing.B) (cycle.Result, figures) {
	b.Helper()
	f := figures{}
	s.runner.reset()
	stage, begun := "", time.Now()
	start, cpu, disk, db := begun, processorTime(b), usage.Self(b).Written(), s.stateBytes(b)
	set := s.features()
	set.Stage = func(next string) {
		now := time.Now()
		if stage != "" {
			f[stage+"_s"] += now.Sub(begun).Seconds()
		}
		stage, begun = next, now
	}
	result, err := cycle.Step(b.Context(), s.cluster, s.store, s.history, set)
	if err != nil {
		b.Fatal(err)
	}
	total := time.Since(start)
	f["cycle_s"] = total.Seconds()
	f["wait_s"] = s.runner.waited.Seconds()
	f["own_s"] = (total - s.runner.waited).Seconds()
	f["own_cpu_s"] = (processorTime(b) - cpu).Seconds()
	f["in_cycle_squeue_s"] = s.runner.took["squeue"].Seconds()
	f["written_B"] = float64(usage.Self(b).Written() - disk)
	f["db_growth_B"] = float64(s.stateBytes(b) - db)
	f["writes"] = float64(len(result.Outcomes))
	for _, o := range result.Outcomes {
		if o.Status != slurmplug.Applied {
			b.Fatalf("job %s: %s %s: %s %s", o.Job, o.Lever, o.After, o.Status, o.Message)
		}
	}
	return result, f
}

// bareSqueue is what the squeue of the last cycle takes alone, its output
// thrown away.
func (s *scale) bareSqueue(b *testing.B) float64 {
	b.Helper()
	return s.bare(b, "squeue")
}

// bare is what a command of the last cycle takes alone.
func (s *scale) bare(b *testing.B, name string) float64 {
	b.Helper()
	last := s.runner.last[name]
	cmd := s.As("").Command(b.Context(), last.Name, last.Args...)
	cmd.Env = append(cmd.Env, "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0")
	cmd.Stdout = io.Discard
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun).Seconds()
}

func (s *scale) stateBytes(b *testing.B) int64 {
	return usage.FolderSize(b, filepath.Join(s.dir, "state"))
}

// maxMemory is what priod may take with a queue of this size: ranking alone, and with everything on.
const (
	maxMemory           = 1e9
	maxMemoryEverything = 2e9
)

// report gives the median of each figure.
func report(b *testing.B, all []figures, most int64) {
	b.Helper()
	peak := usage.Self(b).Peak()
	if peak > most {
		b.Errorf("%d bytes of memory, want no more than %d", peak, most)
	}
	b.ReportMetric(0, "ns/op")
	for name := range all[0] {
		values := make([]float64, len(all))
		for i, f := range all {
			values[i] = f[name]
		}
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
	b.ReportMetric(float64(peak)/1e6, "rss_MB")
}

// quietCycles make up one figure of the benchmark quiet.
const quietCycles = 7

// BenchmarkScale is a cycle at 100,000 pending jobs and 2,000 nodes beside the
// bare squeue that it waits for:
//
//	squeue_s        that squeue alone, its output thrown away
//	cycle_s         all of cycle.Step
//	wait_s          of it, while at least one of Slurm's commands ran
//	own_s           the rest: what priod adds
//	own_cpu_s       processor time of this process, reading the pipes included
//	written_B       what the kernel wrote to disk for this process
//	writes          values that Slurm accepted
//	scontrol_s      time in the scontrol processes, scontrols in number, that wrote them
//	process_each_s  the same values with one process each, scaled up from a hundred
//
// "first" is the first cycle ever, "quiet" one in which nothing changed,
// "moved" one in which 1,000 jobs change place.
func BenchmarkScale(b *testing.B) {
	s := newScale(b, newScaleLab(b), "")
	b.Run("first", func(b *testing.B) {
		for done := false; b.Loop(); done = true {
			if done {
				continue // there is one first cycle
			}
			result, f := s.cycle(b)
			f["state_B"] = float64(s.stateBytes(b))
			f["squeue_s"] = s.bareSqueue(b)
			if want := scaleJobs - realNodes*4; len(result.Plan.Decisions) < want {
				b.Fatalf("%d decisions, want %d", len(result.Plan.Decisions), want)
			}
			report(b, []figures{f}, maxMemory)
		}
	})
	s.settle(b)
	b.Run("quiet", func(b *testing.B) {
		var all []figures
		for b.Loop() {
			for range quietCycles {
				_, f := s.cycle(b)
				f["squeue_s"] = s.bareSqueue(b)
				f["own/squeue"] = f["own_s"] / f["squeue_s"]
				if f["writes"] != 0 {
					b.Fatalf("%v writes in a cycle in which nothing changed", f["writes"])
				}
				all = append(all, f)
			}
		}
		report(b, all, maxMemory)
	})
	b.Run("moved", func(b *testing.B) {
		var all []figures
		for b.Loop() {
			all = append(all, s.move(b))
		}
		report(b, all, maxMemory)
	})
}

// settle runs cycles until one has nothing to write: Slurm shows what the last
// one wrote only when sprio lists it.
func (s *scale) settle(b *testing.B) {
	b.Helper()
	for range 10 {
		if _, f := s.cycle(b); f["writes"] == 0 {
			return
		}
	}
	b.Fatal("priod keeps writing although nothing changes")
}

// move makes every second task of a TE array BE and then TE again. The tasks
// between keep their values, so there is one write for each task that moved
// and no more; and on the way back each needs a value of its own.
func (s *scale) move(b *testing.B) figures {
	b.Helper()
	array := s.te[len(s.te)-1]
	var tasks []string
	for n := range scaleMoved {
		tasks = append(tasks, strconv.Itoa(2*n+1))
	}
	target := fmt.Sprintf("JobId=%s_[%s]", array, strings.Join(tasks, ","))
	s.run(b, "scontrol", "update", target, "Comment="+beTag)
	result, down := s.cycle(b)
	checkMoves(b, &result, 1)
	s.run(b, "scontrol", "update", target, "Comment="+teTag)
	result, f := s.cycle(b)
	checkMoves(b, &result, scaleMoved)
	f["down_act_s"] = down["act_s"]
	f["scontrol_s"], f["scontrols"] = s.runner.took["update"].Seconds(), float64(s.runner.count["update"])

	// One process for each update, writing the same values once more.
	const sample = 100
	begun := time.Now()
	for _, o := range result.Outcomes[:sample] {
		s.run(b, "scontrol", "update", "JobId="+o.Job.String(), string(o.Lever)+"="+o.After.String())
	}
	f["process_each_s"] = time.Since(begun).Seconds() * scaleMoved / sample
	return f
}

// checkMoves wants scaleMoved writes of so many different values.
func checkMoves(b *testing.B, r *cycle.Result, values int) {
	b.Helper()
	seen := map[string]bool{}
	for _, o := range r.Outcomes {
		seen[o.After.String()] = true
	}
	if len(r.Outcomes) != scaleMoved || len(seen) != values || r.Plan.Renumbered != 0 {
		b.Fatalf("%d writes of %d values, %d of them to make room; want %d of %d, 0", len(r.Outcomes), len(seen), r.Plan.Renumbered, scaleMoved, values)
	}
}
