package slurmplug

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecordedUsage(t *testing.T) { eachVersion(t, testRecordedUsage) }

func testRecordedUsage(t *testing.T, version string) {
	out := recordingOf(t, version, "sacct-usage.out")
	runs, err := parseUsage([]byte(out), RecordedSeparators, new(table))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]Usage{
		"22.05": {
			{1, time.Unix(1795859311, 0), 1, 2.559, 409, nil}, // the script's shell and both programs, of three processes, at one time
			{2, time.Unix(1795859311, 0), 1, 0.766, 65, nil},
			{3, time.Unix(1795859311, 0), 2, 2.697, 197, nil}, // half of what four processes on two nodes used, and the shell
			{5, time.Unix(1795859311, 0), 1, 0.001, 0, nil},   // too short to be looked at
			{6, time.Unix(1795859311, 0), 1, 0.001, 3, nil},
			{7, time.Unix(1795859311, 0), 1, 0.002, 3, nil},
			{4, time.Unix(1795859311, 0), 1, 0.001, 3, nil},
		},
		"24.11": {
			{1, time.Unix(1795859320, 0), 1, 2.234, 395, nil},
			{2, time.Unix(1795859320, 0), 1, 0.701, 60, nil},
			{3, time.Unix(1795859320, 0), 2, 2.296, 188, nil},
			{5, time.Unix(1795859320, 0), 1, 0.001, 0, nil},
			{6, time.Unix(1795859320, 0), 1, 0.001, 4, nil},
			{7, time.Unix(1795859320, 0), 1, 0.002, 4, nil},
			{4, time.Unix(1795859320, 0), 1, 0.002, 4, nil},
		},
		"26.05": {
			{1, time.Unix(1795859326, 0), 1, 2.164, 400, nil},
			{2, time.Unix(1795859326, 0), 1, 0.668, 61, nil},
			{3, time.Unix(1795859326, 0), 2, 2.251, 191, nil},
			{5, time.Unix(1795859326, 0), 1, 0.001, 0, nil},
			{6, time.Unix(1795859326, 0), 1, 0.001, 4, nil},
			{7, time.Unix(1795859326, 0), 1, 0.001, 4, nil},
			{4, time.Unix(1795859326, 0), 1, 0.001, 4, nil},
		},
	}[version]
	for i := range want {
		want[i].Start = want[i].Start.UTC()
	}
	about := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
	if d := cmp.Diff(want, runs, about); d != "" {
		t.Error(d)
	}
	for n := range len(out) {
		if got, err := parseUsage([]byte(out[:n]), RecordedSeparators, new(table)); err != nil && (got != nil || !errors.Is(err, ErrDoubtful)) {
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
		cpu float64
	}{
		"nothing measured":            {job + usageRow("7.batch", "100", "900", "", "", "", "", ""), 0, 0},
		"one after the other":         {job + step("100", "200", "3M") + step("200", "300", "2048K"), 3, 2*86400 + 3},
		"at one time":                 {job + step("100", "201", "3M") + step("200", "300", "2097152"), 5, 2*86400 + 3},
		"many in one second":          {job + step("100", "100", "3M") + step("100", "100", "1M") + step("99", "101", "2M"), 5, 3*86400 + 4.5},
		"a step that never began":     {job + step("Unknown", "900", "3M"), 0, 86400 + 1.5},
		"a step that has no end":      {job + step("100", "Unknown", "3M"), 0, 86400 + 1.5},
		"processes on three nodes":    {job + usageRow("7.0", "100", "200", "00:00.001", "1G", "3", "7", "mem=9G"), 3072, 0.001},
		"more than there is anywhere": {job + step("100", "200", "7E") + step("100", "200", "7E"), 14 << 40, 2*86400 + 3},
	} {
		got, err := parseUsage([]byte(c.out), RecordedSeparators, new(table))
		if want := min(c.mb, maxMB); err != nil || len(got) != 1 || got[0].NodeMB != want || got[0].CPUSeconds != c.cpu {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, out := range map[string]string{
		"a step without its job": step("100", "200", "3M"),
		"no id":                  usageRow("x", "100", "200", "", "", "", "", ""),
		"a start that is none":   usageRow("7", "soon", "200", "", "", "", "", ""),
		"an end that is none":    usageRow("7", "100", "late", "", "", "", "", ""),
		"nodes that are none":    usageRow("7", "100", "200", "", "", "-1", "", ""),
		"one field more":         usageRow("7", "100", "900", "", "", "1", "", "", "", ""),
		"words and no rows":      "sacct: error\n",
	} {
		if got, err := parseUsage([]byte(out), RecordedSeparators, new(table)); !errors.Is(err, ErrDoubtful) || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, c := range map[string]struct{ row, says string }{ // costs the run
		"minutes alone":        {usageRow("7.0", "100", "200", "7", "", "", "", ""), "TotalCPU"},
		"no end of time":       {usageRow("7.0", "100", "200", "UNLIMITED", "", "", "", ""), "TotalCPU"},
		"a fraction of none":   {usageRow("7.0", "100", "200", "00:01.x", "", "", "", ""), "TotalCPU"},
		"below zero":           {usageRow("7.0", "100", "200", "213503982334-14:25:51", "", "", "", ""), "213503982334-14:25:51"},
		"memory below nothing": {usageRow("7.0", "100", "200", "", "-5K", "", "", ""), "MaxRSS"},
		"more than 64 bits":    {usageRow("7.0", "100", "200", "", "16E", "", "", ""), "16E"},
		"memory in words":      {usageRow("7.0", "100", "200", "", "", "1", "1", "mem=much"), "TRESUsageInTot"},
		"tasks in words":       {usageRow("7.0", "100", "200", "", "", "1", "all", ""), "NTasks"},
		"GPU use in words":     {usageRow("7.0", "100", "200", "", "", "1", "1", "", "gres/gpuutil=much"), "TRESUsageInMax"},
		"a start that is none": {usageRow("7.0", "soon", "200", "", "", "", "", ""), "Start"},
	} {
		var left table
		other := usageRow("8", "100", "900", "", "", "1") + usageRow("8.0", "100", "200", "00:00:01", "1M", "1", "1")
		got, err := parseUsage([]byte(job+step("100", "200", "3M")+c.row+step("200", "300", "3M")+other), RecordedSeparators, &left)
		if err != nil || len(got) != 1 || got[0].RawID != 8 || got[0].CPUSeconds != 1 || got[0].NodeMB != 1 || len(left.odd) != 1 || left.odd[0].Name != "7.0" || !strings.Contains(left.odd[0].Why, c.says) {
			t.Errorf("%s: %+v, %v, left out %+v", name, got, err, left.odd)
		}
	}
	for name, row := range map[string]string{ // costs itself
		"a step of another job": usageRow("9.0", "100", "200", "", "", "", "", ""),
		"a step without a name": usageRow("7.", "100", "200", "", "", "", "", ""),
	} {
		var left table
		if got, err := parseUsage([]byte(job+row), RecordedSeparators, &left); err != nil || len(got) != 1 || len(left.odd) != 1 {
			t.Errorf("%s: %+v, %v, left out %+v", name, got, err, left.odd)
		}
	}
	// A large job: 100 years of CPU time and more, of a step that may be that of 1,000 CPUs.
	got, err := parseUsage([]byte(job+usageRow("7.0", "100", "200", "36632-00:00:00.5", "", "1", "1")), RecordedSeparators, new(table))
	if err != nil || len(got) != 1 || got[0].CPUSeconds != 36632*86400+0.5 {
		t.Errorf("%+v, %v", got, err)
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
		runs, err := parseUsage([]byte(job+out), RecordedSeparators, new(table))
		if err != nil || len(runs) != 1 || (runs[0].GPUUse == nil) != (want < 0) || want >= 0 && *runs[0].GPUUse != want {
			t.Errorf("%q: %+v, %v, want %v", out, runs, err, want)
		}
	}
}

func FuzzUsage(f *testing.F) {
	eachRecording(f, "sacct-usage.out", func(out string) { f.Add([]byte(out)) })
	f.Add([]byte(usageRow("7", "100", "900", "", "", "1", "", "") + usageRow("7.0", "0", "1", "9-23:59:59.999999", "8E", "2147483647", "2147483647", "mem=,mem=1", "gres/gpuutil=100")))
	f.Fuzz(func(t *testing.T, out []byte) {
		runs, err := parseUsage(out, RecordedSeparators, new(table))
		if err != nil && runs != nil {
			t.Fatal("runs beside an error")
		}
		for _, u := range runs {
			if u.Nodes < 1 || u.CPUSeconds < 0 || math.IsInf(u.CPUSeconds, 1) || u.NodeMB < 0 || u.NodeMB > maxMB {
				t.Fatalf("%+v", u)
			}
		}
	})
}
