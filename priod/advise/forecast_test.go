package advise

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/workload/runtimes"
)

// anySite is a small cluster with some jobs that run and some that wait.
func anySite(t *rapid.T) *Site {
	s := small()
	for node := range 3 {
		for free := 4; free > 0; {
			gpus := rapid.IntRange(0, free).Draw(t, "held")
			if gpus == 0 {
				break
			}
			ago := rapid.IntRange(0, 3000).Draw(t, "ago")
			s.run(node, gpus, time.Duration(ago)*time.Second, time.Duration(ago+rapid.IntRange(60, 9000).Draw(t, "left"))*time.Second)
			free -= gpus
		}
	}
	for range rapid.IntRange(0, 8).Draw(t, "waiting") {
		s.wait(rapid.IntRange(1, 4).Draw(t, "gpus"), rapid.SampledFrom([]string{"", "a100", "v100"}).Draw(t, "type"), time.Duration(rapid.IntRange(1, 200).Draw(t, "minutes"))*time.Minute)
	}
	return s
}

// Where no run times are known, what is expected is the plan by time limits; whatever is known, the first of all types is no later
// than each of them, and nine of ten start no sooner than half.
func TestForecastOfRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		r := ask(rapid.IntRange(1, 4).Draw(t, "own gpus"), time.Duration(rapid.IntRange(1, 300).Draw(t, "own minutes"))*time.Minute)
		speeds := speeds(1, 1)
		advice, err := Give(s, r, speeds, noRate)
		if err != nil {
			t.Fatal(err)
		}
		f := Forecast{Runs: func(*cluster.Job) *runtimes.Distribution { return nil }, Draws: 1, Fit: 1}
		o, err := f.Request(s, r, speeds, func(time.Duration) *runtimes.Distribution { return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range o.Types {
			for _, a := range advice.Types {
				if a.GPUType == e.GPUType && (a.Start != e.Start || a.Rough) {
					t.Errorf("%s: %v without run times, %v by time limits", e.GPUType, e.Start, a.Start)
				}
			}
		}
		var past []runtimes.Run
		for i := range 60 {
			start := now.Add(time.Duration(i-200) * time.Minute)
			past = append(past, runtimes.Run{Kind: runtimes.Kind{GPUs: 1, Limit: time.Hour}, Submit: start, Start: start, End: start.Add(time.Duration(rapid.IntRange(1, 3600).Draw(t, "ran")) * time.Second)})
		}
		m := runtimes.Learn(past, now)
		f = Forecast{Runs: forecast.ByPast(m, now), Draws: 10, Fit: rapid.Float64Range(0.3, 5).Draw(t, "fit")}
		o, err = f.Request(s, r, speeds, func(limit time.Duration) *runtimes.Distribution { return m.Predict(r.Kind("", limit), now) })
		if err != nil || o.Any == nil != (len(o.Types) == 0) {
			t.Fatal(err, o)
		}
		for _, e := range append(o.Types, *o.Any) {
			if e.StartP90 < e.Start || e.End < e.Start || e.RunP90 < e.Run || o.Any.Start > e.Start || math.IsNaN(float64(e.StartP90)) {
				t.Errorf("%+v, any %+v", e, *o.Any)
			}
		}
	})
}

// A job that waits is asked about where it stands: what is behind it changes nothing.
func TestForecastOfWaitingJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		j := s.wait(rapid.IntRange(1, 4).Draw(t, "own"), "", time.Hour)
		id := j.ID
		r := OfJob(j)
		f := Forecast{Runs: func(*cluster.Job) *runtimes.Distribution { return nil }, Draws: 1, Fit: 1}
		expect := func() *Expected {
			o, err := f.Request(s, &r, speeds(1, 1), func(time.Duration) *runtimes.Distribution { return nil })
			if err != nil || o.Any == nil {
				t.Fatal(err)
			}
			return o.Any
		}
		alone := expect()
		for range rapid.IntRange(1, 5).Draw(t, "behind") {
			s.wait(4, "", time.Hour)
		}
		if diff := cmp.Diff(alone, expect()); diff != "" {
			t.Error(diff)
		}
		if at := s.Queue().Starts()[id]; math.Abs(at-float64(alone.Start)) > 1 {
			t.Errorf("%v in the plan of the queue, %v asked alone", at, alone.Start)
		}
	})
}

// What goes over the socket comes back as it was, and what no command line gives is refused.
func TestRequestsTravel(t *testing.T) {
	o := []Expected{{GPUType: "a100", Start: 1, StartP90: Seconds(math.Inf(1)), Run: 3, RunP90: 4, End: Seconds(math.Inf(1))}}
	text, err := json.Marshal(o)
	var back []Expected
	if err != nil || json.Unmarshal(text, &back) != nil || !cmp.Equal(o, back) {
		t.Errorf("%s: %v", text, back)
	}
	good := ask(1, time.Hour)
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Request){
		func(r *Request) { r.GPUs = 0 }, func(r *Request) { r.GPUs = 1 << 40 }, func(r *Request) { r.CPUs = -1 }, func(r *Request) { r.Nodes = 1 << 30 },
		func(r *Request) { r.MemMB = math.MaxInt64 }, func(r *Request) { r.Limit = -time.Hour }, func(r *Request) { r.Partitions = make([]string, 1000) },
	} {
		r := *good
		change(&r)
		if r.Check() == nil {
			t.Errorf("%+v is taken", r)
		}
	}
	if (*Request)(nil).Check() == nil {
		t.Error("null is taken")
	}
}

// One job behind 100,000 on 10,000 nodes, and the first 1,000 of them.
func BenchmarkForecast(b *testing.B) {
	s := crowded(10_000, 100_000, 48)
	var past []runtimes.Run
	for i := range 2000 {
		start := now.Add(time.Duration(i-4000) * time.Minute)
		past = append(past, runtimes.Run{Kind: runtimes.Kind{GPUs: 1 + i%4, Limit: time.Duration(1+i%48) * time.Hour}, Submit: start, Start: start, End: start.Add(time.Duration(i*i%100_000) * time.Second)})
	}
	m := runtimes.Learn(past, now)
	f := Forecast{Draws: 20, Fit: 1}
	b.Run("last", func(b *testing.B) {
		for b.Loop() {
			f.Runs = forecast.ByPast(m, now)
			if _, err := f.Request(s, ask(1, time.Hour), speeds(1, 1), func(time.Duration) *runtimes.Distribution { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	queue := s.Queue()
	for name, n := range map[string]int{"first1000": 1000, "all": len(queue.Order)} {
		queue := *queue
		queue.Order = queue.Order[:n]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n := len(queue.Expect(forecast.ByPast(m, now), 20)); n == 0 {
					b.Fatal(n)
				}
			}
		})
	}
}
