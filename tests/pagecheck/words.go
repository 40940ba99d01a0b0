// Package pagecheck reads pages and outputs as a person does: words that are none, columns without
// a value, numbers that the JSON of the same page does not have.
package pagecheck

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

// nonsense is what a person should never read: Go's words for a value that a format does not
// fit, addresses, values that are no numbers, and times before they began.
var nonsense = regexp.MustCompile(`%!|\b0x[0-9a-f]{4,}|<nil>|&lt;nil&gt;|\bNaN\b|\bInf\b|\+Inf|map\[|(^|[ >(])-[0-9.]+(s|m|h|d|ms)\b`)

// mayBeNegative are the columns of what a job had beyond its due.
var mayBeNegative = map[string]bool{"owed": true}

// Nonsense returns what nobody should read in a text, each with its line.
func Nonsense(text string) (found []string) {
	for line := range strings.Lines(text) {
		if at := nonsense.FindString(line); at != "" {
			found = append(found, fmt.Sprintf("%q: %.300s", at, line))
		}
	}
	return found
}

// Text is a page's text, a line for each row, without what may be negative.
func Text(page string) string {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return page
	}
	var b strings.Builder
	for _, table := range tables(root) {
		for _, row := range table.rows {
			for i, cell := range row {
				if i < len(table.heads) && mayBeNegative[table.heads[i]] {
					continue
				}
				b.WriteString(cell + " ")
			}
			b.WriteString("\n")
		}
	}
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "td" && n.Parent.Data != "style" && n.Parent.Data != "script" {
			b.WriteString(strings.TrimSpace(n.Data) + "\n")
		}
		for _, a := range n.Attr {
			if u, err := url.QueryUnescape(a.Val); err == nil && !strings.HasPrefix(a.Val, "data:") {
				b.WriteString(u + "\n")
			}
		}
	}
	return b.String()
}

type table struct {
	heads []string
	rows  [][]string
}

func tables(root *html.Node) (all []table) {
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "table":
			all = append(all, table{})
		case "th":
			if t := &all[len(all)-1]; len(t.rows) <= 1 {
				t.heads = append(t.heads, text(n))
			}
		case "tr":
			all[len(all)-1].rows = append(all[len(all)-1].rows, nil)
		case "td":
			t := &all[len(all)-1]
			t.rows[len(t.rows)-1] = append(t.rows[len(t.rows)-1], text(n))
		}
	}
	return all
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.TrimSpace(b.String())
}

// mayBeEmpty are the columns of what need not be there: no GPU is stranded, no node slow or vacated, no victim in its
// grace just now, no eviction was called off, no write held back, nothing was replayed without priod, of a job's history all
// took no time or lasts.
var mayBeEmpty = map[string]bool{"stranded, because": true, "notes": true, "grace left": true, "remark": true, "held": true, "completion": true, "without priod": true, "until": true}

// EmptyColumns returns the headings of columns that no row fills, in tables of ten rows and more.
func EmptyColumns(page string) (heads []string) {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return []string{err.Error()}
	}
	for _, tab := range tables(root) {
		for i, head := range tab.heads {
			filled := false
			for _, row := range tab.rows {
				filled = filled || i < len(row) && row[i] != ""
			}
			if !filled && len(tab.rows) > 10 && !mayBeEmpty[head] {
				heads = append(heads, head)
			}
		}
	}
	return heads
}
