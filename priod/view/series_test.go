package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
)

// No GPU time is lost or made up between the bins: their sum is what the stays had within the span.
func TestBinsKeepAllTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		seconds := func(label string, least, most int) time.Duration {
			return time.Duration(rapid.IntRange(least, most).Draw(t, label)) * time.Second
		}
		b := bins{from, from.Add(seconds("span", 1, 20_000)), seconds("bin", 1, 5000)}
		var stays []cluster.Stay
		want := 0.0
		for range rapid.IntRange(0, 6).Draw(t, "stays") {
			s := cluster.Stay{GPUs: rapid.IntRange(1, 8).Draw(t, "gpus"), Start: from.Add(seconds("start", -9000, 25_000))}
			s.End = s.Start.Add(seconds("length", 0, 30_000))
			stays = append(stays, s)
			want += float64(s.GPUs) * max(cluster.Earlier(s.End, b.until).Sub(cluster.Later(s.Start, from)).Seconds(), 0)
		}
		got := 0.0
		for _, s := range b.inUse(stays, func(*cluster.Stay) string { return "" }) {
			for i, v := range s.Values {
				begin := from.Add(time.Duration(i) * b.bin)
				got += *v * cluster.Earlier(begin.Add(b.bin), b.until).Sub(begin).Seconds()
			}
		}
		if math.Abs(got-want) > 1e-6*max(want, 1) || len(b.times()) != b.count() {
			t.Fatalf("%v GPU-seconds in the bins, %v in the stays", got, want)
		}
	})
}

// What happened falls into the bins of its time; a bin without a value has none.
func TestBins(t *testing.T) {
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	b := bins{from, from.Add(time.Hour), 15 * time.Minute}
	say := func(all []Series) string {
		var text []string
		for _, s := range all {
			words := s.Name
			for _, v := range s.Values {
				if v == nil {
					words += " -"
				} else {
					words += fmt.Sprintf(" %.2f", *v)
				}
			}
			text = append(text, words)
		}
		return strings.Join(text, "; ")
	}
	paid := 7200.0
	for want, got := range map[string][]Series{
		"a100 4.00 4.00 0.00 0.00; no type 0.00 0.00 0.00 0.67": b.inUse([]cluster.Stay{
			{GPUType: "a100", GPUs: 4, Start: from.Add(-time.Hour), End: from.Add(30 * time.Minute)}, {GPUs: 1, Start: from.Add(50 * time.Minute), End: from.Add(2 * time.Hour)},
		}, func(s *cluster.Stay) string { return cmp.Or(s.GPUType, "no type") }),
		"te median - 2.00 - -; te p95 - 18.20 - -": b.waits([]store.FirstStart{
			{Class: cluster.TE, Ready: from, Start: from.Add(20 * time.Minute)}, {Class: cluster.TE, Ready: from.Add(15 * time.Minute), Start: from.Add(17 * time.Minute)}, {Class: cluster.TE, Ready: from.Add(15 * time.Minute), Start: from.Add(16 * time.Minute)},
			{Class: cluster.TE, Ready: from, Start: from.Add(3 * time.Hour)}, {Class: cluster.BE, Start: from},
		}),
		"writes 3.00 0.00 0.00 0.00":                                        b.counts("writes", []store.Count{{From: from, N: 3}, {From: from.Add(-time.Minute), N: 9}}),
		"evictions 0.00 1.00 0.00 0.00; lost GPU-hours 0.00 2.00 0.00 0.00": b.evictions([]store.Eviction{{Recorded: from.Add(16 * time.Minute), Paid: &paid}, {Recorded: from.Add(-time.Minute)}}),
		"too few GPUs free 3.00 - 8.00 -":                                   b.causes([]store.Sample{{At: from, Causes: map[plan.Cause]int{plan.Capacity: 2}}, {At: from.Add(time.Minute), Causes: map[plan.Cause]int{plan.Capacity: 4}}, {At: from.Add(31 * time.Minute), Causes: map[plan.Cause]int{plan.Capacity: 8}}}),
		"oom 0.00 0.00 0.00 1.00":                                           b.failures(&retry.Changes{Failures: []retry.Failure{{Class: "oom", End: from.Add(time.Hour)}, {Class: "oom", End: from.Add(2 * time.Hour)}}}),
	} {
		if say(got) != want {
			t.Errorf("got  %s\nwant %s", say(got), want)
		}
	}
}

// A job of several partitions counts in each of them, as squeue -p has it, in whatever order it names them.
func TestFilterOfPartition(t *testing.T) {
	var keys []store.WaitingKey
	for _, p := range []string{"a100", "a100,v100", "v100,a100", "v100", "t4"} {
		keys = append(keys, store.WaitingKey{Partition: p, GPUs: 2})
	}
	if got, want := choicesOf(keys).Partitions, []Choice{{"a100", 3, 6}, {"v100", 3, 6}, {"t4", 1, 2}}; !slices.Equal(got, want) {
		t.Errorf("choices %v, want %v", got, want)
	}
	for _, c := range choicesOf(keys).Partitions {
		n := 0
		for i := range keys {
			if (&Filter{Partition: c.Value}).fits(&keys[i]) {
				n++
			}
		}
		if n != c.Jobs {
			t.Errorf("partition %s leaves %d jobs, want %d", c.Value, n, c.Jobs)
		}
	}
}

// A bar goes from the median to nine of ten, within its line, however late or past these are.
func TestBars(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now()
		jobs := make([]Job, rapid.IntRange(0, 5).Draw(t, "jobs"))
		for i := range jobs {
			if minutes := rapid.IntRange(-100, 20_000).Draw(t, "median"); minutes > -50 {
				median := now.Add(time.Duration(minutes) * time.Minute)
				jobs[i].Start = &store.ExpectedStart{At: median, Median: median, P90: median.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "more")) * time.Minute)}
			}
		}
		drawBars(jobs)
		for i := range jobs {
			if b := jobs[i].Bar; (b == nil) != (jobs[i].Start == nil) || b != nil && (b.X < 0 || b.Width < 2 || b.X+b.Width > barWidth) {
				t.Fatalf("%+v for %+v", b, jobs[i].Start)
			}
		}
	})
}

// A budget by share is of what the jobs of its user reach: of several lists of partitions the largest, and of the whole cluster
// where no job runs or waits, or its partitions are gone.
func TestBudgetOfWhatIsReached(t *testing.T) {
	nodes := []cluster.Node{{Partitions: []string{"a100"}, GPUs: 8}, {Partitions: []string{"v100", "old"}, GPUs: 4}, {Partitions: []string{"t4"}, GPUs: 2}}
	day := func(string) plan.Budget { return plan.Budget{HourShare: 0.5} }
	for want, lists := range map[float64][]string{14: {}, 4: {"v100,old"}, 12: {"t4", "v100,a100"}, 2: {"t4"}} {
		all := owners{}
		for _, l := range lists {
			groupOf(all, "ann", Owner{Name: "ann"}).asks(l)
		}
		groupOf(all, "ann", Owner{Name: "ann"})
		if got := all.list(nodes, day)[0].TEBudget / 12; got != want {
			t.Errorf("jobs of %q: budget of %v GPUs, want %v", lists, got, want)
		}
	}
	all := owners{}
	groupOf(all, "ann", Owner{Name: "ann"}).asks("gone")
	if got := all.list(nodes, day)[0].TEBudget / 12; got != 14 {
		t.Errorf("%v", got)
	}
}

// Filters leave the jobs that have all of what is asked for, wherever they stand in the queue.
func TestFilters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"", "a", "b", hostileName})
		keys := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) store.WaitingKey {
			return store.WaitingKey{User: word.Draw(t, "user"), Account: word.Draw(t, "account"), Partition: word.Draw(t, "partition"), Class: rapid.SampledFrom([]string{"te", "be", "-"}).Draw(t, "class"), GPUType: word.Draw(t, "type"), GPUs: 1}
		}), 0, 20).Draw(t, "keys")
		f := Filter{User: word.Draw(t, "of user"), Class: rapid.SampledFrom([]string{"", "te", "be"}).Draw(t, "of class"), GPUType: rapid.SampledFrom([]string{"", "a", "any"}).Draw(t, "of type")}
		for _, by := range [][]Choice{choices(keys, func(k *store.WaitingKey) string { return k.User })} {
			sum := 0
			for _, c := range by {
				sum += c.Jobs
				only, n := Filter{User: c.Value}, 0
				for i := range keys {
					if only.fits(&keys[i]) {
						n++
					}
				}
				if c.Value != "" && n != c.Jobs {
					t.Fatalf("%q has %d jobs, its filter leaves %d", c.Value, c.Jobs, n)
				}
			}
			if sum != len(keys) {
				t.Fatalf("%d of %d jobs in the choices", sum, len(keys))
			}
		}
		for i := range keys {
			k := &keys[i]
			want := (f.User == "" || k.User == f.User) && (f.Class == "" || k.Class == f.Class) && (f.GPUType == "" || k.GPUType == f.GPUType || f.GPUType == "any" && k.GPUType == "")
			if f.fits(k) != want {
				t.Fatalf("%+v of %+v: %v", k, f, !want)
			}
		}
	})
}
