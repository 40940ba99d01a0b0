package pagecheck

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"
)

// Numbers returns each number in the tables of a page that neither its JSON gives nor what its figures are drawn from, with
// its column and row. A number is given by an equal one, rounded as it is shown, as a part in per cent, in
// a part of the numbers of its object, in another unit of time or memory, or in a text; a duration by its seconds, or by the time between
// a time of the JSON and the time of the page.
func Numbers(page, asJSON string, at time.Time) (unknown []string, err error) {
	var v any
	d := json.NewDecoder(strings.NewReader(asJSON))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return nil, err
	}
	g := given{at: at, texts: map[string]bool{}}
	g.add(v)
	for n := range root.Descendants() { // what figures are drawn from is given, too
		if n.Data == "script" && n.FirstChild != nil {
			var drawn any
			d := json.NewDecoder(strings.NewReader(n.FirstChild.Data))
			if d.UseNumber(); d.Decode(&drawn) == nil {
				g.add(drawn)
			}
		}
	}
	for _, t := range tables(root) {
		for _, row := range t.rows {
			for i, cell := range row {
				head := ""
				if i < len(t.heads) {
					head = t.heads[i]
				}
				for _, n := range g.unknown(cell) {
					unknown = append(unknown, fmt.Sprintf("%s under %q in the row %.100q", n, head, strings.Join(row, " | ")))
				}
			}
		}
	}
	return unknown, nil
}

// given are the values of a JSON document.
type given struct {
	at      time.Time
	numbers []float64
	times   []time.Time
	texts   map[string]bool // numbers in texts
}

func (g *given) add(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			g.add(x)
		}
		g.addParts(v)
	case []any:
		g.numbers = append(g.numbers, float64(len(v)))
		for _, x := range v {
			g.add(x)
		}
	case json.Number:
		if f, err := v.Float64(); err == nil {
			g.numbers = append(g.numbers, f)
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			g.times = append(g.times, at)
			v = at.Local().Format("2006-01-02 15:04:05")
		}
		for _, n := range number.FindAllString(v, -1) {
			g.texts[n] = true
		}
	}
}

// addParts adds what each value of an object is of their sum, where all are numbers.
func (g *given) addParts(v map[string]any) {
	var values []float64
	sum := 0.0
	for _, x := range v {
		n, is := x.(json.Number)
		if !is {
			return
		}
		f, _ := n.Float64()
		values, sum = append(values, f), sum+f
	}
	for _, f := range values {
		if sum > 0 {
			g.numbers = append(g.numbers, f/sum)
		}
	}
}

var (
	number   = regexp.MustCompile(`\b\d+(\.\d+)?`) // not that of p95
	duration = regexp.MustCompile(`\b(\d+d\d\dh|\d+h\d\dm|\d+m\d\ds|\d+(\.\d+)?(ms|s|m|h|d))\b`)
	unit     = map[string]float64{"ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}
	part     = regexp.MustCompile(`(\d+(?:\.\d+)?)(ms|s|m|h|d)`)
)

// unknown are the durations and numbers of a text that are not given.
func (g *given) unknown(text string) (all []string) {
	rest := duration.ReplaceAllStringFunc(text, func(d string) string {
		if !g.hasDuration(d) && !g.hasAll(d) {
			all = append(all, d)
		}
		return " "
	})
	for _, n := range number.FindAllString(rest, -1) {
		if !g.has(n) {
			all = append(all, n)
		}
	}
	return all
}

// hasAll reports whether each number in a text is one of a text in the JSON.
func (g *given) hasAll(text string) bool {
	for _, n := range number.FindAllString(text, -1) {
		if !g.texts[n] {
			return false
		}
	}
	return true
}

// factors are what a number may be multiplied with where it is shown.
var factors = []float64{1, 100, 1e-3, 1.0 / 1024, 1.0 / 60, 1.0 / 3600}

func (g *given) has(n string) bool {
	if g.texts[n] {
		return true
	}
	shown, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return false
	}
	_, digits, _ := strings.Cut(n, ".")
	half := 0.5000001 * math.Pow(10, -float64(len(digits)))
	for _, x := range g.numbers {
		for _, f := range factors {
			if math.Abs(math.Abs(x*f)-shown) <= half {
				return true
			}
		}
	}
	return false
}

// hasDuration reports whether a duration is one of the JSON's, in s, ms or ns, or passed since or
// until a time of the JSON.
func (g *given) hasDuration(text string) bool {
	shown, last := 0.0, 1.0
	for _, p := range part.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(p[1], 64)
		last = unit[p[2]]
		shown += n * last
		if _, digits, has := strings.Cut(p[1], "."); has {
			last *= math.Pow(10, -float64(len(digits)))
		}
	}
	if strings.HasSuffix(text, "m00s") { // rounded to minutes, perhaps
		last = 30
	}
	near := func(x float64) bool { return math.Abs(math.Abs(x)-shown) <= last }
	for _, x := range g.numbers {
		if near(x) || near(x/1e3) || near(x/1e9) {
			return true
		}
	}
	for _, t := range g.times {
		if near(t.Sub(g.at).Seconds()) {
			return true
		}
		for _, from := range g.times {
			if near(t.Sub(from).Seconds()) {
				return true
			}
		}
	}
	return false
}
