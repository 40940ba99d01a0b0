package report

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // wherever the tests run

	"golang.org/x/net/html"
)

// dataOf is what a figure has for the script that draws it.
func dataOf(t *testing.T, f *Figure) (data Figure, text string) {
	t.Helper()
	out, err := f.HTML()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(out), `<script type="application/json">`)
	text, _, _ = strings.Cut(rest, "</script>")
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return data, string(out)
}

// What cannot be drawn is left out; names of users close no element and hold no mark; the table has the numbers.
func TestFigure(t *testing.T) {
	name := "</script><img src=x>\x1b[31m\u202e"
	data, text := dataOf(t, &Figure{Title: name, XLabel: "h", YLabel: "GPUs", LogX: true, Curves: []Curve{{name, []float64{0, 1, 2, 3}, []float64{5, math.NaN(), 0.25, math.Inf(1)}}, {Name: "none"}}})
	if len(data.Curves) != 1 || len(data.Curves[0].X) != 1 || data.Curves[0].Y[0] != 0.25 {
		t.Errorf("%+v", data.Curves)
	}
	if strings.Contains(text, "<img") || strings.ContainsAny(text, "\x1b\u202e") || strings.Count(text, "</script>") != 1 {
		t.Error(text)
	}
	if !strings.Contains(text, `<td class="n">2</td><td class="n">0.25</td>`) {
		t.Error(text)
	}
	if _, err := html.Parse(strings.NewReader(text)); err != nil {
		t.Error(err)
	}
}

// The table of a long figure has at most a hundred rows.
func TestTableOfALongFigure(t *testing.T) {
	c := Curve{Name: "jobs"}
	for i := range 1234 {
		c.X, c.Y = append(c.X, float64(i)), append(c.Y, 1)
	}
	f := Figure{Curves: []Curve{c}}
	if n := len(f.table().Rows); n < 50 || n > tableRows {
		t.Errorf("%d rows", n)
	}
}

// The clock of a figure is this machine's, also after summer time ends.
func TestZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	was := time.Local
	time.Local = berlin
	defer func() { time.Local = was }()
	from := time.Date(2026, 10, 20, 0, 0, 0, 0, berlin)
	zone := zoneBetween(from, from.Add(10*24*time.Hour))
	if len(zone) != 2 || zone[0] != [2]int64{from.Unix(), 7200} || zone[1][1] != 3600 || zone[1][0] != time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC).Unix() {
		t.Error(zone)
	}
}

func TestTimeline(t *testing.T) {
	line := Timeline{Title: "Jobs", From: 100, Until: 200, Now: 150, Rows: []TimelineRow{{Label: "7\x1b", Job: "7", Bars: []TimelineBar{{100, 160, "be", "runs </script>"}}}, {Label: "8"}}}
	out, err := line.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(out), "</script>") != 1 || strings.Contains(string(out), "\x1b") || line.Rows[0].Label != "7\x1b" || strings.Contains(string(out), "null") { // chart.js goes through the bars of each row
		t.Error(out)
	}
}
