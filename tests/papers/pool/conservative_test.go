package pool

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/trace"
)

func drawJobs(t *rapid.T, gpus, most int) []trace.Job {
	var jobs []trace.Job
	at := 0
	for i := range rapid.IntRange(1, most).Draw(t, "jobs") {
		at += rapid.IntRange(0, 6).Draw(t, "gap")
		j := trace.Job{ID: string(rune('A'+i%26)) + string(rune('0'+i/26)), Submit: float64(at), Duration: float64(rapid.IntRange(1, 30).Draw(t, "duration"))}
		j.GPUs = rapid.IntRange(1, gpus).Draw(t, "gpus")
		switch rapid.IntRange(0, 3).Draw(t, "limit") {
		case 0:
			j.Limit = j.Duration + float64(rapid.IntRange(0, 20).Draw(t, "more"))
		case 1:
			j.Limit = float64(rapid.IntRange(1, 40).Draw(t, "some"))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// naiveConservative keeps the free GPUs of every second in a list.
func naiveConservative(gpus int, jobs []trace.Job) []float64 {
	free := make([]int, 5000)
	for i := range free {
		free[i] = gpus
	}
	take := func(j trace.Job, from, until float64) {
		for s := int(from); s < int(until); s++ {
			free[s] -= j.GPUs
		}
	}
	give := func(j trace.Job, from, until float64) {
		j.GPUs = -j.GPUs
		take(j, from, until)
	}
	earliest := func(j trace.Job, from int) float64 {
		for start := from; ; start++ {
			if !slices.ContainsFunc(free[start:start+int(cmp.Or(j.Limit, j.Duration))], func(f int) bool { return f < j.GPUs }) {
				return float64(start)
			}
		}
	}
	opens := make([]float64, len(jobs))
	arrived := 0
	for now := 0; now < 2500; now++ {
		early := func(i int) bool {
			end := opens[i] + min(jobs[i].Duration, cmp.Or(jobs[i].Limit, jobs[i].Duration))
			return opens[i] < float64(now) && end == float64(now) && end < opens[i]+cmp.Or(jobs[i].Limit, jobs[i].Duration)
		}
		// In the order of their starts, one by one: each lets all others move.
		var ending []int
		for i := range arrived {
			if early(i) {
				ending = append(ending, i)
			}
		}
		for _, i := range ending {
			give(jobs[i], float64(now), opens[i]+cmp.Or(jobs[i].Limit, jobs[i].Duration))
		}
		if len(ending) > 0 {
			for k := range arrived {
				if opens[k] < float64(now) {
					continue
				}
				limit := cmp.Or(jobs[k].Limit, jobs[k].Duration)
				give(jobs[k], opens[k], opens[k]+limit)
				opens[k] = min(opens[k], earliest(jobs[k], now))
				take(jobs[k], opens[k], opens[k]+limit)
			}
		}
		for arrived < len(jobs) && jobs[arrived].Submit == float64(now) {
			opens[arrived] = earliest(jobs[arrived], now)
			take(jobs[arrived], opens[arrived], opens[arrived]+cmp.Or(jobs[arrived].Limit, jobs[arrived].Duration))
			arrived++
		}
	}
	return opens
}

func TestConservativeIsTheNaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		c := nodes(1, gpus)
		jobs := drawJobs(t, gpus, 40)
		r, err := Run(context.Background(), c, trace.Each(jobs), Options{Backfill: Conservative})
		if err != nil {
			t.Fatal(err)
		}
		// Two early ends at one time are two events to the engine and one to the naive.
		ends := map[float64]bool{}
		for i, o := range r.Outcomes {
			if jobs[i].Limit <= jobs[i].Duration {
				continue
			}
			if ends[o.End] {
				t.SkipNow()
			}
			ends[o.End] = true
		}
		want := naiveConservative(gpus, jobs)
		for i, o := range r.Outcomes {
			if o.Start != want[i] {
				t.Fatalf("job %s starts at %v, the naive one at %v", jobs[i].ID, o.Start, want[i])
			}
		}
	})
}
