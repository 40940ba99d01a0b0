package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/runtimes"
	"slurmprio/slurmplug"
)

// A check runs alongside the cycles, one at a time: at first, each hour, and after a reload.
// What it found is stored and counted.
func TestChecksNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		d, _ := newDaemon(t, f)
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		var asked []*config.Config
		d.Check = func(_ context.Context, cfg *config.Config) []store.Finding {
			asked = append(asked, cfg)
			time.Sleep(time.Minute) // Slurm is slow
			return []store.Finding{{Level: "PASS"}, {Level: "FAIL", Name: "rights"}, {Level: "FAIL"}}
		}
		turn := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			d.check(t.Context())
			synctest.Wait()
			if len(asked) != want {
				t.Errorf("checked %d times, want %d", len(asked), want)
			}
		}
		turn(0, 1)
		turn(30*time.Second, 1) // it is under way
		if n := testutil.ToFloat64(d.metrics.findings.WithLabelValues("fail")); n != 0 {
			t.Errorf("%v findings before it has ended", n)
		}
		turn(time.Minute, 1)
		if f.found.Count("FAIL") != 2 || f.found.At.IsZero() || testutil.ToFloat64(d.metrics.findings.WithLabelValues("fail")) != 2 {
			t.Errorf("%+v", f.found)
		}
		turn(57*time.Minute, 1)
		turn(2*time.Minute, 2)
		turn(2*time.Minute, 2)
		next := *d.Config
		d.Reload = func() (*config.Config, error) { return &next, nil }
		d.reload()
		if turn(0, 3); asked[len(asked)-1] != &next {
			t.Error("the new configuration is not the one that was checked")
		}
		d.checks.finish()
		if d.checks.running != nil {
			t.Error("it is still under way")
		}
	})
}

// A check that the daemon's end cuts off replaces nothing: all that it found is that its
// commands were killed.
func TestCheckCutOff(t *testing.T) {
	f := &fake{found: store.Findings{At: time.Unix(1, 0)}}
	d, _ := newDaemon(t, f)
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.Check = func(ctx context.Context, _ *config.Config) []store.Finding {
		cancel()
		return []store.Finding{{Level: "FAIL"}}
	}
	d.check(ctx)
	d.checks.finish()
	if f.found.Findings != nil {
		t.Errorf("%+v", f.found)
	}
}

// The starts of the first jobs of the queue are expected once a minute, in the plan's order.
func TestStartsAreExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		d, _ := newDaemon(t, f)
		d.metrics = newMetrics("test", &health{}, t.TempDir())
		first, second, third := trialJob(), trialJob(), trialJob()
		second.ID, third.ID, third.GPUs = slurmplug.Plain(2), slurmplug.Plain(3), 0
		var r cycle.Result
		r.Snapshot = cluster.Snapshot{At: time.Now(), Jobs: []cluster.Job{first, second, third}, Nodes: []cluster.Node{
			{Name: "n1", Usable: true, State: "IDLE", Partitions: []string{"gpu"}, GPUType: "a100", GPUs: 1, CPUs: 8, MemMB: 1000},
		}}
		r.Plan.Queue = append(r.Plan.Queue, queued(2), queued(1), queued(0))
		expect := func() {
			d.expect(t.Context(), &r)
			d.expecting.finish()
		}
		expect()
		want := map[cluster.JobID]time.Duration{second.ID: 0, first.ID: time.Minute}
		for id, after := range want {
			if got, known := f.starts[id]; !known || !got.At.Equal(r.Snapshot.At.Add(after)) || !got.Median.IsZero() {
				t.Errorf("job %s starts at %s, want %s later than %s", id, got.At, after, r.Snapshot.At)
			}
		}
		if len(f.starts) != len(want) {
			t.Errorf("%v", f.starts)
		}
		f.starts = nil
		time.Sleep(expectEvery - time.Second)
		if expect(); f.starts != nil {
			t.Error("planned again within a minute")
		}
		time.Sleep(time.Second)
		if expect(); f.starts == nil {
			t.Error("not planned after a minute")
		}
		// The running job has a limit of a day, and its kind runs for an hour.
		runs := trialJob()
		runs.ID, runs.State, runs.Start, runs.TimeLimit, runs.NodeList = slurmplug.Plain(9), cluster.Running, r.Snapshot.At, 24*time.Hour, "n1"
		r.Snapshot.Jobs, r.Snapshot.Nodes[0].GPUsUsed = append(r.Snapshot.Jobs, runs), 1
		for i := range 40 {
			start := r.Snapshot.At.Add(-time.Duration(100-2*i) * time.Hour)
			d.learning.speeds.past = append(d.learning.speeds.past, runtimes.Run{Kind: runtimes.KindOf(&runs), Submit: start, Start: start, End: start.Add(time.Hour)})
		}
		d.learning.speeds.fit = 2
		time.Sleep(expectEvery)
		expect()
		x := f.starts[second.ID]
		var said dto.Metric
		if err := d.metrics.expected.Write(&said); err != nil || said.Gauge.GetValue() < 600 {
			t.Errorf("priod_expected_wait_seconds %v: %v", &said, err)
		}
		median, p90, raw := x.Median.Sub(r.Snapshot.At), x.P90.Sub(r.Snapshot.At), x.Raw.Sub(r.Snapshot.At)
		if x.At.Sub(r.Snapshot.At) != 24*time.Hour || median < 20*time.Minute || median > 3*time.Hour || raw < median || p90 != 2*raw {
			t.Errorf("after a job that runs for an hour: by limits %s, median %s, nine of ten %s, before the fit %s", x.At.Sub(r.Snapshot.At), median, p90, raw)
		}
	})
}

func queued(job int) plan.Queued { return plan.Queued{Job: job, Decision: job} }
