package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/etc"
	"slurmprio/priod/trace"
)

// run is one command line of priod: its exit status and what it printed.
func run(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Main("test", append([]string{"priod"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

func TestTraceGenerate(t *testing.T) {
	for _, args := range [][]string{
		{"gavel", "--multi-gpu", "--slo", "--high-priority", "0.2"},
		{"gavel", "--jobs-per-hour", "inf"},
		{"synergy", "--split", "33,33,33"},
		{"fitgpp", "--mix", "small-be"},
		{"fitgpp", "--load", "0.8", "--nodes", "4:a100:4:64:512000"},
		{"philly", "--passed-only"},
	} {
		path := filepath.Join(t.TempDir(), "trace.csv")
		args = append([]string{"trace", "generate"}, append(args, "--jobs", "100", "--seed", "7", "--out", path)...)
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

func TestTraceAndWorkloadsUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"trace", exitUsage, "say what to do"},
		{"trace generate", exitUsage, "say which"},
		{"trace generate tiresias", exitUsage, "say which"},
		{"trace generate gavel file", exitUsage, "takes no arguments"},
		{"trace generate gavel --jobs 0", exitUsage, "0 jobs"},
		{"trace generate gavel --jobs-per-hour 0", exitUsage, "0 jobs in an hour"},
		{"trace generate gavel --workloads " + missing, exitUsage, "missing"},
		{"trace generate gavel --seed -1", exitUsage, "seed"},
		{"trace generate synergy --split 1,2", exitUsage, "three percentages"},
		{"trace generate synergy --split 1,2,x", exitUsage, `"x" is no number`},
		{"trace generate fitgpp --mix odd", exitUsage, `mix "odd"`},
		{"trace generate fitgpp --nodes 8", exitUsage, "want COUNT:TYPE:GPUS"},
		{"trace generate philly --jobs 1 --out " + missing + "/x", exitProblem, "missing"},
		{"workloads", exitUsage, "say what to do"},
		{"workloads import gavel", exitUsage, "want gavel FILE or synergy FILE"},
		{"workloads import oracle x", exitUsage, "want gavel FILE"},
		{"workloads import synergy --pairs x", exitUsage, "--pairs goes with gavel"},
		{"workloads import gavel " + missing, exitProblem, "missing"},
		{"workloads list --workloads " + missing, exitUsage, "missing"},
		{"workloads list x", exitUsage, "takes no arguments"},
	} {
		if status, out, errs := run(strings.Fields(c.args)...); status != c.status || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: status %d, %q %q; want %d and %q", c.args, status, out, errs, c.status, c.want)
		}
	}
}

// What counts here is what list and export show.
func TestWorkloadsOfTheSite(t *testing.T) {
	dir := t.TempDir()
	file, site, missing := filepath.Join(dir, "ours.toml"), filepath.Join(dir, "priod.toml"), filepath.Join(dir, "no.toml")
	const text = "# ours\n[[workload]]\nname = \"ours\"\nspeed.a100 = { 1 = 4.1 }\n"
	for path, content := range map[string]string{file: text, site: fmt.Sprintf("[speeds]\nworkloads = %q\n", file), missing: fmt.Sprintf("[speeds]\nworkloads = %q\n", dir+"/none")} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if status, out, errs := run("-c", site, "workloads", "export"); status != exitDone || out != text {
		t.Errorf("export: %d, %q, %s", status, out, errs)
	}
	if status, out, errs := run("-c", site, "workloads", "list"); status != exitDone || !strings.Contains(out, "ours") || strings.Contains(out, "resnet") {
		t.Errorf("list: %d, %q, %s", status, out, errs)
	}
	for _, verb := range []string{"list", "export"} {
		if status, out, errs := run("-c", missing, "workloads", verb); status == exitDone || out != "" || !strings.Contains(errs, "none") {
			t.Errorf("%s: %d, %q, %s", verb, status, out, errs)
		}
	}
}

func TestWorkloads(t *testing.T) {
	if status, out, _ := run("workloads", "export"); status != exitDone || out != etc.Workloads {
		t.Error("export is not etc/workloads.toml")
	}
	dir := t.TempDir()
	measured, mine, pairs := filepath.Join(dir, "measured.json"), filepath.Join(dir, "mine.toml"), filepath.Join(dir, "pairs.csv")
	const text = `{"k80": {"('A3C', 1)": {"null": 2.5, "('A3C', 1)": [1, 1]}}}`
	if err := os.WriteFile(measured, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"workloads", "import", "gavel", measured, "--out", mine}, {"workloads", "import", "gavel", measured, "--pairs", "-o", pairs}} {
		if status, out, errs := run(args...); status != exitDone || out+errs != "" {
			t.Fatalf("%q: %d %s%s", args, status, out, errs)
		}
	}
	if b, err := os.ReadFile(pairs); err != nil || !strings.Contains(string(b), "k80,1,a3c,a3c,1,1\n") {
		t.Errorf("%s %v", b, err)
	}
	status, out, errs := run("workloads", "list", "--workloads", mine, "--json")
	var list struct{ Workloads []workloadView }
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != exitDone || errs != "" {
		t.Fatal(status, err, errs)
	}
	if len(list.Workloads) != 1 || list.Workloads[0].Speeds["k80"]["1"] != 2.5 || list.Workloads[0].Aliases[0] != "A3C" {
		t.Errorf("%+v", list)
	}
	if status, out, _ := run("workloads", "list"); status != exitDone || !strings.Contains(out, "ResNet-18 (batch size 128)") || !strings.Contains(out, "x2.94 with 12 CPUs") {
		t.Error(status, out)
	}
	// What cannot be written leaves what stood there before.
	if status, _, _ := run("workloads", "import", "gavel", pairs, "--out", mine); status != exitProblem {
		t.Error("a CSV file was imported as Gavel's JSON")
	}
	if b, err := os.ReadFile(mine); err != nil || !strings.Contains(string(b), "a3c") {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 0 {
		t.Error(left)
	}
}
