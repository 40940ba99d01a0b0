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
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{safe .Page.Title}}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 0.5em 0 1.5em }
.scroll { overflow-x: auto }
th, td { padding: 0.2em 0.9em 0.2em 0; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums }
th { white-space: nowrap }
td { max-width: 30em; overflow-wrap: break-word }
pre { background: #f4f4f4; padding: 0.6em; overflow-x: auto }
svg { max-width: 100%; height: auto; display: block; margin: 1em 0 2em }
</style>
</head>
<body>
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
{{end}}</body>
</html>
`))

// Write renders the page.
func (p *Page) Write(w io.Writer) error {
	plots := make([]template.HTML, len(p.Plots))
	for i := range p.Plots {
		var err error
		if plots[i], err = p.Plots[i].SVG(); err != nil {
			return err
		}
	}
	return pageTemplate.Execute(w, map[string]any{"Page": p, "Plots": plots})
}
