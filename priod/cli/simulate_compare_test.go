package cli

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/config"
	"slurmprio/priod/simulate"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// By hand: a TE job comes while a BE job holds all GPUs. In truth it started 10 s after the
// other had ended. With priod the other leaves after its grace of 30 s, keeps the 203 s that
// it had run, and goes on when the TE job is done.
const comparedTrace = "job_id,submit_s,gpus,duration_s,type,user,account,grace_s,start_s,end_s\n" +
	"be,0,2,1000,be,<b>ann</b>,ml,30,0,1000\nte,203,2,60,te,bob,bio,,1010,1070\n"

func comparing(t *testing.T, jobs string, more ...string) []string {
	t.Helper()
	return append([]string{"--config", write(t, "priod.toml", "[preemption]\nenabled = true\n"), "simulate", "--trace", write(t, "jobs.csv", jobs),
		"--nodes", "1:a100:2", "--compare"}, more...)
}

func TestCompareSaysWhatDiffers(t *testing.T) {
	status, out, errs := run(comparing(t, comparedTrace)...)
	if status != exitDone || errs != "" {
		t.Fatal(status, errs)
	}
	const want = `
FIGURE                     AS IT HAPPENED                      SLURM, SIMULATED                    WITH PRIOD
jobs                       2                                   2                                   2
JCT mean, p50, p95, p99    933.5 s, 933.5 s, 993.4 s, 998.7 s  928.5 s, 928.5 s, 992.9 s, 998.6 s  590.0 s, 590.0 s, 1040.0 s, 1080.0 s
wait mean, p90, p95, max   403.5 s, 726.3 s, 766.6 s, 807.0 s  398.5 s, 717.3 s, 757.1 s, 797.0 s  45.0 s, 57.0 s, 58.5 s, 60.0 s
TE wait p50, p95           807.0 s, 807.0 s                    797.0 s, 797.0 s                    30.0 s, 30.0 s
makespan                   1070.0 s                            1060.0 s                            1090.0 s
GPUs in use                99.1 %                              100.0 %                             100.0 %
preemptions                not known                           0                                   1
GPU-hours wasted           not known                           0.0                                 0.0
TE slowdown p50, p95, p99  14.45, 14.45, 14.45                 14.28, 14.28, 14.28                 1.50, 1.50, 1.50
BE slowdown p50, p95, p99  1.00, 1.00, 1.00                    1.00, 1.00, 1.00                    1.06, 1.06, 1.06

Mean completion of jobs with priod: 5m39s sooner (too few jobs for an interval); 1 sooner, 1 later, 0 the same.
Mean wait: 5m54s shorter (too few jobs for an interval); 1 wait less, 1 more, 0 the same.
Simulated Slurm against reality: mean wait 5s shorter (too few jobs for an interval); a job's wait is off by 5s on average, and by 5s or less for half of the jobs.
priod changes the mean wait by 5m54s; the simulation is off by 5s.

Users who gain:
user  jobs  mean JCT  with priod  change
bob      1  14m17s    1m30s       -12m47s

Users who lose:
user        jobs  mean JCT  with priod  change
<b>ann</b>     1  16m40s    18m10s      +1m30s

Accounts who gain:
account  jobs  mean JCT  with priod  change
bio         1  14m17s    1m30s       -12m47s

Accounts who lose:
account  jobs  mean JCT  with priod  change
ml          1  16m40s    18m10s      +1m30s
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), out); diff != "" {
		t.Error(diff)
	}
}

func TestComparePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	if status, _, errs := run(comparing(t, comparedTrace, "--html", path)...); status != exitDone {
		t.Fatal(errs)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, figure := range strings.Split(page, `<figure class="chart"`)[1:] {
		for _, curve := range []string{"as it happened", "Slurm, simulated", "with priod"} {
			if !strings.Contains(figure, `"name":"`+curve+`"`) {
				t.Errorf("a plot lacks the curve %q", curve)
			}
		}
	}
	if n := strings.Count(page, `<figure class="chart"`); n != 4 || strings.Contains(page, "<b>") || !strings.Contains(page, "&lt;b&gt;ann") {
		t.Errorf("%d plots, want 4; or a user's name is markup", n)
	}
}

func TestCompareJSON(t *testing.T) {
	type group struct {
		Name   string  `json:"name"`
		Jobs   int     `json:"jobs"`
		Change float64 `json:"change_s"`
	}
	var r struct {
		Runs []struct {
			Name    string `json:"name"`
			Figures struct {
				Wait        float64 `json:"mean_wait_s"`
				Preemptions *int    `json:"preemptions"`
			} `json:"figures"`
		} `json:"runs"`
		Error *struct {
			Wait struct {
				Mean      float64 `json:"mean_s"`
				MedianAbs float64 `json:"median_absolute_s"`
			} `json:"wait"`
		} `json:"error"`
		Users []group `json:"users"`
	}
	ask := func(args []string) (notes string) {
		status, out, errs := run(append(args, "--json")...)
		r.Error, r.Runs, r.Users = nil, nil, nil
		if err := json.Unmarshal([]byte(out), &r); status != exitDone || err != nil {
			t.Fatal(status, err, errs)
		}
		return errs
	}
	ask(comparing(t, comparedTrace))
	if len(r.Runs) != 3 || r.Runs[0].Figures.Preemptions != nil || *r.Runs[2].Figures.Preemptions != 1 || r.Runs[0].Figures.Wait != 807./2 {
		t.Errorf("%+v", r.Runs)
	}
	if r.Error == nil || r.Error.Wait.Mean != -5 || r.Error.Wait.MedianAbs != 5 {
		t.Errorf("the simulation is off by %+v", r.Error)
	}
	if want := []group{{"bob", 1, -767}, {"<b>ann</b>", 1, 90}}; !slices.Equal(r.Users, want) {
		t.Errorf("%+v, want %+v", r.Users, want)
	}

	unknown := strings.Replace(comparedTrace, "1010,1070", ",", 1)
	if notes := ask(comparing(t, unknown)); r.Error != nil || len(r.Runs) != 2 || !strings.Contains(notes, "1 of 2 jobs of the trace have no real start and end time") {
		t.Errorf("%+v, said %q", r, notes)
	}
}

func TestCompareRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--order", "srtf"}, `--order "srtf": want one of fifo`},
		{[]string{"--jobs-out", "jobs.csv"}, "--jobs-out writes the jobs of one run, --series-out its GPUs"},
		{[]string{"--backfill", "some"}, `--backfill "some": want one of`},
	} {
		status, out, errs := run(comparing(t, comparedTrace, c.args...)...)
		if status != exitUsage || out != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit status %d, said %q, want %q", c.args, status, errs, c.want)
		}
	}
}

// says answers each command with the same text.
type says string

func (s says) Run(context.Context, slurmplug.Command) (slurmplug.Output, error) {
	return slurmplug.Output{Stdout: []byte(s)}, nil
}

func TestCompareTakesSlurmAsItIs(t *testing.T) {
	const day = 86400
	for conf, want := range map[string]ownSlurm{
		"PriorityType = priority/basic\nSchedulerParameters = bf_interval=1":                          {Order: "fifo", Backfill: "conservative", Own: virtual.Own{Depth: 500, Interval: 1, Pause: 3}},
		"SLURM_VERSION = 24.11.5\nPriorityType = priority/basic\nSchedulerParameters = bf_interval=1": {Order: "fifo", Backfill: "conservative", Own: virtual.Own{Depth: 500, Interval: 1, Pause: 3}},
		"SLURM_VERSION = 26.05.5\nPriorityType = priority/basic\nSchedulerParameters = bf_interval=1": {Order: "fifo", Backfill: "conservative", Own: virtual.Own{Depth: 500, Interval: 1, Pause: 3, ByNode: true}},
		"PriorityType = priority/basic\nSchedulerParameters = bf_interval=-1":                         {Order: "fifo", Backfill: "none", Own: virtual.Own{Depth: 500, Pause: 3}},
		"PriorityType = priority/basic\nSchedulerType = sched/builtin":                                {Order: "fifo", Backfill: "none", Own: virtual.Own{Depth: 500, Pause: 3}},
		"PriorityType = priority/multifactor\nPriorityWeightAge = 10\nPriorityWeightFairShare = 30\nPriorityMaxAge = 1-00:00:00\nPriorityDecayHalfLife = 14-00:00:00\nPriorityCalcPeriod = 00:05:00\nSchedulerParameters = defer,bf_interval=10,batch_sched_delay=0,bf_max_job_test=200": {
			Order: "multifactor", Backfill: "conservative", Own: virtual.Own{Depth: 200, Interval: 10, Pause: 1, Multifactor: virtual.Weights{Age: 10, FairShare: 30, MaxAge: day, DecayHalfLife: 14 * day, CalcPeriod: 300, ByNodes: true, FairTree: true}},
		},
		"PriorityType = priority/multifactor\nPriorityWeightPartition = 7\nPriorityMaxAge = 1-00:00:00\nPriorityDecayHalfLife = 14-00:00:00\nPriorityFavorSmall = Yes\nPriorityFlags = NO_FAIR_TREE\nSchedulerParameters = bf_max_job_test=many": {
			Order: "multifactor", Backfill: "conservative", Own: virtual.Own{Depth: 500, Interval: 30, Pause: 3, Multifactor: virtual.Weights{Partition: 7, MaxAge: day, DecayHalfLife: 14 * day, ByNodes: true, FavorSmall: true}},
		},
		"PriorityType = priority/multifactor\nPriorityWeightQOS = 10\nPriorityMaxAge = 1-00:00:00\nPriorityDecayHalfLife = 00:00:00\nSchedulerType = sched/backfill\nPreemptType = preempt/qos\nPreemptMode = GANG,REQUEUE": {
			Order: "multifactor", Backfill: "conservative", Preemption: "slurm-qos", Own: virtual.Own{Depth: 500, Interval: 30, Pause: 3, Multifactor: virtual.Weights{Age: virtual.FIFOWeights.Age, MaxAge: day, DecayHalfLife: math.MaxFloat64}},
		},
	} {
		text := conf + "\nSLURM_VERSION = 22.05.8\nClusterName = c\n\nSlurmctld(primary) at h is UP\n"
		parsed, err := slurmplug.NewClient(says(text), slurmplug.Options{}).Config(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if own, err := ownOf(parsed); err != nil || own != want {
			t.Errorf("%q is %+v, %v; want %+v", conf, own, err, want)
		}
	}
}

// What is read of a Slurm reaches the virtual Slurm of each replay, of a study that goes on in another process, too.
func TestReplaysHaveOneSlurm(t *testing.T) {
	own := ownSlurm{Order: "multifactor", Backfill: "conservative"}
	for v := reflect.ValueOf(&own.Own).Elem(); ; v = v.FieldByName("Multifactor") {
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int, reflect.Int64:
				f.SetInt(int64(i) + 3)
			case reflect.Float64:
				f.SetFloat(math.MaxFloat64)
			}
		}
		if v.Type() == reflect.TypeFor[virtual.Weights]() {
			break
		}
	}
	cfg, err := config.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	study := tuning{jobs: []trace.Job{{ID: "1", GPUs: 1, Duration: 100}}, kept: kept{Slurm: own, Origin: time.Unix(1_800_000_030, 0), Events: []trace.NodeEvent{{At: 3, Kind: trace.NodesReserved, Nodes: []int32{0}, For: 5}}}}
	if study.cluster, err = trace.ParseNodes([]string{"1:v100:8"}); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(study.Dir, name) }
	study.Dir = t.TempDir()
	if err := study.keep(file("study.json"), file("jobs.csv"), file("nodes.toml")); err != nil {
		t.Fatal(err)
	}
	again := tuning{Runner: study.Runner}
	text, err := os.ReadFile(file("study.json"))
	if err == nil {
		err = again.resume(text)
	}
	if err != nil || !again.Origin.Equal(study.Origin) || !reflect.DeepEqual(again.Events, study.Events) {
		t.Fatalf("%v; of %+v is left %+v", err, study.kept, again.kept)
	}
	alone, with, err := own.sides(simulate.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]simulate.Spec{"alone": alone, "with priod": with, "study, alone": again.alone, "study, with priod": again.with} {
		opt, err := spec.Options(&simulate.Input{Config: cfg})
		if err != nil || opt.Own != own.Own || opt.Backfill != virtual.Conservative {
			t.Errorf("%s: %v: %+v, %s; want %+v", name, err, opt.Own, opt.Backfill, own.Own)
		}
	}
}
