package rounds_test

import (
	"context"
	"math"
	"reflect"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/trace"
	"slurmprio/tests/papers/rounds"
)

// Where the makespan counts no GPU is idle while a job waits that fits on it: of
// jobs on one GPU each begins when the one before ends, whatever the rounds are; a
// gang begins when the last of its GPUs is free.
func TestRefill(t *testing.T) {
	same := func(*trace.Job, string) float64 { return 1 }
	opt := rounds.Options{Model: rounds.Gavel{Allocator: rounds.Isolated(), Makespan: true}, Speed: same}
	var jobs []trace.Job
	for i := range 5 {
		jobs = append(jobs, trace.Job{ID: strconv.Itoa(i), GPUs: 1, Steps: 100})
	}
	for i, o := range run(t, gpus(1, 0, 0), jobs, opt).Outcomes {
		if want := float64(100 * (i + 1)); math.Abs(o.End-want) > 1e-6 {
			t.Errorf("job %d ends at %v, want %v", i, o.End, want)
		}
	}
	gang := []trace.Job{{ID: "a", GPUs: 1, Steps: 50}, {ID: "b", GPUs: 1, Steps: 200}, {ID: "both", GPUs: 2, Steps: 1000}, {ID: "c", GPUs: 1, Steps: 30}}
	ends := []float64{50, 200, 1200, 80}
	opt.Model = rounds.Gavel{Allocator: fastestFIFO, Makespan: true}
	for i, o := range run(t, gpus(2, 0, 0), gang, opt).Outcomes {
		if math.Abs(o.End-ends[i]) > 1e-6 {
			t.Errorf("job %s ends at %v, want %v", gang[i].ID, o.End, ends[i])
		}
	}
}

// No type gives more GPU-seconds than it has, each job's work is done once, and
// two runs are the same.
func TestRefillProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInstance(t)
		opt := rounds.Options{Model: rounds.Gavel{Allocator: rounds.Proportional(), Makespan: true}, Speed: in.speed}
		result, err := rounds.Run(context.Background(), in.cluster, trace.Each(in.jobs), opt)
		if err != nil {
			t.Fatal(err)
		}
		last, used := 0.0, 0.0
		for i, o := range result.Outcomes {
			if !o.Done || o.Start < in.jobs[i].Submit || o.End < o.Start+o.Ran-1e-6 {
				t.Fatalf("job %d: %+v", i, o)
			}
			last = max(last, o.End)
			used += o.Ran * float64(in.jobs[i].GPUs)
		}
		all := 0
		for _, name := range in.cluster.Types() {
			all += in.cluster.GPUs(name)
		}
		if used > float64(all)*(last-in.jobs[0].Submit)+1e-6 {
			t.Fatalf("%v GPU-seconds on %d GPUs within %v s", used, all, last)
		}
		again, err := rounds.Run(context.Background(), in.cluster, trace.Each(in.jobs), opt)
		if err != nil || !reflect.DeepEqual(again, result) {
			t.Fatal("two runs differ", err)
		}
	})
}
