package tests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slurmprio/priod/store"
	"slurmprio/tests/chaos"
	"slurmprio/tests/growth"
	"slurmprio/tests/lab"
	"slurmprio/tests/shim"
)

// chaosSettings switches everything on. Times, and what may be within an hour, are those of
// jobs that run for half a minute in the place of hours; all else is as shipped.
const chaosSettings = quick + `
[ranking]
order = "owed"
te_qos = ["te"]
be_qos = ["be"]
[allocation]
policy = "max-min"
[te_budget.account]
gpus = 16
[metrics]
listen = "unix:%s"
[steering]
enabled = true
[sizing]
enabled = true
start_timeout = "10s"
[rounds]
enabled = true
length = "20s"
finish_bonus = "2m"
finish_bonus_half_life = "1m"
[retry]
enabled = true
min_run = "0s"
per_user_hour = 1000
per_hour = 1000
[locality]
enabled = true
max_wait = "1m"
slow_nodes = true
[speeds]
min_run = "1s"
interval = "10s"
[preemption]
enabled = true
defrag = true
min_run = "4s"
restart = "2s"
min_gain = "3s"
reserve_for = "15s"
retry_after = "10s"
max_evictions = 2
max_per_hour = 1000
`

// chaosOn is chaosSettings with the features that SLURMPRIO_CHAOS_ON names, to compare
// with: preemption, or steering,sizing. Without it, with all of them.
func chaosOn(t *testing.T) string {
	only := os.Getenv("SLURMPRIO_CHAOS_ON")
	if only == "" {
		return chaosSettings
	}
	settings := chaosSettings
	for _, feature := range []string{"steering", "sizing", "rounds", "preemption", "retry", "locality"} {
		if !slices.Contains(strings.Split(only, ","), feature) {
			settings = strings.Replace(settings, "["+feature+"]\nenabled = true", "["+feature+"]\nenabled = false", 1)
		}
	}
	if !strings.Contains(only, "preemption") {
		settings = strings.Replace(settings, "defrag = true\n", "", 1)
	}
	if !strings.Contains(only, "steering") { // then nothing is allocated, and order by it is refused
		settings = strings.Replace(strings.Replace(settings, "policy = \"max-min\"", "policy = \"\"", 1), "order = \"owed\"\n", "", 1)
	}
	t.Logf("only %s", only)
	return settings
}

// chaosCap is max_evictions there.
const chaosCap = 2

// chaosRun is a run of package chaos on a lab: with priod, or beside it without.
type chaosRun struct {
	*site
	chaos.Run
	users []string
	off   bool
	mu    sync.Mutex // of Run while its watcher is at work

	settings string
	daemon   *running // the last one
	logs     []*lockedBuffer
	grown    growth.Table // of the last one
	sample   func()       // takes down what that holds
	most     int          // records that wait when users submit nothing more; 0: any number
	shim     *shim.Dir
	faults   []chaos.Fault
	weather  []chaos.Weather
	armed    []shim.Fault
}

// chaosLength is one length of run.
type chaosLength struct {
	chaos.Size
	nodes    []lab.NodeSpec
	conf     []string      // lines of slurm.conf
	patience time.Duration // until the last job has ended
	budget   time.Duration // that a job may wait longer than without priod
	commands int           // faults at priod's commands
	harms    int           // other faults
	weather  int           // changes of nodes and partitions
}

// chaosLab is a lab with a leaf switch for the nodes of each GPU type.
func chaosLab(nodes []lab.NodeSpec) lab.Options {
	tree, leaves := "", []string{}
	for _, n := range nodes {
		leaf := "leaf-" + n.GPUType
		tree += fmt.Sprintf("SwitchName=%s Nodes=%s-[1-%d]\n", leaf, n.GPUType, n.Count)
		leaves = append(leaves, leaf)
	}
	return lab.Options{
		Nodes: nodes, PreemptMode: "OFF", ExtraConf: []string{"TopologyPlugin=topology/tree"},
		ExtraFiles: map[string]string{"topology.conf": tree + "SwitchName=top Switches=" + strings.Join(leaves, ",") + "\n"},
	}
}

func newChaosRun(t *testing.T, seed uint64, l chaosLength, off bool) *chaosRun {
	o := chaosLab(l.nodes)
	o.ExtraConf = append(o.ExtraConf, l.conf...)
	r := &chaosRun{site: bareSite(t, lab.ForTest(t, o)), users: []string{""}, off: off}
	if os.Geteuid() == 0 {
		r.users = append(r.users, lab.PlainUser, lab.OtherUser)
	}
	l.Users = len(r.users)
	r.Run = chaos.Run{Seed: seed, Size: l.Size, Jobs: chaos.Workload(seed, l.Size), Logs: map[string][]chaos.Event{}, Cap: chaosCap, Budget: l.budget, Begun: time.Now()}
	r.IDs = make([]string, len(r.Jobs))
	r.sample = r.sampleDaemon
	r.weather = chaos.Weathers(seed, l.Size, l.weather)
	if err := os.WriteFile(r.work("script"), []byte(chaos.Script), 0o755); err != nil {
		t.Fatal(err)
	}
	if off {
		return r
	}
	r.settings = fmt.Sprintf(chaosOn(t), filepath.Join(r.dir, "metrics"))
	r.configure(r.settings)
	if r.faults = chaos.Faults(seed, l.Size, l.commands, l.harms); len(r.faults) > 0 {
		r.hurry = "5s"
		r.shim = r.shimmed(r.settings)
		r.ownDisk()
	}
	r.start()
	r.daemon.waitLog("started")
	return r
}

func (r *chaosRun) work(name string) string { return filepath.Join(r.lab.Dir, "work", name) }

// play submits the jobs, takes the users' turns and brings the faults about, each at
// its time, with a reset of priod at two thirds, and waits until the last job has ended.
func (r *chaosRun) play(patience time.Duration) error {
	defer r.watched()()
	steps := r.steps()
	if !r.off {
		steps = append(steps, step{r.Size.Length * 2 / 3, r.reset})
	}
	if err := r.take(steps); err != nil {
		return err
	}
	if r.shim != nil {
		r.throw(r.shim)
	}
	return r.ended(patience)
}

// watched looks at the cluster until the function that it returns is called.
func (r *chaosRun) watched() (end func()) {
	watching, stop := context.WithCancel(r.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() { r.watch(watching) })
	return func() {
		stop()
		watcher.Wait()
	}
}

// take takes steps, each at its time, and looks after the daemons meanwhile.
func (r *chaosRun) take(steps []step) error {
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	r.Begun = time.Now()
	for _, s := range steps {
		for time.Until(r.Begun.Add(s.at)) > 0 {
			if err := rest(r.Context(), min(time.Second, time.Until(r.Begun.Add(s.at)))); err != nil {
				return err
			}
			r.tend()
		}
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}

// step is one thing that happens in a run.
type step struct {
	at time.Duration
	do func() error
}

func (r *chaosRun) steps() (all []step) {
	for n, j := range r.Jobs {
		all = append(all, step{j.At, func() error { return r.submitJob(n) }})
	}
	for _, t := range chaos.Turns(r.Seed, r.Jobs, r.Size) {
		all = append(all, step{t.At, func() error { r.turn(t); return nil }})
	}
	for _, w := range r.weather {
		all = append(all, r.weatherSteps(w)...)
	}
	for _, f := range r.faults {
		all = append(all, step{f.At, func() error { return r.harm(f) }})
	}
	return all
}

func (r *chaosRun) submitJob(n int) error {
	if r.most > 0 && r.pending() >= r.most {
		return nil
	}
	j, after := &r.Jobs[n], ""
	if j.After >= 0 {
		after = r.IDs[j.After]
	}
	submit := func() (string, error) {
		return r.lab.As(r.users[j.User]).Run(r.Context(), filepath.Join(bin, "sbatchwrap"), j.Args(r.work("script"), after, r.Size)...)
	}
	out, err := submit()
	for try := 0; err != nil && strings.Contains(err.Error(), "Unable to contact slurm controller") && try < 30; try++ {
		_ = rest(r.Context(), time.Second) // the next command sees why
		r.revive()
		out, err = submit()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", j.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.IDs[n], _, _ = strings.Cut(strings.TrimSpace(out), ";")
	return nil
}

// turn is taken whether or not Slurm lets the user: his job may have ended.
func (r *chaosRun) turn(t chaos.Turn) {
	if r.IDs[t.Job] == "" {
		return
	}
	d := chaos.Done{Turn: t, From: time.Now()}
	r.mu.Lock()
	r.Done = append(r.Done, d) // the watcher may see what it does before it ends
	r.mu.Unlock()
	argv := t.Command(r.IDs[t.Job])
	out, err := r.lab.As(r.users[r.Jobs[t.Job].User]).Run(r.Context(), argv[0], argv[1:]...)
	if err != nil {
		d.Failed = fmt.Sprint(out, err)
	}
	d.Until = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Done[len(r.Done)-1] = d
}

// ended waits until no job is left, for ten seconds, and no eviction under way: one that has
// just failed may be put back into the queue.
func (r *chaosRun) ended(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	left, still, empty := "", 0, 0
	err := lab.WaitFor(ctx, "the last job to end", func(ctx context.Context) (bool, error) {
		_ = rest(ctx, time.Second) // the wait sees why
		r.tend()
		out, err := r.lab.Run(ctx, "squeue", "--noheader", "--format=%i %T %r")
		if err != nil {
			return false, nil // slurmctld may be busy
		}
		running := strings.Contains(out, " RUNNING ")
		if left = out; strings.Contains(out, " Resources") && (!running || r.unaccounted() > 0) || strings.Contains(out, launchFailed) && !running {
			still++
		} else {
			still = 0
		}
		if still == 60 && len(r.Faults)+len(r.Weather) > 0 {
			err = r.repair(ctx, left)
			still = 0
		}
		if err != nil {
			return false, nil
		}
		r.bringForward(ctx, out)
		if empty++; out != "" {
			empty = 0
		}
		return empty >= 10 && r.quiet(), nil
	})
	if err != nil {
		return fmt.Errorf("%w; left:\n%s", err, left)
	}
	return nil
}

// bringForward lets jobs whose node failed start now: Slurm would have them wait for two minutes.
func (r *chaosRun) bringForward(ctx context.Context, queue string) {
	if len(r.Weather) == 0 || !strings.Contains(queue, " PENDING BeginTime") {
		return
	}
	out, err := r.lab.Run(ctx, "squeue", "--noheader", "--states=PENDING", "--format=%i %r %S")
	if err != nil {
		return // the next look comes in a second
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 3 && f[1] == "BeginTime" && time.Until(chaos.Instant(f[2])) > 20*time.Second {
			_, _ = r.lab.Run(ctx, "scontrol", "update", "JobId="+f[0], "StartTime=now") // it may have started
		}
	}
}

// launchFailed is why Slurm holds a job that slurmctld was starting as it was killed.
const launchFailed = "launch failed requeued held"

// repair does what an operator does after slurmctld was killed. 22.05.8 then counts GPUs of
// jobs that have ended as in use ("gres count underflow" in its log), until it is told to read
// its nodes anew. 24.11.5 drains a node on which a job runs that it has forgotten ("Duplicate
// jobid on nodes"), and holds that job.
func (r *chaosRun) repair(ctx context.Context, left string) error {
	r.Logf("seed %d: jobs wait, and %d GPUs are in use by nobody: scontrol reconfigure", r.Seed, r.unaccounted())
	_, err := r.lab.Run(ctx, "scontrol", "reconfigure")
	drained, errNodes := r.lab.Run(ctx, "sinfo", "--noheader", "--Node", "--states=drained", "--format=%N %E")
	err = errors.Join(err, errNodes)
	for line := range strings.Lines(drained) {
		if node, reason, _ := strings.Cut(strings.TrimSpace(line), " "); reason == "Duplicate jobid" {
			r.Logf("seed %d: node %s is drained: %s", r.Seed, node, reason)
			_, errNode := r.lab.Run(ctx, "scontrol", "update", "NodeName="+node, "State=RESUME")
			err = errors.Join(err, errNode)
		}
	}
	for line := range strings.Lines(left) {
		if id, reason, _ := strings.Cut(strings.TrimSpace(line), " PENDING "); reason == launchFailed {
			r.Logf("seed %d: job %s: %s", r.Seed, id, reason)
			_, errJob := r.lab.Run(ctx, "scontrol", "release", id)
			err = errors.Join(err, errJob)
		}
	}
	return err
}

// unaccounted is how many GPUs the last look shows in use beyond those of running jobs.
func (r *chaosRun) unaccounted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Views) == 0 {
		return 0
	}
	v := &r.Views[len(r.Views)-1]
	return v.Unaccounted(&r.Run)
}

// pending is how many records the last look shows waiting.
func (r *chaosRun) pending() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Views) == 0 {
		return 0
	}
	for _, s := range r.Views[len(r.Views)-1].Queue {
		if s.State == "PENDING" {
			n++
		}
	}
	return n
}

// quiet reports whether priod has no eviction under way: a victim that exits is in no
// queue until it is requeued.
func (r *chaosRun) quiet() bool {
	if r.off {
		return true
	}
	for _, x := range r.evictions() {
		if x.Ended.IsZero() {
			return false
		}
	}
	return true
}

func (r *chaosRun) evictions() []store.Eviction {
	reader, err := store.OpenReader(context.Background(), filepath.Join(r.dir, "state"))
	if err != nil {
		return nil // not yet there
	}
	defer reader.Close()
	all, _ := reader.Evictions(context.Background(), 10000)
	return all
}

// watch looks once a second.
func (r *chaosRun) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if v, err := r.look(ctx); err == nil {
			r.mu.Lock()
			r.Views = append(r.Views, v)
			if !r.off {
				r.remember(r.evictions())
			}
			r.mu.Unlock()
		}
		_ = rest(ctx, time.Second)
	}
}

// remember keeps evictions that a lost database forgets.
func (r *chaosRun) remember(now []store.Eviction) {
	for _, x := range now {
		known := false
		for i, y := range r.Journal {
			if x.Victim == y.Victim && x.Recorded.Equal(y.Recorded) {
				r.Journal[i], known = x, true
			}
		}
		if !known {
			r.Journal = append(r.Journal, x)
		}
	}
}

func (r *chaosRun) look(ctx context.Context) (v chaos.View, err error) {
	out, err := r.lab.Run(ctx, "squeue", "--noheader", "--states=all", lab.Records(), "--Format="+chaos.QueueFormat())
	v.At = time.Now() // a slurmctld that was away answers late, with what is then
	if err != nil {
		return v, err
	}
	if v.Queue, err = chaos.ParseQueue(out); err != nil {
		r.Error(err)
		return v, err
	}
	out, err = r.lab.Run(ctx, "scontrol", "--oneliner", "show", "node")
	v.Nodes = chaos.ParseNodes(out)
	return v, err
}

// read takes what the jobs wrote down and what accounting says.
func (r *chaosRun) read() error {
	for n := range r.Jobs {
		for _, name := range r.Jobs[n].Names() {
			text, _ := os.ReadFile(r.work(name + ".log")) // none: it never ran
			r.Logs[name] = chaos.ParseLog(string(text))
		}
	}
	if v, err := r.look(r.Context()); err != nil {
		return err
	} else {
		r.Views = append(r.Views, v)
	}
	return lab.WaitFor(r.Context(), "accounting to know all ends", func(ctx context.Context) (bool, error) {
		out, err := r.lab.Run(ctx, "sacct", "--duplicates", "--allocations", "--noheader", "--parsable2", "--allusers", "--starttime="+r.Begun.Add(-time.Minute).Format("2006-01-02T15:04:05"), "--format=JobID,Start,End,State")
		if err != nil {
			return false, err
		}
		r.Ran, err = chaos.ParseRuns(out)
		if err != nil {
			return false, err
		}
		for _, all := range r.Ran {
			if s := all[len(all)-1].State; s == "PENDING" || s == "RUNNING" {
				return false, nil // slurmdbd hears of ends late
			}
		}
		return true, nil
	})
}

// chaosPair plays one seed on two labs at a time, with priod and without, and returns
// the two rows of the table.
func chaosPair(t *testing.T, seed uint64, l chaosLength) (rows string) {
	on, off := newChaosRun(t, seed, l, false), newChaosRun(t, seed, l, true)
	var group sync.WaitGroup
	for _, r := range []*chaosRun{on, off} {
		group.Go(func() {
			err := r.play(l.patience)
			if err != nil {
				r.Errorf("seed %d, priod off: %v: %v", seed, r.off, err)
			}
			if err := r.read(); err != nil {
				r.Errorf("seed %d, priod off: %v: %v", seed, r.off, err)
			}
		})
	}
	group.Wait()
	on.alive()
	on.asked()
	if status := on.daemon.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	for _, log := range on.logs {
		on.Words += log.String()
	}
	on.Grown, on.Off = on.grown.Growth(), &off.Run
	if dir := os.Getenv("SLURMPRIO_CHAOS_DIR"); dir != "" {
		on.keep(dir)
	}
	for _, b := range chaos.Breaches(&on.Run) {
		t.Errorf("seed %d: %s", seed, b)
	}
	var faults strings.Builder
	for _, f := range on.Faults {
		fmt.Fprintf(&faults, "\n%s %s", f.At.Format("15:04:05.0"), f.What)
	}
	for _, w := range on.Weather {
		fmt.Fprintf(&faults, "\n%s %s of %s for %s", w.From.Format("15:04:05.0"), w.What, w.Name, w.Lasts)
	}
	t.Logf("seed %d: %d evictions, %d turns of users, %d changes of nodes, %d faults%s", seed, len(on.Journal), len(on.Done), len(on.Weather), len(on.Faults), &faults)
	for _, r := range []*chaosRun{on, off} {
		rows += fmt.Sprintf("| %d | %s | %s |\n", seed, map[bool]string{false: "everything on", true: "priod off"}[r.off], r.Figures())
	}
	t.Log("\n" + chaos.FiguresHead + rows)
	return rows
}

// keep saves what a person wants to look at later.
func (r *chaosRun) keep(dir string) {
	to := filepath.Join(dir, fmt.Sprint("seed-", r.Seed))
	err := errors.Join(os.CopyFS(filepath.Join(to, "priod"), os.DirFS(r.dir)), os.CopyFS(filepath.Join(to, "work"), os.DirFS(r.work(""))),
		os.CopyFS(filepath.Join(to, "slurm"), os.DirFS(filepath.Join(r.lab.Dir, "log"))), os.WriteFile(filepath.Join(to, "priod.log"), []byte(r.Words), 0o644))
	for name, seen := range map[string]*chaos.Run{"on.json": &r.Run, "off.json": r.Off} {
		text, failed := json.Marshal(seen)
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(to, name), text, 0o644))
	}
	if err != nil {
		r.Log(err)
	}
}

// Everything on at once, with a few faults: see package chaos. A seed is a run's name.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	seed := uint64(146) // no long chain of tasks, some TE jobs when all GPUs are busy
	if os.Getenv(seedEnv) != "" {
		seed = seedOf(t)
	}
	chaosPair(t, seed, chaosLength{
		Size:  chaos.Size{Length: 20 * time.Second, Jobs: 30, Pieces: 7, Types: []string{"a100", "v100"}},
		nodes: []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 4}, {Count: 2, GPUType: "v100", GPUs: 4}}, patience: 15 * time.Minute, budget: 3 * time.Minute, commands: 2, weather: 6,
	})
}

// seeds are those of a long test: SLURMPRIO_SEEDS, or three.
func seeds(t *testing.T) (all []uint64) {
	t.Helper()
	for text := range strings.SplitSeq(cmp.Or(os.Getenv("SLURMPRIO_SEEDS"), "1,2,3"), ",") {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SLURMPRIO_SEEDS: %q: want numbers, such as 1,2,3", text)
		}
		all = append(all, seed)
	}
	return all
}

// The same for ten minutes each, odd seeds with faults, each third with weather: SLURMPRIO_SEEDS=1,2,3.
// SLURMPRIO_CHAOS=4m makes them shorter, with as many jobs a minute.
func TestChaosLong(t *testing.T) {
	longOnly(t)
	t.Parallel()
	length, err := time.ParseDuration(cmp.Or(os.Getenv("SLURMPRIO_CHAOS"), "10m"))
	if err != nil || length < time.Minute {
		t.Fatalf("SLURMPRIO_CHAOS=%q: want a minute or more, such as 4m", os.Getenv("SLURMPRIO_CHAOS"))
	}
	minutes := length.Minutes()
	table := ""
	for _, seed := range seeds(t) {
		l := chaosLength{
			Size:  chaos.Size{Length: length, Jobs: int(22 * minutes), Pieces: 18, Types: []string{"a100", "v100", "t4"}},
			nodes: []lab.NodeSpec{{Count: 2, GPUType: "a100", GPUs: 4}, {Count: 2, GPUType: "v100", GPUs: 4}, {Count: 2, GPUType: "t4", GPUs: 4}}, patience: 15 * time.Minute, budget: time.Minute,
		}
		if seed%3 == 0 {
			l.weather = int(2 * minutes)
		}
		if seed%2 == 1 {
			l.commands, l.harms = int(4*minutes), int(1.5*minutes)
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { table += chaosPair(t, seed, l) })
	}
	t.Log("\n" + chaos.FiguresHead + table)
}
