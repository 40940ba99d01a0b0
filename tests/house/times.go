package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// mostTimes is how many tests the table of times has.
const mostTimes = 40

// times is a table of the slowest tests in the output of go test -json, the slowest first; a test with parts counts as a whole.
// The error says which line is none of that output.
func times(r io.Reader) (string, error) {
	type row struct {
		test    string
		seconds float64
	}
	var rows []row
	all, lines := 0.0, bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var e struct {
			Action, Package, Test string
			Elapsed               float64
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return "", fmt.Errorf("line %d is not of go test -json: %w", n, err)
		}
		if e.Test != "" && !strings.Contains(e.Test, "/") && (e.Action == "pass" || e.Action == "fail") {
			rows, all = append(rows, row{strings.TrimPrefix(e.Package, "slurmprio/") + " " + e.Test, e.Elapsed}), all+e.Elapsed
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.seconds, a.seconds) })
	var b strings.Builder
	fmt.Fprintf(&b, "| test | s |\n| --- | --- |\n")
	for _, x := range rows[:min(len(rows), mostTimes)] {
		fmt.Fprintf(&b, "| %s | %.1f |\n", x.test, x.seconds)
	}
	fmt.Fprintf(&b, "| all %d, tests of one package beside each other | %.0f |\n", len(rows), all)
	return b.String(), lines.Err()
}
