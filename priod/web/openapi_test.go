package web

import (
	"bytes"
	"flag"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"slurmprio/etc"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/tests/schema"
)

var update = flag.Bool("update", false, "write etc/openapi.json anew")

type object = map[string]any

// described are the answers under /api/v1.
var described = []struct {
	path, words, name string
	of                reflect.Type
	asked             []string // parameters with what they mean
}{
	{"overview", "The figures of the first page", "overview", reflect.TypeFor[view.Overview](), nil},
	{"map", "Each GPU of the cluster and the job that holds it", "map", reflect.TypeFor[view.Map](), nil},
	{"nodes", "Nodes with what is in use and why free GPUs are stranded", "nodes", reflect.TypeFor[view.NodePage](), []string{"page", "type: GPU type"}},
	{"queue", "Waiting jobs, why each waits and when it is expected to start, and the schedule of the next hours", "queue", reflect.TypeFor[view.QueuePage](), []string{"page", "user", "account", "partition", "class: te, be, or - of jobs that are not ranked", "cause: a cause of waiting", "type: GPU type, or any"}},
	{"jobs/{id}", "One job: as priod explain --json, without what only Slurm knows now, with its history", "", reflect.TypeFor[view.JobPage](), []string{"if: 1 adds what is expected of it on another GPU type or with fewer GPUs"}},
	{"evictions", "Evictions under way and the latest others", "evictions", reflect.TypeFor[view.EvictionPage](), nil},
	{"allocation", "What jobs were allocated on each GPU type, received and are owed", "allocation", reflect.TypeFor[view.Allocation](), []string{"page"}},
	{"users", "What users and accounts used, waited and lost in a week, and their TE budgets", "users", reflect.TypeFor[view.Owners](), nil},
	{"shares", "What accounts with guaranteed GPUs used, lent and borrowed in a week, and how soon their GPUs came back", "shares", reflect.TypeFor[view.Shares](), nil},
	{"series", "Curves over an hour, a day, a week or a month", "series", reflect.TypeFor[view.OverTime](), []string{"span: hour, day, week or month"}},
	{"health", "The daemon's health, what priod check found, the last cycles", "health", reflect.TypeFor[view.Health](), nil},
}

// answerOf is the schema of one answer.
func answerOf(t *testing.T, name string, of reflect.Type) *jsonschema.Schema {
	t.Helper()
	if name == "" {
		job := schema.Of(t, "../..", of)
		job.Schema = ""
		return job
	}
	return &jsonschema.Schema{Type: "object", Required: []string{"cycle", name}, Properties: map[string]*jsonschema.Schema{
		"cycle": schema.Of(t, "../..", reflect.TypeFor[store.Cycle]()), name: schema.Of(t, "../..", of),
	}}
}

// openAPI is the description of all answers.
func openAPI(t *testing.T) []byte {
	t.Helper()
	failed := object{"description": "not found, wrong parameters, or nothing can be read now", "content": object{"application/json": object{"schema": object{
		"type": "object", "required": []string{"error"}, "properties": object{"error": object{"type": "string"}},
	}}}}
	paths := object{}
	for _, d := range described {
		parameters := []object{}
		if strings.Contains(d.path, "{id}") {
			parameters = append(parameters, object{"name": "id", "in": "path", "required": true, "description": "17, or 17_4 for a task of an array", "schema": object{"type": "string"}})
		}
		for _, text := range d.asked {
			name, words, _ := strings.Cut(text, ": ")
			kind := "string"
			if name == "page" {
				kind, words = "integer", "of the list, from 1 on"
			}
			parameters = append(parameters, object{"name": name, "in": "query", "description": words, "schema": object{"type": kind}})
		}
		paths["/api/v1/"+d.path] = object{"get": object{
			"summary": d.words, "operationId": strings.NewReplacer("/{id}", "").Replace(d.path), "parameters": parameters,
			"responses": object{"200": object{"description": d.words, "content": object{"application/json": object{"schema": answerOf(t, d.name, d.of)}}}, "default": failed},
		}}
	}
	var out bytes.Buffer
	if err := report.JSON(&out, object{
		"openapi": "3.1.0", "info": object{"title": "priod web", "version": "1", "description": "What priod knows of a cluster, read-only. " + schema.Units}, "paths": paths,
	}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The description that is served is that of the types.
func TestOpenAPI(t *testing.T) {
	now := openAPI(t)
	if *update {
		if err := os.WriteFile("../../etc/openapi.json", now, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(etc.OpenAPI), string(now)); diff != "" {
		t.Errorf("go test ./priod/web -run TestOpenAPI -update writes it anew:\n%s", diff)
	}
}

// What is answered is as described, and so is each address that is served.
func TestAnswersAsDescribed(t *testing.T) {
	s := newSite(t, 0)
	s.full(40, 300)
	server := httptest.NewServer(s.handle)
	t.Cleanup(server.Close)
	of := map[string]bool{}
	for _, d := range described {
		of[strings.TrimSuffix(d.path, "s/{id}")] = true
		schema := answerOf(t, d.name, d.of)
		resolved, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(d.path, err)
		}
		status, v := s.json(server.URL + "/api/v1/" + strings.Replace(d.path, "{id}", "1000", 1))
		if status != 200 {
			t.Errorf("%s: %d %v", d.path, status, v)
		}
		if err := resolved.Validate(v); err != nil {
			t.Errorf("%s: %v", d.path, err)
		}
	}
	for _, x := range pages {
		if !of[x.name] {
			t.Errorf("%s is not described", x.name)
		}
	}
}
