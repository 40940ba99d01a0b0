package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The divided variant has half of the jobs name all partitions, a quarter two and a quarter one, and its table a row for each setup.
func TestStudyOfDividedCluster(t *testing.T) {
	jobs, counts := make([]job, 4000), [3]int{}
	divide(jobs, 1, 1)
	for i := range jobs {
		counts[strings.Count(jobs[i].partition, ",")]++
	}
	if counts[2] < 1900 || counts[2] > 2100 || counts[1] < 900 || counts[1] > 1100 {
		t.Errorf("%v jobs name one, two and three partitions", counts)
	}
	if os.Getenv("SLURMPRIO_LONG") == "" {
		return
	}
	var out bytes.Buffer
	if err := startDivided(t.Context(), []string{"--dir", t.TempDir(), "--seeds", "1", "--jobs", "30"}, &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2+len(dividedSetups) || strings.Contains(out.String(), "NaN") {
		t.Error(out.String())
	}
}
