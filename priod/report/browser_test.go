package report

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"slurmprio/tests/browser"
)

// A report's figures are drawn in a real browser under the page's own policy, at two widths, with nothing that axe-core or the
// console complains of.
func TestPageInChromium(t *testing.T) {
	now := float64(time.Now().Unix())
	p := page()
	p.Plots = append(p.Plots,
		Figure{Title: "Day", Times: true, Steps: true, YLabel: "GPUs", XLabel: "time", Range: &[2]float64{now - 86400, now}, Curves: []Curve{{Name: "a100", X: []float64{now - 3600, now - 1800}, Y: []float64{3, 5}}}},
		Figure{Title: "Front", Scatter: true, XLabel: "completion", YLabel: "wait", Curves: []Curve{{Name: "tried", X: []float64{1, 2, 3}, Y: []float64{9, 5, 4}}, {Name: "chosen", X: []float64{2}, Y: []float64{5}}}},
		Figure{Title: "Users", YLabel: "GPU-hours", Bars: []Bar{{"ada", 3}, {"bob", 1}, {"a user with a very long name", 2}}},
		Figure{Title: "One point", LogX: true, Curves: []Curve{{Name: "x", X: []float64{5}, Y: []float64{5}}}},
		Figure{Title: "All equal", Beneath: true, Curves: []Curve{{Name: "a", X: []float64{0, 1}, Y: []float64{0, 0}}, {Name: "b", X: []float64{0, 1}, Y: []float64{0, 0}}}},
	)
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text.Bytes()) }))
	t.Cleanup(server.Close)
	b := browser.New(t, server.URL)
	for _, width := range []int64{1400, 390} {
		b.Run(chromedp.EmulateViewport(width, 900))
		b.Open("/")
		browser.Eval[bool](b, "new Promise((ok) => setTimeout(() => ok(true), 200))")
		b.Screenshot("report-" + map[int64]string{1400: "wide", 390: "phone"}[width])
		if n := browser.Eval[int](b, "document.querySelectorAll('figure.chart .uplot canvas').length"); n != len(p.Plots) {
			t.Errorf("%d of %d figures are drawn", n, len(p.Plots))
		}
		if wide := browser.Eval[int64](b, "document.documentElement.scrollWidth"); wide > width {
			t.Errorf("%d wide on %d", wide, width)
		}
		if found := b.Violations(); len(found) > 0 {
			t.Errorf("axe: %q", found)
		}
		for _, text := range b.Complaints() {
			if text != "Failed to load resource: the server responded with a status of 404 (Not Found) "+server.URL+"/favicon.ico" {
				t.Error(text)
			}
		}
	}
}
