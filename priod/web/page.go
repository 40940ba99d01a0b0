package web

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

//go:embed pages
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"safe": report.Safe, "name": name, "ago": report.Ago, "clock": clock, "since": func(t time.Time) string { return report.Ago(time.Since(t)) },
	"fixed": fixed, "cause": report.CauseWords, "percent": func(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) },
	"seconds": func(s float64) string { return report.Ago(time.Duration(s * float64(time.Second))) },
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

// longestName is how much of a name is shown, in characters.
const longestName = 40

// name is a name as it stands in a table, cut where it is very long.
func name(s string) string {
	s = report.Safe(s)
	if utf8.RuneCountInString(s) <= longestName {
		return s
	}
	return string([]rune(s)[:longestName-1]) + "…"
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
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
}

// Stale says that the last cycle is older than cycles should be.
func (p page) Stale() bool { return p.Cycle != nil && time.Since(p.Cycle.Until) > 5*time.Minute }

// Pages are the names in the navigation.
func (p page) Pages() []string {
	all := []string{"overview", "map", "queue", "evictions", "allocation", "users", "time", "health"}
	if p.Viewer != "" {
		all = all[:len(all)-1]
	}
	return all
}

const rowsOfPage = 100

// Part is one page of a longer list.
type Part struct {
	Page int `json:"page"` // 1 is the first
	Of   int `json:"of"`
	All  int `json:"all"` // rows
}

func partOf(asked url.Values, all int) (p Part, skip int, err error) {
	p = Part{Page: 1, Of: max(1, (all+rowsOfPage-1)/rowsOfPage), All: all}
	if text := asked.Get("page"); text != "" {
		if p.Page, err = strconv.Atoi(text); err != nil || p.Page < 1 {
			return p, 0, usagef("page=%.20q: want a number, 1 or more", text)
		}
	}
	p.Page = min(p.Page, p.Of)
	return p, (p.Page - 1) * rowsOfPage, nil
}

// Turn is how a reader gets to the pages beside this one.
type Turn struct {
	Part
	path  string
	asked url.Values
}

// Links of the pages before and after this one, "" where there is none.
func (t Turn) link(page int) string {
	if page < 1 || page > t.Of {
		return ""
	}
	q := url.Values{}
	for key, values := range t.asked {
		if key != "page" && key != "format" && cmp.Or(values...) != "" {
			q[key] = values
		}
	}
	q.Set("page", strconv.Itoa(page))
	return t.path + "?" + q.Encode()
}

// Before is the address of the page before this one; "": it is the first.
func (t Turn) Before() string { return t.link(t.Page - 1) }

// Next is the address of the page after this one; "": it is the last.
func (t Turn) Next() string { return t.link(t.Page + 1) }
