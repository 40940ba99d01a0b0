package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// A verb whose output does not arrive has failed, and says so in one line: text, JSON, help and completion alike.
func TestOutputOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	t.Setenv("PRIOD_CONFIG", "")
	for _, words := range []string{"--version", "config show", "config show --json", "config lua", "workloads list", "workloads export", "explain --schema", "--help", "queue --help", "simulate --help", "qu " + completeWord} {
		var errs bytes.Buffer
		status := Main("v1", append([]string{"priod"}, strings.Fields(words)...), full, &errs)
		if status != exitProblem || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("priod %s: %d, %q", words, status, &errs)
		}
	}
}
