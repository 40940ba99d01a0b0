package slurmplug

import (
	"maps"
	"strings"
	"testing"
)

// A script can hold the line by which sacct begins the next one.
func TestBatchScripts(t *testing.T) {
	rule := strings.Repeat("-", 80)
	head := func(id string) string { return "Batch Script for " + id + "\n" + rule + "\n" }
	ids := []string{"1", "2_3", "4"}
	for name, c := range map[string]struct {
		out  string
		want map[string]string
	}{
		"nothing":     {"", map[string]string{}},
		"all":         {head("1") + "#!/bin/sh\nsleep 1\n\n" + head("2_3") + "#!/bin/sh\n\n" + head("4") + "NONE\n\n", map[string]string{"1": "#!/bin/sh\nsleep 1\n", "2_3": "#!/bin/sh\n"}},
		"no newline":  {head("1") + "sleep 1\n" + head("4") + "true\n", map[string]string{"1": "sleep 1", "4": "true\n"}},
		"not asked":   {head("3") + "#!/bin/sh\n\n" + head("2") + "x\n", map[string]string{}},
		"forged":      {head("1") + "a\n" + head("2_3") + "b\n\n" + head("2_3") + "c\n\n" + head("4") + "d\n", map[string]string{"1": "a", "4": "d\n"}},
		"in a line":   {head("1") + "echo Batch Script for 4\n" + rule + "\n", map[string]string{"1": "echo Batch Script for 4\n" + rule + "\n"}},
		"no rule":     {head("1") + "a\nBatch Script for 4\nb\n", map[string]string{"1": "a"}},
		"other words": {"sacct: something\n" + head("1") + "a\n", map[string]string{"1": "a\n"}},
	} {
		got := map[string]string{}
		for i, script := range scriptsOf([]byte(c.out), ids) {
			if script != nil {
				got[ids[i]] = string(script)
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
