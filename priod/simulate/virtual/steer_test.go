package virtual

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"slurmprio/priod/allocate"
	"slurmprio/priod/cluster"
	"slurmprio/priod/cycle"
	"slurmprio/priod/evict/yield"
	"slurmprio/priod/order"
	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/steer"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
)

// steeredStarts runs jobs of 100 s on one fast and one slow GPU; steer is asked
// as the options say.
func steeredStarts(t *testing.T, every float64, steer func(*System) error) (starts []float64, types []int32) {
	t.Helper()
	c, err := trace.ParseNodes([]string{"1:fast:1", "1:slow:1"})
	if err != nil {
		t.Fatal(err)
	}
	var jobs []trace.Job
	for _, id := range []string{"a", "b", "c"} {
		jobs = append(jobs, trace.Job{ID: id, Submit: 1, GPUs: 1, Duration: 100})
	}
	r, err := Run(context.Background(), c, func(yield func(trace.Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
	}, Options{Placement: placement.Packed, Backfill: EASY, Steer: steer, SteerEvery: every})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Outcomes {
		starts, types = append(starts, o.Start), append(types, o.Type)
	}
	return starts, types
}

// A bound job waits for its type though another is free, keeps others from
// nothing, and ranks go before turns.
func TestBind(t *testing.T) {
	starts, types := steeredStarts(t, 0, func(s *System) error {
		for w := range s.Waiting() {
			rank := map[string]float64{"a": 2, "b": 1, "c": 3}[w.Job.ID]
			if w.Job.ID == "c" {
				s.Bind(&w, Open, rank)
			} else {
				s.Bind(&w, 0, rank)
			}
			s.Bind(&w, 7, 0) // no such type: refused
		}
		return nil
	})
	if want := []float64{101, 1, 1}; !slices.Equal(starts, want) || !slices.Equal(types, []int32{0, 0, 1}) {
		t.Errorf("starts %v on %v, want %v: b, then a on the first type, c on the other", starts, types, want)
	}
}

// A binding is taken back.
func TestUnbind(t *testing.T) {
	asked := 0
	starts, _ := steeredStarts(t, 10, func(s *System) error {
		asked++
		for w := range s.Waiting() {
			s.Bind(&w, 0, 0)
			if s.Now() >= 110 {
				s.Bind(&w, Open, 0)
			}
		}
		return nil
	})
	// Nobody is steered at 1 s: the first two start at once. The last is bound at
	// 10 s, and the fast GPU takes it at 101 s.
	if want := []float64{1, 1, 101}; !slices.Equal(starts, want) || asked != 1 {
		t.Errorf("starts %v, want %v; asked %d times", starts, want, asked)
	}
}

func TestSteeringFails(t *testing.T) {
	c, _ := trace.ParseNodes([]string{"1:fast:1"})
	broken := errors.New("no prices")
	for _, every := range []float64{0, 10} {
		_, err := Run(context.Background(), c, func(yield func(trace.Job, error) bool) {
			_ = yield(trace.Job{ID: "a", GPUs: 1, Duration: 100}, nil) && yield(trace.Job{ID: "b", GPUs: 1, Duration: 100}, nil)
		}, Options{Steer: func(*System) error { return broken }, SteerEvery: every})
		if !errors.Is(err, broken) {
			t.Errorf("every %v s: %v", every, err)
		}
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
			Order:      order.Feature{Settings: order.Settings{Lever: slurmplug.SiteFactor, Top: 2_000_000_000, Order: order.GavelOrder}},
			Allocation: allocate.Feature{Ledger: &allocate.Ledger{}, Settings: allocate.Settings{Policy: allocate.Policy{Name: "max-min"}, Every: 30 * time.Minute, Table: table}},
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
	for _, policy := range []string{"max-min", "finish-time-fairness", "makespan"} {
		outcomes, cycles := map[bool][]metrics.Outcome{}, map[bool]int{}
		for _, every := range []bool{true, false} {
			opt := steering15s(t)
			opt.RequeueDelay, opt.Evict = 121, eachBurst(30000)
			opt.Daemon.Settings.Order.Settings.Order, opt.Daemon.Settings.Order.Settings.Lead = order.OwedOrder, yield.Defaults.Lead
			opt.Daemon.every, opt.Daemon.Settings.Allocation.Settings.Policy.Name = every, policy
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

// busy is a cluster for waitingJobs, and priod beside it.
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
// and nothing comes out differently: with each feature, and with all of them.
func TestSkippedCyclesWhileJobsWait(t *testing.T) {
	for _, w := range []struct {
		name, toml string
		part       int // one cycle of so many is left out at least
	}{
		{"owed", steering + "[ranking]\norder = \"owed\"\n", 2},
		{"gavel", steering + "[ranking]\norder = \"gavel\"\n", 2},
		{"slurm", steering + "depth = 3\ncycles = 2\n", 2},
		{"busy", steering + "busy = true\nchange = 0.0\n", 2},
		{"preemption", steering + "[ranking]\norder = \"owed\"\n[preemption]\nenabled = true\n", 2},
		{"rounds", steering + "[ranking]\norder = \"owed\"\n[rounds]\nenabled = true\nlength = \"5m\"\n", 3},
		{"all", allOn, 8},
	} {
		for seed := range uint64(2) {
			outcomes, cycles := map[bool][]metrics.Outcome{}, map[bool]int{}
			for _, every := range []bool{true, false} {
				c, opt := busy(t, w.toml)
				opt.MTBF, opt.Repair, opt.Seed, opt.Daemon.every = 400000, 3000, seed, every
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
			if left := cycles[true] - cycles[false]; left < cycles[true]/w.part {
				t.Errorf("%s, seed %d: %d of %d cycles were left out", w.name, seed, left, cycles[true])
			}
			t.Logf("%s, seed %d: %d of %d cycles", w.name, seed, cycles[false], cycles[true])
		}
	}
}
