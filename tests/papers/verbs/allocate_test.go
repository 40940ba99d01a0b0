package verbs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/priod/allocate"
	priod "slurmprio/priod/cli"
	"slurmprio/tests/papers/policies"
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
	status := priod.Run(App(), append([]string{"papers", "allocate", path}, args...), &out, &errs)
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

func TestAllocateShowsDiscountsAndPairs(t *testing.T) {
	status, out, errs := allocateText(t, twoJobs, "--json", "--policy", "strategy-proof")
	var got struct{ Discount map[string]float64 }
	if err := json.Unmarshal([]byte(out), &got); status != 0 || err != nil || math.Abs(got.Discount["1"]-2.0/3) > 1e-6 || math.Abs(got.Discount["2"]-1) > 1e-6 {
		t.Error(status, err, got, errs)
	}
	crowded := strings.Replace(twoJobs, `"v100":1,"p100":1,"k80":1`, `"v100":1`, 1)
	for _, part := range []string{`,"p100":1,"k80":0.5`, `,"p100":2,"k80":1`} {
		crowded = strings.Replace(crowded, part, "", 1)
	}
	status, out, errs = allocateText(t, crowded, "--json", "--policy", "gandiva")
	var packed struct {
		Pairs []struct {
			Jobs [2]string
			Time map[string]float64
		}
		Rate map[string]float64 `json:"effective_throughput"`
	}
	if err := json.Unmarshal([]byte(out), &packed); status != 0 || err != nil || len(packed.Pairs) != 1 || packed.Pairs[0].Time["v100"] != 1 || packed.Rate["2"] != 2.8 {
		t.Error(status, err, packed, errs)
	}
}

func TestAllocateRefusesBadInput(t *testing.T) {
	for _, text := range []string{"", " \n"} {
		status, _, errs := allocateText(t, text)
		if status != 2 || !strings.Contains(errs, "is empty") || !strings.Contains(errs, allocateExample) {
			t.Errorf("%q: status %d, %q", text, status, errs)
		}
	}
	if status, _, errs := allocateText(t, allocateExample); status != 0 {
		t.Errorf("the example: status %d, %q", status, errs)
	}
	for want, text := range map[string]string{
		"not the JSON":            `{"gpu_types":`,
		"unknown field":           `{"gpus":{}}`,
		"each once":               `{"gpu_types":{"a":1},"jobs":[{"id":"1"},{"id":"1"}]}`,
		"want steps/s from 0":     `{"gpu_types":{"a":1},"jobs":[{"id":"1","speed":{"a":-1}}]}`,
		"none of the gpu_types":   `{"gpu_types":{"a":1},"jobs":[{"id":"1","speed":{"b":1}}]}`,
		"weight -1":               `{"gpu_types":{"a":1},"jobs":[{"id":"1","weight":-1}]}`,
		"no negative number":      `{"gpu_types":{"a":-1},"jobs":[]}`,
		"want at least one":       `{"gpu_types":{"a":1},"jobs":[{"id":"1","gpus":0}]}`,
		"want a name, and each":   `{"gpu_types":{"a":1},"entities":[{"name":"a"},{"name":"a"}]}`,
		"number above 0":          `{"gpu_types":{"a":1},"entities":[{"name":"a","weight":-1}]}`,
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
	for _, job := range []string{`{"id":"1"}`, `{"id":"1","speed":{"a":0}}`, `{"id":"1","speed":{"a":1},"gpus":2}`} {
		status, _, errs := allocateText(t, `{"gpu_types":{"a":1},"jobs":[`+job+`,{"id":"2","speed":{"a":1}}]}`)
		if status != 0 || !strings.Contains(errs, `job "1" fits no GPU type`) {
			t.Errorf("%s: status %d, %q", job, status, errs)
		}
	}
}

// Deadlines that cannot be kept are given up one by one, the latest submitted
// first, and each is reported; an entity without jobs is, too.
func TestAllocateFallsBackAndSaysSo(t *testing.T) {
	const job = `{"id":"%s","speed":{"a":1},"steps_remaining":%d,"deadline_s":100,"arrival_s":%d}`
	text := `{"gpu_types":{"a":1},"jobs":[` + fmt.Sprintf(job, "late", 30, 9) + "," + fmt.Sprintf(job, "first", 60, 1) + "," + fmt.Sprintf(job, "later", 10, 10) + "," +
		fmt.Sprintf(job, "second", 40, 2) + "," + fmt.Sprintf(job, "hopeless", 101, 0) + `]}`
	status, out, errs := allocateText(t, text, "--policy", "max-throughput", "--json")
	var got struct {
		Notes []string
		Rate  map[string]float64 `json:"effective_throughput"`
	}
	if err := json.Unmarshal([]byte(out), &got); status != 0 || err != nil {
		t.Fatal(status, err, errs)
	}
	for i, want := range []string{`"hopeless" misses its deadline even on its fastest`, `"later" cannot be kept beside`, `"late" cannot be kept beside`} {
		if len(got.Notes) != 3 || !strings.Contains(got.Notes[i], want) {
			t.Fatalf("notes %q, want %q", got.Notes, want)
		}
	}
	if got.Rate["first"] < 0.6-1e-6 || got.Rate["second"] < 0.4-1e-6 {
		t.Errorf("deadlines that can be kept are not: %v", got.Rate)
	}
	status, _, errs = allocateText(t, `{"gpu_types":{"a":1},"jobs":[{"id":"1","speed":{"a":1},"entity":"busy"}],"entities":[{"name":"busy"},{"name":"idle","weight":5}]}`, "--policy", "hierarchical")
	if status != 0 || !strings.Contains(errs, `entity "idle" has no jobs: its share goes to the others`) {
		t.Error(status, errs)
	}
}

func TestAllocateRefusesWhatAPolicyCannot(t *testing.T) {
	gang := strings.Replace(twoJobs, `"id":"1",`, `"id":"1","gpus":1,`, 1)
	for want, args := range map[string][]string{
		"sjf: no space sharing: fifo": {"--policy", "sjf", "--space-sharing"},
		"it cannot be agnostic":       {"--policy", "gandiva", "--agnostic"},
		"has no price":                {"--policy", "min-cost"},
	} {
		if status, _, errs := allocateText(t, gang, args...); status != 2 || !strings.Contains(errs, want) {
			t.Errorf("%v: status %d, %q", args, status, errs)
		}
	}
	gang = `{"gpu_types":{"a":4},"jobs":[{"id":"big","gpus":4,"speed":{"a":1}}]}`
	if status, _, errs := allocateText(t, gang, "--policy", "allox"); status != 2 || !strings.Contains(errs, `job "big" has a gang of 4`) {
		t.Error(status, errs)
	}
}

// Speeds and weights thirty decades apart: on some of these instances the
// optimiser drowns in rounding errors, says so and keeps the instance.
func TestAllocateKeepsWhatItFailsOn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 30))
		far := func() float64 { return math.Pow(10, 30*(r.Float64()-0.5)) }
		p := &policies.Problem{}
		for _, name := range []string{"a", "b", "c", "d"} {
			p.Types = append(p.Types, allocate.GPUType{Name: name, GPUs: 3})
		}
		for i := range 25 {
			p.Jobs = append(p.Jobs, allocate.ProblemJob{ID: fmt.Sprint(i), GPUs: 1 + r.IntN(3), Weight: far(), Speed: []float64{far(), far(), far(), far()}, StepsLeft: 1,
				Entity: allocate.NoEntity})
		}
		if _, err := (policies.Policy{Name: "max-min"}).Allocate(p); !allocate.Numeric(err) {
			continue
		}
		text, err := p.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		status, out, errs := allocateText(t, string(text))
		_, path, found := strings.Cut(errs, "the instance is in ")
		if status != exitProblem || out != "" || !found {
			t.Fatalf("status %d, %q, %q", status, out, errs)
		}
		if kept, err := os.ReadFile(strings.TrimSpace(path)); err != nil || string(kept) != string(text) {
			t.Errorf("%v: %s", err, kept)
		}
		return
	}
	t.Fatal("no instance provoked it")
}
