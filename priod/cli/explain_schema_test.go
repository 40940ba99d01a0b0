package cli

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slurmprio/etc"
	"slurmprio/priod/report"
	"slurmprio/priod/view"
	"slurmprio/tests/schema"
)

const schemaFile = "../../etc/explain.schema.json"

// schemaOf makes the schema of an explanation from its type.
func schemaOf(t *testing.T) []byte {
	t.Helper()
	s := schema.Of(t, "../..", reflect.TypeFor[struct {
		sureness
		view.Explanation
	}]())
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "What priod explain --json prints for one job"
	s.Description = schema.Units
	var out bytes.Buffer
	if err := report.JSON(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The schema that is installed is that of the type.
func TestSchemaOfExplain(t *testing.T) {
	now := schemaOf(t)
	if *update {
		if err := os.WriteFile(schemaFile, now, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(etc.ExplainSchema, string(now)); diff != "" {
		t.Errorf("go test ./priod/cli -run TestSchemaOfExplain -update writes it anew:\n%s", diff)
	}
}
