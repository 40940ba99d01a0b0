package colocation

import (
	"bytes"
	"strings"
	"testing"

	"slurmprio/priod/workload"
	"slurmprio/tests/papers/traces"
	"slurmprio/tests/shared"
)

func lookup(t *testing.T, table *workload.Table, name string) workload.ID {
	t.Helper()
	id, ok := table.Lookup(name)
	if !ok {
		t.Fatalf("no workload %q", name)
	}
	return id
}

func TestPairs(t *testing.T) {
	table := shared.Workloads(t)
	var csv bytes.Buffer
	if err := WritePairs(&csv, []traces.Pair{{GPUType: "v100", GPUs: 1, A: "a3c", B: "lm-10", SpeedA: 3, SpeedB: 40}, {GPUType: "v100", GPUs: 1, A: "lm-10", B: "lm-10", SpeedA: 41, SpeedB: 41}}); err != nil {
		t.Fatal(err)
	}
	p, err := ReadPairs("pairs", &csv, table)
	if err != nil {
		t.Fatal(err)
	}
	lm, a3c := lookup(t, table, "lm-10"), lookup(t, table, "A3C")
	if a, b, ok := p.Speed(lm, a3c, 1, "v100"); a != 40 || b != 3 || !ok {
		t.Error(a, b, ok)
	}
	if a, b, ok := p.Speed(a3c, lm, 1, "v100"); a != 3 || b != 40 || !ok {
		t.Error(a, b, ok)
	}
	if _, _, ok := p.Speed(a3c, a3c, 1, "v100"); ok || len(p.speeds) != 2 {
		t.Error("a pair that nobody measured, or", len(p.speeds), "pairs")
	}
}

// All pairs of the authors' file come through the compact format unchanged.
func TestPairsOfGavel(t *testing.T) {
	_, pairs, err := traces.ImportGavel(shared.Open(t, "gavel/simulation_throughputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WritePairs(&b, pairs); err != nil {
		t.Fatal(err)
	}
	table := shared.Workloads(t)
	p, err := ReadPairs("pairs", &b, table)
	if err != nil {
		t.Fatal(err)
	}
	// 26 job types at one GPU and 19 at 2, 4 and 8, each with each and itself.
	const each = 26*27/2 + 3*19*20/2
	if len(p.speeds) < 2*each || len(p.speeds) > 3*each { // few are not measured on some type
		t.Errorf("%d pairs", len(p.speeds))
	}
	for _, q := range pairs {
		a, b, ok := p.Speed(lookup(t, table, q.A), lookup(t, table, q.B), q.GPUs, q.GPUType)
		if a != q.SpeedA || b != q.SpeedB || ok != (a > 0 && b > 0) {
			t.Fatalf("%+v: %v %v %v", q, a, b, ok)
		}
	}
}

func TestReadPairsErrors(t *testing.T) {
	table := shared.Workloads(t)
	const header = "gpu_type,gpus,workload,other,steps_per_s,other_steps_per_s\n"
	for text, want := range map[string]string{
		"":                                 "header",
		"gpu_type\n":                       "header",
		header + "v100,1,a3c,lm-5,1\n":     "number of fields",
		header + "v100,0,a3c,lm-5,1,2\n":   `p:2: gpus = "0"`,
		header + ",1,a3c,lm-5,1,2\n":       `p:2: gpu_type = ""`,
		header + "v100,1,a3c,lm,1,2\n":     `p:2: other = "lm"`,
		header + "v100,1,a3c,lm-5,1,NaN\n": `other_steps_per_s = "NaN"`,
		header + "v100,1,a3c,lm-5,-1,2\n":  `steps_per_s = "-1"`,
		header + "v100,1,a3c,lm-5,1,2\nv100,1,lm-5,a3c,2,1\n": "p:3: other",
		header + "v10,1,a3c,lm-5,1,2\n":                       `p:2: workload = "a3c": want a workload with a speed alone on 1 GPUs of type "v10"`,
		header + "v100,2,lm-5,a3c,1,2\n":                      `p:2: other = "a3c": want a workload with a speed alone on 2 GPUs of type "v100"`,
	} {
		if _, err := ReadPairs("p", strings.NewReader(text), table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
