package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
	file := func(text string) string { return write(t, "bad.csv", text) }
	const header = "job_id,submit_s,gpus,duration_s\n"
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"no jobs", []string{"--nodes", "1:v100:8"}, exitUsage, "which jobs?"},
		{"two sources", []string{"--trace", jobs, "--generate", "fitgpp", "--nodes", "1:v100:8"}, exitUsage, "which jobs?"},
		{"no nodes", []string{"--trace", jobs}, exitUsage, "which nodes?"},
		{"bad nodes", []string{"--trace", jobs, "--nodes", "x:v100:8"}, exitUsage, "x"},
		{"no file", []string{"--trace", "/nowhere/a.csv", "--nodes", "1:v100:8"}, exitProblem, "/nowhere/a.csv"},
		{"empty trace", []string{"--trace", file(""), "--nodes", "1:v100:8"}, exitProblem, "bad.csv"},
		{"trace without rows", []string{"--trace", file(header), "--nodes", "1:v100:8"}, exitProblem, "no jobs in it"},
		{"negative time", []string{"--trace", file(header + "1,-5,1,10\n"), "--nodes", "1:v100:8"}, exitProblem, ":2:3: submit_s"},
		{"duration 0", []string{"--trace", file(header + "1,0,1,0\n"), "--nodes", "1:v100:8"}, exitProblem, "duration_s"},
		{"same id", []string{"--trace", file(header + "1,0,1,5\n1,1,1,5\n"), "--nodes", "1:v100:8"}, exitProblem, ":3:"},
		{"larger than the cluster", []string{"--trace", jobs, "--nodes", "1:v100:4"}, exitProblem, "stuck: these jobs can never run because"},
		{"larger than the cluster, in rounds", []string{"--trace", jobs, "--nodes", "1:v100:4", "--engine", "rounds"}, exitProblem, "stuck: "},
		{"type that is not there", []string{"--trace", file("job_id,submit_s,gpus,duration_s,gpu_type\n1,0,1,5,a100\n"), "--nodes", "1:v100:4"}, exitProblem, "a100"},
		{"workload that nobody knows", []string{"--trace", file("job_id,submit_s,gpus,workload,steps\n1,0,1,nothing,5\n"), "--nodes", "1:v100:4"}, exitProblem, `no workload "nothing"`},
		{"workload without speeds here", []string{"--trace", file("job_id,submit_s,gpus,workload,steps\n1,0,1,A3C,5\n"), "--nodes", "1:h100:4"}, exitProblem, "stuck"},
		{"order", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "best"}, exitUsage, `--order "best": want one of fifo`},
		{"a bound", []string{"--trace", jobs, "--nodes", "1:v100:8", "--sizing", "opt"}, exitUsage, "--engine rounds"},
		{"a bound of unlike nodes", []string{"--engine", "rounds", "--generate", "synergy --jobs 5", "--nodes", "1:v100:8:24:512000", "--nodes", "1:v100:8:32:512000", "--sizing", "opt"}, exitProblem, "alike"},
		{"window", []string{"--trace", jobs, "--nodes", "1:v100:8", "--window", "5:2"}, exitUsage, "--window"},
		{"window behind the end", []string{"--trace", jobs, "--nodes", "1:v100:8", "--window", "0:9"}, exitProblem, "only 2 jobs"},
		{"las without queues", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "las"}, exitUsage, "--las-queues 3250,7200"},
		{"failures without repair", []string{"--trace", jobs, "--nodes", "1:v100:8", "--mtbf", "1h"}, exitUsage, "--repair beside --mtbf"},
		{"las queues", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "las", "--las-queues", "1,x"}, exitUsage, `"x"`},
		{"node events in a pool", []string{"--trace", jobs, "--nodes", "1:v100:8", "--pool", "--node-events", write(t, "events.toml", "events = [{at = \"1h\", event = \"join\", nodes = \"n0\"}]\n")}, exitUsage, "only where jobs are placed on nodes"},
		{"node events in rounds", []string{"--trace", jobs, "--nodes", "1:v100:8", "--engine", "rounds", "--node-events", "/nowhere/e.toml"}, exitUsage, "--node-events belongs to --engine slurm"},
		{"no file of node events", []string{"--trace", jobs, "--nodes", "1:v100:8", "--node-events", "/nowhere/e.toml"}, exitUsage, "/nowhere/e.toml"},
		{"backfill in rounds", []string{"--trace", jobs, "--nodes", "1:v100:8", "--engine", "rounds", "--backfill", "easy"}, exitUsage, "belong to --engine slurm"},
		{"steering without backfill", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--backfill", "none"}, exitUsage, "wants backfill"},
		{"steering in an order that Slurm has not", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--order", "sjf"}, exitUsage, "fifo or multifactor, not sjf"},
		{"steering before each pass", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--steering-cycle", "0s"}, exitUsage, "--hold 20s keeps jobs from starting before"},
		{"negative round", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--round", "-5m"}, exitUsage, "--round -5m0s: want 0s or more"},
		{"weight of waiting", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--steering-wait", "NaN"}, exitUsage, "steering.wait: want a number from 0"},
		{"negative lead", []string{"--trace", jobs, "--nodes", "1:v100:8", "--allocation", "max-min", "--order", "owed", "--lead", "-1h"}, exitUsage, "--lead -1h0m0s: want 0s or more"},
		{"owed by nobody", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "owed"}, exitUsage, "ranking.order: want an allocation.policy"},
		{"steering without allocation", []string{"--trace", jobs, "--nodes", "1:v100:8", "--steering-depth", "5"}, exitUsage, "--steering-depth stands for steering.depth of priod.toml: it belongs to --order priod"},
		{"steering in rounds", []string{"--trace", jobs, "--nodes", "1:v100:8", "--engine", "rounds", "--allocation", "max-min", "--lead", "1h"}, exitUsage, "--lead stands for rounds.lead"},
		{"pool and packed", []string{"--trace", jobs, "--nodes", "1:v100:8", "--pool", "--placement", "packed"}, exitUsage, "contradict"},
		{"generator", []string{"--generate", "nothing", "--nodes", "1:v100:8"}, exitUsage, "fitgpp"},
		{"generator's flag", []string{"--generate", "fitgpp --jobs 0", "--nodes", "1:v100:8"}, exitUsage, "0 jobs"},
		{"page that cannot be written", []string{"--trace", jobs, "--nodes", "1:v100:8", "--html", "/nowhere/page.html"}, exitProblem, "/nowhere/page.html"},
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

// By hand: two jobs on one node of eight GPUs; the second waits for the first.
func TestSimulateTwoJobs(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out.csv")
	status, _, errs := run("simulate", "--trace", write(t, "jobs.csv", twoJobTrace), "--nodes", "1:v100:8", "--jobs-out", out)
	if status != exitDone {
		t.Fatal(errs)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want := "job_id,submit_s,start_s,end_s,wait_s,ran_s,preemptions,gpus,gpu_type,type,done,nodes\n" +
		"1,0,0,100,0,100,0,8,v100,be,true,n0\n2,10,100,150,90,50,0,4,v100,be,true,n0\n"
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
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

// By hand: A3C runs 7.18 steps/s on a V100 and 3.44 on a K80. The second job
// ends sooner by waiting 100 s for the V100 than at once on the K80, where
// Slurm's first free type would put it.
func TestSimulateSteers(t *testing.T) {
	jobs := write(t, "jobs.csv", "job_id,submit_s,gpus,workload,steps\n1,0,1,A3C,718\n2,0,1,A3C,7180\n")
	for _, c := range []struct {
		args []string
		want float64
	}{
		{nil, (100 + 7180/3.44) / 2},
		{[]string{"--allocation", "max-min", "--hold", "20s", "--steering-wait", "1"}, (120 + 1120) / 2.},
		{[]string{"--allocation", "max-min", "--round", "30m"}, (100 + 7180/3.44) / 2},                      // both start before the first cycle
		{[]string{"--order", "priod", "--hold", "20s", "--steering-wait", "1"}, (120 + 20 + 7180/3.44) / 2}, // nothing is switched on
	} {
		status, out, errs := run(append([]string{"simulate", "--trace", jobs, "--nodes", "1:v100:1", "--nodes", "1:k80:1", "--json"}, c.args...)...)
		var f struct {
			JCT float64 `json:"mean_jct_s"`
		}
		if err := json.Unmarshal([]byte(out), &f); status != exitDone || err != nil {
			t.Fatal(status, err, errs)
		}
		if f.JCT < 0.99*c.want || f.JCT > 1.01*c.want {
			t.Errorf("%q: mean completion time %v s, want about %v s", c.args, f.JCT, c.want)
		}
	}
}

// The daemon's own cycles steer where the configuration says so, and then nobody
// blocks the others: the third job lets the K80, free after 70 s, pass.
func TestSimulateDaemonSteers(t *testing.T) {
	jobs := write(t, "jobs.csv", "job_id,submit_s,gpus,workload,steps\n1,0,1,A3C,718\n2,0,1,A3C,240\n3,1,1,A3C,7180\n")
	allocates := "[allocation]\npolicy = \"max-min\"\n"
	for _, c := range []struct {
		config string
		want   float64
	}{
		{allocates, (100 + 70 + 69 + 7180/3.44) / 3},
		{allocates + "[steering]\nenabled = true\n", (100 + 70 + 99 + 1000) / 3.},
	} {
		args := []string{"--config", write(t, "priod.toml", c.config), "simulate", "--trace", jobs, "--nodes", "1:v100:1", "--nodes", "1:k80:1", "--order", "priod"}
		status, out, errs := run(append(args, "--json")...)
		var f struct {
			JCT float64 `json:"mean_jct_s"`
		}
		if err := json.Unmarshal([]byte(out), &f); status != exitDone || err != nil {
			t.Fatal(status, err, errs)
		}
		if f.JCT < 0.99*c.want || f.JCT > 1.01*c.want {
			t.Errorf("%q: mean completion time %v s, want about %v s", c.config, f.JCT, c.want)
		}
		status, _, errs = run(append(args, "--backfill", "none")...)
		if refused := status == exitUsage && strings.Contains(errs, "wants backfill"); refused != strings.Contains(c.config, "steering") {
			t.Errorf("%q without backfill: exit status %d, %s", c.config, status, errs)
		}
	}
}

// Every key that acts on jobs does so in a simulation, or stops it by its name; a flag
// that stands for such keys says the same.
func TestSimulateDaemonsKeys(t *testing.T) {
	jobs := write(t, "jobs.csv", "job_id,submit_s,gpus,duration_s,type,user,grace_s\nbe,0,2,1000,be,ann,30\nte,203,2,60,te,bob,\n")
	const evicting = "[preemption]\nenabled = true\n"
	for name, c := range map[string]struct {
		toml      string
		args      []string
		evictions int
		teWait    float64
	}{
		"nothing":                   {"", nil, 0, 797},
		"preemption":                {evicting, nil, 1, 30},
		"its flag":                  {"", []string{"--preemption", "least-loss"}, 1, 30},
		"without sbatchwrap's call": {evicting + "[wake]\nlisten = []\n", nil, 1, 37},
		"cycle.interval":            {evicting + "[wake]\nlisten = []\n[cycle]\ninterval = \"60s\"\n", nil, 1, 67},
		"limits":                    {evicting + "max_grace = \"29s\"\ngrace = \"5s\"\n", nil, 0, 797},
		"a flag before the key":     {evicting + "min_run = \"1h\"\n", []string{"--min-runtime", "5s"}, 1, 30},
		"te_budget":                 {evicting + "[te_budget.user]\ntime_limit = \"30s\"\n", nil, 0, 797},
		"a policy that evicts none": {evicting + "policy = \"none\"\n", nil, 0, 797},
		"te-first evicts none":      {evicting, []string{"--order", "priod", "--preemption", "te-first"}, 0, 797},
	} {
		args := append([]string{"--config", write(t, "priod.toml", c.toml), "simulate", "--trace", jobs, "--nodes", "1:a100:2", "--backfill", "easy", "--json"}, c.args...)
		if !slices.Contains(args, "--preemption") {
			args = append(args, "--order", "priod")
		}
		status, out, errs := run(args...)
		var f struct {
			Evictions int     `json:"preemptions"`
			Wait      float64 `json:"te_wait_p50_s"`
		}
		if err := json.Unmarshal([]byte(out), &f); status != exitDone || err != nil {
			t.Fatal(name, status, err, errs)
		}
		if f.Evictions != c.evictions || f.Wait != c.teWait {
			t.Errorf("%s: %d evictions, and the TE job waits for %v s; want %d and %v s", name, f.Evictions, f.Wait, c.evictions, c.teWait)
		}
	}
	for _, c := range []struct {
		toml string
		args []string
		want string
	}{
		{"[sizing]\ngive_back = true\n", nil, "sizing.give_back"},
		{"[sizing]\nenabled = true\n", nil, "sizing.enabled"},
		{evicting, []string{"--pool"}, "preemption.enabled"},
		{"", []string{"--preemption", "least-loss", "--order", "sjf"}, "fifo or multifactor"},
		{"", []string{"--allocation", "allox"}, "allocation.policy"},
		{"", []string{"--steering-cycle", "5s", "--max-evictions", "-1"}, "preemption.max_evictions"},
		{"", []string{"--round", "30m"}, "rounds.enabled"},
	} {
		args := append([]string{"--config", write(t, "priod.toml", c.toml), "simulate", "--trace", jobs, "--nodes", "1:a100:2", "--backfill", "easy"}, c.args...)
		if !slices.Contains(args, "--preemption") {
			args = append(args, "--order", "priod")
		}
		if status, _, errs := run(args...); status != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q %q: exit status %d, %s; want %q", c.toml, c.args, status, errs, c.want)
		}
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

func TestSweepRefuses(t *testing.T) {
	good := write(t, "s.toml", "[base]\ngenerate = \"fitgpp --jobs 50\"\nnodes = \"4:gpu:8:32:262144\"\n[grid]\nbackfill = [\"none\", \"bad\"]\n")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, exitUsage, "FILE"},
		{[]string{"/nowhere.toml"}, exitUsage, "/nowhere.toml"},
		{[]string{write(t, "s.toml", "[grid]\n")}, exitUsage, "nothing to sweep"},
		{[]string{write(t, "s.toml", "metrics = [\"mean_wait\"]\n[grid]\nbackfill = [\"none\"]\n")}, exitUsage, `metrics: no figure "mean_wait"; there are jobs, mean_jct_s, `},
		{[]string{good, "--part", "3/2"}, exitUsage, "--part"},
		{[]string{good, "--workers", "0"}, exitUsage, "at least 1"},
		{[]string{good, "--out", filepath.Join(t.TempDir(), "r")}, exitUsage, `--backfill "bad": want one of`},
	} {
		status, _, errs := run(append([]string{"sweep"}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit status %d, want %d; said %q, want %q", c.args, status, c.status, errs, c.want)
		}
	}
}

// A profile never stops a simulation: what this cluster has no data for is left off, with a note.
func TestSimulateWithAProfile(t *testing.T) {
	dir := t.TempDir()
	file, jobs := filepath.Join(dir, "priod.toml"), filepath.Join(dir, "jobs.csv")
	for path, text := range map[string]string{file: "profile = \"balanced\"\n", jobs: "job_id,submit_s,duration_s,gpus,type\n1,0,100,1,te\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for nodes, want := range map[string]string{"1:a100:4": "profile balanced: no sizing", "1:a100:4:16:64000": "profile balanced: no locality"} {
		var out, errs bytes.Buffer
		status := Main("v1", []string{"priod", "--config", file, "simulate", "--order", "priod", "--trace", jobs, "--nodes", nodes}, &out, &errs)
		if status != 0 || !strings.Contains(errs.String(), want) || strings.Contains(errs.String(), "no sizing") != (nodes == "1:a100:4") {
			t.Errorf("%s: exit %d: %s", nodes, status, &errs)
		}
	}
}

// Programs run as fast as --workloads says, whatever priod is told by its configuration.
func TestSimulateToldSpeeds(t *testing.T) {
	table := func(name string, v100, k80 float64) string {
		return write(t, name, fmt.Sprintf("[[workload]]\nname = \"w\"\nspeed.v100 = { 1 = %v }\nspeed.k80 = { 1 = %v }\n", v100, k80))
	}
	trace := write(t, "jobs.csv", "job_id,submit_s,gpus,workload,steps,limit_s,type\n1,0,1,w,1000,100000,be\n")
	for told, want := range map[string]string{ // the V100 does it in 100 s, the K80 in 1,000
		"": "v100", table("right.toml", 10, 1): "v100", table("wrong.toml", 1, 10): "k80",
	} {
		config := write(t, "priod.toml", fmt.Sprintf("[speeds]\nworkloads = %q\n[allocation]\npolicy = \"max-min\"\n[ranking]\norder = \"owed\"\n[steering]\nenabled = true\n", told))
		out := filepath.Join(t.TempDir(), "out.csv")
		status, text, errs := run("--config", config, "simulate", "--order", "priod", "--hold", "20s", "--trace", trace, "--workloads", table("true.toml", 10, 1),
			"--nodes", "1:v100:1", "--nodes", "1:k80:1", "--jobs-out", out)
		if status != exitDone {
			t.Fatalf("%d %s %s", status, text, errs)
		}
		rows, err := os.ReadFile(out)
		if err != nil || !strings.Contains(string(rows), ","+want+",") {
			t.Errorf("told %q: %v\n%s", told, err, rows)
		}
		if ran := map[string]string{"v100": ",100,", "k80": ",1000,"}[want]; !strings.Contains(string(rows), ran) {
			t.Errorf("told %q: it did not run%ss\n%s", told, ran, rows)
		}
	}
}
