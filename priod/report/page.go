package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Page is a document that opens without a network.
type Page struct {
	Title  string
	Words  []string // paragraphs under the title
	Diff   string   // lines of a diff; "": none
	Tables []PageTable
	Plots  []Figure
}

// PageTable is a table of a page; cells are formatted as %v.
type PageTable struct {
	Title  string
	Header []string
	Rows   [][]any
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"cell": func(v any) string { return Safe(fmt.Sprint(v)) },
	"safe": Safe, "lines": func(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{{.Policy}}">
<title>{{safe .Page.Title}}</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --paper: #ffffff; --line: #d0d7de; --link: #0550ae; --bad: #a40e26 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9da7b1; --paper: #0d1117; --line: #30363d; --link: #79c0ff; --bad: #ff7b72 } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: var(--ink); background: var(--paper) }
table { border-collapse: collapse; margin: 0.5em 0 1.5em }
.scroll { overflow-x: auto }
th, td { padding: 0.2em 0.9em 0.2em 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums }
th { white-space: nowrap }
td { max-width: 30em; overflow-wrap: break-word }
pre { border: 1px solid var(--line); padding: 0.6em; overflow-x: auto }
{{.Style}}
</style>
</head>
<body>
<main>
<h1>{{safe .Page.Title}}</h1>
{{range .Page.Words}}<p>{{safe .}}</p>
{{end}}{{with .Page.Diff}}<pre>{{range lines .}}{{safe .}}
{{end}}</pre>
{{end}}{{range .Page.Tables}}<h2>{{safe .Title}}</h2>
<div class="scroll"><table>
<tr>{{range .Header}}<th>{{safe .}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{cell .}}</td>{{end}}</tr>
{{end}}</table></div>
{{end}}{{range .Plots}}{{.}}
{{end}}</main>
{{with .Script}}<script>{{.}}</script>
{{end}}</body>
</html>
`))

// Write renders the page.
func (p *Page) Write(w io.Writer) error {
	plots := make([]template.HTML, len(p.Plots))
	for i := range p.Plots {
		var err error
		if plots[i], err = p.Plots[i].HTML(); err != nil {
			return err
		}
	}
	data := map[string]any{"Page": p, "Plots": plots, "Policy": "default-src 'none'; style-src 'unsafe-inline'"}
	if len(plots) > 0 {
		data["Policy"], data["Script"] = chartPolicy(), template.JS(chartScript)
		data["Style"] = template.CSS(Chart("uPlot.min.css")) + template.CSS(Chart("chart.css"))
	}
	return pageTemplate.Execute(w, data)
}
