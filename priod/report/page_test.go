package report

import (
	"bytes"
	"errors"
	"html"
	"strings"
	"testing"
)

func page() *Page {
	return &Page{
		Title:  "A <run> \x1b[31mof\x1b[0m jobs",
		Words:  []string{"Trace <script>alert(1)</script>"},
		Tables: []PageTable{{Title: "Waits", Header: []string{"policy", "mean"}, Rows: [][]any{{"<img src=x>", 1.5}}}},
		Plots: []Figure{
			{Title: "JCT", XLabel: "s", YLabel: "share", LogX: true, Curves: []Curve{
				{Name: "fifo & <others>", X: []float64{0, 1, 10, 100}, Y: []float64{0, 0.1, 0.5, 1}},
				{Name: "easy", X: []float64{1, 5, 50}, Y: []float64{0.2, 0.6, 1}},
			}},
			{Title: "Use", Steps: true, Points: true, Curves: []Curve{{Name: "GPUs", X: []float64{0, 10}, Y: []float64{3, 3}}}},
		},
	}
}

// What users called their things stands in the page as text, and nothing in
// the page makes a browser fetch anything.
func TestPageOpensWithoutANetworkAndShowsTextAsText(t *testing.T) {
	var b bytes.Buffer
	if err := page().Write(&b); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	outside, _, _ := strings.Cut(out, "<script>"+chartScript[:20]) // the page's own script, which its policy names
	for _, bad := range []string{"<script>", "<img", "\x1b", "@import", "url(http"} {
		if strings.Contains(outside, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if n := strings.Count(outside, `<figure class="chart"`); n != 2 {
		t.Errorf("%d plots, want 2", n)
	}
	if !strings.Contains(html.UnescapeString(out), chartPolicy()) {
		t.Error("the policy does not name the script")
	}
}

func TestSamePageSameBytes(t *testing.T) {
	var a, b bytes.Buffer
	if err := errors.Join(page().Write(&a), page().Write(&b)); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Error("two renderings of one page differ")
	}
}

func TestFigureOfNothingIsAnError(t *testing.T) {
	f := Figure{Title: "JCT", LogX: true, Curves: []Curve{{Name: "fifo", X: []float64{0}, Y: []float64{0}}}}
	if _, err := f.HTML(); err == nil {
		t.Error("an empty figure was drawn")
	}
}
