package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// oneName are the places where a job's Partition is one name, or may be compared as it stands.
var oneName = map[string]int{
	"priod/placement/nodemap/others.go":    2, // of a job that runs; beside the reading of the list
	"priod/simulate/virtual/partitions.go": 1, // of jobs without GPUs on a cluster without partitions
	"priod/trace/lists.go":                 1, // of a run
}

// A job's Partition is a list ("a100,v100"): code that compares it with one name, or looks it up among names, is listed above.
func TestHousePartitionsAreLists(t *testing.T) {
	found := map[string][]string{}
	for _, root := range []string{"priod", "slurmplug", "sbatchwrap"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(path, "../"))
			for _, at := range comparedPartitions(file) {
				found[name] = append(found[name], fmt.Sprint(set.Position(at).Line))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, lines := range found {
		if len(lines) > oneName[name] {
			t.Errorf("%s, lines %s: a job's Partition is compared with one name; cluster.Node.In reads the list, or the place belongs into oneName", name, strings.Join(lines, ", "))
		}
	}
}

// comparedPartitions are where a field Partition is compared with something that is not "" or a list of partitions, or is looked up among
// names.
func comparedPartitions(file ast.Node) (all []token.Pos) {
	field := func(e ast.Expr) bool {
		s, is := e.(*ast.SelectorExpr)
		return is && s.Sel.Name == "Partition"
	}
	list := func(e ast.Expr) bool {
		switch x := e.(type) {
		case *ast.BasicLit:
			return x.Value == `""`
		case *ast.SelectorExpr:
			return x.Sel.Name == "partitions"
		}
		return false
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BinaryExpr:
			if (x.Op == token.EQL || x.Op == token.NEQ) && (field(x.X) && !list(x.Y) || field(x.Y) && !list(x.X)) {
				all = append(all, x.Pos())
			}
		case *ast.CallExpr:
			if s, is := x.Fun.(*ast.SelectorExpr); is && (s.Sel.Name == "Contains" || s.Sel.Name == "Index") && len(x.Args) == 2 && field(x.Args[1]) {
				all = append(all, x.Pos())
			}
		}
		return true
	})
	return all
}

// The test above sees what it is to see.
func TestHouseSeesOneName(t *testing.T) {
	for code, want := range map[string]int{
		`j.Partition == p.Name`: 1, `name != j.Partition`: 1, `slices.Contains(n.Partitions, j.Partition)`: 1,
		`j.Partition == ""`: 0, `j.own.partitions != j.Partition`: 0, `n.In(j.Partition)`: 0, `slices.Contains(strings.Split(j.Partition, ","), p)`: 0,
	} {
		e, err := parser.ParseExpr(code)
		if err != nil || len(comparedPartitions(e)) != want {
			t.Errorf("%s: %v, want %d", code, comparedPartitions(e), want)
		}
	}
}
