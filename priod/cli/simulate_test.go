package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
		{"two sources", []string{"--trace", jobs, "--from-slurm", "--nodes", "1:v100:8"}, exitUsage, "which jobs?"},
		{"steering without backfill", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "priod", "--set", "allocation.policy=max-min", "--set", "steering.enabled=true", "--backfill", "none"}, exitUsage, "wants backfill"},
		{"order owed without an allocation", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "priod", "--set", "ranking.order=owed"}, exitUsage, "ranking.order: want an allocation.policy"},
		{"a key without priod", []string{"--trace", jobs, "--nodes", "1:v100:8", "--set", "preemption.max_per_hour=5"}, exitUsage, "--set sets a key of priod.toml: it belongs to --order priod or --compare"},
		{"a key's value", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "priod", "--set", "preemption.max_per_hour=many"}, exitUsage, "--set preemption.max_per_hour=many: want a whole number"},
		{"an unknown key", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "priod", "--set", "preemption.max_per_hou=5"}, exitUsage, `did you mean "preemption.max_per_hour"?`},
		{"preemption of the papers", []string{"--trace", jobs, "--nodes", "1:v100:8", "--preemption", "fitgpp"}, exitUsage, `--preemption "fitgpp": want slurm-qos`},
		{"preemption of two", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "priod", "--preemption", "slurm-qos"}, exitUsage, "Slurm's own, without priod"},
		{"negative time", []string{"--trace", jobs, "--nodes", "1:v100:8", "--hold", "-5m"}, exitUsage, "--hold -5m0s: want 0s or more"},
		{"no nodes", []string{"--trace", jobs}, exitUsage, "which nodes?"},
		{"bad nodes", []string{"--trace", jobs, "--nodes", "x:v100:8"}, exitUsage, "x"},
		{"no file", []string{"--trace", "/nowhere/a.csv", "--nodes", "1:v100:8"}, exitProblem, "/nowhere/a.csv"},
		{"empty trace", []string{"--trace", file(""), "--nodes", "1:v100:8"}, exitProblem, "bad.csv"},
		{"trace without rows", []string{"--trace", file(header), "--nodes", "1:v100:8"}, exitProblem, "no jobs in it"},
		{"negative time", []string{"--trace", file(header + "1,-5,1,10\n"), "--nodes", "1:v100:8"}, exitProblem, ":2:3: submit_s"},
		{"duration 0", []string{"--trace", file(header + "1,0,1,0\n"), "--nodes", "1:v100:8"}, exitProblem, "duration_s"},
		{"same id", []string{"--trace", file(header + "1,0,1,5\n1,1,1,5\n"), "--nodes", "1:v100:8"}, exitProblem, ":3:"},
		{"larger than the cluster", []string{"--trace", jobs, "--nodes", "1:v100:4"}, exitProblem, "stuck: these jobs can never run because"},
		{"type that is not there", []string{"--trace", file("job_id,submit_s,gpus,duration_s,gpu_type\n1,0,1,5,a100\n"), "--nodes", "1:v100:4"}, exitProblem, "a100"},
		{"workload that nobody knows", []string{"--trace", file("job_id,submit_s,gpus,workload,steps\n1,0,1,nothing,5\n"), "--nodes", "1:v100:4"}, exitProblem, `no workload "nothing"`},
		{"workload without speeds here", []string{"--trace", file("job_id,submit_s,gpus,workload,steps\n1,0,1,A3C,5\n"), "--nodes", "1:h100:4"}, exitProblem, "stuck"},
		{"order", []string{"--trace", jobs, "--nodes", "1:v100:8", "--order", "best"}, exitUsage, `--order "best": want one of fifo`},
		{"failures without repair", []string{"--trace", jobs, "--nodes", "1:v100:8", "--mtbf", "1h"}, exitUsage, "--repair beside --mtbf"},
		{"no file of node events", []string{"--trace", jobs, "--nodes", "1:v100:8", "--node-events", "/nowhere/e.toml"}, exitUsage, "/nowhere/e.toml"},
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
		{[]string{"--order", "priod", "--set", "allocation.policy=max-min", "--set", "steering.enabled=true", "--hold", "20s", "--set", "steering.wait_weight=1"}, (120 + 1120) / 2.},
		{[]string{"--order", "priod", "--set", "allocation.policy=max-min", "--set", "steering.enabled=true", "--set", "rounds.enabled=true"}, (100 + 7180/3.44) / 2}, // both start before the first cycle
		{[]string{"--order", "priod", "--hold", "20s", "--set", "steering.wait_weight=1"}, (120 + 20 + 7180/3.44) / 2},                                                // nothing is switched on
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
		"its flag":                  {"", []string{"--set", "preemption.enabled=true"}, 1, 30},
		"without sbatchwrap's call": {evicting + "[wake]\nlisten = []\n", nil, 1, 37},
		"cycle.interval":            {evicting + "[wake]\nlisten = []\n[cycle]\ninterval = \"60s\"\n", nil, 1, 67},
		"limits":                    {evicting + "max_grace = \"29s\"\ngrace = \"5s\"\n", nil, 0, 797},
		"a flag before the key":     {evicting + "min_run = \"1h\"\n", []string{"--set", "preemption.min_run=5s"}, 1, 30},
		"te_budget":                 {evicting + "[te_budget.user]\ntime_limit = \"10s\"\n", nil, 0, 797},
		"a policy that evicts none": {evicting + "policy = \"none\"\n", nil, 0, 797},
	} {
		args := append([]string{"--config", write(t, "priod.toml", c.toml), "simulate", "--trace", jobs, "--nodes", "1:a100:2", "--backfill", "easy", "--json"}, c.args...)
		args = append(args, "--order", "priod")
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
		{"[sizing]\nenabled = true\n", nil, "sizing.enabled"},
		{"", []string{"--set", "allocation.policy=allox"}, "allocation.policy"},
		{"", []string{"--set", "cycle.interval=5s", "--set", "preemption.max_evictions=-1"}, "preemption.max_evictions"},
		{"", []string{"--set", "rounds.enabled=true"}, "rounds.enabled"},
	} {
		args := append([]string{"--config", write(t, "priod.toml", c.toml), "simulate", "--trace", jobs, "--nodes", "1:a100:2", "--backfill", "easy"}, c.args...)
		args = append(args, "--order", "priod")
		if status, _, errs := run(args...); status != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q %q: exit status %d, %s; want %q", c.toml, c.args, status, errs, c.want)
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
