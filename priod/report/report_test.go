package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain name-1":         "plain name-1",
		"größe":                "größe",
		"a\x1b[31mred":         `a\x1b[31mred`,
		"two\nlines":           `two\nlines`,
		"bad\xffutf8":          `bad\xffutf8`,
		"a\u202egnp.exe":       `a\u202egnp.exe`,
		"tab\tbell\a\x00":      `tab\tbell\a\x00`,
		"real \uFFFD stays ok": `real \ufffd stays ok`,
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[2J\xff\u2066")
	f.Fuzz(func(t *testing.T, s string) {
		got := Safe(s)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}

// FuzzTable: a row is a line, whatever stands in its cells.
func FuzzTable(f *testing.F) {
	f.Add("eve\x1b[2J\nJOB", "a\tb", "", int64(-5))
	f.Add("\u202e\u2066", "<b>%s</b>", "\xff\xc3\x28", int64(7))
	f.Add("漢字", "e\u0301\u200d", "[31m", int64(1<<62))
	f.Fuzz(func(t *testing.T, a, b, c string, n int64) {
		var out strings.Builder
		Table(&out, []string{"JOB", "USER", "N"}, [][]any{{a, b, n}, {c, a, n}, {b, c, 0}})
		got := out.String()
		if strings.Count(got, "\n") != 4 || !strings.HasSuffix(got, "\n") || !shown(got) {
			t.Fatalf("%q", got)
		}
		lines := strings.Split(got, "\n")
		for i, cells := range [][2]string{{a, b}, {c, a}, {b, c}} {
			for _, cell := range cells {
				if !strings.Contains(lines[i+1], strings.TrimSpace(Safe(cell))) {
					t.Fatalf("%q is not in %q", cell, lines[i+1])
				}
			}
		}
	})
}

// shown reports whether a terminal can bear the text.
func shown(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

// FuzzJSON: a program reads what was meant, and a terminal bears it.
func FuzzJSON(f *testing.F) {
	f.Add("name", "x\x1b[2J\x7f\u009b\u202e\U000e0001\u2028")
	f.Add("\",\"forged\":1,\"", "\xff</script>\x00\\")
	f.Fuzz(func(t *testing.T, key, value string) {
		var b bytes.Buffer
		if err := JSON(&b, map[string]any{"m": map[string]string{key: value}, "list": []string{value}}); err != nil {
			t.Fatal(err)
		}
		if !shown(b.String()) {
			t.Fatalf("%q", b.String())
		}
		var got struct {
			M    map[string]string
			List []string
		}
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%v in %q", err, b.String())
		}
		valid := func(s string) string { return string([]rune(s)) } // U+FFFD for each bad byte
		if len(got.M) != 1 || got.M[valid(key)] != valid(value) || len(got.List) != 1 || got.List[0] != valid(value) {
			t.Fatalf("%q: %q reads back as %+v", key, value, got)
		}
	})
}

func TestTableEscapesCells(t *testing.T) {
	var b bytes.Buffer
	Table(&b, []string{"JOB", "USER"}, [][]any{{17, "eve\x1b[2J\nJOB"}})
	if got := b.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "\x1b") {
		t.Fatalf("%q", got)
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 2*time.Hour + 5*time.Minute: "2h05m",
		50 * time.Hour: "2d02h", -61 * time.Second: "-1m01s",
	} {
		if got := Ago(d); got != want {
			t.Errorf("Ago(%v) = %q, want %q", d, got, want)
		}
	}
}

// A program finds a list where a list belongs, however deep and however empty.
func TestJSONHasNoNullLists(t *testing.T) {
	type inner struct {
		Names []string       `json:"names"`
		Of    map[string]int `json:"of"`
	}
	type outer struct {
		inner
		At    time.Time       `json:"at"`
		Rows  []inner         `json:"rows"`
		Pair  [1][]int        `json:"pair"`
		By    map[string]any  `json:"by"`
		Next  *inner          `json:"next"`
		None  *int            `json:"none"`
		Left  []int           `json:"left,omitempty"`
		Raw   json.RawMessage `json:"raw"`
		quiet []int
	}
	v := outer{Rows: []inner{{}}, By: map[string]any{"a": []int(nil), "b": nil}, Next: &inner{}}
	var b strings.Builder
	if err := JSON(&b, v); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(b.String()), "")
	want := `{"names":[],"of":{},"at":"0001-01-01T00:00:00Z","rows":[{"names":[],"of":{}}],"pair":[[]],"by":{"a":[],"b":null},"next":{"names":[],"of":{}},"none":null,"raw":null}`
	if got != want || v.Rows[0].Names != nil || v.quiet != nil {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
