package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Curve is one line of a figure; X and Y have equal length and X ascends.
type Curve struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

// Figure is a plot, drawn by charts/chart.js, with its numbers in a table. With LogX, points at X <= 0 are left out.
type Figure struct {
	Title   string      `json:"title"`
	XLabel  string      `json:"x_label,omitempty"`
	YLabel  string      `json:"y_label,omitempty"`
	LogX    bool        `json:"log_x,omitempty"`
	Times   bool        `json:"times,omitempty"`   // X is Unix seconds, shown as clock times of this machine's zone
	Points  bool        `json:"points,omitempty"`  // mark each point: few of them, each measured
	Scatter bool        `json:"scatter,omitempty"` // points alone, without lines
	Steps   bool        `json:"steps,omitempty"`   // Y holds until the next X
	Stacked bool        `json:"stacked,omitempty"` // areas, each on top of the earlier ones
	Beneath bool        `json:"beneath,omitempty"` // curves may coincide: earlier ones are wider, to be seen beneath later ones
	Spark   bool        `json:"spark,omitempty"`   // small, without axes and numbers
	Curves  []Curve     `json:"curves,omitempty"`
	Bars    []Bar       `json:"bars,omitempty"`  // instead of curves
	Range   *[2]float64 `json:"range,omitempty"` // of X, where the curves may end before; nil: that of the curves
	Zone    [][2]int64  `json:"zone,omitempty"`  // with Times: from when on, Unix s, which offset from UTC holds, s
}

// Bar is one value with a name.
type Bar struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Timeline shows what happens when, in rows.
type Timeline struct {
	Title string        `json:"title"`
	From  int64         `json:"from"` // Unix s, as all of its times
	Until int64         `json:"until"`
	Now   int64         `json:"now"`
	Rows  []TimelineRow `json:"rows"`
	Zone  [][2]int64    `json:"zone"`
}

// TimelineRow is one row.
type TimelineRow struct {
	Label string        `json:"label"`
	Job   string        `json:"job,omitempty"` // whose page a click opens
	Bars  []TimelineBar `json:"bars"`
}

// TimelineBar is a part of a row. Kind is one of those of charts/chart.js.
type TimelineBar struct {
	From  int64  `json:"from"`
	Until int64  `json:"until"`
	Kind  string `json:"kind"`
	Words string `json:"words"`
}

// tableRows are at most shown of a figure; of longer ones every second, third and so on.
const tableRows = 100

//go:embed charts
var charts embed.FS

// Chart is a file of charts: uPlot.iife.min.js, chart.js, uPlot.min.css and chart.css draw figures, page.html and figure.html hold them.
func Chart(name string) []byte {
	text, err := charts.ReadFile("charts/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return text
}

var chartScript = string(Chart("uPlot.iife.min.js")) + string(Chart("chart.js"))

// chartPolicy lets a page run what draws its figures, and nothing else.
func chartPolicy() string {
	sum := sha256.Sum256([]byte(chartScript))
	return "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

var figureTemplate = template.Must(template.New("figure").Parse(string(Chart("figure.html"))))

// ErrEmpty says that a figure has nothing to draw.
var ErrEmpty = errors.New("nothing to draw")

// HTML is the figure as it stands in a page that loads what Chart names; ErrEmpty where there is nothing to draw.
func (f *Figure) HTML() (template.HTML, error) {
	shown := *f
	shown.Title, shown.XLabel, shown.YLabel, shown.Curves, shown.Bars = Safe(f.Title), Safe(f.XLabel), Safe(f.YLabel), nil, nil
	var names []string
	for _, c := range f.Curves {
		if c = f.drawn(c); len(c.X) > 0 {
			shown.Curves = append(shown.Curves, c)
			names = append(names, c.Name)
		}
	}
	for _, b := range f.Bars {
		shown.Bars = append(shown.Bars, Bar{Safe(b.Name), finite(b.Value)})
	}
	if len(shown.Curves) == 0 && len(shown.Bars) == 0 {
		return "", fmt.Errorf("figure %q: %w", f.Title, ErrEmpty)
	}
	if f.Times {
		first, last := math.Inf(1), math.Inf(-1)
		for _, c := range shown.Curves {
			first, last = min(first, c.X[0]), max(last, c.X[len(c.X)-1])
		}
		if f.Range != nil {
			first, last = f.Range[0], f.Range[1]
		}
		shown.Zone = zoneBetween(time.Unix(int64(first), 0), time.Unix(int64(last), 0))
	}
	label := shown.Title
	if len(names) > 0 {
		label += ": " + strings.Join(names, ", ")
	}
	if f.Spark {
		return figureHTML(shown.Title, label, shown, nil, true)
	}
	return figureHTML(shown.Title, label+". Keys: + and - zoom, arrows move, 0 shows all.", shown, shown.table(), false)
}

// HTML is the line of time as it stands in a page.
func (t *Timeline) HTML() (template.HTML, error) {
	shown := *t
	shown.Zone, shown.Rows = zoneBetween(time.Unix(t.From, 0), time.Unix(t.Until, 0)), make([]TimelineRow, len(t.Rows))
	for i, r := range t.Rows {
		r.Label, r.Bars = Safe(r.Label), append([]TimelineBar{}, r.Bars...) // never null
		for k := range r.Bars {
			r.Bars[k].Words = Safe(r.Bars[k].Words)
		}
		shown.Rows[i] = r
	}
	return figureHTML(Safe(t.Title), Safe(t.Title)+". Keys: up and down choose a row, Enter opens its job, + and - zoom, 0 shows all.", shown, nil, false)
}

func figureHTML(title, label string, data any, table *PageTable, spark bool) (template.HTML, error) {
	text, err := json.Marshal(data) // with <, > and & as escapes
	if err != nil {
		return "", err
	}
	id := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(title)), "-")
	var b bytes.Buffer
	err = figureTemplate.Execute(&b, map[string]any{"ID": "f-" + id, "Title": title, "Label": label, "JSON": template.JS(text), "Table": table, "Spark": spark})
	return template.HTML(b.String()), err
}

// drawn is the part of a curve that can be shown.
func (f *Figure) drawn(c Curve) Curve {
	out := Curve{Name: Safe(c.Name), X: make([]float64, 0, len(c.X)), Y: make([]float64, 0, len(c.X))}
	for i, x := range c.X {
		if (!f.LogX || x > 0) && !math.IsNaN(c.Y[i]) && !math.IsInf(c.Y[i], 0) {
			if !f.Times {
				x = sixDigits(x)
			}
			out.X, out.Y = append(out.X, x), append(out.Y, sixDigits(c.Y[i]))
		}
	}
	return out
}

// sixDigits are all that a plot shows.
func sixDigits(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return v
}

func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// table has the numbers of a figure whose curves share their X, or of its bars.
func (f *Figure) table() *PageTable {
	t := &PageTable{Header: []string{f.XLabel, f.YLabel}}
	for _, b := range f.Bars {
		t.Rows = append(t.Rows, []any{b.Name, digits(b.Value)})
	}
	if len(f.Curves) == 0 {
		return t
	}
	xs := map[float64]bool{}
	values := make([]map[float64]float64, len(f.Curves))
	t.Header = []string{f.XLabel}
	for i, c := range f.Curves {
		name := c.Name
		if f.YLabel != "" {
			name += " (" + f.YLabel + ")"
		}
		t.Header, values[i] = append(t.Header, name), make(map[float64]float64, len(c.X))
		for k, x := range c.X {
			xs[x], values[i][x] = true, c.Y[k]
		}
	}
	all := make([]float64, 0, len(xs))
	for x := range xs {
		all = append(all, x)
	}
	slices.Sort(all)
	step := (len(all) + tableRows - 1) / tableRows
	for i := 0; i < len(all); i += step {
		x := all[i]
		row := []any{digits(x)}
		if f.Times {
			row[0] = time.Unix(int64(x), 0).Format("2006-01-02 15:04")
		}
		for k := range values {
			if y, known := values[k][x]; known {
				row = append(row, digits(y))
			} else {
				row = append(row, "")
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// digits are as many as a reader needs.
func digits(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size < 0.001:
		return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 6, 64), "0"), ".")
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// zoneBetween lists which offsets from UTC hold on this machine between two times.
func zoneBetween(from, until time.Time) (zone [][2]int64) {
	for at := from.Local(); ; {
		_, offset := at.Zone()
		zone = append(zone, [2]int64{at.Unix(), int64(offset)})
		_, end := at.ZoneBounds()
		if end.IsZero() || end.After(until) {
			return zone
		}
		at = end
	}
}
