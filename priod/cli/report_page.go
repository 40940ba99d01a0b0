package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/report"
)

const (
	// mostBars is how many bars one plot has at most: more names would not be read.
	mostBars = 20
	// pageRows is how many rows of each table a page shows.
	pageRows = 1000
)

func htmlFlag() cli.Flag {
	return &cli.StringFlag{Name: "html", Usage: "write a page with a plot, which opens without a network, to `FILE`"}
}

// writePage writes a page to the file that --html names, if it does.
func writePage(c *cli.Context, page func() *report.Page) error {
	path := c.String("html")
	if path == "" {
		return nil
	}
	return writeFile(path, bounded(page()).Write)
}

// bounded is the page with so much of each table as a browser shows at ease.
func bounded(p *report.Page) *report.Page {
	page := *p
	page.Tables = nil
	for _, t := range p.Tables {
		if all := len(t.Rows); all > pageRows {
			t.Title, t.Rows = fmt.Sprintf("%s (the first %d of %d)", t.Title, pageRows, all), t.Rows[:pageRows]
		}
		if len(t.Rows) > 0 {
			page.Tables = append(page.Tables, t)
		}
	}
	return &page
}

// tableOf makes a table of records.
func tableOf[T any](title string, header []string, all []T, row func(x *T) []any) report.PageTable {
	t := report.PageTable{Title: title, Header: header, Rows: make([][]any, len(all))}
	for i := range all {
		t.Rows[i] = row(&all[i])
	}
	return t
}

// showTables prints tables, at most so many rows of each, below their titles where these
// say more than their first columns; nothing of those without rows. more is how to see the
// others.
func showTables(w io.Writer, tables []report.PageTable, most int, more string) {
	for _, t := range tables {
		if len(t.Rows) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if !strings.EqualFold(t.Title, t.Header[0]) {
			fmt.Fprintln(w, t.Title+":")
		}
		report.Table(w, t.Header, t.Rows[:min(len(t.Rows), most)])
		if left := len(t.Rows) - most; left > 0 {
			fmt.Fprintf(w, "and %d more (%s)\n", left, more)
		}
	}
}
