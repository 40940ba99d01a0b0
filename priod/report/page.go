package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Page is an answer as people read it: on a terminal, and as a document that opens without a network.
type Page struct {
	Title  string
	Words  []string // paragraphs under the title
	Diff   string   // lines of a diff; "": none
	Tables []PageTable
	Notes  []string // paragraphs below the tables
	Plots  []Figure
}

// PageTable is a table of a page; cells are formatted as %v.
type PageTable struct {
	Title  string // "": that of its first column says enough
	Header []string
	Rows   [][]any
	Least  int // rows that are shown however few are asked for
}

// TableOf makes a table of records.
func TableOf[T any](title string, header []string, all []T, row func(x *T) []any) PageTable {
	t := PageTable{Title: title, Header: header, Rows: make([][]any, len(all))}
	for i := range all {
		t.Rows[i] = row(&all[i])
	}
	return t
}

// Show prints the page without its title and figures, at most so many rows of each table; nothing of those without rows.
func (p *Page) Show(w io.Writer, most int) {
	apart := ""
	for _, words := range p.Words {
		fmt.Fprintln(w, Safe(words))
		apart = "\n"
	}
	for _, t := range p.Tables {
		if len(t.Rows) == 0 {
			continue
		}
		fmt.Fprint(w, apart)
		apart = "\n"
		if t.Title != "" {
			fmt.Fprintln(w, t.Title+":")
		}
		shown := min(len(t.Rows), max(most, t.Least))
		Table(w, t.Header, t.Rows[:shown])
		if left := len(t.Rows) - shown; left > 0 {
			fmt.Fprintf(w, "and %d more; --json has all\n", left)
		}
	}
	for i, words := range p.Notes {
		if i == 0 {
			fmt.Fprint(w, apart)
		}
		fmt.Fprintln(w, Safe(words))
	}
}

// Plot adds a figure, if it has something to draw.
func (p *Page) Plot(f Figure) {
	if len(f.Bars)+len(f.Curves) > 0 {
		p.Plots = append(p.Plots, f)
	}
}

// pageRows is how many rows of a table a browser shows at ease.
const pageRows = 1000

// bounded are the tables that have rows, with so many of them.
func bounded(tables []PageTable) (shown []PageTable) {
	for _, t := range tables {
		if t.Title == "" {
			t.Title = t.Header[0]
		}
		if all := len(t.Rows); all > pageRows {
			t.Title, t.Rows = fmt.Sprintf("%s (the first %d of %d)", t.Title, pageRows, all), t.Rows[:pageRows]
		}
		if len(t.Rows) > 0 {
			shown = append(shown, t)
		}
	}
	return shown
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"cell": func(v any) string { return Safe(fmt.Sprint(v)) },
	"safe": Safe, "lines": func(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") },
}).Parse(string(Chart("page.html"))))

// Write renders the page.
func (p *Page) Write(w io.Writer) error {
	plots := make([]template.HTML, len(p.Plots))
	for i := range p.Plots {
		var err error
		if plots[i], err = p.Plots[i].HTML(); err != nil {
			return err
		}
	}
	data := map[string]any{"Page": p, "Tables": bounded(p.Tables), "Plots": plots, "Policy": "default-src 'none'; style-src 'unsafe-inline'"}
	if len(plots) > 0 {
		data["Policy"], data["Script"] = chartPolicy(), template.JS(chartScript)
		data["Style"] = template.CSS(Chart("uPlot.min.css")) + template.CSS(Chart("chart.css"))
	}
	return pageTemplate.Execute(w, data)
}
