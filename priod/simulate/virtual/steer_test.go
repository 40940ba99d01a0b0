package virtual

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict"
	"slurmprio/priod/order"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/steer"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
)

// A bound job waits for its type though another is free, and keeps others from nothing; the
// binding is taken back. What the job cannot run on, and what is no type, is refused.
func TestBinding(t *testing.T) {
	c, err := trace.ParseNodes([]string{"1:fast:1", "1:slow:1"})
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t.Context(), c, Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, Daemon: Daemon{Interval: time.Minute}})
	var jobs []*job
	for i, gpuType := range []string{"", "", "", "slow"} {
		j, _, err := e.admit(trace.Job{ID: fmt.Sprint(i), GPUs: 1, Duration: 100, GPUType: gpuType})
		if err != nil {
			t.Fatal(err)
		}
		e.inSystem++
		e.wait(j)
		jobs = append(jobs, j)
	}
	bind := func(j *job, feature string) string {
		return e.slurm.Apply(t.Context(), []plan.Action{{Job: number(j.index), Lever: slurmplug.Features, After: slurmplug.Text(feature)}})[0].Message
	}
	states := func() (all []state) {
		e.schedule()
		for _, j := range jobs {
			all = append(all, j.state)
		}
		return all
	}
	if bind(jobs[1], "fast") != "" || bind(jobs[3], "fast") == "" || bind(jobs[2], "none") == "" || bind(jobs[2], "slow") != "" || bind(jobs[2], "") != "" {
		t.Error("want a type that the job may have, and no other one")
	}
	if got := states(); !slices.Equal(got, []state{running, waiting, running, waiting}) || jobs[2].shares[0].Node != 1 {
		t.Errorf("%v: want the second job to wait for the fast GPU, and the third on the slow one", got)
	}
	e.now = 100
	e.end(jobs[2])
	if got := states(); !slices.Equal(got, []state{running, waiting, gone, running}) {
		t.Errorf("%v: want the last job on the slow GPU", got)
	}
	e.end(jobs[3])
	if bind(jobs[1], "") != "" {
		t.Error("the binding cannot be taken back")
	}
	if got := states(); !slices.Equal(got, []state{running, running, gone, gone}) || bind(jobs[1], "fast") == "" {
		t.Errorf("%v: want the second job on the slow GPU, and bound no more", got)
	}
}

// twoPrograms are one to which the type is all the same and one that is ten times as
// fast on the first.
const twoPrograms = `
[[workload]]
name = "even"
speed.fast = { 1 = 1.0, 2 = 2.0 }
speed.slow = { 1 = 1.0, 2 = 2.0 }
[[workload]]
name = "picky"
speed.fast = { 1 = 1.0, 2 = 2.0 }
speed.slow = { 1 = 0.1, 2 = 0.2 }
`

// steering15s is the daemon's own steering, and the order by shares, every 15 s. The
// fast type's feature has another name.
func steering15s(t *testing.T) Options {
	t.Helper()
	table, err := workload.Parse("programs", twoPrograms)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Order: Priod, Placement: placement.Packed, Backfill: EASY, Speed: func(j *trace.Job, gpuType string) float64 {
			id, _ := table.Lookup(j.Workload)
			s, _ := table.Speed(id, j.GPUs, gpuType)
			return s
		},
		Daemon: Daemon{Interval: 15 * time.Second, Settings: cycle.Settings{
			Order:      order.Feature{Settings: order.Settings{Top: 2_000_000_000, Order: order.OwedOrder}},
			Allocation: allocate.Feature{Ledger: &allocate.Ledger{}, Settings: allocate.Settings{Policy: "max-min", Every: 30 * time.Minute, Table: table}},
			Steering: steer.Feature{
				Settings: steer.Settings{Enabled: true, Rule: steer.Defaults, Features: map[string]string{"fast": "ampere"}},
				Memory:   &steer.Memory{},
			},
		}},
	}
}

// The daemon binds a waiting job to its type, by a feature, in its own cycles: the
// picky one lets a slow GPU pass, on which the one behind it starts.
func TestDaemonSteers(t *testing.T) {
	c, err := trace.ParseNodes([]string{"1:fast:2", "1:slow:2"})
	if err != nil {
		t.Fatal(err)
	}
	var jobs []trace.Job
	for i, j := range []trace.Job{{Workload: "even", Steps: 260}, {Workload: "even", Steps: 200}, {Workload: "picky", Steps: 200}, {Workload: "even", Steps: 200}} {
		j.ID, j.GPUs, j.User, j.Account, j.Submit, j.Limit = fmt.Sprint(i), 2, "ann", "x", float64(i), 7200
		jobs = append(jobs, j)
	}
	for _, w := range []struct {
		steers bool
		starts []float64
		types  []int32
	}{
		{true, []float64{0, 1, 130, 101}, []int32{0, 1, 0, 1}},
		{false, []float64{0, 1, 101, 130}, []int32{0, 1, 1, 0}},
	} {
		opt := steering15s(t)
		opt.Daemon.Settings.Order.Settings.Order = order.SlurmOrder
		if !w.steers {
			opt.Daemon.Settings.Steering = steer.Feature{}
		}
		var starts []float64
		var types []int32
		for _, o := range run(t, c, jobs, opt).Outcomes {
			starts, types = append(starts, o.Start), append(types, o.Type)
		}
		if !slices.Equal(starts, w.starts) || !slices.Equal(types, w.types) {
			t.Errorf("steers %v: starts %v on %v, want %v on %v", w.steers, starts, types, w.starts, w.types)
		}
	}
}

// eachBurst evicts whoever runs at the third pass of each span of time, s: they wait
// again with what they have had.
func eachBurst(length float64) func(*System) []Eviction {
	passes := map[int]int{}
	return func(s *System) (told []Eviction) {
		at := int(s.Now() / length)
		if passes[at]++; passes[at] != 3 {
			return nil
		}
		for r := range s.Running() {
			told = append(told, Eviction{Job: r.Index, Restore: true})
		}
		return told
	}
}

// Cycles in which nobody waits and nothing has changed are left out, and nothing comes
// out differently, for allocations that depend on when they are made, too.
func TestSkippedCyclesChangeNothing(t *testing.T) {
	c, err := trace.ParseNodes([]string{"2:fast:2", "2:slow:2"})
	if err != nil {
		t.Fatal(err)
	}
	var jobs []trace.Job
	for i := range 60 { // bursts, and hours in which nobody waits
		jobs = append(jobs, trace.Job{
			ID: fmt.Sprint(i), GPUs: 1 + i%3/2, Workload: []string{"even", "picky"}[i%2], Steps: float64(700 * (1 + i*i%13) * (1 + i%15/14*4)),
			User: "ann", Account: fmt.Sprint(i % 2), Submit: float64(i/15*30000 + i%15*70), Ckpt: 60,
		})
	}
	for _, policy := range []allocate.Policy{"max-min", "finish-time-fairness", "makespan"} {
		outcomes, cycles := map[bool][]metrics.Outcome{}, map[bool]int{}
		for _, every := range []bool{true, false} {
			opt := steering15s(t)
			opt.RequeueDelay, opt.Evict = 121, eachBurst(30000)
			opt.Daemon.Settings.Order.Settings.Order, opt.Daemon.Settings.Order.Settings.Lead = order.OwedOrder, evict.Constants.Rounds.Lead
			opt.Daemon.Every, opt.Daemon.Settings.Allocation.Settings.Policy = every, policy
			opt.Daemon.Settings.Allocation.Settings.Every = 2 * time.Minute
			opt.Daemon.Settings.Stage = func(stage string) {
				if stage == "observe" {
					cycles[every]++
				}
			}
			outcomes[every] = run(t, c, jobs, opt).Outcomes
		}
		if !slices.Equal(outcomes[true], outcomes[false]) {
			t.Errorf("%s: another outcome:\n%+v\n%+v", policy, outcomes[true], outcomes[false])
		}
		if cycles[false] > cycles[true]/2 {
			t.Errorf("%s: %d of %d cycles were run", policy, cycles[false], cycles[true])
		}
	}
}

// While nobody waits the daemon still allocates when it is due, and does nothing else.
func TestSkippedCyclesAllocate(t *testing.T) {
	c, err := trace.ParseNodes([]string{"1:fast:1"})
	if err != nil {
		t.Fatal(err)
	}
	opt, at := steering15s(t), 0
	opt.Daemon.Settings.Stage = func(stage string) {
		if stage == "observe" {
			at++
		}
	}
	run(t, c, []trace.Job{{ID: "long", GPUs: 1, Workload: "even", Steps: 36000, User: "ann"}}, opt)
	if at < 20 || at > 24 {
		t.Errorf("%d cycles within ten hours, want one for each half hour, the first, and the last", at)
	}
}

// waitingJobs are of both programs, TE and BE, so many that some always wait.
func waitingJobs(seed uint64, n int) (jobs []trace.Job) {
	rnd := rand.New(rand.NewPCG(seed, 5))
	at := 0.0
	for i := range n {
		j := trace.Job{
			ID: fmt.Sprint(i), GPUs: 1 << rnd.IntN(3) / 2, Workload: []string{"even", "picky"}[rnd.IntN(2)], Steps: 180 * math.Exp(4*rnd.Float64()),
			User: fmt.Sprint("u", rnd.IntN(5)), Account: fmt.Sprint(rnd.IntN(2)), Submit: at, Grace: 30,
		}
		j.GPUs = max(j.GPUs, 1)
		if j.Steps = math.Ceil(j.Steps); rnd.IntN(4) == 0 {
			j.Limit = j.Steps * 12
		}
		if rnd.IntN(5) == 0 {
			j.Class, j.Steps = cluster.TE, 100
		}
		jobs = append(jobs, j)
		at += math.Floor(rnd.ExpFloat64() * 200)
	}
	return jobs
}

// busy is a cluster for waitingJobs, and priod alongside it.
func busy(t testing.TB, toml string) (trace.Cluster, Options) {
	t.Helper()
	table, err := workload.Parse("programs", twoPrograms)
	if err != nil {
		t.Fatal(err)
	}
	c, err := trace.ParseNodes([]string{"3:fast:2:16:64000", "3:slow:2:16:64000"})
	if err != nil {
		t.Fatal(err)
	}
	return c, Options{
		Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Hold: 20, Daemon: daemonOf(t, toml, table),
		Speed: func(j *trace.Job, gpuType string) float64 {
			id, _ := table.Lookup(j.Workload)
			s, _ := table.Speed(id, j.GPUs, gpuType)
			return s
		},
	}
}

const (
	steering = "[cycle]\ninterval = \"15s\"\n[allocation]\npolicy = \"max-min\"\n[steering]\nenabled = true\n"
	allOn    = steering + "[ranking]\norder = \"owed\"\n[preemption]\nenabled = true\n[rounds]\nenabled = true\n[sizing]\nenabled = true\n"
)

// Cycles are left out for as long as steering and the order stand, also while jobs wait,
// and nothing comes out differently: with each feature, and with all of them. That is two of
// three at least.
func TestSkippedCyclesWhileJobsWait(t *testing.T) {
	for _, w := range []struct {
		name, toml string
		longer     float64 // jobs take so many times as long as their steps say; 0: as long
	}{
		{"owed", steering + "[ranking]\norder = \"owed\"\n", 0},
		{"slurm", steering + "depth = 3\nmax_passed_cycles = 2\n", 0},
		{"no threshold", steering + "switch_threshold = 0.0\n", 0},
		{"preemption", steering + "[ranking]\norder = \"owed\"\n[preemption]\nenabled = true\n", 0},
		{"rounds", steering + "[ranking]\norder = \"owed\"\n[rounds]\nenabled = true\nlength = \"5m\"\n", 0},
		{"all", allOn, 0},
		{"all, jobs run on", allOn, 3},
	} {
		for seed := range uint64(2) {
			outcomes, cycles := map[bool][]metrics.Outcome{}, map[bool]int{}
			for _, every := range []bool{true, false} {
				c, opt := busy(t, w.toml)
				if speed := opt.Speed; w.longer > 0 {
					opt.Speed = func(j *trace.Job, gpuType string) float64 { return speed(j, gpuType) / w.longer }
				}
				opt.MTBF, opt.Repair, opt.Seed, opt.Daemon.Every = 400000, 3000, seed, every
				opt.Daemon.Settings.Stage = func(stage string) {
					if stage == "observe" {
						cycles[every]++
					}
				}
				outcomes[every] = run(t, c, waitingJobs(seed, 80), opt).Outcomes
			}
			if !slices.Equal(outcomes[true], outcomes[false]) {
				t.Errorf("%s, seed %d: another outcome", w.name, seed)
			}
			if left := cycles[true] - cycles[false]; 3*left < 2*cycles[true] {
				t.Errorf("%s, seed %d: %d of %d cycles were left out", w.name, seed, left, cycles[true])
			}
			t.Logf("%s, seed %d: %d of %d cycles", w.name, seed, cycles[false], cycles[true])
		}
	}
}
