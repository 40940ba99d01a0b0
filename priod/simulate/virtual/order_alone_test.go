package virtual

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// Where nothing but the order of TE jobs is on, the daemon is shown these alone, and no cycle runs
// while none waits. All jobs fare as with each cycle run on all of them: beside budgets by GPUs, time
// and day, runs that are too long, failed nodes and cycles that are brought forward.
func TestOrderOfTEAlone(tt *testing.T) {
	skipped, behind := 0, 0
	rapid.Check(tt, func(t *rapid.T) {
		jobs, at := make([]trace.Job, 60), 0.0
		for i := range jobs {
			j := trace.Job{
				ID: strconv.Itoa(i), GPUs: rapid.SampledFrom([]int{1, 1, 2, 4, 8}).Draw(t, "GPUs"), Submit: at,
				Duration: rapid.Float64Range(1, 4000).Draw(t, "s"), User: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"),
				Class: rapid.SampledFrom([]cluster.Class{cluster.TE, cluster.BE}).Draw(t, "class"), Untagged: rapid.IntRange(0, 9).Draw(t, "untagged") == 0,
			}
			if j.Limit = j.Duration * 1.5; rapid.IntRange(0, 9).Draw(t, "no limit") == 0 {
				j.Limit = 0
			}
			jobs[i] = j
			at += rapid.Float64Range(0, 400).Draw(t, "later")
		}
		toml := fmt.Sprintf("[te_budget.user]\ngpus = %d\ntime_limit = %q\ngpu_hours_per_day = %v\n", rapid.SampledFrom([]int{0, 4, 8}).Draw(t, "budget"),
			rapid.SampledFrom([]string{"0s", "20m", "1h"}).Draw(t, "limit"), rapid.SampledFrom([]float64{0, 0.5, 5}).Draw(t, "a day"))
		fails := rapid.SampledFrom([]float64{0, 40000}).Draw(t, "mtbf")
		outcomes, cycles := map[bool][]metrics.Outcome{}, map[bool]int{}
		for _, every := range []bool{true, false} {
			opt := Options{Order: Priod, Placement: placement.Packed, Backfill: EASY, RequeueDelay: 121, Own: Own{Multifactor: DefaultWeights}, MTBF: fails, Repair: 600, Daemon: daemonOf(tt, toml, nil)}
			opt.Daemon.Every, opt.Daemon.Settings.Waits.Tracker = every, nil
			opt.Daemon.Settings.Stage = func(stage string) {
				if stage == "observe" {
					cycles[every]++
				}
			}
			outcomes[every] = run(tt, trace.Cluster{Nodes: []trace.NodeGroup{{Count: 2, GPUType: "a100", GPUs: 8}}}, jobs, opt).Outcomes
		}
		if diff := cmp.Diff(outcomes[true], outcomes[false]); diff != "" {
			t.Fatal(diff)
		}
		skipped += cycles[true] - cycles[false]
		behind += cycles[false]
	})
	if skipped == 0 || behind == 0 {
		tt.Errorf("%d cycles left out, %d run", skipped, behind)
	}
}
