package tests

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The simulator's claims are about the code that runs in production: it may
// hold no policy of its own. Orders such as fifo or las stand in it as they
// stand in Slurm or in the papers' baselines; what priod decides must come from
// the features' rooms through cycle.Step, and nothing of it may have been copied.
func TestSimulatorHoldsNoCopyOfAPolicy(t *testing.T) {
	production := functions(t, "../priod/order", "../priod/allocate", "../priod/steer", "../priod/size", "../priod/evict", "../priod/plan", "../priod/cycle")
	for _, s := range functions(t, "../priod/simulate") {
		for _, p := range production {
			if share := s.alike(p); share > copied {
				t.Errorf("%s has %.0f %% of %s: call it instead", s.name, 100*share, p.name)
			}
		}
	}
	for _, p := range packages(t) {
		if p.ImportPath != module+"priod/simulate/virtual" {
			continue
		}
		imports := " " + strings.Join(p.Imports, " ") + " "
		if !strings.Contains(imports, " "+module+"priod/cycle ") {
			t.Error("priod/simulate/virtual does not drive cycle.Step")
		}
		for _, private := range features {
			if strings.Contains(imports, " "+module+private+" ") {
				t.Errorf("priod/simulate/virtual calls %s beside cycle.Step", private)
			}
		}
	}
}

// The test above sees a copy also when every name in it is another one.
func TestCopiesAreSeen(t *testing.T) {
	all := functions(t, "../priod/order", "../priod/plan")
	seen := 0
	for _, f := range all {
		if len(f.shingles) == 0 {
			continue
		}
		seen++
		renamed := shingled(f.name, strings.NewReplacer("snapshot", "view", "job", "task", "rank", "sort", "set", "options", "admitted", "taken").Replace(f.text))
		if share := renamed.alike(f); share <= copied {
			t.Errorf("%s with other names is only %.0f %% alike", f.name, 100*share)
		}
	}
	if seen < 5 {
		t.Errorf("only %d functions of policies are long enough to be compared", seen)
	}
}

// copied is the share of a function that makes it a copy.
const copied = 0.6

// function is one function as a set of runs of tokens in which names count as
// names, whatever they are.
type function struct {
	name, text string
	shingles   map[string]bool
}

const (
	shingle = 14 // tokens
	tooFew  = 40 // shingles: short functions are alike by chance
)

func shingled(name, text string) function {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(text)), []byte(text), nil, 0)
	var tokens []string
	for {
		_, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		word := tok.String()
		if tok.IsLiteral() && tok != token.IDENT {
			word = literal
		}
		tokens = append(tokens, word)
	}
	f := function{name: name, text: text, shingles: map[string]bool{}}
	for i := 0; i+shingle <= len(tokens); i++ {
		f.shingles[strings.Join(tokens[i:i+shingle], " ")] = true
	}
	if len(f.shingles) < tooFew {
		f.shingles = nil
	}
	return f
}

// alike is the share of the shorter function that the longer one holds too.
func (f function) alike(g function) float64 {
	if len(f.shingles) == 0 || len(g.shingles) == 0 {
		return 0
	}
	both := 0
	for s := range f.shingles {
		if g.shingles[s] {
			both++
		}
	}
	return float64(both) / float64(min(len(f.shingles), len(g.shingles)))
}

// functions reads the functions below the folders, tests left out.
func functions(t *testing.T, folders ...string) (all []function) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, text, 0)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
					body := text[files.Position(f.Body.Pos()).Offset:files.Position(f.Body.End()).Offset]
					all = append(all, shingled(path+" "+f.Name.Name, string(body)))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
