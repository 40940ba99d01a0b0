package rounds_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"slurmprio/priod/trace"
	"slurmprio/tests/papers/rounds"
	"slurmprio/tests/shared"
)

// rows reads a table without quotes, each row cut at sep.
func rows(t testing.TB, name, sep string) [][]string {
	t.Helper()
	var all [][]string
	for s := bufio.NewScanner(shared.Open(t, name)); s.Scan(); {
		all = append(all, strings.Split(s.Text(), sep))
	}
	return all
}

// speeds of Gavel's throughput files: by type, then by model and GPUs.
func speeds(t testing.TB, name string) func(*trace.Job, string) float64 {
	t.Helper()
	var file map[string]map[string]map[string]json.RawMessage
	shared.JSON(t, name, &file)
	key := regexp.MustCompile(`^\('(.*)', (\d+)\)$`)
	type model struct {
		name string
		gpus int
		gpu  string
	}
	table := map[model]float64{}
	for gpu, models := range file {
		for k, partners := range models {
			m := key.FindStringSubmatch(k)
			gpus, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			var speed float64
			if err := json.Unmarshal(partners["null"], &speed); err != nil {
				t.Fatal(err)
			}
			table[model{m[1], gpus, gpu}] = speed
		}
	}
	return func(j *trace.Job, gpu string) float64 { return table[model{j.Workload, j.GPUs, gpu}] }
}

// gavelTrace reads the trace format of the published scheduler.
func gavelTrace(t testing.TB, name string) []trace.Job {
	t.Helper()
	var jobs []trace.Job
	for i, r := range rows(t, "gavel/traces/"+name, "\t") {
		jobs = append(jobs, trace.Job{
			ID: strconv.Itoa(i), Workload: r[0], Steps: shared.Number(t, r[5]), GPUs: int(shared.Number(t, r[6])), Submit: shared.Number(t, r[9]),
		})
	}
	return jobs
}

// continuous reads the stream of the published generator at a rate in jobs/h.
func continuous(t testing.TB, name string, rate float64) []trace.Job {
	t.Helper()
	var jobs []trace.Job
	for _, r := range rows(t, "gavel/traces/"+name, "\t")[1:] {
		jobs = append(jobs, trace.Job{
			ID: r[0], Workload: r[1], GPUs: int(shared.Number(t, r[2])), Steps: shared.Number(t, r[3]), Submit: shared.Number(t, r[5]) * (3600 / rate),
		})
	}
	return jobs
}

// gpus is a cluster with one GPU in each node.
func gpus(v100, p100, k80 int) trace.Cluster {
	var c trace.Cluster
	for _, g := range []trace.NodeGroup{
		{Count: v100, GPUType: "v100", GPUs: 1}, {Count: p100, GPUType: "p100", GPUs: 1}, {Count: k80, GPUType: "k80", GPUs: 1},
	} {
		if g.Count > 0 {
			c.Nodes = append(c.Nodes, g)
		}
	}
	return c
}

func run(t testing.TB, c trace.Cluster, jobs []trace.Job, opt rounds.Options) rounds.Result {
	t.Helper()
	result, err := rounds.Run(context.Background(), c, trace.Each(jobs), opt)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// meanJCT in hours over the jobs first to last.
func meanJCT(t testing.TB, jobs []trace.Job, r rounds.Result, first, last int) float64 {
	t.Helper()
	sum := 0.0
	for i := first; i <= last; i++ {
		if !r.Outcomes[i].Done {
			t.Fatalf("job %s is not done", jobs[i].ID)
		}
		sum += r.Outcomes[i].End - jobs[i].Submit
	}
	return sum / float64(last-first+1) / 3600
}

// replay is what a run of the published scheduler recorded.
type replay struct {
	Rounds []struct {
		Time       float64
		Reset      bool
		Allocation map[string]map[string]float64
		Schedule   map[string]struct {
			Type string
		}
	}
	JCT map[string]float64 `json:"jct_s"`
}

// recorded allocates what the reference allocated, reset by reset. The
// recording has 8 digits: jobs that are alike tie in it, and what a solver left
// at 1e-10 is 0. lost gives back, below the last digit, an order that agrees
// with what ran until the next reset.
func (r *replay) recorded() rounds.Allocator {
	next := 0
	return func(now float64, jobs []*rounds.Active, types []rounds.Type, x []float64) error {
		for ; next < len(r.Rounds); next++ {
			if !r.Rounds[next].Reset {
				continue
			}
			if math.Abs(r.Rounds[next].Time-now) > 1e-6 {
				return fmt.Errorf("allocation at %v, recorded at %v", now, r.Rounds[next].Time)
			}
			for i, a := range jobs {
				for j, t := range types {
					x[i*len(types)+j] = r.Rounds[next].Allocation[a.Job.ID][t.Name] + r.lost(next, a.Job.ID, t.Name)
				}
			}
			next++
			return nil
		}
		return errReplayEnds
	}
}

func (r *replay) lost(reset int, job, gpuType string) float64 {
	sum, digit := 0.0, 2e-9
	for i := reset; i < len(r.Rounds) && (i == reset || !r.Rounds[i].Reset); i++ {
		if r.Rounds[i].Schedule[job].Type == gpuType {
			sum += digit
		}
		digit /= 2
	}
	return sum
}

var errReplayEnds = errors.New("the recording ends")

// Given the recorded allocations, every round of the published mechanism
// comes out: time, jobs, types; and every completion time.
func TestPublishedMechanism(t *testing.T) {
	for _, c := range []struct {
		file, trace string
		cluster     trace.Cluster
		strict      bool
	}{
		{"rounds_artifact_fifo_perf", "artifact_evaluation", gpus(2, 0, 4), true},
		{"rounds_artifact_ftf_perf", "artifact_evaluation", gpus(2, 0, 4), false},
		{"rounds_artifact_makespan_perf", "artifact_evaluation", gpus(2, 0, 4), false},
		{"rounds_artifact_mmf_perf", "artifact_evaluation", gpus(2, 0, 4), false},
		{"rounds_phys_mmf_perf_first40", "max_min_fairness", gpus(8, 16, 24), false},
	} {
		t.Run(c.file, func(t *testing.T) {
			var want replay
			shared.JSON(t, "gavel/expected/"+c.file+".json", &want)
			jobs := gavelTrace(t, c.trace+".trace")
			types, n := c.cluster.Types(), 0
			ctx, stop := context.WithCancelCause(context.Background())
			result, err := rounds.Run(ctx, c.cluster, trace.Each(jobs), rounds.Options{
				Model: rounds.Gavel{Allocator: want.recorded(), Published: &rounds.Published{Strict: c.strict}},
				Speed: speeds(t, "gavel/physical_cluster_throughputs.json"),
				Watch: func(got rounds.Round) {
					if n == len(want.Rounds) {
						stop(errReplayEnds)
						return
					}
					w := want.Rounds[n]
					if math.Abs(w.Time-got.Start) > 1e-6 || w.Reset != got.Reset || len(w.Schedule) != len(got.Runs) {
						t.Fatalf("round %d: at %v with %d jobs (reset %v), want at %v with %d (%v)", n, got.Start, len(got.Runs), got.Reset, w.Time, len(w.Schedule), w.Reset)
					}
					for _, a := range got.Runs {
						s := w.Schedule[a.Job.Job.ID]
						if s.Type != types[a.Type] {
							t.Fatalf("round %d: job %s on %s, want %q", n, a.Job.Job.ID, types[a.Type], s.Type)
						}
					}
					n++
				},
			})
			recorded := len(want.Rounds)
			if last := want.Rounds[recorded-1]; len(last.Schedule) == 0 {
				recorded-- // the state after the end
			}
			if n < recorded || err != nil && !errors.Is(err, errReplayEnds) && !errors.Is(err, context.Canceled) {
				t.Fatalf("%d of %d rounds: %v", n, recorded, err)
			}
			done := 0
			for i, o := range result.Outcomes {
				if o.Done {
					done++
					if jct := o.End - jobs[i].Submit; math.Abs(jct-want.JCT[jobs[i].ID]) > 1e-3 {
						t.Errorf("job %s: JCT %v, want %v", jobs[i].ID, jct, want.JCT[jobs[i].ID])
					}
				}
			}
			if err == nil && done != len(jobs) || done == 0 {
				t.Errorf("%d jobs done", done)
			}
			t.Logf("%d rounds, %d jobs done", n, done)
		})
	}
}
