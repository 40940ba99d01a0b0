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
