package slurmplug

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// levers are of each kind of value.
var levers = []Lever{SiteFactor, Size, Features, ReqNodeList, ExcNodeList}

// texts are values as an undo journal of any priod may have them, and worse.
var texts = []string{
	"", "0", "-20", "007", "+5", "80", "9223372036854775807", "99999999999999999999", "ssd&a100", "n[1-3,7]", "(null)",
	"CPUsPerTask=9 MinCPUsNode=9 NumCPUs=9 MinMemoryNode=64000 ReqNodeList=a1",
	"MinCPUsNode=6 NumCPUs=6 MinMemoryCPU=2000 ReqNodeList=",
	"CpusPerTres=gres/gpu:6 MemPerTres=gres/gpu:4096 TresPerNode=gres/gpu:2 ReqNodeList=n[1-2]",
	"CpusPerTres=gpu:6 MinMemoryNode=0 TresPerJob=gres:gpu:v100:2 ReqNodeList=",
	"NumCPUs=4", "NumCPUs=0 ReqNodeList=", "NumCPUs=x ReqNodeList=", "NumCPUs=99999999999 ReqNodeList=", "NumCPUs=1 NumCPUs=2 ReqNodeList=",
	"ReqNodeList=a NumCPUs=1", "TimeLimit=1 ReqNodeList=", "NumCPUs=1\nPriority=7 ReqNodeList=", "MemPerTres=5 ReqNodeList=",
}

// What was written once is read as it was, by whatever lever; values that are the same
// compare so.
func TestValuesSayWhatTheyWereReadFrom(t *testing.T) {
	for _, l := range levers {
		for _, text := range texts {
			v := l.Value(text)
			if v.String() != text || v != l.Value(v.String()) || (v == Value{}) != (text == "") {
				t.Errorf("%s=%q is %q", l, text, v)
			}
		}
	}
}

func FuzzValue(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range levers {
			if v := l.Value(text); v.String() != text || v != l.Value(text) || v.kind == aSize && v != v.Size().Value() {
				t.Errorf("%s=%q is %q", l, text, v)
			}
		}
	})
}

func TestValueKinds(t *testing.T) {
	size := Size.Value(texts[11])
	if s := size.Size(); size.kind != aSize || s != (SizeRequest{PerTask: 9, PerNode: 9, CPUs: 9, Memory: 64000, By: ByNode, Nodes: "a1"}) {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		v     Value
		text  string
		words string
		n     int64
	}{
		{Value{}, "", "none", 0}, {Text(""), "", "none", 0}, {Number(0), "0", "0", 0}, {SiteFactor.Value("-5"), "-5", "-5", -5},
		{Features.Value("80"), "80", "80", 0}, {Delay(2500 * time.Millisecond), "now+2", "now+2", 0},
	} {
		if c.v.String() != c.text || c.v.Words() != c.words || c.v.Number() != c.n {
			t.Errorf("%q, %q, %d; want %+v", c.v, c.v.Words(), c.v.Number(), c)
		}
	}
	if Features.Value("80") == SiteFactor.Value("80") || Delay(time.Minute).Delay() != time.Minute || Text("now+60").Delay() != 0 {
		t.Error("kinds mix")
	}
	text, err := json.Marshal(struct {
		A []Value
		B Value `json:",omitzero"`
		C Value `json:",omitzero"`
	}{[]Value{{}, Number(7), size}, Value{}, Number(0)})
	if want := `{"A":["","7","` + texts[11] + `"],"C":"0"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	for _, text := range texts[12:] {
		if got := Size.Value(text).kind == aSize; got != slices.Contains(texts[11:15], text) {
			t.Errorf("%q is a size: %v", text, got)
		}
	}
}
