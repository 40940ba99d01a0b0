package rounds_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/rounds"
)

// The trace artifact_evaluation of the published scheduler (stanford-
// futuredata/gavel), all submitted at 0, with its speeds on the physical
// cluster, and the completion times that its FIFO with perfect knowledge gives
// on 2 V100 and 4 K80.
var artifact = []struct {
	gpus             int
	steps, v100, k80 float64
	jct              float64
}{
	{1, 2931, 4.525762041224065, 0.7458616001066279, 647.6732},
	{2, 11005, 14.153819944879553, 7.047480389257892, 1139.018},
	{1, 36030, 22.37157036353171, 1.9043012927106093, 3586.7408},
	{1, 12452, 22.24682308518159, 3.9642048992776715, 2926.4167},
	{1, 5345, 5.642201972497628, 1.0286729325855941, 5068.91},
	{1, 73486, 81.65163491883021, 24.737547489916363, 3690.5996},
	{1, 13018, 11.949277372202666, 0.9407005064508588, 5959.4406},
	{1, 42226, 24.093231895382736, 7.23126031032182, 7655.6186},
	{1, 38802, 24.093231895382736, 7.23126031032182, 8161.7542},
	{2, 15975, 100.14206200421837, 8.758230831811566, 6864.039},
	{1, 7750, 5.642201972497628, 1.0286729325855941, 10339.4043},
	{2, 15044, 91.59265730806288, 16.069669774246478, 8135.6291},
	{1, 14150, 11.06408721300405, 5.545041265731713, 9555.782},
	{1, 7626, 4.735589112139888, 0.546895777657124, 12880.2794},
	{1, 8857, 7.479619707470718, 3.5357143756878346, 11682.0308},
}

// fastestFIFO gives whole types in order of submission, as the published
// policy does: the fastest with room, and nothing behind the first job that
// has none.
func fastestFIFO(_ float64, jobs []*rounds.Active, types []rounds.Type, x []float64) error {
	free := make([]int, len(types))
	for j, t := range types {
		free[j] = t.GPUs
	}
	for i, a := range jobs {
		best := -1
		for j := range types {
			if free[j] >= a.Job.GPUs && (best < 0 || a.Speed[j] > a.Speed[best]) {
				best = j
			}
		}
		if best < 0 {
			return nil
		}
		free[best] -= a.Job.GPUs
		x[i*len(types)+best] = 1
	}
	return nil
}

func TestPublishedArithmetic(t *testing.T) {
	var jobs []trace.Job
	for i, a := range artifact {
		jobs = append(jobs, trace.Job{ID: strconv.Itoa(i), Steps: a.steps, GPUs: a.gpus})
	}
	result := run(t, gpus(2, 0, 4), jobs, rounds.Options{
		Model: rounds.Gavel{Allocator: fastestFIFO, Published: &rounds.Published{Strict: true}},
		Speed: func(j *trace.Job, gpu string) float64 {
			i, err := strconv.Atoi(j.ID)
			if err != nil {
				t.Fatal(err)
			}
			if gpu == "v100" {
				return artifact[i].v100
			}
			return artifact[i].k80
		},
	})
	for i, a := range artifact {
		if got := result.Outcomes[i].End; math.Abs(got-a.jct) > 1e-3 {
			t.Errorf("job %d: JCT %v, want %v", i, got, a.jct)
		}
	}
}

// Jobs of Synergy's static deployment trace that start at once, with their
// completion times in the published simulator (msr-fiddle/synergy).
func TestSynergyArithmetic(t *testing.T) {
	var jobs []trace.Job
	figures := []struct {
		model              string
		submit, steps, jct float64
	}{
		{"alexnet", 0.0, 3349, 2101.0},
		{"gnmt", 0.001, 26435, 3300.999},
		{"deepspeech", 0.002, 11905, 9300.998},
		{"res18", 0.003, 30857, 19800.997},
		{"res50", 0.004, 2605, 2100.996},
		{"transformer", 0.005, 9066, 6300.995},
		{"mobilenet", 0.006, 4224, 3300.994},
		{"shufflenet", 0.007, 10819, 6900.993},
		{"lstm", 0.008, 669922, 7500.992},
		{"alexnet", 0.009, 31717, 19200.991},
	}
	for i, f := range figures {
		jobs = append(jobs, trace.Job{ID: strconv.Itoa(i), Workload: f.model, Submit: f.submit, Steps: f.steps, GPUs: 1})
	}
	result := run(t, synergyServers(4), jobs, rounds.Options{Model: rounds.Synergy{FirstRound: 1}, Speed: iterations})
	for i, f := range figures {
		if got := result.Outcomes[i].End - f.submit; math.Abs(got-f.jct) > 1e-6 {
			t.Errorf("job %d: JCT %v, want %v", i, got, f.jct)
		}
	}
}

// One GPU, two jobs: by hand.
func TestOrders(t *testing.T) {
	one := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "a", GPUs: 1, CPUs: 8, MemMB: 1000}}}
	jobs := []trace.Job{
		{ID: "long", GPUs: 1, Duration: 900},
		{ID: "short", GPUs: 1, Duration: 300, Submit: 10},
	}
	unit := func(*trace.Job, string) float64 { return 1 }
	for _, c := range []struct {
		order       rounds.Order
		model       rounds.Model
		long, short float64
	}{
		{rounds.FIFO, rounds.Gavel{}, 900, 1200},
		{rounds.SJF, rounds.Gavel{}, 1200, 600},
		{rounds.SRTF, rounds.Gavel{}, 1200, 600},
		{rounds.LAS, rounds.Gavel{}, 1200, 600},
		{rounds.FTF, rounds.Gavel{}, 1200, 600},
		{rounds.FIFO, rounds.Synergy{}, 900, 1200},
		{rounds.SRTF, rounds.Synergy{}, 1200, 600},
		{rounds.FTF, rounds.Synergy{}, 1200, 600},
		{rounds.FTF, rounds.Synergy{Published: true}, 900, 1200},
	} {
		result := run(t, one, jobs, rounds.Options{Model: c.model, Round: 300, Order: c.order, Speed: unit})
		if got := [2]float64{result.Outcomes[0].End, result.Outcomes[1].End}; got != [2]float64{c.long, c.short} {
			t.Errorf("%v %T: ends %v, want %v and %v", c.order, c.model, got, c.long, c.short)
		}
	}
}

// A job that ran and then waits has been preempted once; its work is not lost.
func TestOutcome(t *testing.T) {
	one := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "a", GPUs: 1}}}
	jobs := []trace.Job{{ID: "1", GPUs: 1, Duration: 500}, {ID: "2", GPUs: 1, Duration: 150, Submit: 100}}
	result := run(t, one, jobs, rounds.Options{
		Model: rounds.Gavel{}, Round: 300, Order: rounds.SRTF, Speed: func(*trace.Job, string) float64 { return 1 },
	})
	want := []metrics.Outcome{
		{Start: 0, End: 650, Ran: 500, Preemptions: 1, Done: true},
		{Start: 300, End: 450, Ran: 150, Done: true},
	}
	if !reflect.DeepEqual(result.Outcomes, want) || result.End != 650 || result.Rounds != 3 {
		t.Errorf("%+v", result)
	}
}

// The window's jobs end the run, though others still come.
func TestWindow(t *testing.T) {
	endless := func(yield func(trace.Job, error) bool) {
		for i := 0; yield(trace.Job{ID: strconv.Itoa(i), GPUs: 1, Duration: 1000, Submit: float64(i) * 2000}, nil); i++ {
		}
	}
	for _, model := range []rounds.Model{rounds.Gavel{}, rounds.Gavel{Allocator: rounds.Proportional()}, rounds.Synergy{}} {
		result, err := rounds.Run(context.Background(), gpus(1, 0, 0), endless, rounds.Options{
			Model: model, Speed: func(*trace.Job, string) float64 { return 1 }, Window: &metrics.Window{First: 5, Last: 7},
		})
		if err != nil || !result.Outcomes[7].Done || len(result.Outcomes) > 9 {
			t.Errorf("%T: %d jobs, %v", model, len(result.Outcomes), err)
		}
	}
}

func TestBadInput(t *testing.T) {
	good := trace.Job{ID: "good", GPUs: 1, Duration: 10}
	broken := errors.New("line 7")
	for name, c := range map[string]struct {
		change func(*trace.Job)
		opt    func(*rounds.Options)
		want   string
		stuck  bool
	}{
		"too large":      {change: func(j *trace.Job) { j.GPUs = 5 }, want: "stuck: these jobs can never run because no GPU type is both large enough and fast enough for them: bad", stuck: true},
		"no speed":       {opt: func(o *rounds.Options) { o.Speed = func(*trace.Job, string) float64 { return 0 } }, want: "good, bad", stuck: true},
		"no GPUs":        {change: func(j *trace.Job) { j.GPUs = 0 }, want: "job bad: 0 GPUs"},
		"no work":        {change: func(j *trace.Job) { j.Duration = 0 }, want: "job bad: no work"},
		"negative work":  {change: func(j *trace.Job) { j.Duration = -1 }, want: "job bad: no work"},
		"negative time":  {change: func(j *trace.Job) { j.Submit = -1 }, want: "job bad: submitted at -1"},
		"NaN time":       {change: func(j *trace.Job) { j.Submit = math.NaN() }, want: "job bad: submitted at NaN"},
		"NaN speed":      {opt: func(o *rounds.Options) { o.Speed = func(*trace.Job, string) float64 { return math.NaN() } }, want: "job good: speed NaN on v100"},
		"NaN round":      {opt: func(o *rounds.Options) { o.Round = math.NaN() }, want: "round of NaN s"},
		"window":         {opt: func(o *rounds.Options) { o.Window = &metrics.Window{First: 3, Last: 2} }, want: "window 3:2"},
		"bad allocation": {opt: func(o *rounds.Options) { o.Model = rounds.Gavel{Allocator: nan} }, want: "job good: the policy allocates NaN"},
		"broken policy":  {opt: func(o *rounds.Options) { o.Model = rounds.Gavel{Allocator: failing} }, want: "no optimum"},
		"nothing allocated": {
			opt: func(o *rounds.Options) {
				o.Model = rounds.Gavel{Allocator: nothing, Published: &rounds.Published{Strict: true}}
			},
			want: "stuck: these jobs can never run because the policy", stuck: true,
		},
		"round too short": {
			opt:  func(o *rounds.Options) { o.Model, o.Round = rounds.Synergy{}, 0.5 },
			want: "no GPU type", stuck: true,
		},
		"published round too short": {
			opt: func(o *rounds.Options) {
				o.Model, o.Round = rounds.Gavel{Allocator: rounds.Isolated(), Published: &rounds.Published{}}, 0.5
			},
			want: "no GPU type", stuck: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			bad.ID = "bad"
			if c.change != nil {
				c.change(&bad)
			}
			opt := rounds.Options{Model: rounds.Gavel{}, Speed: func(*trace.Job, string) float64 { return 1 }}
			if c.opt != nil {
				c.opt(&opt)
			}
			_, err := rounds.Run(context.Background(), gpus(4, 0, 0), trace.Each([]trace.Job{good, bad}), opt)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, rounds.ErrStuck) != c.stuck {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	opt := rounds.Options{Model: rounds.Gavel{}, Speed: func(*trace.Job, string) float64 { return 1 }}
	late := good
	late.Submit = 10
	if _, err := rounds.Run(context.Background(), gpus(4, 0, 0), trace.Each([]trace.Job{late, good}), opt); err == nil || !strings.Contains(err.Error(), "in order") {
		t.Error("unsorted:", err)
	}
	if _, err := rounds.Run(context.Background(), gpus(4, 0, 0), trace.Each(nil), opt); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Error("empty:", err)
	}
	if _, err := rounds.Run(context.Background(), gpus(0, 0, 0), trace.Each([]trace.Job{good}), opt); err == nil || !strings.Contains(err.Error(), "no GPUs") {
		t.Error("no GPUs:", err)
	}
	failed := func(yield func(trace.Job, error) bool) { _ = yield(good, nil) && yield(trace.Job{}, broken) }
	if _, err := rounds.Run(context.Background(), gpus(4, 0, 0), failed, opt); !errors.Is(err, broken) {
		t.Error("reader:", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := rounds.Run(ctx, gpus(4, 0, 0), trace.Each([]trace.Job{good}), opt); !errors.Is(err, context.Canceled) {
		t.Error("cancelled:", err)
	}
}

func nan(_ float64, _ []*rounds.Active, _ []rounds.Type, x []float64) error {
	x[0] = math.NaN()
	return nil
}

func failing(float64, []*rounds.Active, []rounds.Type, []float64) error {
	return errors.New("no optimum")
}

func nothing(float64, []*rounds.Active, []rounds.Type, []float64) error { return nil }

type instance struct {
	cluster trace.Cluster
	jobs    []trace.Job
	speed   func(*trace.Job, string) float64
}

func drawInstance(t *rapid.T) instance {
	var c trace.Cluster
	names := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "types")]
	for _, name := range names {
		c.Nodes = append(c.Nodes, trace.NodeGroup{
			Count: rapid.IntRange(1, 3).Draw(t, "nodes"), GPUType: name, GPUs: rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus"), CPUs: 8, MemMB: 1000,
		})
	}
	largest := 0
	for _, name := range names {
		largest = max(largest, c.GPUs(name))
	}
	in := instance{cluster: c}
	table := map[string]float64{}
	now := 0.0
	for i := range rapid.IntRange(1, 20).Draw(t, "jobs") {
		now += rapid.SampledFrom([]float64{0, 0, 7, 360, 5000}).Draw(t, "gap")
		id := strconv.Itoa(i)
		j := trace.Job{
			ID: id, Submit: now, GPUs: min(largest, rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "gang")),
			Steps: rapid.Float64Range(1, 5000).Draw(t, "steps"),
		}
		in.jobs = append(in.jobs, j)
		able := false
		for _, name := range names {
			s := rapid.SampledFrom([]float64{0, 0.5, 1, 3.3}).Draw(t, "speed")
			able = able || s > 0 && c.GPUs(name) >= j.GPUs
			table[id+name] = s
		}
		for _, name := range names {
			if !able && c.GPUs(name) == largest {
				table[id+name] = 1
			}
		}
	}
	in.speed = func(j *trace.Job, gpu string) float64 { return table[j.ID+gpu] }
	return in
}

// In every round: no type over its GPUs, each job once, gangs whole, nobody
// waits for whom GPUs are free, or runs where it is slower unless the policy knows
// no speeds; and each job's work is done exactly.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInstance(t)
		models := map[string]rounds.Model{
			"orders": rounds.Gavel{}, "isolated": rounds.Gavel{Allocator: rounds.Isolated(), Agnostic: true},
			"proportional": rounds.Gavel{Allocator: rounds.Proportional()}, "strict": rounds.Gavel{Allocator: fastestFIFO},
			"published": rounds.Gavel{Allocator: rounds.Isolated(), Published: &rounds.Published{}}, "synergy": rounds.Synergy{},
		}
		name := rapid.SampledFrom([]string{"orders", "isolated", "proportional", "strict", "published", "synergy"}).Draw(t, "model")
		order := rapid.SampledFrom([]rounds.Order{rounds.FIFO, rounds.SJF, rounds.SRTF, rounds.LAS, rounds.FTF}).Draw(t, "order")
		knows := name == "orders" || name == "proportional" || name == "strict"
		ended := make([]bool, len(in.jobs))
		did := make([]float64, len(in.jobs))
		types := in.cluster.Types()
		opt := rounds.Options{Model: models[name], Order: order, Speed: in.speed}
		opt.Watch = func(r rounds.Round) {
			free := map[string]int{}
			for _, n := range types {
				free[n] = in.cluster.GPUs(n)
			}
			ran := make([]bool, len(in.jobs))
			held := map[string]bool{}
			for _, a := range r.Runs {
				i, gpu := a.Job.Index, types[a.Type]
				if ran[i] || ended[i] || in.jobs[i].Submit > r.Start {
					t.Fatalf("job %d runs twice, after its end or before its submission", i)
				}
				ran[i] = true
				free[gpu] -= in.jobs[i].GPUs
				if name != "synergy" {
					if len(a.GPUs) != in.jobs[i].GPUs {
						t.Fatalf("job %d of %d GPUs has %d", i, in.jobs[i].GPUs, len(a.GPUs))
					}
					for _, g := range a.GPUs {
						key := gpu + strconv.Itoa(int(g))
						if held[key] || int(g) >= in.cluster.GPUs(gpu) {
							t.Fatalf("GPU %s held twice or not there", key)
						}
						held[key] = true
					}
				}
				speed := in.speed(&in.jobs[i], gpu)
				if a.Job.Left() <= 0 {
					ended[i] = true
				}
				switch {
				case name == "synergy" || name == "published":
					did[i] += math.Floor(speed * (r.End - r.Start))
				case ended[i]:
					did[i] = a.Job.Total() // its end is checked below
				default:
					did[i] += speed * (r.End - r.Start)
				}
				if math.Abs(did[i]-a.Job.Done) > 1e-6 && !ended[i] && name != "published" {
					t.Fatalf("job %d did %v, says %v", i, did[i], a.Job.Done)
				}
			}
			for n, left := range free {
				if left < 0 {
					t.Fatalf("type %s: %d GPUs too many", n, -left)
				}
			}
			for _, a := range r.Runs {
				for n, left := range free {
					if j := &a.Job.Job; knows && left >= j.GPUs && in.speed(j, n) > in.speed(j, types[a.Type]) {
						t.Fatalf("%d GPUs of %s idle while job %d runs on %s", left, n, a.Job.Index, types[a.Type])
					}
				}
			}
			for i, j := range in.jobs {
				if name == "published" || ran[i] || ended[i] || j.Submit > r.Start {
					continue
				}
				for n, left := range free {
					if left >= j.GPUs && in.speed(&j, n) > 0 {
						t.Fatalf("%d GPUs of %s idle while job %d waits", left, n, i)
					}
				}
			}
		}
		result, err := rounds.Run(context.Background(), in.cluster, trace.Each(in.jobs), opt)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range result.Outcomes {
			fastest, slowest := 0.0, math.Inf(1)
			for _, n := range types {
				if s := in.speed(&in.jobs[i], n); s > 0 {
					fastest, slowest = max(fastest, s), min(slowest, s)
				}
			}
			if !o.Done || o.Start < in.jobs[i].Submit || o.End < o.Start+o.Ran-1e-6 {
				t.Fatalf("job %d: %+v", i, o)
			}
			least, most := in.jobs[i].Steps/fastest, in.jobs[i].Steps/slowest
			if name == "synergy" { // whole units, whole rounds
				least, most = least-1, most/0.9+600
			}
			if o.Ran < least-1e-6 || o.Ran > most+1e-6 {
				t.Fatalf("job %d: ran %v s for %v steps at %v to %v steps/s", i, o.Ran, in.jobs[i].Steps, slowest, fastest)
			}
		}
		again, err := rounds.Run(context.Background(), in.cluster, trace.Each(in.jobs), rounds.Options{Model: models[name], Order: order, Speed: in.speed})
		if err != nil || !reflect.DeepEqual(again, result) {
			t.Fatal("two runs differ", err)
		}
	})
}

// Nothing may hold up the job that ends last: with three GPUs, a long job that
// is to have one all the time, and four small ones that share the others, the
// long job never waits. Where the mean counts, small jobs pass it.
func TestMakespanDelaysNoJob(t *testing.T) {
	jobs := []trace.Job{{ID: "long", GPUs: 1, Duration: 100 * 3600}}
	for i := range 4 {
		jobs = append(jobs, trace.Job{ID: strconv.Itoa(i), GPUs: 1, Duration: 3600})
	}
	share := func(_ float64, jobs []*rounds.Active, _ []rounds.Type, x []float64) error {
		for i, a := range jobs {
			if x[i] = min(1, 2/float64(len(jobs)-1)); a.Job.ID == "long" {
				x[i] = 1
			}
		}
		return nil
	}
	end := func(makespan bool) float64 {
		return run(t, gpus(3, 0, 0), jobs, rounds.Options{
			Model: rounds.Gavel{Allocator: share, Makespan: makespan}, Speed: func(*trace.Job, string) float64 { return 1 },
		}).Outcomes[0].End / 3600
	}
	if got := end(true); got > 100+1e-9 {
		t.Errorf("the long job ends at %v h, want 100", got)
	}
	if got := end(false); got < 100.1 {
		t.Errorf("for the mean the long job ends at %v h, too: this test shows no difference", got)
	}
}

// A job whose work is a number of rounds ends with the last of them, whatever
// their sum is rounded to: to less, so that nothing is left for another one, or,
// with 0.7 steps per second and 4 rounds, to all of it while a hair more than a
// round seemed to be left.
func TestWholeRounds(t *testing.T) {
	one := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 1, GPUType: "a", GPUs: 1}}}
	for _, rounded := range []int{4, 10} {
		for tenths := range 200 {
			speed, seconds := float64(tenths+1)/10, float64(360*rounded)
			result := run(t, one, []trace.Job{{ID: "1", Steps: speed * seconds, GPUs: 1}}, rounds.Options{
				Model: rounds.Gavel{}, Speed: func(*trace.Job, string) float64 { return speed },
			})
			if o := result.Outcomes[0]; !o.Done || math.Abs(o.End-seconds) > 1e-6 || result.Rounds != rounded {
				t.Errorf("speed %v: done %v at %v after %d rounds, want %v after %d", speed, o.Done, o.End, result.Rounds, seconds, rounded)
			}
		}
	}
}
