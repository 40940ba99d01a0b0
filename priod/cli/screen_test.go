package cli

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"pgregory.net/rapid"

	"slurmprio/priod/report"
)

// A frame has no more lines than the terminal and none is wider, whatever colours and
// wide characters are in the page.
func TestFrameFits(t *testing.T) {
	text.EnableColors()
	t.Cleanup(text.DisableColors)
	rapid.Check(t, func(t *rapid.T) {
		var page strings.Builder
		for range rapid.IntRange(0, 40).Draw(t, "lines") {
			for range rapid.IntRange(0, 6).Draw(t, "words") {
				page.WriteString(report.Mark{Text: rapid.String().Draw(t, "word"), Meaning: rapid.SampledFrom([]text.Color{0, report.Good, report.Bad}).Draw(t, "meaning")}.String())
			}
			page.WriteString("\n")
		}
		columns, rows := rapid.IntRange(1, 200).Draw(t, "columns"), rapid.IntRange(1, 30).Draw(t, "rows")
		got := frame(page.String(), columns, rows)
		got = strings.TrimSuffix(strings.TrimPrefix(got, "\x1b[H"), "\x1b[J")
		lines := strings.Split(got, "\r\n")
		if len(lines) > rows {
			t.Fatalf("%d lines on %d rows", len(lines), rows)
		}
		for _, line := range lines {
			if n := text.StringWidthWithoutEscSequences(line); n > columns {
				t.Fatalf("%q is %d wide, the terminal %d", line, n, columns)
			}
			if strings.Contains(line, "\n") || !strings.HasSuffix(line, "\x1b[K") {
				t.Fatalf("%q", line)
			}
		}
	})
}
