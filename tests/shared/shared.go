// Package shared reads the authors' data and the public traces, which lie in shared/data beside the repository and not beside
// every clone: without them a test skips. The README of the data names their sources.
package shared

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"slurmprio/priod/workload"
)

// Path is a file or a folder of the data.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		path := filepath.Join(dir, "shared", "data", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skipf("no shared/data/%s beside the repository: the vectors of other tests hold without it", name)
	return ""
}

// Open opens a file, and unpacks it where it is named .gz.
func Open(t testing.TB, name string) io.Reader {
	t.Helper()
	f, err := os.Open(Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if !strings.HasSuffix(name, ".gz") {
		return f
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(name, err)
	}
	return z
}

// JSON reads a file.
func JSON(t testing.TB, name string, into any) {
	t.Helper()
	if err := json.NewDecoder(Open(t, name)).Decode(into); err != nil {
		t.Fatal(name, err)
	}
}

// Columns are those of a CSV file with these names, row by row.
func Columns(t testing.TB, name string, names ...string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(Open(t, name)).ReadAll()
	if err != nil {
		t.Fatal(name, err)
	}
	all := make([][]string, len(rows)-1)
	for i, row := range rows[1:] {
		for _, n := range names {
			all[i] = append(all[i], row[slices.Index(rows[0], n)])
		}
	}
	return all
}

// Number reads a number.
func Number(t testing.TB, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Workloads are those that priod ships.
func Workloads(t testing.TB) *workload.Table {
	t.Helper()
	w, err := workload.Default()
	if err != nil {
		t.Fatal(err)
	}
	return w
}
