package verbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	priod "slurmprio/priod/cli"
	"slurmprio/priod/trace"
)

// Exit statuses, as priod's.
const (
	exitDone    = 0
	exitProblem = 1
	exitUsage   = 2
)

// run is one command line: its exit status and what it printed.
func run(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = priod.Run(App(), append([]string{"papers"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// write puts text into a file of the test's own folder.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const twoJobTrace = "job_id,submit_s,gpus,duration_s\n1,0,8,100\n2,10,4,50\n"

func TestSimulateRefuses(t *testing.T) {
	jobs := write(t, "jobs.csv", twoJobTrace)
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"two sources", []string{"--trace", jobs, "--generate", "fitgpp", "--nodes", "1:v100:8"}, exitUsage, "which jobs?"},
		{"steering without backfill", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--backfill", "none"}, exitUsage, "wants backfill"},
		{"order owed without an allocation", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "owed"}, exitUsage, "ranking.order: want an allocation.policy"},
		{"pool and preemption", []string{"--trace", jobs, "--nodes", "1:v100:8", "--preemption", "lrtp", "--engine", "pool"}, exitUsage, "belong to --engine slurm"},
		{"larger than the cluster, in rounds", []string{"--trace", jobs, "--nodes", "1:v100:4", "--engine", "rounds"}, exitProblem, "stuck: "},
		{"a bound", []string{"--trace", jobs, "--nodes", "1:v100:8", "--sizing", "opt"}, exitUsage, "--engine rounds"},
		{"a bound of unlike nodes", []string{"--engine", "rounds", "--generate", "synergy --jobs 5", "--nodes", "1:v100:8:24:512000", "--nodes", "1:v100:8:32:512000", "--sizing", "opt"}, exitProblem, "alike"},
		{"window", []string{"--trace", jobs, "--nodes", "1:v100:8", "--window", "5:2"}, exitUsage, "--window"},
		{"window behind the end", []string{"--trace", jobs, "--nodes", "1:v100:8", "--window", "0:9"}, exitProblem, "only 2 jobs"},
		{"las without queues", []string{"--trace", jobs, "--nodes", "1:v100:8", "--engine", "pool", "--order", "las"}, exitUsage, "--las-queues 3250,7200"},
		{"las queues", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "las", "--las-queues", "1,x"}, exitUsage, `"x"`},
		{"node events in a pool", []string{"--trace", jobs, "--nodes", "1:v100:8", "--engine", "pool", "--node-events", "/nowhere/e.toml"}, exitUsage, "--node-events belongs to --engine slurm"},
		{"node events in rounds", []string{"--trace", jobs, "--nodes", "1:v100:8", "--engine", "rounds", "--node-events", "/nowhere/e.toml"}, exitUsage, "--node-events belongs to --engine slurm"},
		{"backfill in rounds", []string{"--trace", jobs, "--nodes", "1:v100:8", "--engine", "rounds", "--backfill", "easy"}, exitUsage, "belong to --engine slurm"},
		{"steering in an order that Slurm has not", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--order", "sjf"}, exitUsage, "fifo or multifactor, not sjf"},
		{"negative round", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--round", "-5m"}, exitUsage, "--round -5m0s: want 0s or more"},
		{"pool and packed", []string{"--trace", jobs, "--nodes", "1:v100:8", "--engine", "pool", "--placement", "packed"}, exitUsage, "in a pool GPUs are counted"},
		{"an order of the papers on a Slurm", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "srtf"}, exitUsage, "--engine pool"},
		{"conservative backfill on a Slurm", []string{"--trace", jobs, "--nodes", "1:v100:8", "--backfill", "conservative"}, exitUsage, "--engine pool"},
		{"generator", []string{"--generate", "nothing", "--nodes", "1:v100:8"}, exitUsage, "fitgpp"},
		{"generator's flag", []string{"--generate", "fitgpp --jobs 0", "--nodes", "1:v100:8"}, exitUsage, "0 jobs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, errs := run(append([]string{"simulate"}, c.args...)...)
			if status != c.status || !strings.Contains(errs, c.want) {
				t.Errorf("exit status %d, want %d; said %q, want %q", status, c.status, errs, c.want)
			}
			if out != "" || strings.Count(errs, "\n") != 1 {
				t.Errorf("want one error and nothing else; printed %q, said %q", out, errs)
			}
		})
	}
}

func TestSimulateCountsBadRows(t *testing.T) {
	jobs := write(t, "jobs.csv", twoJobTrace+"x,20,none,5\n")
	status, out, errs := run("simulate", "--trace", jobs, "--nodes", "1:v100:8", "--skip-bad", "--json")
	var f struct {
		Jobs int `json:"jobs"`
		Bad  int `json:"bad_rows"`
	}
	if err := json.Unmarshal([]byte(out), &f); status != exitDone || err != nil || f.Jobs != 2 || f.Bad != 1 {
		t.Errorf("status %d, %+v, %v, said %q", status, f, err, errs)
	}
}

// The paper's names are aliases: a Gavel trace runs out of the box.
func TestGavelTraceRunsOutOfTheBox(t *testing.T) {
	jobs := write(t, "gavel.trace", "ResNet-18 (batch size 128)\tpython3 main.py\tdir\t--num_steps\t1\t18000\t1\t1\t-1.000000\t0\n")
	status, out, errs := run("simulate", "--trace", jobs, "--format", "gavel", "--nodes", "1:v100:1", "--json")
	var f struct {
		JCT float64 `json:"mean_jct_s"`
	}
	if err := json.Unmarshal([]byte(out), &f); status != exitDone || err != nil {
		t.Fatal(status, err, errs)
	}
	if f.JCT < 950 || f.JCT > 1050 { // 18,000 steps at the paper's 18 steps/s
		t.Errorf("completion time %v s, want about 1000 s", f.JCT)
	}
}

// What retry saves on a history, by accounting's own columns: of two jobs that fail for
// ever, and that somebody requeued, one run is left out each.
func TestSimulateRetries(t *testing.T) {
	history := "JobID|Submit|Start|End|State|ExitCode|DerivedExitCode|AllocTRES|TimelimitRaw\n"
	for id, state := range []string{"OUT_OF_MEMORY", "NODE_FAIL"} {
		for n := range 3 {
			end := state
			if state == "NODE_FAIL" && n == 2 {
				end = "COMPLETED"
			}
			history += fmt.Sprintf("%d|100|%d|%d|%s|1:0|1:0|gres/gpu=2|60\n", id+1, 1000*n+100, 1000*n+1000, end)
		}
	}
	path := write(t, "history", history)
	type figures struct {
		Trials int     `json:"trials"`
		Failed int     `json:"failed_trials"`
		Lost   float64 `json:"failed_gpu_s"`
		Jobs   int     `json:"failed_jobs"`
		Held   int     `json:"held_jobs"`
	}
	const retries = "[retry]\nenabled = true\n"
	for _, c := range []struct {
		toml string
		args []string
		want figures
	}{
		{retries, nil, figures{6, 5, 9000, 1, 0}},                                            // nobody agreed: as it was
		{"", []string{"--retry", "always"}, figures{6, 5, 9000, 1, 0}},                       // priod looks at none
		{retries, []string{"--retry", "infra"}, figures{4, 3, 5400, 1, 0}},                   // memory: once; the node: as it was
		{retries + "per_job = 1\n", []string{"--retry", "infra"}, figures{3, 3, 5400, 2, 1}}, // and no more than once
	} {
		args := append([]string{"--config", write(t, "priod.toml", c.toml), "simulate", "--trace", path, "--format", "sacct", "--nodes", "4:a100:2", "--order", "priod", "--backfill", "easy"}, c.args...)
		status, out, errs := run(append(args, "--json")...)
		var got figures
		if err := json.Unmarshal([]byte(out), &got); status != exitDone || err != nil {
			t.Fatal(status, err, errs)
		}
		if got != c.want {
			t.Errorf("%q %q: %+v, want %+v", c.toml, c.args, got, c.want)
		}
		if _, out, _ = run(args...); !strings.Contains(out, "GPU-hours lost to failures") {
			t.Errorf("%s", out)
		}
	}
	for _, c := range []struct{ toml, args, want string }{
		{retries + "output = true\n", "--order priod", "retry.output"},
		{retries + "drain = true\n", "--order priod", "retry.drain"},
		{retries, "--order priod --retry yes", `--retry "yes": want one of never, infra, always`},
		{retries, "--order fifo --retry infra", "--retry is about priod's requeues"},
	} {
		args := append([]string{"--config", write(t, "priod.toml", c.toml), "simulate", "--trace", path, "--format", "sacct", "--nodes", "4:a100:2"}, strings.Fields(c.args)...)
		if status, _, errs := run(args...); status != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q %q: exit status %d, %s; want %q", c.toml, c.args, status, errs, c.want)
		}
	}
}

func TestGenerate(t *testing.T) {
	for _, args := range [][]string{
		{"gavel", "--multi-gpu", "--slo", "--high-priority", "0.2"},
		{"gavel", "--jobs-per-hour", "inf"},
		{"synergy", "--split", "33,33,33"},
		{"fitgpp", "--mix", "small-be"},
		{"fitgpp", "--load", "0.8", "--nodes", "4:a100:4:64:512000"},
		{"philly", "--passed-only"},
	} {
		path := filepath.Join(t.TempDir(), "trace.csv")
		args = append([]string{"generate"}, append(args, "--jobs", "100", "--seed", "7", "--out", path)...)
		if status, out, errs := run(args...); status != exitDone || out+errs != "" {
			t.Fatalf("%q: %d %s%s", args, status, out, errs)
		}
		r, err := trace.Open(path, trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		jobs := 0
		for _, err := range r.All() {
			if jobs++; err != nil {
				t.Fatal(err)
			}
		}
		_ = r.Close()
		if jobs != 100 {
			t.Errorf("%q: %d jobs", args, jobs)
		}
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, out, _ := run(args[:len(args)-2]...); out != string(written) {
			t.Errorf("%q: standard output is not what the file holds", args)
		}
	}
}

func TestUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"generate", exitUsage, "say which"},
		{"generate tiresias", exitUsage, "say which"},
		{"generate gavel file", exitUsage, "takes no arguments"},
		{"generate gavel --jobs 0", exitUsage, "0 jobs"},
		{"generate gavel --jobs-per-hour 0", exitUsage, "0 jobs in an hour"},
		{"generate gavel --workloads " + missing, exitUsage, "missing"},
		{"generate gavel --seed -1", exitUsage, "seed"},
		{"generate synergy --split 1,2", exitUsage, "three percentages"},
		{"generate synergy --split 1,2,x", exitUsage, `"x" is no number`},
		{"generate fitgpp --mix odd", exitUsage, `mix "odd"`},
		{"generate fitgpp --nodes 8", exitUsage, "want COUNT:TYPE:GPUS"},
		{"generate philly --jobs 1 --out " + missing + "/x", exitProblem, "missing"},
		{"import gavel", exitUsage, "want gavel FILE or synergy FILE"},
		{"import oracle x", exitUsage, "want gavel FILE"},
		{"import synergy --pairs x", exitUsage, "--pairs goes with gavel"},
		{"import gavel " + missing, exitProblem, "missing"},
	} {
		if status, out, errs := run(strings.Fields(c.args)...); status != c.status || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: status %d, %q %q; want %d and %q", c.args, status, out, errs, c.status, c.want)
		}
	}
}

func TestImport(t *testing.T) {
	dir := t.TempDir()
	measured, mine, pairs := filepath.Join(dir, "measured.json"), filepath.Join(dir, "mine.toml"), filepath.Join(dir, "pairs.csv")
	const text = `{"k80": {"('A3C', 1)": {"null": 2.5, "('A3C', 1)": [1, 1]}}}`
	if err := os.WriteFile(measured, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import", "gavel", measured, "--out", mine}, {"import", "gavel", measured, "--pairs", "-o", pairs}} {
		if status, out, errs := run(args...); status != exitDone || out+errs != "" {
			t.Fatalf("%q: %d %s%s", args, status, out, errs)
		}
	}
	if b, err := os.ReadFile(pairs); err != nil || !strings.Contains(string(b), "k80,1,a3c,a3c,1,1\n") {
		t.Errorf("%s %v", b, err)
	}
	if b, err := os.ReadFile(mine); err != nil || !strings.Contains(string(b), "a3c") {
		t.Error(string(b), err)
	}
	if status, _, _ := run("import", "gavel", pairs, "--out", mine); status != exitProblem {
		t.Error("a CSV file was imported as Gavel's JSON")
	}
}
