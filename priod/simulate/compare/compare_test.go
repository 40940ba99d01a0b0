package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// runs draws what two runs made of the same jobs, and whose they are.
func runs(t *rapid.T) (owners []string, from, to []float64) {
	n := rapid.IntRange(1, 400).Draw(t, "jobs")
	times := rapid.SliceOfN(rapid.Float64Range(0, 1e6), n, n)
	return rapid.SliceOfN(rapid.SampledFrom([]string{"", "ann", "bob", "<b>"}), n, n).Draw(t, "owners"), times.Draw(t, "from"), times.Draw(t, "to")
}

var nearly = cmpopts.EquateApprox(1e-9, 1e-6)

func TestRunDoesNotDifferFromItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owners, from, _ := runs(t)
		want := Difference{Jobs: len(from)}
		if len(from) >= 100 {
			want.Interval = &Interval{}
		}
		if diff := cmp.Diff(want, Paired(from, from)); diff != "" {
			t.Error(diff)
		}
		for _, g := range ByOwner(owners, from, from) {
			if g.Change != 0 || g.From != g.To {
				t.Errorf("%+v", g)
			}
		}
	})
}

func TestDifferenceTurnsRoundWithItsRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owners, from, to := runs(t)
		want := Paired(from, to)
		want.Mean, want.Median, want.Less, want.More = -want.Mean, -want.Median, want.More, want.Less
		if i := want.Interval; i != nil {
			i.Low, i.High = -i.High, -i.Low
		}
		if diff := cmp.Diff(want, Paired(to, from), nearly); diff != "" {
			t.Error(diff)
		}
		there, back := map[string]Group{}, map[string]Group{}
		for _, g := range ByOwner(owners, from, to) {
			there[g.Name] = Group{g.Name, g.Jobs, g.To, g.From, -g.Change}
		}
		for _, g := range ByOwner(owners, to, from) {
			back[g.Name] = g
		}
		if diff := cmp.Diff(there, back); diff != "" {
			t.Error(diff)
		}
	})
}

// No job is lost among the groups: together they have the mean difference.
func TestGroupsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owners, from, to := runs(t)
		jobs, sum, last := 0, 0.0, math.Inf(-1)
		for _, g := range ByOwner(owners, from, to) {
			if g.Change < last {
				t.Errorf("%s stands behind one that gained less", g.Name)
			}
			jobs, sum, last = jobs+g.Jobs, sum+float64(g.Jobs)*g.Change, g.Change
		}
		if mean := Paired(from, to).Mean; jobs != len(from) || !cmp.Equal(sum/float64(jobs), mean, nearly) {
			t.Errorf("%d of %d jobs, mean %v, want %v", jobs, len(from), sum/float64(jobs), mean)
		}
	})
}

// By hand: ten batches of ten jobs that took 1, 2 ... 10 s more. The mean is 5.5 s, the
// standard deviation of the means 3.0277 s, and t of 9 degrees of freedom 2.2622.
func TestIntervalByHand(t *testing.T) {
	from, to := make([]float64, 100), make([]float64, 100)
	for i := range to {
		from[i] = float64(i % 7)
		to[i] = from[i] + float64(i/10+1)
	}
	half := 2.262157 * 3.027650 / math.Sqrt(10)
	want := Difference{Jobs: 100, Mean: 5.5, Interval: &Interval{5.5 - half, 5.5 + half}, Median: 5.5, MeanAbs: 5.5, MedianAbs: 5.5, More: 100}
	if diff := cmp.Diff(want, Paired(from, to), cmpopts.EquateApprox(0, 1e-5)); diff != "" {
		t.Error(diff)
	}
	if d := Paired(from[:99], to[:99]); d.Interval != nil {
		t.Errorf("99 jobs have an interval: %+v", d.Interval)
	}
}

// The interval holds the mean about as often as it says, also where neighbours are alike:
// differences follow an autoregression with factor 0.8, whose mean is 0. The standard
// error of single differences would be three times too small.
func TestIntervalHoldsTheMean(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const times, jobs = 1000, 4000
	zero, changes := make([]float64, jobs), make([]float64, jobs)
	held := 0
	for range times {
		x := random.NormFloat64() / math.Sqrt(1-0.64)
		for i := range changes {
			x = 0.8*x + random.NormFloat64()
			changes[i] = x
		}
		if i := Paired(zero, changes).Interval; i.Low <= 0 && i.High >= 0 {
			held++
		}
	}
	if share := float64(held) / times; share < 0.92 || share > 0.97 {
		t.Errorf("the interval holds the mean in %.1f %% of the runs, want about 95 %%", 100*share)
	}
}

// By hand: the second job waits for the first; the third was requeued after 10 s.
func TestRecorded(t *testing.T) {
	jobs := []trace.Job{
		{ID: "1", Submit: 0, GPUs: 8, Start: 0, End: 100, Ran: 100},
		{ID: "2", Submit: 10, GPUs: 4, Start: 100, End: 150, Ran: 50},
		{ID: "3", Submit: 10, GPUs: 1, Start: 200, End: 260, Ran: 40},
		{ID: "4", Submit: 20, GPUs: 1},
		{ID: "5", Submit: 20, Start: 50, End: 60, Ran: 10}, // without GPUs
	}
	outcomes, series, missing := Recorded(jobs)
	if missing != 1 || outcomes[3].Done {
		t.Errorf("%d jobs are not known", missing)
	}
	waits := []float64{0, 90, 210}
	for i, want := range waits {
		j := metrics.JobOf(&jobs[i])
		if got := metrics.Wait(&j, &outcomes[i]); got != want {
			t.Errorf("job %s waited %v s, want %v", jobs[i].ID, got, want)
		}
	}
	want := []metrics.Point{{GPUs: 8}, {At: 10, GPUs: 8, Queued: 2}, {At: 20, GPUs: 8, Queued: 2, Others: 1}, {At: 50, GPUs: 8, Queued: 2}, {At: 60, GPUs: 8, Queued: 2}, {At: 100, GPUs: 4, Queued: 1}, {At: 150, Queued: 1}, {At: 220, GPUs: 1}, {At: 260}}
	if diff := cmp.Diff(want, series); diff != "" {
		t.Error(diff)
	}
}

// No GPU-second and no second of waiting is lost among the parts.
func TestMeansKeepTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var series []metrics.Point
		at, wantGPUs, wantQueued, wantOthers := 0.0, 0.0, 0.0, 0.0
		for range rapid.IntRange(1, 50).Draw(t, "points") {
			p := metrics.Point{At: at, GPUs: rapid.IntRange(0, 100).Draw(t, "gpus"), Queued: rapid.IntRange(0, 100).Draw(t, "queue"), Others: rapid.IntRange(0, 9).Draw(t, "others")}
			gap := rapid.Float64Range(0.001, 1e5).Draw(t, "gap")
			at, wantGPUs, wantQueued = at+gap, wantGPUs+gap*float64(p.GPUs), wantQueued+gap*float64(p.Queued)
			wantOthers += gap * float64(p.Others)
			series = append(series, p)
		}
		parts := rapid.IntRange(1, 300).Draw(t, "parts")
		gpus, queued, others := Means(series, at, parts)
		var sumGPUs, sumQueued, sumOthers float64
		for k := range gpus {
			sumOthers += others[k] * at / float64(parts)
			sumGPUs, sumQueued = sumGPUs+gpus[k]*at/float64(parts), sumQueued+queued[k]*at/float64(parts)
		}
		if !cmp.Equal(sumGPUs, wantGPUs, nearly) || !cmp.Equal(sumQueued, wantQueued, nearly) || !cmp.Equal(sumOthers, wantOthers, nearly) {
			t.Errorf("%v GPU-seconds and %v s, want %v and %v", sumGPUs, sumQueued, wantGPUs, wantQueued)
		}
	})
}
