package slurmplug

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecordedUsage(t *testing.T) { eachVersion(t, testRecordedUsage) }

func testRecordedUsage(t *testing.T, version string) {
	out := recordingOf(t, version, "sacct-usage.out")
	runs, err := parseUsage([]byte(out), RecordedSeparators)
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	want := map[string][]Usage{
		"22.05": {
			{1, time.Unix(1795859311, 0), 1, 2559 * ms, 409, nil}, // the script's shell and both programs, of three processes, at one time
			{2, time.Unix(1795859311, 0), 1, 766 * ms, 65, nil},
			{3, time.Unix(1795859311, 0), 2, 2697 * ms, 197, nil}, // half of what four processes on two nodes used, and the shell
			{5, time.Unix(1795859311, 0), 1, ms, 0, nil},          // too short to be looked at
			{6, time.Unix(1795859311, 0), 1, ms, 3, nil},
			{7, time.Unix(1795859311, 0), 1, 2 * ms, 3, nil},
			{4, time.Unix(1795859311, 0), 1, ms, 3, nil},
		},
		"24.11": {
			{1, time.Unix(1795859320, 0), 1, 2234 * ms, 395, nil},
			{2, time.Unix(1795859320, 0), 1, 701 * ms, 60, nil},
			{3, time.Unix(1795859320, 0), 2, 2296 * ms, 188, nil},
			{5, time.Unix(1795859320, 0), 1, ms, 0, nil},
			{6, time.Unix(1795859320, 0), 1, ms, 4, nil},
			{7, time.Unix(1795859320, 0), 1, 2 * ms, 4, nil},
			{4, time.Unix(1795859320, 0), 1, 2 * ms, 4, nil},
		},
		"26.05": {
			{1, time.Unix(1795859326, 0), 1, 2164 * ms, 400, nil},
			{2, time.Unix(1795859326, 0), 1, 668 * ms, 61, nil},
			{3, time.Unix(1795859326, 0), 2, 2251 * ms, 191, nil},
			{5, time.Unix(1795859326, 0), 1, ms, 0, nil},
			{6, time.Unix(1795859326, 0), 1, ms, 4, nil},
			{7, time.Unix(1795859326, 0), 1, ms, 4, nil},
			{4, time.Unix(1795859326, 0), 1, ms, 4, nil},
		},
	}[version]
	for i := range want {
		want[i].Start = want[i].Start.UTC()
	}
	if d := cmp.Diff(want, runs); d != "" {
		t.Error(d)
	}
	for n := range len(out) {
		if got, err := parseUsage([]byte(out[:n]), RecordedSeparators); err != nil && (got != nil || !errors.Is(err, ErrDoubtful)) {
			t.Fatalf("cut at %d: %d runs, %v", n, len(got), err)
		}
	}
}

func usageRow(f ...string) string {
	for len(f) < len(usageColumns) {
		f = append(f, "")
	}
	return strings.Join(f, RecordedSeparators.end) + RecordedSeparators.end + "\n"
}

func TestUsageRows(t *testing.T) {
	job := usageRow("7", "100", "900", "", "", "1", "", "")
	step := func(start, end, mem string) string {
		return usageRow("7.0", start, end, "1-00:00:01.5", "", "1", "1", "cpu=00:01:00,mem="+mem)
	}
	for name, c := range map[string]struct {
		out string
		mb  int64
		cpu time.Duration
	}{
		"nothing measured":            {job + usageRow("7.batch", "100", "900", "", "", "", "", ""), 0, 0},
		"one after the other":         {job + step("100", "200", "3M") + step("200", "300", "2048K"), 3, 48*time.Hour + 3*time.Second},
		"at one time":                 {job + step("100", "201", "3M") + step("200", "300", "2097152"), 5, 48*time.Hour + 3*time.Second},
		"many in one second":          {job + step("100", "100", "3M") + step("100", "100", "1M") + step("99", "101", "2M"), 5, 72*time.Hour + 4500*time.Millisecond},
		"a step that never began":     {job + step("Unknown", "900", "3M"), 0, 24*time.Hour + 1500*time.Millisecond},
		"a step that has no end":      {job + step("100", "Unknown", "3M"), 0, 24*time.Hour + 1500*time.Millisecond},
		"processes on three nodes":    {job + usageRow("7.0", "100", "200", "00:00.001", "1G", "3", "7", "mem=9G"), 3072, time.Millisecond},
		"more than there is anywhere": {job + step("100", "200", "7E") + step("100", "200", "7E"), 14 << 40, 48*time.Hour + 3*time.Second},
	} {
		got, err := parseUsage([]byte(c.out), RecordedSeparators)
		if want := min(c.mb, maxMB); err != nil || len(got) != 1 || got[0].NodeMB != want || got[0].CPUTime != c.cpu {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, out := range map[string]string{
		"a step without its job": step("100", "200", "3M"),
		"a step of another job":  job + usageRow("8.0", "100", "200", "", "", "", "", ""),
		"a step without a name":  job + usageRow("7.", "100", "200", "", "", "", "", ""),
		"no id":                  usageRow("x", "100", "200", "", "", "", "", ""),
		"a start that is none":   usageRow("7", "soon", "200", "", "", "", "", ""),
		"an end that is none":    usageRow("7", "100", "late", "", "", "", "", ""),
		"nodes that are none":    usageRow("7", "100", "200", "", "", "-1", "", ""),
		"minutes alone":          job + usageRow("7.0", "100", "200", "7", "", "", "", ""),
		"no end of time":         job + usageRow("7.0", "100", "200", "UNLIMITED", "", "", "", ""),
		"a fraction of nothing":  job + usageRow("7.0", "100", "200", "00:01.x", "", "", "", ""),
		"memory below nothing":   job + usageRow("7.0", "100", "200", "", "-5K", "", "", ""),
		"memory in words":        job + usageRow("7.0", "100", "200", "", "", "1", "1", "mem=much"),
		"tasks in words":         job + usageRow("7.0", "100", "200", "", "", "1", "all", ""),
		"one field more":         usageRow("7", "100", "900", "", "", "1", "", "", "", ""),
		"GPU use in words":       job + usageRow("7.0", "100", "200", "", "", "1", "1", "", "gres/gpuutil=much"),
		"words and no rows":      "sacct: error\n",
	} {
		if got, err := parseUsage([]byte(out), RecordedSeparators); !errors.Is(err, ErrDoubtful) || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// The largest sample of all steps counts; without one nothing is known.
func TestGPUUse(t *testing.T) {
	job := usageRow("7", "100", "900", "", "", "1")
	step := func(tres string) string { return usageRow("7.0", "100", "200", "", "", "1", "1", "", tres) }
	for out, want := range map[string]float64{
		step("cpu=00:00:01,mem=3M"):                             -1,
		step("cpu=00:00:01,gres/gpumem=0,gres/gpuutil=0"):       0,
		step("gres/gpuutil=37,mem=3M") + step("gres/gpuutil=9"): 37,
		step("gres/gpuutil=") + step("gres/gpuutil=9"):          9,
	} {
		runs, err := parseUsage([]byte(job+out), RecordedSeparators)
		if err != nil || len(runs) != 1 || (runs[0].GPUUse == nil) != (want < 0) || want >= 0 && *runs[0].GPUUse != want {
			t.Errorf("%q: %+v, %v, want %v", out, runs, err, want)
		}
	}
}

func FuzzUsage(f *testing.F) {
	eachRecording(f, "sacct-usage.out", func(out string) { f.Add([]byte(out)) })
	f.Add([]byte(usageRow("7", "100", "900", "", "", "1", "", "") + usageRow("7.0", "0", "1", "9-23:59:59.999999", "8E", "2147483647", "2147483647", "mem=,mem=1", "gres/gpuutil=100")))
	f.Fuzz(func(t *testing.T, out []byte) {
		runs, err := parseUsage(out, RecordedSeparators)
		if err != nil && runs != nil {
			t.Fatal("runs beside an error")
		}
		for _, u := range runs {
			if u.Nodes < 1 || u.CPUTime < 0 || u.CPUTime > maxDays*day || u.NodeMB < 0 || u.NodeMB > maxMB {
				t.Fatalf("%+v", u)
			}
		}
	})
}
