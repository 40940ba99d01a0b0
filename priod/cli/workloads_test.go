package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/etc"
)

// run is one command line of priod: its exit status and what it printed.
func run(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Main("test", append([]string{"priod"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

func TestWorkloadsUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"trace generate fitgpp", exitUsage, "trace is gone: the papers' generators are go run ./tests/papers generate"},
		{"allocate x.json", exitUsage, "allocate is gone: "},
		{"workloads import gavel x.json", exitUsage, "workloads import is gone: use go run ./tests/papers import"},
		{"workloads", exitUsage, "say what to do"},
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
	if status, out, _ := run("workloads", "list"); status != exitDone || !strings.Contains(out, "ResNet-18 (batch size 128)") || !strings.Contains(out, "x2.94 with 12 CPUs") {
		t.Error(status, out)
	}
}
