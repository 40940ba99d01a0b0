package traces

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slurmprio/etc"
	"slurmprio/priod/workload"
	"slurmprio/tests/shared"
)

// The file in etc is what the two importers make of the authors' files.
func TestDefaultIsImported(t *testing.T) {
	gavel, _, err := ImportGavel(shared.Open(t, "gavel/isolated_throughputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	synergy, err := ImportSynergy(shared.Open(t, "synergy/models/sensitivity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := workload.WriteTOML(&b, CommentGavel, gavel); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	if err := workload.WriteTOML(&b, CommentSynergy, synergy); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), etc.Workloads); diff != "" {
		t.Error("etc/workloads.toml is not what priod workloads import makes\n", diff)
	}
}

const gavelVector = `{
"v100": {"('LM (batch size 10)', 1)": {"null": 80.5, "('A3C', 1)": [40, 3], "('LM (batch size 10)', 1)": [41, 41]},
         "('A3C', 1)": {"null": 7.25, "('LM (batch size 10)', 1)": [3, 40]},
         "('LM (batch size 10)', 2)": {"null": 160}},
"v100_unconsolidated": {"nonsense": 1},
"k80": {"('A3C', 1)": 0}}`

func TestImportGavel(t *testing.T) {
	all, pairs, err := ImportGavel(strings.NewReader(gavelVector))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := workload.WriteTOML(&text, "two\nlines", all); err != nil {
		t.Fatal(err)
	}
	const want = `# two
# lines

[[workload]]
name = "a3c"
aliases = ["A3C"]
class = "reinforcement"
source = "gavel"
speed.v100 = { 1 = 7.25 }
speed.k80 = { 1 = 0 }

[[workload]]
name = "lm-10"
aliases = ["LM (batch size 10)"]
class = "language"
source = "gavel"
speed.v100 = { 1 = 80.5, 2 = 160 }
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
	wantPairs := []Pair{{"v100", 1, "a3c", "lm-10", 3, 40}, {"v100", 1, "lm-10", "lm-10", 41, 41}}
	if diff := cmp.Diff(wantPairs, pairs); diff != "" {
		t.Error(diff)
	}
}

func TestImportGavelErrors(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                            "no throughput file",
		`{"a100": {}}`:                  "none of the GPU types",
		`{"v100": {"A3C": 1}}`:          `key "A3C"`,
		`{"v100": {"('A3C', 0)": 1}}`:   "want ('JOB TYPE'",
		`{"v100": {"('A3C', 1)": "x"}}`: "('A3C', 1)",
		`{"v100": {"('A3C', 1)": {}}}`:  "no speed alone",
		`{"v100": {"('A3C', 1)": -1}}`:  "speed.v100.1 = -1",
		`{"v100": {"('A<>3C', 1)": 1}}`: "name =",
		`{"v100": {"('A3C', 1)": {"null": 1, "('LM', 2)": [1, 2]}}}`: "as many GPUs",
		`{"v100": {"('A3C', 1)": {"null": 1, "('LM', 1)": [1]}}}`:    "two numbers",
	} {
		if _, _, err := ImportGavel(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
