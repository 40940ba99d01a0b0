package retry

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func rules(t testing.TB) *Rules {
	t.Helper()
	r, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Parse tries every rule on its examples; this test says so, and that there are some.
func TestDefaultRulesMatchTheirExamples(t *testing.T) {
	r, examples, counter := rules(t), 0, 0
	for i := range r.rules {
		if err := r.try(i); err != nil {
			t.Errorf("rule %q: %v", r.rules[i].name, err)
		}
		examples, counter = examples+len(r.rules[i].examples), counter+len(r.rules[i].not)
	}
	t.Logf("%d rules, %d examples, %d that must not match", len(r.rules), examples, counter)
	if len(r.rules) < 25 || examples < 2*len(r.rules)-10 {
		t.Errorf("%d rules with %d examples", len(r.rules), examples)
	}
}

// Each row of Table 7 and each class of the guidelines has a rule.
func TestDefaultRulesCoverThePaper(t *testing.T) {
	r := rules(t)
	for _, name := range []string{
		"cpu out of memory", "incorrect inputs", "semantic error", "core dump", "invalid memory access", "model checkpoint error",
		"cuda failure", "syntax error", "traceback", "mpi error", "gpu out of memory", "mpi runtime failure", "permission error",
		"import error", "job preempted", "cuda init failed", "model diverged", "cuda version mismatch", "gpu ecc error",
		"output node error", "cannot load libs", "no signature",
	} {
		found := false
		for i := range r.rules {
			found = found || r.rules[i].name == name
		}
		if !found {
			t.Errorf("no rule %q", name)
		}
	}
	used := map[*Class]bool{}
	for i := range r.rules {
		used[r.rules[i].class] = true
	}
	for name, c := range r.Classes {
		if !used[c] {
			t.Errorf("class %s has no rule", name)
		}
	}
}

const small = `
[class.a]
text = "a"
do = "later"
times = 1
wait = "1m"
[class.b]
text = "b"
do = "nothing"

[[rule]]
name = "one"
class = "a"
output = 'boom'
examples = ["boom"]

[[rule]]
name = "rest"
class = "b"
examples = ["FAILED 1:0"]
`

func TestParseErrorsNameRuleAndLine(t *testing.T) {
	if _, err := Parse("f.toml", small); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ name, from, to, want string }{
		{"bad pattern", "'boom'", "'bo(om'", `f.toml:11: rule 1 ("one"): output: error parsing regexp: missing closing )`},
		{"lookbehind, which is no RE2", "'boom'", "'(?<=a)boom'", `f.toml:11: rule 1 ("one"): output:`},
		{"matches nothing", "'boom'", "'x*'", "it matches where nothing stands"},
		{"repeats without end", "'boom'", "'(((a{100}){100}){100})'", `f.toml:11: rule 1 ("one"): output:`},
		{"long pattern", "'boom'", "'" + strings.Repeat("a", 3000) + "'", "3000 bytes"},
		{"no example", `examples = ["boom"]`, "", "examples: want at least one"},
		{"wrong example", `examples = ["boom"]`, `examples = ["bang"]`, `the example "bang" belongs to rule "rest"`},
		{"counter-example", `examples = ["boom"]`, `examples = ["boom"]` + "\n" + `not = ["a boom"]`, "which it must not"},
		{"no class", `class = "a"`, `class = "z"`, `there is no [class.z]`},
		{"unknown key", `examples = ["boom"]`, `examples = ["boom"]` + "\nexits = 3", "unknown key"},
		{"same name", `name = "rest"`, `name = "one"`, "the name stands twice"},
		{"no last rule", `examples = ["FAILED 1:0"]`, "exit = [3]\n" + `examples = ["FAILED 3:0"]`, "the last rule must have no condition"},
		{"bad do", `do = "later"`, `do = "sometimes"`, "class.a: do ="},
		{"bad wait", `wait = "1m"`, `wait = "300h"`, "class.a: wait"},
		{"bad times", `times = 1`, `times = 1000`, "class.a: times"},
		{"bad state", `output = 'boom'`, `states = ["BROKEN"]`, "states: want some of"},
		{"bad exit", `output = 'boom'`, `exit = [0]`, "exit: want"},
		{"escape in a text", `text = "a"`, `text = "a\u001b[31m"`, "text: want one printable line"},
		{"not TOML", "[[rule]]", "[[rule]", "f.toml:"},
	} {
		_, err := Parse("f.toml", strings.Replace(small, x.from, x.to, 1))
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v; want %q", x.name, err, x.want)
		}
	}
}

func TestClassify(t *testing.T) {
	r := rules(t)
	for _, x := range []struct {
		run               Run
		class, rule, line string
	}{
		{Run{State: "FAILED", ExitCode: 1, Output: []byte("epoch 1\nTraceback (most recent call last):\n  File \"a.py\"\nFileNotFoundError: [Errno 2] No such file or directory: '/x'\n")},
			"input", "incorrect inputs", "FileNotFoundError: [Errno 2] No such file or directory: '/x'"},
		// The rank that ran out of memory is the cause of what NCCL says on the others.
		{Run{State: "FAILED", ExitCode: 1, Output: []byte("[rank1] ncclRemoteError: remote process exited\nCUDA out of memory. Tried to allocate 2 GiB\n")}, "gpu-memory", "gpu out of memory", "CUDA out of memory. Tried to allocate 2 GiB"},
		{Run{State: "FAILED", Signal: 9, AskedMB: 8192, PeakMB: 8100}, "memory", "cpu out of memory (killed)", ""},
		{Run{State: "FAILED", Signal: 9, AskedMB: 8192, PeakMB: 100}, "unknown", "no signature", ""},
		{Run{State: "FAILED", StepSignal: 11, ExitCode: 1}, "crash", "core dump", ""},
		{Run{State: "NODE_FAIL", Output: []byte("SyntaxError: x")}, "node", "node failed", ""},
		{Run{State: "FAILED", ExitCode: 1, Output: []byte("\x00\xff\xfe\x1b[31mPermission denied\x07\n")}, "input", "permission error", "Permission denied"},
	} {
		f := r.Classify(&x.run)
		if f.Class.Name != x.class || f.Rule != x.rule || f.Line != x.line {
			t.Errorf("%s %s: class %s, rule %q, line %q; want %s, %q, %q", x.run.State, x.run.Output, f.Class.Name, f.Rule, f.Line, x.class, x.rule, x.line)
		}
	}
}

func TestSignatureIsTheSameForWhatIsAlike(t *testing.T) {
	r := rules(t)
	say := func(s string) string {
		return r.Classify(&Run{State: "FAILED", ExitCode: 1, Output: []byte(s)}).Signature
	}
	if a, b := say("KeyError: 'x' at 0x7f12 rank 3"), say("KeyError: 'x' at 0x8811 rank 12"); a != b {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := say("KeyError: 'x'"), say("KeyError: 'y'"); a == b {
		t.Errorf("%q twice", a)
	}
}

// Only the end counts, however much there is.
func TestClassifyReadsTheEndOnly(t *testing.T) {
	r := rules(t)
	text := append([]byte("CUDA out of memory\n"), make([]byte, MaxOutput)...)
	if f := r.Classify(&Run{State: "FAILED", ExitCode: 1, Output: text}); f.Class.Name != "unknown" {
		t.Errorf("%s by %q", f.Class.Name, f.Line)
	}
}

func TestAdvice(t *testing.T) {
	r := rules(t)
	for _, x := range []struct {
		run  Run
		want string
	}{
		{Run{State: "OUT_OF_MEMORY", AskedMB: 8192, PeakMB: 8090}, "asked 8 GB, killed at 7.9 GB: try --mem=12G"},
		{Run{State: "OUT_OF_MEMORY", AskedMB: 300}, "asked 300 MB: try --mem=1G"},
		{Run{State: "OUT_OF_MEMORY"}, "ask for more memory (--mem)"},
		{Run{State: "TIMEOUT", Limit: time.Hour}, "it ran its whole limit of 1h0m0s: a longer --time, or --prio-ckpt with --prio-retry always when it saves its state"},
		{Run{State: "FAILED", ExitCode: 1, Output: []byte("CUDA out of memory")}, "a smaller batch, or a GPU type with more memory"},
	} {
		f := r.Classify(&x.run)
		if got := Advice(&f, &x.run); got != x.want {
			t.Errorf("%s: %q; want %q", x.run.State, got, x.want)
		}
	}
}

// Progress lines, and texts that begin like many patterns again and again.
func BenchmarkClassify(b *testing.B) {
	r := rules(b)
	var lines []byte
	for i := 0; len(lines) < MaxOutput; i++ {
		lines = fmt.Appendf(lines, "epoch %d step %d loss %.4f images/s %d\n", i/100, i, 1/float64(i+1), 1000+i%7)
	}
	texts := map[string][]byte{"progress": lines}
	for _, piece := range []string{"a", "NCCL error ", "Traceback (most recent call last", ": ", "\n", "MPI_Abort", "\xff", "[rank0]: "} {
		texts[fmt.Sprintf("%q", piece)] = []byte(strings.Repeat(piece, MaxOutput/len(piece)))
	}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			run := Run{State: "FAILED", ExitCode: 1, Output: text}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.Classify(&run)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add("[[rule]]\nname=\"x\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		r, err := Parse("f", text)
		if err == nil && !r.rules[len(r.rules)-1].always() {
			t.Error("no last rule")
		}
	})
}

func FuzzClassify(f *testing.F) {
	r := rules(f)
	for i := range r.rules {
		for _, text := range append(r.rules[i].examples, r.rules[i].not...) {
			f.Add("FAILED", "None", 1, 0, int64(0), int64(0), []byte(text))
		}
	}
	f.Add("OUT_OF_MEMORY", "OutOfMemory", 0, 125, int64(8), int64(9), []byte{})
	f.Add("", "\x1b[2J", -5, 1<<40, int64(-1), int64(1<<62), []byte("\x00"))
	f.Fuzz(func(t *testing.T, state, reason string, code, signal int, asked, peak int64, output []byte) {
		run := Run{State: state, Reason: reason, ExitCode: code, Signal: signal, StepCode: signal, AskedMB: asked, PeakMB: peak, Output: output}
		found := r.Classify(&run)
		if found.Class == nil || found.Signature == "" || !printable(found.Line) || len(found.Signature) > 5*maxLine {
			t.Errorf("%+v", found)
		}
		if advice := Advice(&found, &run); !printable(advice) {
			t.Errorf("advice %q", advice)
		}
	})
}
