package metrics

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"slurmprio/priod/cluster"
)

func TestFiguresByHand(t *testing.T) {
	jobs := []Job{
		{ID: "a", Submit: 10, GPUs: 1},
		{ID: "b", Submit: 10, GPUs: 8, Class: cluster.TE},
		{ID: "c", Submit: 20, GPUs: 2},
	}
	outcomes := []Outcome{
		{Start: 10, End: 110, Ran: 100, Trials: 3, Failures: 2, Lost: 50, Done: true},                         // no wait
		{Start: 30, End: 80, Ran: 50, Trials: 1, Failures: 1, Lost: 50, Failed: true, Held: true, Done: true}, // waits 20: slowdown 1.4, as all of it was in vain
		{Start: 20, End: 120, Ran: 80, Wasted: 80, Preemptions: 2, Done: true},                                // 40 s of use, 20 s of wait: slowdown 1.5
	}
	f, err := Measure(jobs, outcomes, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
	near("mean JCT", f.MeanJCT, (100+70+100)/3.0)
	near("p50 JCT", f.P50JCT, 100)
	near("p95 JCT", f.P95JCT, 100)
	near("mean wait", f.MeanWait, 40/3.0)
	near("p90 wait", f.P90Wait, 20)
	near("max wait", f.MaxWait, 20)
	near("makespan", f.Makespan, 110)
	near("utilisation", f.GPUUtilisation, (100+400+160)/1100.0)
	near("te p50", *f.TESlowdownP50, 1.4)
	near("te wait p95", *f.TEWaitP95, 20)
	near("be p50", *f.BESlowdownP50, 1.25)
	near("be p99", *f.BESlowdownP99, 1.495)
	near("ge8", *f.MeanWaitGE8, 20)
	near("lt8", *f.MeanWaitLT8, 10)
	near("wasted", f.Wasted, 80)
	near("lost to failures", f.Lost, 50+8*50)
	if f.Preemptions != 2 || f.Jobs != 3 || f.Trials != 4 || f.FailedTrials != 3 || f.FailedJobs != 1 || f.HeldJobs != 1 {
		t.Errorf("%+v", f)
	}

	f, err = Measure(jobs, outcomes, &Window{0, 0}, 10)
	if err != nil || f.Jobs != 1 || f.TESlowdownP50 != nil || f.MeanWaitGE8 != nil || f.Makespan != 100 {
		t.Errorf("%+v %v", f, err)
	}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	for key := range strings.FieldsSeq(`jobs mean_jct_s p50_jct_s p95_jct_s p99_jct_s mean_wait_s p90_wait_s p95_wait_s max_wait_s makespan_s gpu_utilisation
		preemptions wasted_gpu_s trials failed_trials failed_gpu_s failed_jobs held_jobs te_slowdown_p50 te_slowdown_p95 te_slowdown_p99 be_slowdown_p50 be_slowdown_p95 be_slowdown_p99 te_wait_p50_s te_wait_p95_s te_wait_p99_s mean_wait_ge8_s mean_wait_lt8_s`) {
		if !strings.Contains(string(text), `"`+key+`":`) {
			t.Errorf("no %s in %s", key, text)
		}
	}
}

// Jobs without GPUs have figures of their own and leave the others as they are.
func TestFiguresOfJobsWithoutGPUs(t *testing.T) {
	jobs := []Job{{ID: "a", Submit: 10, GPUs: 1}, {ID: "b", Submit: 10, GPUs: 8, Class: cluster.TE}}
	outcomes := []Outcome{{Start: 10, End: 110, Ran: 100, Done: true}, {Start: 30, End: 80, Ran: 50, Done: true}}
	alone, err := Measure(jobs, outcomes, nil, 10)
	if err != nil || alone.CPUOnly != nil {
		t.Fatal(err, alone)
	}
	jobs = append(jobs, Job{ID: "c", Submit: 0}, Job{ID: "d", Submit: 20, Class: cluster.TE})
	outcomes = append(outcomes, Outcome{Start: 40, End: 400, Ran: 360, Done: true}, Outcome{Start: 20, End: 30, Ran: 10, Failures: 1, Trials: 1, Failed: true, Done: true})
	f, err := Measure(jobs, outcomes, nil, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := CPUOnly{Jobs: 2, MeanJCT: 205, P50JCT: 205, P95JCT: 380.5, MeanWait: 20, P90Wait: 36, MaxWait: 40, FailedJobs: 1}
	if f.CPUOnly == nil || *f.CPUOnly != want {
		t.Errorf("%+v, want %+v", f.CPUOnly, want)
	}
	text, err := json.Marshal(f)
	before, err2 := json.Marshal(alone)
	if err != nil || err2 != nil || !strings.HasPrefix(string(text), string(before[:len(before)-1])+`,"cpu_only_jobs":2,`) {
		t.Errorf("%s\nwithout them %s", text, before)
	}
	if f, err = Measure(jobs, outcomes, &Window{2, 3}, 10); err != nil || f.Jobs != 0 || f.MeanWait != 0 || f.CPUOnly.Jobs != 2 {
		t.Error(f, err)
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
}

func TestMeasureRefuses(t *testing.T) {
	jobs, outcomes := []Job{{ID: "a", GPUs: 1}}, []Outcome{{}}
	for _, w := range []*Window{nil, {0, 1}, {1, 0}, {-1, 0}} {
		if f, err := Measure(jobs, outcomes, w, 1); err == nil {
			t.Errorf("%v: %+v", w, f)
		}
	}
	if _, err := Measure(nil, nil, nil, 1); err == nil {
		t.Error("no jobs have figures")
	}
}

func TestPercentileInterpolates(t *testing.T) {
	s := []float64{1, 2, 4, 8}
	for p, want := range map[float64]float64{0: 1, 50: 3, 100: 8, 90: 6.8} {
		if got := Percentile(s, p); math.Abs(got-want) > 1e-9 {
			t.Errorf("p%v %v, want %v", p, got, want)
		}
	}
}
