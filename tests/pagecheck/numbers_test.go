package pagecheck

import (
	"slices"
	"testing"
	"time"
)

const document = `{"jobs":[{"id":7,"wait_s":3780,"mem_mb":65536,"part":0.1234,"submit":"2026-01-02T03:04:05Z","words":"fits on 4 nodes"}]}`

func TestNumbers(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 14, 5, 0, time.UTC)
	for cell, want := range map[string][]string{
		"7": nil, "1h03m": nil, "64": nil, "12.3 %": nil, "0.12": nil, "10m00s": nil, "fits on 4 nodes": nil, "1": nil, "p95": nil,
		"8": {"8"}, "1h05m": {"1h05m"}, "0.13": {"0.13"}, "fits on 5 nodes": {"5"}, "12m00s": {"12m00s"},
	} {
		page := "<table><tr><th>head</th></tr><tr><td>" + cell + "</td></tr></table>"
		all, err := Numbers(page, document, at)
		if err != nil {
			t.Fatal(err)
		}
		if (len(all) == 0) != (len(want) == 0) {
			t.Errorf("%s: %q", cell, all)
		}
	}
	if _, err := Numbers("", "no JSON", at); err == nil {
		t.Error("what is no JSON is read")
	}
}

func TestEmptyColumns(t *testing.T) {
	page := "<table><tr><th>a</th><th>b</th></tr>"
	for range 11 {
		page += "<tr><td>1</td><td></td></tr>"
	}
	if heads := EmptyColumns(page + "</table>"); !slices.Equal(heads, []string{"b"}) {
		t.Errorf("%q", heads)
	}
}

func TestNonsense(t *testing.T) {
	if found := Nonsense("waits -3m\nfree: 4\n%!d(string=x)\n<nil>\n"); len(found) != 3 {
		t.Errorf("%q", found)
	}
}
