package runtimes_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"slurmprio/priod/workload/runtimes"
)

// oneAfterAnother are runs of one GPU, each as long as is said, s.
func oneAfterAnother(n int, of func(i int) (user string, ran float64)) (runs []runtimes.Run, now time.Time) {
	at := epoch
	for i := range n {
		user, ran := of(i)
		end := at.Add(seconds(ran))
		runs = append(runs, runtimes.Run{Kind: runtimes.Kind{User: user, Program: "train", GPUs: 1, Limit: 1000 * time.Hour}, Submit: at, Start: at, End: end})
		at = end.Add(time.Minute)
	}
	return runs, at
}

// An interval is told once those that were said before held: not with the first runs.
func TestIntervalsAreToldOnceTheyHold(t *testing.T) {
	steady := func(i int) (string, float64) { return "ann", 600 * math.Exp(float64(i*7%11)/5) }
	for _, c := range []struct {
		name string
		runs int
		of   func(int) (string, float64)
		told bool
	}{{"the first runs", 60, steady, false}, {"runs as before", 400, steady, true}} {
		runs, now := oneAfterAnother(c.runs, c.of)
		d := runtimes.Learn(runs, now).Predict(runs[0].Kind, now)
		if (d.Scored > 0) != c.told {
			t.Errorf("%s: scored on %d runs, want an interval: %v", c.name, d.Scored, c.told)
		}
	}
}

// Where each user's few runs are alike and users differ by orders of magnitude, the plain median of the user's runs is nearer
// than what is mixed with others' runs, and is what is expected.
func TestPlainMedianWhereItWasNearer(t *testing.T) {
	length := func(user int) float64 { return 10 * math.Pow(10, float64(user*37%100)/20) }
	runs, now := oneAfterAnother(800, func(i int) (string, float64) { return fmt.Sprint("user", i/4), length(i / 4) })
	m := runtimes.Learn(runs[:799], now) // the last user has three
	k := runs[799].Kind
	if got, want := m.Predict(k, now).Quantile(0.5).Seconds(), length(799/4); math.Abs(math.Log(got/want)) > 0.01 {
		t.Errorf("%.0f s, the user's runs took %.0f s", got, want)
	}
}
