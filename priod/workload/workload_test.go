package workload

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/etc"
)

func mustDefault(t *testing.T) *Table {
	t.Helper()
	table, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func lookup(t *testing.T, table *Table, name string) ID {
	t.Helper()
	id, ok := table.Lookup(name)
	if !ok {
		t.Fatalf("no workload %q", name)
	}
	return id
}

// Figures of gavel/scheduler/simulation_throughputs.json and of synergy's
// models, so that a clone without the data holds the file too.
func TestDefaultSpeeds(t *testing.T) {
	table := mustDefault(t)
	for _, c := range []struct {
		name string
		gpus int
		gpu  string
		want float64
		ok   bool
	}{
		{"ResNet-18 (batch size 16)", 1, "k80", 4.795294551566172, true},
		{"resnet-18-16", 2, "k80", 8.758230831811566, true},
		{"A3C", 1, "k80", 3.4387678290723933, true},
		{"LM (batch size 5)", 8, "v100", 698.773292956699, true},
		{"ResNet-50 (batch size 128)", 2, "k80", 0, false}, // measured: does not run
		{"A3C", 2, "v100", 0, false},                       // not measured
		{"A3C", 1, "a100", 0, false},
		{"gnmt", 4, "v100", 1 / 0.12, true},
		{"gnmt", 4, "p100", 0, false},
	} {
		if got, ok := table.Speed(lookup(t, table, c.name), c.gpus, c.gpu); got != c.want || ok != c.ok {
			t.Errorf("%s on %d %s: %v %v, want %v %v", c.name, c.gpus, c.gpu, got, ok, c.want, c.ok)
		}
	}
	if _, ok := table.Lookup("a3c "); ok {
		t.Error("names are looked up as written")
	}
}

func TestCurve(t *testing.T) {
	table := mustDefault(t)
	alexnet := table.Get(lookup(t, table, "alexnet")).Curves["v100"]
	for _, c := range []struct{ cpus, mem, want float64 }{
		{3, 64000, 1}, {12, 128000, 2.94}, {12, 64000, 2}, {24, 512000, 2.94}, {1, 64000, 0.3}, {0.5, 64000, 0.3},
		{3, 21330, 0.1}, {3, 1, 0.1}, {3.5, 64000, 1.125}, {10.5, 128000, 2.47}, {12, 96000, 2.47},
	} {
		if got := alexnet.Relative(c.cpus, c.mem); got < c.want-1e-12 || got > c.want+1e-12 {
			t.Errorf("%v CPUs, %v MB: %v, want %v", c.cpus, c.mem, got, c.want)
		}
	}
	if alexnet.Best() != 2.94 {
		t.Error(alexnet.Best())
	}
}

const good = "[[workload]]\nname = \"a\"\nspeed.v100 = { 1 = 2 }\n"

func TestParseErrors(t *testing.T) {
	curve := func(s string) string {
		keys := map[string]string{"iteration_s": "1", "demand_cpus": "1", "demand_mem_mb": "1", "cpus": "[1, 2]", "mem_mb": "[1]", "speed": "[[1], [2]]"}
		k, v, _ := strings.Cut(s, "=")
		keys[k] = v
		text := "[[workload]]\nname = \"a\"\n[workload.curve.v100]\n"
		for k, v := range keys {
			text += k + " = " + v + "\n"
		}
		return text
	}
	for text, want := range map[string]string{
		"":                                     "no [[workload]]",
		"x":                                    "f.toml:1:",
		good + "speeds.v100 = 1\n":             `unknown key "workload.speeds`,
		good + good:                            `workload 2 ("a"): name or alias "a"`,
		good + "aliases = [\"b\", \"b\"]\n":    `"b" stands twice`,
		good + "aliases = [\"\"]\n":            `aliases: ""`,
		good + "aliases = [\"\\u001b[31m\"]\n": "printable",
		good + "speed.k80 = { 1 = -1 }\n":      "speed.k80.1 = -1",
		good + "speed.k80 = { 1 = nan }\n":     "speed.k80.1 = NaN",
		good + "speed.k80 = { 1x = 1 }\n":      `speed.k80: key "1x"`,
		good + "speed.k80 = { 01 = 1 }\n":      `key "01"`,
		good + "speed.\"k 80\" = { 1 = 1 }\n":  `"k 80" is no GPU type`,
		good + "speed.k80 = { 1 = \"x\" }\n":   "workload.speed",
		"[[workload]]\nname = \"a\"\n":         "nothing is known",
		"[[workload]]\nname = \"a b\"\n":       `name = "a b"`,
		curve("iteration_s=0"):                 "curve.v100.iteration_s = 0",
		curve("demand_cpus=-1"):                "demand_cpus",
		curve("demand_mem_mb=0"):               "demand_mem_mb",
		curve("cpus=[2, 1]"):                   "cpus = [2 1]",
		curve("cpus=[1, inf]"):                 "cpus",
		curve("mem_mb=[]"):                     "mem_mb",
		curve("speed=[[1]]"):                   "speed: 1 rows",
		curve("speed=[[1], [1, 2]]"):           "row 2 has 2 columns",
		curve("speed=[[1], [0]]"):              "row 2 has 0",
	} {
		_, err := Parse("f.toml", text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f.toml:") {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// What is written reads back the same.
func TestWriteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Workload
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9][a-zA-Z0-9._-]{0,20}`), 1, 5, rapid.ID).Draw(t, "names")
		for _, name := range names {
			w := Workload{Name: name, Class: rapid.StringMatching(`[ -~]{0,9}`).Draw(t, "class"),
				Aliases: []string{name + rapid.StringMatching(`[ -~äß日]{1,9}!`).Draw(t, "alias")}, Speeds: map[string][]Speed{}}
			for _, gpuType := range []string{"v100", "3g.20gb"} {
				w.Speeds[gpuType] = []Speed{{1, rapid.Float64Range(0, 1e300).Draw(t, "speed")}, {16, rapid.Float64Range(0, 1).Draw(t, "speed")}}
			}
			if rapid.Bool().Draw(t, "curve") {
				w.Curves = map[string]Curve{"1g.5gb": {
					IterationS: rapid.Float64Range(1e-9, 1e9).Draw(t, "s"), DemandCPUs: 2, DemandMemMB: 7,
					CPUs: []float64{0.5, 2}, MemMB: []int64{1, 1 << 40}, Speed: [][]float64{{1, 2}, {1e-9, 1e17}},
				}}
			}
			all = append(all, w)
		}
		var b bytes.Buffer
		if err := WriteTOML(&b, "", all); err != nil {
			t.Fatal(err)
		}
		table, err := Parse("text", b.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if diff := cmp.Diff(all, table.All()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(etc.Workloads[:3000])
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Parse("f", text)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteTOML(&b, "", table.All()); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("again", b.String()); err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
	})
}
