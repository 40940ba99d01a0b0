// Package schema makes JSON Schemas from the types of this module, for tests that keep what is published beside the code. What
// fields mean is told by their comments.
package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Units says how fields are named.
const Units = "Times are RFC 3339. A name that ends in _s is in seconds, _mb in MB, _gpu_s in GPU-seconds, _gpu_h in GPU-hours, _ns in nanoseconds. " +
	"Fields that are not required are left out where there is nothing to say."

// dirs are the packages whose types are published.
var dirs = []string{"slurmplug", "priod/cluster", "priod/plan", "priod/evict", "priod/retry", "priod/store", "priod/report", "priod/daemon", "priod/workload/speed", "priod/view", "priod/cli"}

// Of is the schema of a type; root is the folder of the module.
func Of(t testing.TB, root string, of reflect.Type) *jsonschema.Schema {
	t.Helper()
	text := func(pattern, describe string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Pattern: pattern, Description: describe}
	}
	s, err := jsonschema.ForType(of, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[cluster.JobID]():                       text("^[0-9]+(_[0-9]+)?$", "17, or 17_4 for a task of an array"),
		reflect.TypeFor[cluster.Class]():                       {Type: "string", Enum: []any{"te", "be"}},
		reflect.TypeFor[slurmplug.Value]():                     text("", "as scontrol takes it; empty: none"),
		reflect.TypeFor[time.Time]():                           {Type: "string", Format: "date-time"},
		reflect.TypeFor[map[slurmplug.Lever]slurmplug.Value](): {Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := comments{}
	c.read(t, root)
	c.describe(s, of)
	return s
}

// comments are those of the fields of types, by package, type and field; of a type whose
// constants are words, those.
type comments map[string]string

// read takes in all packages below a folder.
func (c comments) read(t testing.TB, root string) {
	t.Helper()
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if value, is := n.(*ast.ValueSpec); is && value.Type != nil && len(value.Values) == 1 {
					of, isName := value.Type.(*ast.Ident)
					word, isWord := value.Values[0].(*ast.BasicLit)
					if isName && isWord && word.Kind == token.STRING && len(word.Value) > 2 && !strings.HasSuffix(file, "_test.go") {
						key := "slurmprio/" + dir + "." + of.Name
						c[key] = strings.TrimPrefix(c[key]+", "+strings.Trim(word.Value, `"`), ", ")
					}
				}
				spec, is := n.(*ast.TypeSpec)
				if !is {
					return true
				}
				if fields, is := spec.Type.(*ast.StructType); is {
					for _, field := range fields.Fields.List {
						for _, name := range field.Names {
							c["slurmprio/"+dir+"."+spec.Name.Name+"."+name.Name] = field.Doc.Text() + field.Comment.Text()
						}
					}
				}
				return true
			})
		}
	}
}

// describe puts the comments of a type's fields into its schema.
func (c comments) describe(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice && s.Items != nil {
			s = s.Items
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || s.Properties == nil {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if p == nil {
			continue
		}
		owner := t
		for _, i := range f.Index[:len(f.Index)-1] { // of what is embedded
			owner = owner.Field(i).Type
			for owner.Kind() == reflect.Pointer {
				owner = owner.Elem()
			}
		}
		if text := c[owner.PkgPath()+"."+owner.Name()+"."+f.Name]; text != "" {
			p.Description = strings.Replace(strings.Join(strings.Fields(text), " "), "nil", "left out", 1)
		}
		if words := c[f.Type.PkgPath()+"."+f.Type.Name()]; words != "" && f.Type.Kind() == reflect.String {
			p.Description = strings.TrimPrefix(p.Description+"; one of: "+words, "; ")
		}
		c.describe(p, f.Type)
	}
}
