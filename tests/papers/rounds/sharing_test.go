package rounds_test

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/rounds"
)

// mix is a rounds.Mix and how fast its two jobs are side by side.
type mix struct {
	rounds.Mix
	speed [2]float64
}

func alone(kind, gpuType int, time float64) mix {
	return mix{Mix: rounds.Mix{A: kind, B: rounds.Alone, Type: gpuType, Time: time}}
}

func pair(a, b, gpuType int, time, speedA, speedB float64) mix {
	return mix{rounds.Mix{A: a, B: b, Type: gpuType, Time: time}, [2]float64{speedA, speedB}}
}

// fixed gives each job the kind of its workload, "0", "1", ..., and those mixes
// of kinds that are there; everybody is promised the same.
type fixed []mix

func (f fixed) Share(_ float64, jobs []*rounds.Active, _ []rounds.Type) (s rounds.Shares, err error) {
	there := map[int]bool{rounds.Alone: true}
	for _, a := range jobs {
		k, err := strconv.Atoi(a.Job.Workload)
		if err != nil {
			return s, err
		}
		there[k] = true
		s.Kind, s.Rate = append(s.Kind, k), append(s.Rate, 1)
	}
	for _, m := range f {
		if there[m.A] && there[m.B] {
			s.Mixes = append(s.Mixes, m.Mix)
		}
	}
	return s, nil
}

func (f fixed) Together(a, b *rounds.Active, gpuType int) (speedA, speedB float64) {
	for _, m := range f {
		switch x, y := strconv.Itoa(m.A), strconv.Itoa(m.B); {
		case m.Type != gpuType:
		case a.Job.Workload == x && b.Job.Workload == y:
			return m.speed[0], m.speed[1]
		case a.Job.Workload == y && b.Job.Workload == x:
			return m.speed[1], m.speed[0]
		}
	}
	panic("nobody said that these run side by side")
}

// One GPU, rounds of 360 s, every job alone at 1 unit of work a second: by hand.
func TestPairsByHand(t *testing.T) {
	unit := func(*trace.Job, string) float64 { return 1 }
	side := pair(0, 1, 0, 1, 0.5, 0.8)
	for name, c := range map[string]struct {
		works  []float64
		sharer rounds.Sharer
		want   []metrics.Outcome
	}{
		// Side by side until 180 s, when the second has done 0.8 x 180; then the first is alone.
		"one ends within the round": {
			[]float64{900, 144}, fixed{side}, []metrics.Outcome{
				{End: 990, Ran: 990, Shared: 180, Done: true}, {End: 180, Ran: 180, Shared: 180, Done: true},
			},
		},
		// The same from the other side: which kind is named first does not matter.
		"kinds the other way around": {
			[]float64{900, 144}, fixed{pair(1, 0, 0, 1, 0.8, 0.5)}, []metrics.Outcome{
				{End: 990, Ran: 990, Shared: 180, Done: true}, {End: 180, Ran: 180, Shared: 180, Done: true},
			},
		},
		// Both end in the second round: at 360 s 180 and 288 are done; 20 more take 40 s; at 440 s
		// the second has 0.8 x 400 of 330, and 10 s to go.
		"both end": {
			[]float64{200, 330}, fixed{side}, []metrics.Outcome{
				{End: 400, Ran: 400, Shared: 400, Done: true}, {End: 410, Ran: 410, Shared: 400, Done: true},
			},
		},
		// Half of the time for the third alone, half for the others side by side: they take turns
		// (1: the third; 2: the pair; 3: the third, done; 4 and 5: the pair).
		"in turns": {
			[]float64{540, 864, 720}, fixed{alone(2, 0, 0.5), pair(0, 1, 0, 0.5, 0.5, 0.8)},
			[]metrics.Outcome{
				{Start: 360, End: 360 + 360 + 360 + 720, Ran: 1080, Shared: 1080, Preemptions: 1, Done: true},
				{Start: 360, End: 360 + 360 + 360 + 720, Ran: 1080, Shared: 1080, Preemptions: 1, Done: true},
				{Start: 0, End: 1080, Ran: 720, Preemptions: 1, Done: true},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []trace.Job
			for i, w := range c.works {
				jobs = append(jobs, trace.Job{ID: strconv.Itoa(i), Workload: strconv.Itoa(i), GPUs: 1, Steps: w})
			}
			result := run(t, gpus(1, 0, 0), jobs, rounds.Options{Model: rounds.Gavel{Sharer: c.sharer}, Speed: unit})
			if !reflect.DeepEqual(result.Outcomes, c.want) {
				t.Errorf("\ngot  %+v\nwant %+v", result.Outcomes, c.want)
			}
		})
	}
}

// Two GPUs, 0.75 for a kind of one job, 1.25 for the pairs of a kind of four:
// the shares are kept, and the four get the same.
func TestPairsKeepShares(t *testing.T) {
	var jobs []trace.Job
	for i := range 5 {
		jobs = append(jobs, trace.Job{ID: strconv.Itoa(i), Workload: strconv.Itoa(min(i, 1)), GPUs: 1, Steps: 1e6})
	}
	n := 0
	ran := make([]int, 5)
	ctx, stop := context.WithCancel(context.Background())
	_, err := rounds.Run(ctx, gpus(2, 0, 0), trace.Each(jobs), rounds.Options{
		Model: rounds.Gavel{Sharer: fixed{alone(0, 0, 0.75), pair(1, 1, 0, 1.25, 0.6, 0.6)}},
		Speed: func(*trace.Job, string) float64 { return 1 },
		Watch: func(r rounds.Round) {
			for _, a := range r.Runs {
				ran[a.Job.Index]++
			}
			if n++; n == 400 {
				stop()
			}
		},
	})
	if err != context.Canceled || ran[0] < 298 || ran[0] > 302 || slices.Max(ran[1:])-slices.Min(ran[1:]) > 2 || ran[1] < 248 {
		t.Errorf("%v: rounds %v, want 300 of 400 for the first and 250 for each other", err, ran)
	}
}

func TestBadShares(t *testing.T) {
	jobs := []trace.Job{{ID: "first", Workload: "0", GPUs: 1, Steps: 9}, {ID: "second", Workload: "1", GPUs: 1, Steps: 9}}
	for want, m := range map[string]mix{
		"allocates NaN GPUs of v100":                      alone(0, 0, math.NaN()),
		"1 GPUs of p100 to jobs like first, whose speed ": alone(0, 1, 1),
	} {
		_, err := rounds.Run(context.Background(), gpus(1, 1, 0), trace.Each(jobs), rounds.Options{
			Model: rounds.Gavel{Sharer: fixed{m}}, Speed: func(_ *trace.Job, gpuType string) float64 {
				if gpuType == "p100" {
					return 0
				}
				return 1
			},
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Whatever is allocated, also what cannot be kept, in every round: each job at
// most once, at most two on a GPU, both of them whole and on the same GPUs, no
// type over its GPUs, nobody waits for whom GPUs are free, or runs alone where it
// is slower; and each job's work is done at the speed of its company.
func TestPairsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInstance(t)
		types := in.cluster.Types()
		// Kinds: jobs copy gang and speeds of the first of their kind.
		kinds := rapid.IntRange(1, 4).Draw(t, "kinds")
		first := map[int]int{}
		for i := range in.jobs {
			k := rapid.IntRange(0, kinds-1).Draw(t, "kind")
			if _, known := first[k]; !known {
				first[k] = i
			}
			in.jobs[i].Workload, in.jobs[i].GPUs = strconv.Itoa(k), in.jobs[first[k]].GPUs
		}
		kindOf := func(j *trace.Job) int {
			k, err := strconv.Atoi(j.Workload)
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		speed := func(j *trace.Job, gpu string) float64 { return in.speed(&in.jobs[first[kindOf(j)]], gpu) }
		var mixes []mix
		beside := map[[3]int]float64{} // speed of one kind beside another on a type
		for a, x := range first {
			for b, y := range first {
				for g, name := range types {
					gang := in.jobs[x].GPUs
					if b < a || gang != in.jobs[y].GPUs || gang > in.cluster.GPUs(name) || speed(&in.jobs[x], name) == 0 || speed(&in.jobs[y], name) == 0 {
						continue
					}
					m := pair(a, b, g, rapid.Float64Range(0.01, 3).Draw(t, "time"),
						rapid.SampledFrom([]float64{0.25, 0.5, 2}).Draw(t, "beside"), rapid.SampledFrom([]float64{0.3, 1}).Draw(t, "beside"))
					if a == b {
						m.speed[1] = m.speed[0]
					}
					if rapid.Bool().Draw(t, "alone") {
						m.B = rounds.Alone
					} else {
						beside[[3]int{a, b, g}], beside[[3]int{b, a, g}] = m.speed[0], m.speed[1]
					}
					mixes = append(mixes, m)
				}
			}
		}
		slices.SortFunc(mixes, func(a, b mix) int { // maps have no order
			return slices.Compare([]int{a.A, a.B, a.Type}, []int{b.A, b.B, b.Type})
		})
		ended := make([]bool, len(in.jobs))
		did := make([]float64, len(in.jobs))
		opt := rounds.Options{Model: rounds.Gavel{Sharer: fixed(mixes)}, Speed: speed}
		opt.Watch = func(r rounds.Round) {
			free, held := map[string]int{}, map[string]int{}
			for _, n := range types {
				free[n] = in.cluster.GPUs(n)
			}
			ran := make([]bool, len(in.jobs))
			for _, a := range r.Runs {
				i, gpu := a.Job.Index, types[a.Type]
				if ran[i] || ended[i] || in.jobs[i].Submit > r.Start {
					t.Fatalf("job %d runs twice, after its end or before its submission", i)
				}
				ran[i] = true
				if len(a.GPUs) != in.jobs[i].GPUs {
					t.Fatalf("job %d of %d GPUs has %d", i, in.jobs[i].GPUs, len(a.GPUs))
				}
				for _, g := range a.GPUs {
					key := gpu + strconv.Itoa(int(g))
					if other, taken := held[key]; int(g) >= in.cluster.GPUs(gpu) || taken && (a.Beside == nil || a.Beside.Index != other) {
						t.Fatalf("GPU %s is not there, or job %d has it and does not know", key, other)
					}
					held[key] = i
				}
				rate := speed(&in.jobs[i], gpu)
				if b := a.Beside; b != nil {
					k := slices.IndexFunc(r.Runs, func(x rounds.Assignment) bool { return x.Job == b })
					if k < 0 || r.Runs[k].Beside != a.Job || r.Runs[k].Type != a.Type || !slices.Equal(r.Runs[k].GPUs, a.GPUs) {
						t.Fatalf("job %d is beside %d, which is elsewhere", i, b.Index)
					}
					rate = beside[[3]int{kindOf(&in.jobs[i]), kindOf(&b.Job), a.Type}]
				}
				if a.Beside == nil || i < a.Beside.Index {
					free[gpu] -= in.jobs[i].GPUs
				}
				ended[i] = a.Job.Left() <= 0
				if ended[i] || a.Beside != nil && a.Beside.Left() <= 0 {
					did[i] = a.Job.Done // the speed changes within the round
				} else {
					did[i] += rate * (r.End - r.Start)
				}
				if math.Abs(did[i]-a.Job.Done) > 1e-6 {
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
					if j := &a.Job.Job; a.Beside == nil && left >= j.GPUs && speed(j, n) > speed(j, types[a.Type]) {
						t.Fatalf("%d GPUs of %s idle while job %d runs alone on %s", left, n, a.Job.Index, types[a.Type])
					}
				}
			}
			for i, j := range in.jobs {
				for n, left := range free {
					if !ran[i] && !ended[i] && j.Submit <= r.Start && left >= j.GPUs && speed(&j, n) > 0 {
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
			if !o.Done || o.Start < in.jobs[i].Submit || o.Shared > o.Ran || o.End < o.Start+o.Ran-1e-6 {
				t.Fatalf("job %d: %+v", i, o)
			}
		}
		opt.Watch = nil
		again, err := rounds.Run(context.Background(), in.cluster, trace.Each(in.jobs), opt)
		if err != nil || !reflect.DeepEqual(again, result) {
			t.Fatal("two runs differ", err)
		}
	})
}
