package tests

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slurmprio/priod/simulate/metrics"
)

// BenchmarkTrialStart tells how long a TE job waits on a full lab: from its
// submission to its start, and from the victim's exit to its start. The victim
// saves at once.
func BenchmarkTrialStart(b *testing.B) {
	e := newEvictable(b, evicting)
	e.blocker("t4:4")
	e.worker("w", "t4:4", 100_000, 5, "save")
	e.begun("w")
	d := e.daemon()
	d.waitLog("started")
	var wait, after []float64
	for i := 0; b.Loop(); i++ {
		began := e.state(fmt.Sprint("trial", i))
		submitted := e.stamp()
		trial := e.submit("--prio-type=te", "--gres=gpu:t4:2", "--time=5", "--wrap", "date +%s.%N > "+began)
		e.completes(trial)
		runs := strings.Count(e.log("w"), "start ")
		e.wait("the victim to run again", func() bool { return strings.Count(e.log("w"), "start ") > runs || runs == i+2 })
		text, err := os.ReadFile(began)
		if err != nil {
			b.Fatal(err)
		}
		start := seconds(b, string(text))
		lines := strings.Split(e.log("w"), "\n")
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf("signal restart=%d ", i)) })
		if at < 0 {
			b.Fatalf("the victim was not told:\n%s", e.log("w"))
		}
		_, told, _ := strings.Cut(lines[at], "time=")
		wait, after = append(wait, start-submitted), append(after, start-seconds(b, told))
	}
	d.stop()
	b.Logf("waits %.2f, after the exit %.2f", wait, after)
	for name, x := range map[string][]float64{"wait": wait, "after-exit": after} {
		slices.Sort(x)
		b.ReportMetric(metrics.Percentile(x, 50), name+"-p50-s")
		b.ReportMetric(metrics.Percentile(x, 95), name+"-p95-s")
	}
	b.ReportMetric(0, "ns/op")
}

// stamp is the lab's time, s.
func (e *evictable) stamp() float64 {
	e.Helper()
	return seconds(e, e.slurm("date", "+%s.%N"))
}

func seconds(t testing.TB, text string) float64 {
	t.Helper()
	s, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
