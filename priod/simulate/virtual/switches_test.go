package virtual

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// With switches, too, the cycles that are left out change nothing.
func TestSkippedCyclesAndSwitches(t *testing.T) {
	c := trace.Cluster{Nodes: []trace.NodeGroup{{Count: 16, GPUType: "gpu", GPUs: 2}}}
	if err := c.Hang(4); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 5))
	var jobs []trace.Job
	at := 0.0
	for i := range 150 {
		at += r.ExpFloat64() * 500
		jobs = append(jobs, trace.Job{ID: fmt.Sprint(i), GPUs: []int{1, 1, 2, 4, 8}[r.IntN(5)], Duration: float64(300 + r.IntN(9000)), User: "ann", Submit: float64(int(at))})
	}
	spread := func(times float64) float64 { return 1 / (1 + 0.2*(times-1)) }
	outcomes, cycles := map[bool][]metrics.Outcome{}, map[bool]int{}
	for _, every := range []bool{true, false} {
		opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, Daemon: daemonOf(t, "[locality]\nenabled = true\n", nil)}
		opt.Spread, opt.Daemon.Every = spread, every
		opt.Daemon.Settings.Stage = func(stage string) {
			if stage == "observe" {
				cycles[every]++
			}
		}
		outcomes[every] = run(t, c, jobs, opt).Outcomes
	}
	if !reflect.DeepEqual(outcomes[true], outcomes[false]) || cycles[false] >= cycles[true] {
		t.Errorf("%d cycles of %d, with the same outcomes: %t", cycles[false], cycles[true], reflect.DeepEqual(outcomes[true], outcomes[false]))
	}
	opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, Daemon: daemonOf(t, "", nil), Spread: spread}
	if reflect.DeepEqual(run(t, c, jobs, opt).Outcomes, outcomes[true]) {
		t.Error("nobody waited for switches")
	}
	t.Logf("%d cycles of %d", cycles[false], cycles[true])
}
