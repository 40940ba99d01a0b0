package cli

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"slurmprio/etc"
	"slurmprio/priod/cluster"
	"slurmprio/priod/evict"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

const schemaFile = "../../etc/explain.schema.json"

// schemaOf makes the schema of an explanation from its type. What fields mean is told by
// their comments.
func schemaOf(t *testing.T) []byte {
	t.Helper()
	text := func(pattern, describe string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Pattern: pattern, Description: describe}
	}
	s, err := jsonschema.For[explanation](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
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
	c.read(t, "../..")
	c.describe(s, reflect.TypeFor[explanation]())
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "What priod explain --json prints for one job"
	s.Description = "Times are RFC 3339. A name that ends in _s is in seconds, _mb in MB, _gpu_s in GPU-seconds, _ns in nanoseconds. " +
		"Fields that are not required are left out where there is nothing to say."
	var out bytes.Buffer
	if err := report.JSON(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// comments are those of the fields of types, by package, type and field; of a type whose
// constants are words, those.
type comments map[string]string

// read takes in all packages below a folder.
func (c comments) read(t *testing.T, root string) {
	t.Helper()
	for _, dir := range []string{"slurmplug", "priod/cluster", "priod/plan", "priod/evict", "priod/retry", "priod/store", "priod/workload/speed", "priod/cli"} {
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

// printed is the explanation as text. It fails when its JSON is not as the schema says, or
// lacks something that the text says: the text has to follow from the JSON alone.
func printed(t *testing.T, v *explanation) string {
	t.Helper()
	var direct, again, data bytes.Buffer
	v.show(&direct, true)
	if err := report.JSON(&data, v); err != nil {
		t.Fatal(err)
	}
	checkSchema(t, data.Bytes())
	var read explanation
	if err := json.Unmarshal(data.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	read.show(&again, true)
	if diff := cmp.Diff(direct.String(), again.String()); diff != "" {
		t.Errorf("the text says what the JSON does not:\n%s", diff)
	}
	return direct.String()
}

func checkSchema(t *testing.T, text []byte) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(etc.ExplainSchema), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var data any
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(data); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

// hostileName is a user's text that upsets terminals.
const hostileName = "ann\x1b[2J\u202e\"<b>\n"

// whole is an explanation that says all that one can.
func whole(now time.Time) *explanation {
	half, none, paid, took, start := 0.5, 0.0, 99.0, 12.5, 600.0
	id := cluster.JobID{ID: 84, Task: 4}
	v := &explanation{
		Cycle:  store.Cycle{Number: 7, At: now, Until: now, Cluster: "c", Mode: slurmplug.SiteFactor, BandStep: 1000, Hold: "paused by " + hostileName, Notes: []string{"note"}},
		Reason: report.Reason(string(plan.OverBudget)), TECount: 3, BEAhead: 2, Note: "note", Steering: true, MaySteer: true,
		Now:    &nowView{State: "PENDING", Reason: "Priority", Priority: 5, Nice: 1, Start: now.Add(time.Hour), Factors: &slurmplug.Factors{RawID: 90, Priority: 36, SiteFactor: 8, Nice: 9, Age: 1, Assoc: 2, FairShare: 3, JobSize: 4, Partition: 5, QOS: 6, TRES: 7}},
		Own:    map[slurmplug.Lever]slurmplug.Value{slurmplug.Features: slurmplug.Text("a&b"), slurmplug.Size: slurmplug.SizeRequest{PerNode: 4, Memory: 100, By: slurmplug.ByNode}.Value()},
		Speeds: &speed.Answers{Notes: []string{hostileName}, Speeds: []speed.Answer{{GPUType: "a100", Speed: 1, Source: speed.Past, Factor: 1.2, Runs: 3}, {GPUType: "t4", Speed: 0.3, Source: speed.Default, Factor: 2}}},
	}
	v.Job = store.Job{
		ID: id, RawID: 90, Tasks: "", TaskCount: 1, User: hostileName, Account: hostileName, Partition: "gpu", QOS: "normal", State: cluster.Pending.String(),
		Reason: "Priority", GPUs: 2, GPUType: "a100", TimeLimitS: 3600, Tag: "prio:v=1&type=te", TagError: hostileName, Seen: now.Add(-time.Hour), Changed: now,
	}
	v.RunTime = &runTimeView{MedianS: 3600, LowS: 60, HighS: 90000, Runs: 12, Of: "the user's jobs", Scored: 400}
	v.Array = &store.Array{Waiting: "5-9", Tasks: []store.TasksIn{{State: "left", Count: 1, Tasks: "1"}}}
	v.Start = &store.ExpectedStart{At: now.Add(2 * time.Hour), Planned: now}
	v.Share = &store.Share{Cycle: 7, At: now, Given: now, Since: now.Add(-time.Hour), Priority: 2, Types: []store.ShareOfType{
		{GPUType: "a100", Speed: 1, Source: speed.Past, Factor: 1.2, Runs: 3, Time: &half, Received: 0.25, ReceivedS: 100, PromisedS: 300, OwedS: 200, RunS: &start},
		{GPUType: "t4", Time: &none, OwedS: -50, RunS: &start}, {GPUType: "k80"}, {GPUType: "p100", RunS: &start},
	}}
	v.Decisions = []store.Decision{{Cycle: 7, At: now, Decision: plan.Decision{
		Job: id, Class: cluster.BE, Ranked: true, Value: 2000, Own: 30, Why: string(plan.OverBudget), Detail: "user ann holds 4", Since: now.Add(-time.Hour), Steer: "waits 10 min for a100", Unmoved: "somebody else's",
		Choices: plan.Choices{
			Budget: &plan.BudgetLimit{Of: "user", Name: hostileName, Limit: "gpus", Allowed: 4, Used: 4}, GPUType: &plan.GPUTypeChoice{Why: "waits", GPUType: "a100", StartS: &start},
			Eviction: &plan.EvictionChoice{For: "te", Why: "no-consent"}, Switches: &plan.PlacesChoice{Accepts: 1, Fewest: 1, Most: 4}, Refused: &plan.RefusedNodes{Nodes: "n[1-2]"},
		},
	}}}
	v.Decision = &v.Decisions[0]
	v.Writes = []store.Write{{User: hostileName, Cycle: 7, At: now, Outcome: plan.Outcome{
		Action: plan.Action{Job: id, Lever: slurmplug.SiteFactor, Before: slurmplug.Number(1), After: slurmplug.Number(2000), Reason: "te"}, Status: slurmplug.Refused, Message: "Slurm said no",
	}}}
	v.Stays = []store.Stay{{Stay: cluster.Stay{Start: now.Add(-2 * time.Hour), End: now.Add(-time.Hour), Closed: true, GPUType: "a100", GPUs: 2, Class: cluster.TE}, GPUSeconds: 7200}}
	v.Evictions = []store.Eviction{
		{Number: 1, Victim: id, For: slurmplug.Plain(99), ForUser: "bob", State: "done", Reason: "why", How: string(evict.Exited), GraceS: 60, TookS: &took, Promised: 120, Paid: &paid, Recorded: now, Purpose: string(evict.ForRound)},
		{Number: 2, Victim: slurmplug.Plain(98), VictimUser: hostileName, For: id, State: "signalled", Nodes: "n1", Promised: 5, Recorded: now, ClaimState: "making room", ClaimReason: "so"},
	}
	v.Waits = waitViews([]*plan.Wait{
		{Submit: now.Add(-time.Hour), Until: now, Spans: []plan.WaitSpan{{From: now.Add(-time.Hour), Cause: plan.AtLimit, What: "QOSMaxGRES"}, {From: now.Add(-time.Minute), Cause: plan.Capacity, Words: "asks for 2 GPUs; 0 are free", Fits: &plan.FitsNow{GPUs: 1, GPUTypes: []string{"t4"}, Before: &id}}}},
		{Submit: now.Add(-9 * time.Hour), Until: now.Add(-8 * time.Hour), Ended: plan.Started, Spans: []plan.WaitSpan{{From: now.Add(-9 * time.Hour), Cause: plan.Starting}}},
	})
	v.Failures = []retry.Failure{{
		Number: 1, Job: id, User: hostileName, Start: now.Add(-time.Hour), End: now.Add(-time.Minute), Nodes: []string{"n1", "n2"}, Fault: []string{"n1"}, Final: "FAILED", ExitCode: 1, Signal: 9, Class: "node",
		Means: "the node is broken", Rule: "xid", Line: hostileName, Advice: "try again", Do: retry.Elsewhere, Why: retry.ByClass, Wait: time.Minute, State: retry.Delayed, Message: "no", Exclude: "n1", At: now,
	}}
	return v
}

// All that the text can say follows from the JSON, and all of it is as the schema says.
func TestJSONSaysAllThatTheTextSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // for "ago"
		now := time.Now()
		for name, change := range map[string]func(*explanation){
			"all":                func(*explanation) {},
			"without Slurm":      func(v *explanation) { v.Now = nil },
			"without factors":    func(v *explanation) { v.Now.Factors = nil },
			"left":               func(v *explanation) { v.Now, v.Job.Left = nil, now },
			"undecided":          func(v *explanation) { v.Decision, v.Decisions, v.Writes = nil, nil, nil },
			"TE":                 func(v *explanation) { v.TEPlace, v.Decision.Class = 2, cluster.TE },
			"mode priority":      func(v *explanation) { v.Cycle.Mode = slurmplug.Priority },
			"left alone":         func(v *explanation) { v.Decision.Ranked, v.Stays[0].Closed = false, false },
			"run time uncertain": func(v *explanation) { v.RunTime.Scored = 0 },
			"speeds not known":   func(v *explanation) { v.Speeds.Speeds[0].Source, v.Speeds.Speeds[1].Source = speed.None, speed.None },
			"may not be steered": func(v *explanation) { v.Decision.Steer, v.MaySteer = "", false },
			"component":          func(v *explanation) { v.Job.ID.Task, v.Job.HetLeader, v.Job.HetOffset = slurmplug.NoTask, 83, 1 },
			"bare":               func(v *explanation) { *v = explanation{}; v.Job.ID = slurmplug.Plain(1) },
		} {
			v := whole(now)
			change(v)
			v.date()
			if text := printed(t, v); strings.ContainsAny(text, "\x1b\u202e") {
				t.Errorf("%s: text of users came through: %q", name, text)
			}
		}
	})
}
