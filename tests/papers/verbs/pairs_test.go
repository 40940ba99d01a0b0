package verbs

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/tests/shared"
)

const (
	twoWorkloads = "[[workload]]\nname = \"x\"\nspeed.v100 = { 1 = 1 }\n[[workload]]\nname = \"y\"\nspeed.v100 = { 1 = 2 }\n"
	pairHeader   = "gpu_type,gpus,workload,other,steps_per_s,other_steps_per_s\n"
)

// One GPU, rounds of 360 s, two jobs of 720 s alone: by hand.
func TestSimulatePairs(t *testing.T) {
	table := write(t, "w.toml", twoWorkloads)
	steps := "job_id,submit_s,gpus,workload,steps\n1,0,1,x,720\n2,0,1,y,1440\n"
	seconds := "job_id,submit_s,gpus,workload,duration_s\n1,0,1,x,720\n2,0,1,y,720\n"
	for name, c := range map[string]struct {
		jobs, pair     string
		mean, makespan float64
		policy         string // "" is max-min:packed
	}{
		"side by side at 0.8":             {steps, "v100,1,x,y,0.8,1.6\n", 900, 900, ""},
		"the file names the other first":  {steps, "v100,1,y,x,1.6,0.8\n", 900, 900, ""},
		"the first ends, then at 2 a s":   {steps, "v100,1,x,y,1,1.5\n", (720 + 900) / 2., 900, ""}, // 1080 of 1440 at 720 s, 360 more take 180 s
		"jobs that say a time":            {seconds, "v100,1,x,y,0.8,1.6\n", 900, 900, ""},
		"in turns is faster":              {steps, "v100,1,x,y,0.4,0.8\n", (1080 + 1440) / 2., 1440, ""},
		"in turns: nothing is known":      {steps, "", (1080 + 1440) / 2., 1440, ""},
		"in turns: they do not run so":    {steps, "v100,1,x,y,0,0\n", (1080 + 1440) / 2., 1440, ""},
		"in turns: only with themselves":  {steps, "v100,1,x,x,1,1\nv100,1,y,y,2,2\n", (1080 + 1440) / 2., 1440, ""},
		"two of one workload, at full":    {strings.ReplaceAll(steps, "2,0,1,y,1440", "2,0,1,x,720"), "v100,1,x,x,1,1\n", 720, 720, ""},
		"in turns: nobody says what runs": {strings.ReplaceAll(seconds, ",y,", ",,"), "v100,1,x,y,0.8,1.6\n", (1080 + 1440) / 2., 1440, ""},
		"gandiva pairs at 0.7":            {steps, "v100,1,x,y,0.7,1.4\n", 720 / 0.7, 720 / 0.7, "gandiva"},
		"first come, joined from 0.75 on": {steps, "v100,1,x,y,0.8,1.6\n", 900, 900, "fifo:packed"},
		"first come, alone at 0.7":        {steps, "v100,1,x,y,0.7,1.4\n", (720 + 1440) / 2., 1440, "fifo:packed"},
		"water filling":                   {steps, "v100,1,x,y,0.8,1.6\n", 900, 900, "water-filling:packed"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.policy == "" {
				c.policy = "max-min:packed"
			}
			status, out, errs := run("simulate", "--trace", write(t, "jobs.csv", c.jobs), "--nodes", "1:v100:1", "--engine", "rounds", "--workloads", table,
				"--allocation", c.policy, "--pairs", write(t, "pairs.csv", pairHeader+c.pair), "--json")
			var f struct {
				Mean        float64 `json:"mean_jct_s"`
				Makespan    float64 `json:"makespan_s"`
				Utilisation float64 `json:"gpu_utilisation"`
			}
			if err := json.Unmarshal([]byte(out), &f); status != exitDone || err != nil {
				t.Fatal(status, err, errs)
			}
			if math.Abs(f.Mean-c.mean) > 1e-6 || math.Abs(f.Makespan-c.makespan) > 1e-6 || math.Abs(f.Utilisation-1) > 1e-9 {
				t.Errorf("%+v, want %v s on average, %v s in all, the GPU always in use", f, c.mean, c.makespan)
			}
		})
	}
}

func TestSimulateRefusesBadPairs(t *testing.T) {
	pairs := write(t, "pairs.csv", pairHeader)
	for _, c := range []struct {
		pairs string
		args  []string
		want  string
	}{
		{"", []string{"--allocation", "max-min:packed"}, "papers import gavel --pairs makes one"},
		{pairs, []string{"--allocation", "max-min"}, "--pairs belongs to --allocation gandiva or POLICY:packed"},
		{pairs, []string{"--allocation", "max-min:agnostic:packed"}, "cannot be agnostic"},
		{pairs, []string{"--allocation", "sjf:packed"}, "sjf: no space sharing: fifo, finish-time-fairness, hierarchical, makespan, max-min, max-throughput, min-cost, water-filling have it"},
		{pairs, []string{"--allocation", "max-min:packed", "--round-model", "gavel-published"}, "needs --round-model gavel"},
		{pairs, []string{"--allocation", "max-min:packed", "--round-model", "synergy"}, "needs --round-model gavel"},
		{pairs, []string{"--allocation", "max-min:packed", "--pairs-tried", "2"}, "--pairs-tried: want a part from 0"},
		{write(t, "p.csv", pairHeader+"v100,1,x,y,1,1\n"), []string{"--allocation", "max-min:packed", "--pairs-tried", "0.2", "--pair-references", "3"}, "p.csv has pairs of 2 workloads"},
		{write(t, "p.csv", pairHeader), []string{"--allocation", "max-min:packed", "--pairs-tried", "0.2"}, "p.csv has no pair"},
		{"/nowhere/pairs.csv", []string{"--allocation", "max-min:packed"}, "/nowhere/pairs.csv"},
		{write(t, "p.csv", ""), []string{"--allocation", "max-min:packed"}, "want CSV with the header gpu_type,gpus,workload,other,"},
		{write(t, "p.csv", pairHeader+"v100,1,x,lm,1,1\n"), []string{"--allocation", "max-min:packed"}, `p.csv:2: other = "lm": want a workload that is known`},
		{write(t, "p.csv", pairHeader+"v100,1,x,y,1,-1\n"), []string{"--allocation", "max-min:packed"}, `p.csv:2: other_steps_per_s = "-1"`},
		{write(t, "p.csv", pairHeader+"v100,1;2,x,y,1,1\n"), []string{"--allocation", "max-min:packed"}, `p.csv:2: gpus = "1;2"`},
		{write(t, "p.csv", pairHeader+"v100,2,x,y,1,1\n"), []string{"--allocation", "max-min:packed"}, `p.csv:2: workload = "x": want a workload with a speed alone on 2 GPUs of type "v100"`},
	} {
		args := []string{"simulate", "--trace", write(t, "jobs.csv", twoJobTrace), "--nodes", "1:v100:8", "--engine", "rounds", "--workloads", write(t, "w.toml", twoWorkloads)}
		if c.pairs != "" {
			args = append(args, "--pairs", c.pairs)
		}
		status, out, errs := run(append(args, c.args...)...)
		if status != exitUsage || !strings.Contains(errs, c.want) || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit status %d, printed %q, said %q; want %q", c.args, status, out, errs, c.want)
		}
	}
}

// The paper's own measurements, imported, on its own traces: on the physical
// cluster's 3.83 h (published, without space sharing) and, in the long form,
// 19.64 h at 5.6 jobs/h (published, with).
func TestPairsOfGavel(t *testing.T) {
	data := shared.Path(t, "gavel") + "/"
	dir := t.TempDir()
	mean := func(speeds string, args ...string) float64 {
		table, pairs := filepath.Join(dir, "w.toml"), filepath.Join(dir, "pairs.csv")
		for _, args := range [][]string{{"--out", table}, {"--pairs", "--out", pairs}} {
			if status, _, errs := run(append([]string{"import", "gavel", data + speeds}, args...)...); status != exitDone {
				t.Fatal(errs)
			}
		}
		status, out, errs := run(append([]string{"simulate", "--format", "gavel", "--engine", "rounds", "--workloads", table, "--pairs", pairs,
			"--allocation", "max-min:packed", "--json"}, args...)...)
		var f struct {
			Mean float64 `json:"mean_jct_s"`
		}
		if err := json.Unmarshal([]byte(out), &f); status != exitDone || err != nil {
			t.Fatal(status, err, errs)
		}
		return f.Mean / 3600
	}
	h := mean("physical_cluster_throughputs.json", "--trace", data+"traces/max_min_fairness.trace", "--nodes", "8:v100:1", "--nodes", "16:p100:1", "--nodes", "24:k80:1")
	if t.Logf("max_min_fairness.trace: %.2f h", h); h > 3.5 {
		t.Errorf("mean JCT %v h, want at most 3.5", h)
	}
	if os.Getenv("SLURMPRIO_LONG") != "1" {
		return
	}
	h = mean("simulation_throughputs.json", "--trace", data+"traces/continuous_single_seed0.tsv.gz", "--jobs-per-hour", "5.6", "--window", "4000:4999",
		"--nodes", "36:v100:1", "--nodes", "36:p100:1", "--nodes", "36:k80:1")
	if t.Logf("single, 5.6 jobs/h: %.2f h", h); h > 19.2 {
		t.Errorf("mean JCT %v h, want at most 19.2", h)
	}
}
