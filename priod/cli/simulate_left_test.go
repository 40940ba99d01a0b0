package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oddMonth is accounting of a site: what sacct prints in odd rows, one of each, beside plain ones.
const oddMonth = `JobID|Submit|Eligible|Start|End|ElapsedRaw|State|ExitCode|DerivedExitCode|TimelimitRaw|NNodes|ReqTRES|AllocTRES|User|Account|Partition|QOS
1|1770000000|1770000000|1770000060|1770003660|3600|COMPLETED|0:0|0:0|120|1|cpu=4,gres/gpu=1,mem=16G,node=1|cpu=4,gres/gpu:a100=1,gres/gpu=1,mem=16G,node=1|u1|a|gpu|normal
1.batch|1770000000|1770000000|1770000060|1770003660|3600|COMPLETED|0:0|0:0||1||cpu=4,gres/gpu=1,node=1||a||
2|1770000010|1770000010|None|1770000500|0|CANCELLED by 1060117917|0:0|0:0|Partition_Limit|1|cpu=4,gres/gpu=1,node=1||u1|a|gpu|normal
3|1770000020|Unknown|1770000200|1770002200|2000|TIMEOUT|0:0|0:0|UNLIMITED|1|cpu=4,gres/gpu=1,node=1|cpu=4,gres/gpu=1,node=1|u2|a|gpu|normal
4+0|1770000030|1770000030|1770000300|1770002300|2000|BOOT_FAIL|0:0|0:0|60|1|cpu=4,gres/gpu=1,node=1|cpu=4,gres/gpu=1,node=1|u2|a|gpu|normal
5_[5-9%2]|1770000030|1770000030|Unknown|Unknown|0|PENDING|0:0|0:0|60|1|cpu=4,gres/gpu=1,node=1||u2|a|gpu|normal
6|1770000050|1770000050|1770000400|1770004000|3600|NODE_FAIL|0:0|0:0|60|2|cpu=8,gres/gpu:k80=2,node=2|cpu=8,gres/gpu:k80=2,gres/gpu=2,node=2|u2|a|gpu,long|normal
7|1770000060|1770000060|1770000460|1770000460|0|OUT_OF_MEMORY|0:125|0:0|60|1|cpu=8,gres/gpu:a100=2,gres/gpu:v100=1,gres/gpu=3,node=1|cpu=8,gres/gpu:a100=2,gres/gpu:v100=1,gres/gpu=3,node=1|u3|b|gpu|normal
8|1770000070|1770000070|1770000460|1770000960|500|REVOKED|0:0|0:0|60|1|cpu=8,gres/gpu=1,gres/shard=4,license/x=2,fs/disk=9,node=1|cpu=8,gres/gpu=1,gres/shard=4,node=1|u3|b|gpu|normal
9|1770000090|1770000090|1770000460|1770000400|0|COMPLETED|0:0|0:0|60|1|cpu=8,gres/gpu=1,node=1|cpu=8,gres/gpu=1,node=1|u3|b|gpu|normal
10|1770000090|1770000090|1770000460|1770004060|3600|DEADLINE|0:0|0:0|60|1|cpu=8,gres/gpu=1,mem=1.50T,node=1|cpu=8,gres/gpu=1,mem=1.50T,node=1|u3|b|gpu|normal
11|2026-10-25T02:30:00|2026-10-25T02:30:00|2026-10-25T02:50:00|2026-10-25T02:10:00|1200|COMPLETED|0:0|0:0|2-12|1|cpu=8,gres/gpu=1,mem=1.5G,node=1|cpu=8,gres/gpu=1,mem=1.5G,node=1|u3|b|gpu|normal
12|1770000090|1770000090|17700`

// Odd rows and jobs of nodes that are gone are left out of a replay of accounting, counted by
// reason and named with their GPU-hours; --strict stops at the first.
func TestSimulateOddAccounting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "month")
	if err := os.WriteFile(path, []byte(oddMonth), 0o600); err != nil {
		t.Fatal(err)
	}
	replay := func(more ...string) (int, string, string) {
		var out, errs bytes.Buffer
		args := append([]string{"priod", "simulate", "--trace", path, "--format", "sacct", "--nodes", "4:a100:8:64:512000", "--backfill", "easy"}, more...)
		status := Main("test", args, &out, &errs)
		return status, out.String(), errs.String()
	}
	for _, more := range [][]string{nil, {"--compare"}} {
		status, out, errs := replay(append(more, "--json")...)
		var r struct {
			Left leftOutJSON `json:"left_out"`
		}
		if err := json.Unmarshal([]byte(out), &r); status != exitDone || err != nil {
			t.Fatalf("%v: exit %d, %v: %s", more, status, err, errs)
		}
		var named []string
		for _, x := range r.Left.Named {
			named = append(named, x.Job)
		}
		if got := strings.Join(named, " "); got != "9  6 10" || r.Left.BadRows != 2 || r.Left.Jobs != 2 || len(r.Left.By) != 2 || r.Left.GPUHours != 3 {
			t.Errorf("%v: left out %q, %+v", more, got, r.Left)
		}
		for _, want := range []string{"2 bad rows", "2 jobs (3.0 GPU-hours) that these nodes cannot run", "job 6 (2.0 GPU-hours): the cluster has no GPUs of type k80", "job 10 (1.0 GPU-hours)", "job unknown"} {
			if !strings.Contains(errs, want) {
				t.Errorf("%v: %q is not said:\n%s", more, want, errs)
			}
		}
	}
	html := filepath.Join(t.TempDir(), "page.html")
	if status, _, errs := replay("--html", html); status != exitDone {
		t.Fatal(status, errs)
	}
	if page, err := os.ReadFile(html); err != nil || !strings.Contains(string(page), "left out: job 6 (2.0 GPU-hours)") {
		t.Errorf("%v: the page does not say what is left out", err)
	}
	if status, _, errs := replay("--strict"); status == exitDone || !strings.Contains(errs, "want a time not before Start") {
		t.Errorf("--strict: exit %d: %s", status, errs)
	}
	if err := os.WriteFile(path, []byte(strings.Join(strings.SplitAfter(oddMonth, "\n")[:8], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := replay("--strict"); status != exitUsage || !strings.Contains(errs, "job 6 cannot run on these nodes") {
		t.Errorf("--strict: exit %d: %s", status, errs)
	}
	var out, errs bytes.Buffer
	if status := Main("test", []string{"priod", "simulate", "--trace", path, "--strict", "--nodes", "1:a100:8"}, &out, &errs); status != exitUsage || !strings.Contains(errs.String(), "--strict belongs to") {
		t.Errorf("--strict of a csv: exit %d: %s", status, &errs)
	}
}
