package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The names of curves stand below the plot, whatever the curves do: all of these go through
// all corners.
func TestLegendCoversNoCurve(t *testing.T) {
	f := Figure{Title: "Use", XLabel: "hours", YLabel: "GPUs"}
	for i := range 9 {
		f.Curves = append(f.Curves, Curve{Name: fmt.Sprintf("curve-%d", i), X: []float64{0, 0, 1, 1}, Y: []float64{float64(i), 0, 9, 0}})
	}
	svg, err := f.SVG()
	if err != nil {
		t.Fatal(err)
	}
	height := func(expression string, each func(y float64)) {
		all := regexp.MustCompile(expression).FindAllStringSubmatch(string(svg), -1)
		if len(all) != len(f.Curves) {
			t.Fatalf("%d of %d curves in %s", len(all), len(f.Curves), svg)
		}
		for _, m := range all {
			for _, number := range m[1:] {
				y, err := strconv.ParseFloat(number, 64)
				if err != nil {
					t.Fatal(err)
				}
				each(y)
			}
		}
	}
	lowest := 1e9
	const point = `[\d.]+,([\d.]+)`
	height(`<path d="M`+point+"L"+point+"L"+point+"L"+point+`"`, func(y float64) { lowest = min(lowest, y) })
	height(`<text x="[\d.]+" y="-([\d.]+)"[^>]*>curve-\d`, func(y float64) {
		if size := 12.0; y+size > lowest || y < 0 {
			t.Errorf("a name of the legend at height %v, a curve at %v", y, lowest)
		}
	})
}

// The axis of times has whole hours or days of this machine's zone, ten at most, within its range.
func TestClockTicks(t *testing.T) {
	from := time.Date(2026, 11, 25, 20, 10, 0, 0, time.Local)
	for length, labels := range map[time.Duration]string{
		5 * time.Hour: "21:00 22:00 23:00 00:00 01:00", 24 * time.Hour: "21:00 00:00 03:00 06:00 09:00 12:00 15:00 18:00", 7 * 24 * time.Hour: "Nov 26 Nov 27 Nov 28 Nov 29 Nov 30 Dec 1 Dec 2",
	} {
		var got []string
		for _, tick := range (clockTicks{}).Ticks(float64(from.Unix()), float64(from.Add(length).Unix())) {
			got = append(got, tick.Label)
		}
		if text := strings.Join(got, " "); text != labels {
			t.Errorf("%s: %s, want %s", length, text, labels)
		}
	}
}
