package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A fifth of the users is hostile: the others' jobs are what they were, and so is the GPU time of all jobs together; floods end within their limits on every type.
func TestFlooded(t *testing.T) {
	list, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	jobs := generate(list, 1, 3000, 0.9, 6)
	trace := flooded(list, jobs, 1)
	var before, after, hostile float64
	var kept, had []job
	for _, j := range jobs {
		if before += float64(j.gpus) * j.v100S(); honest(&j) {
			had = append(had, j)
		}
	}
	for i, j := range trace {
		if after += float64(j.gpus) * j.v100S(); honest(&j) {
			kept = append(kept, j)
			continue
		}
		hostile++
		if !j.te || j.v100S()*j.program.slowest(j.gpus) > float64(j.limit) {
			t.Errorf("job %d of user %d: TE %v, runs for up to %.0f s, limit %d s", i+1, j.user, j.te, j.v100S()*j.program.slowest(j.gpus), j.limit)
		}
	}
	if !reflect.DeepEqual(kept, had) {
		t.Error("the others' jobs differ")
	}
	if math.Abs(after/before-1) > 0.001 || hostile < 6000 {
		t.Errorf("%.0f hostile jobs; GPU time %.4f times what it was", hostile, after/before)
	}
}

// testTries: the commands that try a configuration print a row of it. The study in work is built.
func testTries(t *testing.T, work string) {
	config := filepath.Join(t.TempDir(), "slow.toml")
	if err := os.WriteFile(config, []byte("[cycle]\ninterval = \"60s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, args string
		want       []string
	}{
		{"combined", "--jobs 40 --seeds 1 --loads 0.9,1.2", []string{"Load 0.9\n", "Load 1.2\n", "| priod, slow | "}},
		{"overload", "--jobs 40 --seeds 3", []string{"| GPUs | `[preemption]` alone | ", "| memory | priod, slow | "}},
		{"hostile", "--jobs 40 --seeds 1", []string{"| priod, slow | all users honest |", "| priod, slow | a fifth hostile |"}},
	} {
		var out bytes.Buffer
		if err := commands[c.name](t.Context(), append(strings.Fields(c.args), "--dir", work, "--config", config), &out); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q:\n%s", c.name, want, &out)
			}
		}
		if err := commands[c.name](t.Context(), []string{"--dir", work, "--config", config + "-none"}, &out); err == nil {
			t.Errorf("%s takes a file that is not there", c.name)
		}
	}
}
