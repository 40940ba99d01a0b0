package jobtag

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// full holds every key; fullText is how DESIGN writes it.
var full = Tag{
	Type: "te", Grace: 300 * time.Second, Ckpt: time.Hour, Signal: "B:USR1", Workload: "resnet-50_v1.5",
	Speed: map[string]float64{"v100": 0.45, "a100": 1},
	CPU:   map[string]Curve{"a100": {{3, 1}, {9, 2.4}}},
	Mem:   map[string]Curve{"v100": {{16000, 1}}, "a100_1g.5gb": {{1000.5, 0.5}, {2000, 1}}},
	Steps: 1e6, Retry: "infra",
}

const fullText = "prio:ckpt=3600&cpu=a100:3x1-9x2.4&grace=300&mem=a100_1g.5gb:1000.5x0.5-2000x1,v100:16000x1" +
	"&retry=infra&signal=B:USR1&speed=a100:1,v100:0.45&steps=1000000&type=te&v=1&workload=resnet-50_v1.5"

func TestEncode(t *testing.T) {
	for _, c := range []struct {
		tag  Tag
		want string
	}{
		{Tag{}, "prio:v=1"},
		{Tag{Type: "be"}, "prio:type=be&v=1"},
		{Tag{Workload: "bert"}, "prio:v=1&workload=bert"},
		{full, fullText},
	} {
		got, err := Encode(c.tag)
		if err != nil || got != c.want {
			t.Errorf("Encode(%+v)\n got %q, %v\nwant %q", c.tag, got, err, c.want)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	many := map[string]float64{}
	for i := range 60 {
		many[fmt.Sprintf("gputype%02d", i)] = 1
	}
	for _, c := range []struct {
		tag  Tag
		want string
	}{
		{Tag{Type: "TE"}, `tag: key "type", value "TE": want te, be or none`},
		{Tag{Retry: "x&v=1"}, `tag: key "retry", value "x&v=1": want never, infra or always`},
		{Tag{Grace: -time.Second}, `tag: key "grace", value "-1": want whole seconds, 1 to 2147483647`},
		{Tag{Grace: 1500 * time.Millisecond}, `tag: key "grace", value "1.5s": want whole seconds`},
		{Tag{Workload: "a b\n"}, `tag: key "workload", value "a b\n": ` + wantName},
		{Tag{Signal: "KILL"}, `tag: key "signal", value "KILL": want a signal that a program can catch, such as USR1, or B:USR1 for the batch shell alone`},
		{Tag{Steps: -1}, `tag: key "steps", value "-1": ` + wantNumber},
		{Tag{CPU: map[string]Curve{"a100": {{2, 1}, {2, 2}}}}, `tag: key "cpu", value "a100:2x1-2x2": ` + wantCurves},
		{Tag{CPU: map[string]Curve{"a100": {}}}, `tag: key "cpu", value "a100:": ` + wantCurves},
		{Tag{Speed: many}, "tag: 734 bytes, at most 512 are allowed"},
	} {
		got, err := Encode(c.tag)
		if err == nil || got != "" || err.Error() != c.want {
			t.Errorf("Encode(%+v) = %q, %v\nwant error %s", c.tag, got, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Tag
	}{
		{"prio:v=1", Tag{}},
		{"prio:v=1&&type=te&", Tag{Type: "te"}},
		{fullText, full},
		{"prio:" + url.Values{"v": {"1"}, "signal": {"B:USR1"}, "speed": {"a100:1,v100:0.45"}}.Encode(),
			Tag{Signal: "B:USR1", Speed: full.Speed}},
		{"prio:%74ype=%62%65&v=%31", Tag{Type: "be"}},
	} {
		got, err := Parse(c.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.in, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("Parse(%q):\n%s", c.in, d)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "tag: does not begin with prio:"},
		{"Prio:v=1", "tag: does not begin with prio:"},
		{"prio:", `tag: key "v": missing; a tag ends with v=1`},
		{"prio:type=te", `tag: key "v": missing; a tag ends with v=1`},
		{"prio:v=2&type=te", `tag: key "v", value "2": only version 1 is known`},
		{"prio:v=1&v=1", `tag: key "v": stands twice`},
		{"prio:v=1&type=te&type=te", `tag: key "type": stands twice`},
		{"prio:v=1&type=te&%74ype=be", `tag: key "type": stands twice`},
		{"prio:v=1&tpye=te", `tag: key "tpye": no such key`},
		{"prio:v=1&Type=te", `tag: key "Type": no such key`},
		{"prio:v=1&type", `tag: key "type": want te, be or none`},
		{"prio:v=1&type=%zz", `tag: key "type", value "%zz": not a URL query`},
		{"prio:v=1;type=te", `tag: key "v", value "1;type=te": not a URL query`},
		{"prio:v=1\ttype=te", `tag: key "v", value "1\ttype=te": only version 1 is known`},
		{"prio:v=1&grace=5m", `tag: key "grace", value "5m": want whole seconds, 1 to 2147483647`},
		{"prio:v=1&grace=0", `tag: key "grace", value "0": want whole seconds, 1 to 2147483647`},
		{"prio:v=1&grace=%2B5", `tag: key "grace", value "+5": want whole seconds, 1 to 2147483647`},
		{"prio:v=1&grace=99999999999999999999", `tag: key "grace", value "99999999999999999999": want whole seconds, 1 to 2147483647`},
		{"prio:v=1&share=1&%73hare=2", `tag: key "share": stands twice`},
		{"prio:v=1&guess=%zz", `tag: key "guess", value "%zz": not a URL query`},
		{"prio:share=1", `tag: key "v": missing; a tag ends with v=1`},
		{"prio:v=1&Share=1", `tag: key "Share": no such key`},
		{"prio:v=1&share=" + strings.Repeat("a", 500), "tag: 515 bytes, at most 512 are allowed"},
		{"prio:v=1&workload=../../etc", `tag: key "workload", value "../../etc": ` + wantName},
		{"prio:v=1&speed=a100:NaN", `tag: key "speed", value "a100:NaN": ` + wantSpeeds},
		{"prio:v=1&speed=a100:Inf", `tag: key "speed", value "a100:Inf": ` + wantSpeeds},
		{"prio:v=1&speed=a100:0", `tag: key "speed", value "a100:0": ` + wantSpeeds},
		{"prio:v=1&speed=a100:1e3", `tag: key "speed", value "a100:1e3": ` + wantSpeeds},
		{"prio:v=1&speed=a100:.5", `tag: key "speed", value "a100:.5": ` + wantSpeeds},
		{"prio:v=1&speed=a100", `tag: key "speed", value "a100": ` + wantSpeeds},
		{"prio:v=1&speed=a100:1,", `tag: key "speed", value "a100:1,": ` + wantSpeeds},
		{"prio:v=1&speed=a100:1,a100:2", `tag: key "speed", value "a100:1,a100:2": GPU type a100 stands twice`},
		{"prio:v=1&cpu=a100:9x1-3x2", `tag: key "cpu", value "a100:9x1-3x2": ` + wantCurves},
		{"prio:v=1&mem=a100:9", `tag: key "mem", value "a100:9": ` + wantCurves},
		{"prio:v=1&workload=%1b%5b2J%e2%80%ae", `tag: key "workload", value "\x1b[2J\u202e": ` + wantName},
		{"prio:v=1&workload=" + strings.Repeat("a", 80), `tag: key "workload", value "` + strings.Repeat("a", 48) + `"...: ` + wantName},
		{"prio:v=1&workload=" + strings.Repeat("a", 10000), "tag: 10018 bytes, at most 512 are allowed"},
	} {
		got, err := Parse(c.in)
		var typed *Error
		if !errors.As(err, &typed) || err.Error() != c.want {
			t.Errorf("Parse(%q)\n got %v\nwant %s", c.in, err, c.want)
		}
		if d := cmp.Diff(Tag{}, got); d != "" {
			t.Errorf("Parse(%q) returned part of an invalid tag:\n%s", c.in, d)
		}
	}
}

// Keys that nothing reads any more stay valid on the jobs that carry them, say
// nothing, and are gone when the tag is rewritten.
func TestOldKeys(t *testing.T) {
	const old = "prio:ckpt=3600&cpu=a100:3x1-9x2.4&give-back=1&grace=300&guess=1&mem=a100_1g.5gb:1000.5x0.5-2000x1,v100:16000x1" +
		"&retry=infra&share=1&signal=B:USR1&speed=a100:1,v100:0.45&steps=1000000&type=te&v=1&workload=resnet-50_v1.5"
	for _, c := range []struct {
		in, out string
		want    Tag
	}{
		{old, fullText, full},
		{"prio:share=1&v=1", "prio:v=1", Tag{}},
		{"prio:give-back=1&type=be&v=1", "prio:type=be&v=1", Tag{Type: "be"}},
		{"prio:guess=1&type=be&v=1", "prio:type=be&v=1", Tag{Type: "be"}},
		{"prio:v=1&share=0&type=te", "prio:type=te&v=1", Tag{Type: "te"}},
		{"prio:v=1&guess&share=", "prio:v=1", Tag{}},
		{"prio:v=1&%67uess=type,workload&share=yes+%00%ff%26v%3d2", "prio:v=1", Tag{}},
		{"prio:v=1&workload=share&share=a=b", "prio:v=1&workload=share", Tag{Workload: "share"}},
		{"prio:v=1&share=" + strings.Repeat("a", MaxBytes-len("prio:v=1&share=")), "prio:v=1", Tag{}},
	} {
		got, err := Parse(c.in)
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("Parse(%q): %v\n%s", c.in, err, d)
		}
		if out, err := Encode(got); err != nil || out != c.out {
			t.Errorf("%q became %q, %v; want %q", c.in, out, err, c.out)
		}
	}
	for _, key := range []string{"share", "guess"} {
		if err := new(Tag).Set(key, "1"); err == nil || err.Error() != `tag: key "`+key+`": no such key` {
			t.Errorf("Set(%q): %v", key, err)
		}
	}
}

// Whatever an old key holds, the tag says what it says without it, and only its
// length can be wrong.
func TestOldKeysHoldAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tag := drawTag(t)
		text, err := Encode(tag)
		if err != nil {
			return
		}
		pairs := strings.Split(strings.TrimPrefix(text, Prefix), "&")
		for _, key := range rapid.SampledFrom([][]string{{"share"}, {"guess"}, {"share", "guess"}}).Draw(t, "keys") {
			value := rapid.OneOf(rapid.SampledFrom([]string{"", "0", "1", "no"}), rapid.String(),
				rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) })).Draw(t, key)
			pairs = append(pairs, key+"="+url.QueryEscape(value))
		}
		old := Prefix + strings.Join(rapid.Permutation(pairs).Draw(t, "order"), "&")
		got, err := Parse(old)
		if len(old) > MaxBytes {
			if err == nil || err.Error() != tooLong(len(old)).Error() {
				t.Fatalf("Parse(%q): %v", old, err)
			}
			return
		}
		if d := cmp.Diff(tag, got, cmpopts.EquateEmpty()); err != nil || d != "" {
			t.Fatalf("Parse(%q): %v\n%s", old, err, d)
		}
		if again, err := Encode(got); err != nil || again != text {
			t.Fatalf("%q became %q, %v; want %q", old, again, err, text)
		}
	})
}

func TestSplit(t *testing.T) {
	for _, c := range []struct{ comment, tag, rest string }{
		{"", "", ""},
		{"hello prio:v=1", "", "hello prio:v=1"},
		{" prio:v=1", "", " prio:v=1"},
		{"prio:v=1", "prio:v=1", ""},
		{"prio:v=1 my run", "prio:v=1", "my run"},
		{"prio:v=1  two spaces \n", "prio:v=1", " two spaces \n"},
		{"prio:v=1\tx y", "prio:v=1\tx", "y"},
		{"prio: high please", "prio:", "high please"},
	} {
		if tag, rest := Split(c.comment); tag != c.tag || rest != c.rest {
			t.Errorf("Split(%q) = %q, %q; want %q, %q", c.comment, tag, rest, c.tag, c.rest)
		}
	}
}

// drawTag draws any valid tag, not always short enough.
func drawTag(t *rapid.T) Tag {
	name := rapid.StringMatching(`[A-Za-z0-9_][A-Za-z0-9._-]{0,8}`)
	amount := rapid.OneOf(rapid.Float64Range(minNumber, maxNumber), rapid.Float64Range(0.01, 99),
		rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(1, 500000).Draw(t, "whole")) }))
	seconds := func(label string) time.Duration {
		return time.Duration(rapid.Int64Range(0, maxSeconds).Draw(t, label)) * time.Second
	}
	curve := rapid.Custom(func(t *rapid.T) Curve {
		amounts := rapid.SliceOfNDistinct(amount, 1, 3, rapid.ID[float64]).Draw(t, "amounts")
		slices.Sort(amounts)
		c := make(Curve, len(amounts))
		for i, a := range amounts {
			c[i] = Point{a, amount.Draw(t, "speed")}
		}
		return c
	})
	signal := rapid.SampledFrom(signals).Draw(t, "signal")
	return Tag{
		Type:  rapid.SampledFrom([]string{"", "te", "be"}).Draw(t, "type"), // none stands alone: TestNoneStandsAlone
		Grace: seconds("grace"), Ckpt: seconds("ckpt"),
		Signal:   rapid.SampledFrom([]string{"", signal, "B:" + signal}).Draw(t, "prefixed"),
		Workload: rapid.OneOf(rapid.Just(""), name).Draw(t, "workload"),
		Speed:    rapid.MapOfN(name, amount, 0, 3).Draw(t, "speeds"),
		CPU:      rapid.MapOfN(name, curve, 0, 2).Draw(t, "cpu"),
		Mem:      rapid.MapOfN(name, curve, 0, 2).Draw(t, "mem"),
		Steps:    rapid.OneOf(rapid.Just(0.0), amount).Draw(t, "steps"),
		Retry:    rapid.SampledFrom([]string{"", "never", "infra", "always"}).Draw(t, "retry"),
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tag := drawTag(t)
		text, err := Encode(tag)
		if err != nil {
			var typed *Error
			if !errors.As(err, &typed) || typed.Key != "" {
				t.Fatalf("Encode(%+v): %v", tag, err)
			}
			return // too long, and said so
		}
		again, _ := Encode(Tag{tag.Type, tag.Grace, tag.Ckpt, tag.Signal, tag.Workload, maps.Clone(tag.Speed),
			maps.Clone(tag.CPU), maps.Clone(tag.Mem), tag.Steps, tag.Retry})
		if text != again {
			t.Fatalf("two texts for one tag:\n%s\n%s", text, again)
		}
		got, err := Parse(text)
		if err != nil {
			t.Fatalf("Parse(%q): %v", text, err)
		}
		if d := cmp.Diff(tag, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("%s\n%s", text, d)
		}
		// The order of the keys says nothing, and net/url reads and writes the
		// same tag.
		values, err := url.ParseQuery(strings.TrimPrefix(text, Prefix))
		if err != nil {
			t.Fatal(err)
		}
		pairs := strings.Split(strings.TrimPrefix(text, Prefix), "&")
		if !slices.IsSorted(pairs) {
			t.Fatalf("keys not sorted: %s", text)
		}
		shuffled := Prefix + strings.Join(rapid.Permutation(pairs).Draw(t, "order"), "&")
		for _, other := range []string{shuffled, Prefix + values.Encode()} {
			if len(other) > MaxBytes {
				continue
			}
			got, err := Parse(other)
			if d := cmp.Diff(tag, got, cmpopts.EquateEmpty()); err != nil || d != "" {
				t.Fatalf("%s: %v\n%s", other, err, d)
			}
		}
		words := rapid.String().Draw(t, "words")
		if gotTag, rest := Split(text + " " + words); gotTag != text || rest != words {
			t.Fatalf("Split gave %q, %q", gotTag, rest)
		}
	})
}

// FuzzParse: nothing panics, an error is one short line of printable ASCII,
// and what parses re-encodes to something that parses equal and has no old key.
func FuzzParse(f *testing.F) {
	for _, s := range []string{fullText, "prio:v=1", "prio:", "prio:v=1&speed=a100:1", "prio:v=1&cpu=a:1x1-2x2,b:1x1", "prio:v=1&workload=%00", "prio:guess=1&share=1&type=te&v=1", "prio:v=1&share=%00%ff+&guess", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tag, err := Parse(s)
		if err != nil {
			text := err.Error()
			if len(text) > 600 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("Parse(%q): unsafe error %q", s, text)
			}
			return
		}
		text, err := Encode(tag)
		if err != nil {
			t.Fatalf("Parse(%q) = %+v does not encode: %v", s, tag, err)
		}
		for pair := range strings.SplitSeq(strings.TrimPrefix(text, Prefix), "&") {
			if key, _, _ := strings.Cut(pair, "="); key == "guess" || key == "share" {
				t.Fatalf("%q became %q", s, text)
			}
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%q became %q: %v", s, text, err)
		}
		if d := cmp.Diff(tag, again); d != "" {
			t.Fatalf("%q became %q:\n%s", s, text, d)
		}
	})
}

// FuzzSplit: a comment comes apart into a tag that is its first word, and the
// user's words as they were; no words change what the tag says.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{fullText + " my run", "prio:v=1", "prio:v=1\tx y", "my prio:type=te&v=1", "prio:v=1\u00a0type=te \xff", " prio:v=1", "prio: "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, comment string) {
		tag, rest := Split(comment)
		switch {
		case tag == "" && rest != comment, tag != "" && comment != tag && comment != tag+" "+rest:
			t.Fatalf("Split(%q) = %q, %q", comment, tag, rest)
		case strings.HasPrefix(comment, Prefix) != (tag != "") || strings.Contains(tag, " "):
			t.Fatalf("Split(%q) = %q, %q", comment, tag, rest)
		}
		own, words := Split(fullText + " " + comment)
		if own != fullText || words != comment {
			t.Fatalf("Split gave %q, %q", own, words)
		}
	})
}
