package slurmplug

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRewritesTasks(t *testing.T) {
	for version, want := range map[string]bool{
		"22.05.8": false, "23.02.0": true, "23.11.11": true, "24.05.8": true, "24.11.5": true, "25.05.0": true, "25.05.2": true,
		"25.05.3": false, "25.05.8": false, "25.11.7": false, "26.05.5": false, "24.11.0rc1": true, "": false, "unknown": false,
	} {
		if got := RewritesTasks(version); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}

func TestTasksPerNode(t *testing.T) {
	for out, want := range map[string]map[uint32]int{
		"12|4|\n13|0|\n13|0|\n": {12: 4, 13: 0}, "": {}, "12|N/A|\n": nil, "12|4\n": nil, "x|4|\n": nil, "12|\n": nil,
	} {
		got, err := answering(out, "", nil).TasksPerNode(t.Context(), []uint32{12, 13})
		if (err != nil) != (want == nil) || err != nil && !errors.Is(err, ErrDoubtful) || !cmp.Equal(got, want) && want != nil {
			t.Errorf("%q: %v, %v", out, got, err)
		}
	}
}

// The option stands where a user's own texts do not.
func TestTasksPerGPU(t *testing.T) {
	const head, middle = "JobId=7 JobName=x UserId=ann(7) Account=p NumNodes=1 Network=(null) Comment=", " WorkDir=/ StdErr=/e StdIn=/n StdOut=/o "
	for text, want := range map[string]int{
		head + "a" + middle + "NtasksPerTRES=2 MailUser=ann\n": 2, head + "NtasksPerTRES=9" + middle + "MailUser=ann\n": 0,
		head + "a" + middle + "TresPerNode=gres/gpu:1\n": 0, head + "a" + middle + "NtasksPerTRES=2 NtasksPerTRES=3\n": -1, head + "a" + middle + "NtasksPerTRES=x\n": -1,
		"JobId=7\n": -1,
	} {
		got, err := parseTasksPerGPU(&Job{Name: "x", Account: "p"}, text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
