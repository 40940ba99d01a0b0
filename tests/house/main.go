// Command house counts what a reader of this repository has to hold in mind: lines by room, flags by verb, keys of
// priod.toml, words of the pages, long functions and runs of lines that stand twice. Its output stands in
// ARCHITECTURE.md, so that the next person sees it shrink or grow.
//
//	go run ./tests/house
//	go test -json ./tests | go run ./tests/house times     # the slowest tests
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// longFunction is how many lines a function may have.
const longFunction = 80

// sameRun is how many lines in a row, without blank ones, count as a run that stands twice.
const sameRun = 12

func main() {
	if len(os.Args) == 2 && os.Args[1] == "times" {
		table, err := times(os.Stdin)
		if err != nil {
			fmt.Fprintln(os.Stderr, "house:", err)
			os.Exit(1)
		}
		fmt.Print(table)
		return
	}
	c, err := count(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	fmt.Print(c.markdown())
}

// counts are those of a checkout.
type counts struct {
	lines   map[string]int // of Go by room, without tests and generated code
	flags   map[string]int // by verb, as the man page has them
	keys    int
	words   int
	long    []string // functions of more than longFunction lines: lines, file, name
	repeats int      // lines that belong to a run that stands elsewhere, too
}

// roots hold the product.
var roots = []string{"slurmplug", "sbatchwrap", "priod"}

var (
	key       = regexp.MustCompile(`(?m)^#? ?[a-z_]+ = `)
	verb      = regexp.MustCompile(`(?m)^\.SH|^\.SS`)
	flagLine  = regexp.MustCompile(`(?m)^\\fB--`)
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
)

func count(dir string) (*counts, error) {
	c := &counts{lines: map[string]int{}, flags: map[string]int{}}
	runs := map[string]int{}
	var files [][]string
	for _, root := range roots {
		err := filepath.WalkDir(filepath.Join(dir, root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || generated.Match(text) {
				return err
			}
			name, _ := filepath.Rel(dir, path)
			c.lines[room(name)] += strings.Count(string(text), "\n")
			lines := plainLines(string(text))
			files = append(files, lines)
			for i := 0; i+sameRun <= len(lines); i++ {
				runs[strings.Join(lines[i:i+sameRun], "\n")]++
			}
			return c.functions(name, text)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, lines := range files {
		last := 0 // lines before it are counted
		for i := 0; i+sameRun <= len(lines); i++ {
			if runs[strings.Join(lines[i:i+sameRun], "\n")] > 1 {
				c.repeats += i + sameRun - max(last, i)
				last = i + sameRun
			}
		}
	}
	slices.SortFunc(c.long, func(a, b string) int { return cmp.Compare(b, a) })
	return c, c.pages(dir)
}

// room is a file's folder, of priod and slurmplug with the one below.
func room(path string) string {
	parts := strings.Split(filepath.ToSlash(filepath.Dir(path)), "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// plainLines are those of a file that are not blank, without what they are indented by.
func plainLines(text string) (lines []string) {
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if line := strings.TrimSpace(s.Text()); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// functions finds the long ones.
func (c *counts) functions(name string, text []byte) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is {
			if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > longFunction {
				c.long = append(c.long, fmt.Sprintf("%4d  %s %s", n, name, f.Name.Name))
			}
		}
	}
	return nil
}

// pages counts flags, keys and words.
func (c *counts) pages(dir string) error {
	man, err := os.ReadFile(filepath.Join(dir, "etc/man/priod.8"))
	if err != nil {
		return err
	}
	sections := verb.FindAllIndex(man, -1)
	for i, at := range sections {
		end := len(man)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		head, body, _ := strings.Cut(string(man[at[0]:end]), "\n")
		if n := len(flagLine.FindAllString(body, -1)); n > 0 {
			c.flags[strings.TrimSpace(head[3:])] += n
		}
	}
	config, err := os.ReadFile(filepath.Join(dir, "etc/priod.toml"))
	if err != nil {
		return err
	}
	for _, line := range key.FindAllString(string(config), -1) {
		if !strings.HasPrefix(line, "#") {
			c.keys++
		}
	}
	pages := []string{filepath.Join(dir, "README.md")}
	err = filepath.WalkDir(filepath.Join(dir, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	for _, path := range pages {
		text, failed := os.ReadFile(path)
		err = cmp.Or(err, failed)
		c.words += len(strings.Fields(string(text)))
	}
	return err
}

// markdown is what ARCHITECTURE.md shows.
func (c *counts) markdown() string {
	var b strings.Builder
	total := 0
	for _, n := range c.lines {
		total += n
	}
	fmt.Fprintf(&b, "| | |\n| --- | --- |\n| lines of Go, without tests and generated code | %d |\n", total)
	fmt.Fprintf(&b, "| the largest rooms | %s |\n", largest(c.lines, 10))
	fmt.Fprintf(&b, "| flags by verb | %s |\n", largest(c.flags, 5))
	fmt.Fprintf(&b, "| keys of priod.toml | %d |\n| words of README and docs | %d |\n", c.keys, c.words)
	fmt.Fprintf(&b, "| functions over %d lines | %d |\n| lines in runs of %d that stand twice | %d |\n", longFunction, len(c.long), sameRun, c.repeats)
	for _, f := range c.long {
		fmt.Fprintf(&b, "    %s\n", f)
	}
	return b.String()
}

// largest are the n largest, with their names.
func largest(of map[string]int, n int) string {
	type one struct {
		name string
		n    int
	}
	var all []one
	for name, n := range of {
		all = append(all, one{name, n})
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
	var words []string
	for _, o := range all[:min(n, len(all))] {
		words = append(words, fmt.Sprintf("%s %d", o.name, o.n))
	}
	return strings.Join(words, ", ")
}
