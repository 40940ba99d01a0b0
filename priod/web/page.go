package web

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"reflect"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

//go:embed pages
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"safe": report.Safe, "name": report.Name, "ago": report.Ago, "clock": report.Clock, "draw": draw, "since": func(t time.Time) string { return report.Ago(time.Since(t)) },
	"fixed": fixed, "cause": view.CauseWords, "percent": func(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) },
	"seconds": report.Seconds,
}).ParseFS(files, "pages/*.html"))

// fixed is a number with so many decimals. html/template hands on pointers as they are, and
// fmt prints those as addresses: what is no number ends the page with an error.
func fixed(decimals int, v any) (string, error) {
	switch n := v.(type) {
	case float64:
		return strconv.FormatFloat(n, 'f', decimals, 64), nil
	case *float64:
		if n == nil {
			return "", nil
		}
		return strconv.FormatFloat(*n, 'f', decimals, 64), nil
	}
	return "", fmt.Errorf("%T is no number", v)
}

// draw is a figure as it stands on a page; "": there is nothing to draw.
func draw(figure interface{ HTML() (template.HTML, error) }) (template.HTML, error) {
	if reflect.ValueOf(figure).IsNil() {
		return "", nil
	}
	text, err := figure.HTML()
	if errors.Is(err, report.ErrEmpty) {
		err = nil
	}
	return text, err
}

// page is what the templates get.
type page struct {
	Name    string
	Data    string       // the name of its data in JSON
	Cycle   *store.Cycle // nil when nothing could be read
	View    any
	On      []string // features that are switched on, in words
	Error   string
	Version string
	Viewer  string // sees what is this user's own; "": all
	Shared  bool   // accounts are guaranteed GPUs
	Slider  *Slider
}

// Stale says that the last cycle is older than cycles should be.
func (p page) Stale() bool {
	return p.Cycle != nil && (p.Slider == nil || !p.Slider.Past) && time.Since(p.Cycle.Until) > 5*time.Minute
}

// Pages are the names in the navigation.
func (p page) Pages() []string {
	all := []string{"overview", "map", "queue", "evictions", "allocation", "users", "time", "health"}
	if p.Shared {
		all = slices.Insert(all, slices.Index(all, "time"), "shares")
	}
	if p.Viewer != "" {
		all = all[:len(all)-1]
	}
	return all
}
