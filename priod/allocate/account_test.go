package allocate

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

var start = time.Unix(1_700_000_000, 0)

func interval(job uint32, gpuType string, gpus, from, to int) cluster.Stay {
	return cluster.Stay{
		Job: slurmplug.Plain(job), GPUType: gpuType, GPUs: gpus,
		Start: start.Add(time.Duration(from) * time.Second), End: start.Add(time.Duration(to) * time.Second),
	}
}

func received(a *Account, id cluster.JobID, gpuType string) float64 {
	return a.of(a.jobs.Get(id), a.index([]string{gpuType})[0]).received
}

func fraction(a *Account, id cluster.JobID, gpuType string) float64 {
	t := a.index([]string{gpuType})[0]
	return a.fraction(a.of(a.jobs.Get(id), t), t)
}

func almost(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// A job that is requeued keeps what it had, of each type.
func TestThroughRequeues(t *testing.T) {
	a := NewAccount()
	one := slurmplug.Plain(1)
	for _, i := range []cluster.Stay{
		interval(1, "v100", 2, 0, 100), interval(1, "k80", 2, 300, 400), interval(1, "v100", 2, 500, 650), interval(2, "v100", 1, 0, 750),
	} {
		a.Observe(i)
	}
	if got, want := received(a, one, "v100"), 250.0; got != want {
		t.Errorf("v100: %v s, want %v s", got, want)
	}
	if got, want := received(a, one, "k80"), 100.0; got != want {
		t.Errorf("k80: %v s, want %v s", got, want)
	}
	if got := fraction(a, one, "v100"); !almost(got, 0.25) {
		t.Errorf("fraction %v, want 250 s of 1000 s", got)
	}
	a.Reset()
	a.Observe(interval(1, "v100", 2, 500, 700))
	if fraction(a, one, "v100") != 1 || received(a, one, "v100") != 300 {
		t.Error("a reset begins the fractions anew and nothing else")
	}
}

// However often, in whatever order and in how many pieces intervals are
// reported, the sums are those of the final ones.
func TestSumsDoNotDependOnReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := []string{"v100", "k80", ""}
		var final, reports []cluster.Stay
		want, all := map[uint32]map[string]float64{}, map[string]float64{}
		for id := range uint32(rapid.IntRange(1, 5).Draw(t, "jobs")) {
			at := 0
			want[id] = map[string]float64{}
			for range rapid.IntRange(0, 4).Draw(t, "runs") {
				from := at + rapid.IntRange(1, 100).Draw(t, "wait")
				at = from + rapid.IntRange(0, 100).Draw(t, "run")
				i := interval(id, rapid.SampledFrom(types).Draw(t, "type"), rapid.IntRange(1, 8).Draw(t, "gpus"), from, at)
				final = append(final, i)
				want[id][i.GPUType] += float64(at - from)
				all[i.GPUType] += float64(at - from)
				for range rapid.IntRange(0, 3).Draw(t, "polls") {
					seen := i
					seen.End = i.Start.Add(time.Duration(rapid.IntRange(-5, at-from).Draw(t, "seen")) * time.Second)
					reports = append(reports, seen)
				}
			}
		}
		seed := rapid.Uint64().Draw(t, "shuffle")
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
		a := NewAccount()
		for _, i := range append(append(reports, final...), final...) {
			a.Observe(i)
		}
		sums := map[string]float64{}
		for id, byType := range want {
			for _, gpuType := range types[:2] {
				w, got := byType[gpuType], received(a, slurmplug.Plain(id), gpuType)
				if !almost(got, w) {
					t.Fatalf("job %d on %s: %v s, want %v s", id, gpuType, got, w)
				}
				f := fraction(a, slurmplug.Plain(id), gpuType)
				if f < 0 || f > 1 || !almost(f*all[gpuType], w) {
					t.Fatalf("job %d on %s: fraction %v of %v s, received %v s", id, gpuType, f, all[gpuType], w)
				}
				sums[gpuType] += f
			}
		}
		for gpuType, sum := range sums {
			if all[gpuType] > 0 && !almost(sum, 1) {
				t.Fatalf("the fractions of %s add up to %v", gpuType, sum)
			}
		}
	})
}
