package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoJobs = `{"gpu_types":{"v100":1,"p100":1,"k80":1},"jobs":[{"id":"1","speed":{"v100":2,"p100":1,"k80":0.5}},
{"id":"2","speed":{"v100":3,"p100":2,"k80":1},"steps_remaining":50000}],"pairs":[{"jobs":["1","2"],"speed":{"v100":[1.9,2.8]}}]}`

func allocateText(t *testing.T, text string, args ...string) (int, string, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := Main("test", append([]string{"priod", "allocate", path}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

func TestAllocate(t *testing.T) {
	for want, args := range map[float64][]string{
		1.2631578947368423: {"--json"}, 20_000: {"--json", "--policy", "makespan"}, 1: {"--json", "--agnostic"}, 1.4262295081967213: {"--json", "--space-sharing"},
	} {
		status, out, errs := allocateText(t, twoJobs, args...)
		var got struct {
			Objective, Bound float64
			Rate             map[string]float64 `json:"effective_throughput"`
		}
		if err := json.Unmarshal([]byte(out), &got); status != 0 || err != nil {
			t.Fatal(args, status, err, out, errs)
		}
		if d := got.Objective/want - 1; d > 1e-6 || d < -1e-6 || len(got.Rate) != 2 {
			t.Errorf("%v: objective %v, want %v", args, got.Objective, want)
		}
	}
}

func TestAllocateRefusesBadInput(t *testing.T) {
	for want, text := range map[string]string{
		"not the JSON":            `{"gpu_types":`,
		"unknown field":           `{"gpus":{}}`,
		"each once":               `{"gpu_types":{"a":1},"jobs":[{"id":"1"},{"id":"1"}]}`,
		"want steps/s from 0":     `{"gpu_types":{"a":1},"jobs":[{"id":"1","speed":{"a":-1}}]}`,
		"none of the gpu_types":   `{"gpu_types":{"a":1},"jobs":[{"id":"1","speed":{"b":1}}]}`,
		"weight -1":               `{"gpu_types":{"a":1},"jobs":[{"id":"1","weight":-1}]}`,
		"no GPUs":                 `{"gpu_types":{"a":0},"jobs":[]}`,
		"none of the entities":    `{"gpu_types":{"a":1},"jobs":[{"id":"1","entity":"x"}]}`,
		"1 and 2 GPUs":            `{"gpu_types":{"a":4},"jobs":[{"id":"1"},{"id":"2","gpus":2}],"pairs":[{"jobs":["1","2"]}]}`,
		"not the JSON that alloc": `{"gpu_types":{"a":1},"jobs":[{"id":"1","weight":NaN}]}`,
	} {
		if status, out, errs := allocateText(t, text); status != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %q, %q", text, status, out, errs)
		}
	}
	if status, _, errs := allocateText(t, twoJobs, "--policy", "best"); status != 2 || !strings.Contains(errs, "want one of") {
		t.Error(status, errs)
	}
	status, _, errs := allocateText(t, `{"gpu_types":{"a":1},"jobs":[{"id":"1"},{"id":"2","speed":{"a":1}}]}`)
	if status != 0 || !strings.Contains(errs, `job "1" fits no GPU type`) {
		t.Error(status, errs)
	}
}
