package store

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store/db"
	"slurmprio/slurmplug/jobtag"
)

// another returns a value that differs from v.
func another(t *testing.T, v reflect.Value) reflect.Value {
	t.Helper()
	next := reflect.New(v.Type()).Elem()
	switch x := v.Interface().(type) {
	case time.Time:
		return reflect.ValueOf(x.Add(time.Hour))
	case cluster.State: // of a pending job the start is an estimate, which is not kept
		return reflect.ValueOf(cluster.Suspended)
	case cluster.JobID:
		return reflect.ValueOf(cluster.JobID{ID: x.ID + 1, Task: x.Task + 1})
	case time.Duration:
		return reflect.ValueOf(x + time.Minute)
	case []string:
		return reflect.ValueOf(append(slices.Clone(x), "more"))
	}
	switch v.Kind() {
	case reflect.Bool:
		next.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		next.SetInt(v.Int() + 1)
	case reflect.Uint32:
		next.SetUint(v.Uint() + 1)
	case reflect.Float64:
		next.SetFloat(v.Float() + 1)
	case reflect.String:
		next.SetString(v.String() + "x")
	case reflect.Struct:
		next.Set(v)
		next.Field(0).Set(another(t, v.Field(0)))
	default:
		t.Fatalf("no other value is known of a %s", v.Type())
	}
	return next
}

// eachField calls check with base as it is but for one field, for each of its fields; of
// those in unstored the database keeps nothing.
func eachField[T any](t *testing.T, base T, unstored []string, check func(t *testing.T, field string, changed T)) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if slices.Contains(unstored, f.Name) {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			changed := base
			field := reflect.ValueOf(&changed).Elem().FieldByName(f.Name)
			field.Set(another(t, field))
			check(t, f.Name, changed)
		})
	}
}

// Every field of a job is stored when its row is new and when it is written again, comes
// back as it was, is shown, and a change of it alone is seen. Of a field that the database
// need not keep, say so here.
func TestEveryFieldOfAJob(t *testing.T) {
	base := pending(1, "te")
	run(&base, epoch)
	base.SiteFactorKnown, base.Tag = true, jobtag.Tag{} // which follows from its text
	unstored := []string{
		"Admitted", "Right", "EntitledSince", "RightTasks", "Idle", // what each cycle decides anew
		"Interactive", "Site", // what rules of the site make of it: the decision says it
		"SLUID", "Name", "Whole", "OneThread", "MemByCPU", "AllMem", "TaskCPUs", "Gres", "Lifts", "Beyond", "Open", "Node", "Parts", "Asked", "Switches", "NodeCount", "AtOnce", "ArrayRuns", "Fragile", "Elsewhere", // what only the next poll needs
		"Tag", // tested below
	}
	d := digester{seed: testSeed}
	s, _ := openStore(t, t.TempDir(), Options{})
	put := func(t *testing.T, j *cluster.Job, row int64) {
		if err := s.q.PutJob(ctx, s.db, jobParams(j, row, epoch)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, &base, 1)
	row := int64(1)
	eachField(t, base, unstored, func(t *testing.T, field string, changed cluster.Job) {
		row++
		if field != "ID" { // a row keeps its id
			put(t, &base, row)
		}
		put(t, &changed, row)
		rows, err := s.q.JobsInQueue(ctx, s.db)
		if err != nil {
			t.Fatal(err)
		}
		r := &rows[row-1]
		want := changed
		want.Tag, _ = jobtag.Parse(want.TagText)
		got := jobOf(r)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error("not stored, or not read:", diff)
		}
		if d.job(&got) != d.job(&changed) {
			t.Error("another digest after reading")
		}
		if shown, was := showJob(r), showJob(&rows[0]); cmp.Equal(shown, was) {
			t.Error("not shown")
		}
		moves := field == "ID" || field == "Priority" // the entry has the id; the priority moves with every poll
		if (d.job(&changed) == d.job(&base)) != moves {
			t.Errorf("a change of it alone is seen: %v", moves)
		}
	})
	waits := pending(1, "te")
	estimated := waits
	estimated.Start = epoch
	if d.job(&waits) != d.job(&estimated) {
		t.Error("Slurm's estimate of the start counts as a change")
	}
}

// Every field of a node that is stored comes back as it was, and a change of it alone is seen.
func TestEveryFieldOfANode(t *testing.T) {
	base := cluster.Node{Name: "n", Features: []string{"x"}}
	unstored := []string{"Silent", "Spare", "Threads", "Together", "Socket", "TmpMB", "Gres", "Owned", "Load", "Parts"} // what only the next poll needs
	d := digester{seed: testSeed}
	s, _ := openStore(t, t.TempDir(), Options{})
	eachField(t, base, unstored, func(t *testing.T, field string, changed cluster.Node) {
		for _, n := range []*cluster.Node{&base, &changed} {
			if err := s.q.PutNode(ctx, s.db, nodeParams(n, epoch)); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := s.q.AllNodes(ctx, s.db)
		if err != nil {
			t.Fatal(err)
		}
		got := nodeOf(&rows[slices.IndexFunc(rows, func(r db.Node) bool { return r.Name == changed.Name })])
		if diff := cmp.Diff(changed, got); diff != "" {
			t.Error("not stored, or not read:", diff)
		}
		if field != "Name" && d.node(&changed) == d.node(&base) {
			t.Error("a change of it alone is not seen")
		}
	})
}

// A change of any figure of any choice is seen, but for what moves as other jobs start, and after a restart nothing has changed.
func TestEveryFieldOfAChoice(t *testing.T) {
	d := digester{seed: testSeed}
	digest := func(c plan.Choices) uint64 { return d.decision(&plan.Decision{Choices: c}, "") }
	seen := map[uint64]string{digest(plan.Choices{}): "none"}
	see := func(name string, c plan.Choices) {
		if was, known := seen[digest(c)]; known {
			t.Errorf("%s looks like %s", name, was)
		}
		seen[digest(c)] = name
		if again, data := decisionOf(&db.Decision{Choices: choicesText(&c)}, cluster.JobID{}); digest(again.Choices) != digest(c) || data != (c != plan.Choices{}) {
			t.Errorf("%s: another digest after reading", name)
		}
	}
	moves := map[string]bool{"*plan.ShareChoice.Used": true, "*plan.ShareChoice.From": true}
	for i := range reflect.TypeFor[plan.Choices]().NumField() {
		var c plan.Choices
		choice := reflect.ValueOf(&c).Elem().Field(i)
		choice.Set(reflect.New(choice.Type().Elem()))
		see(choice.Type().String(), c)
		for k := range choice.Elem().NumField() {
			field := choice.Elem().Field(k)
			if moves[choice.Type().String()+"."+choice.Elem().Type().Field(k).Name] {
				continue
			}
			was := reflect.ValueOf(field.Interface())
			if field.Kind() == reflect.Pointer {
				field.Set(reflect.New(field.Type().Elem()))
				see(choice.Type().String()+"."+choice.Elem().Type().Field(k).Name, c)
				field.Elem().Set(another(t, field.Elem()))
			} else {
				field.Set(another(t, field))
			}
			see(choice.Type().String()+"."+choice.Elem().Type().Field(k).Name+" other", c)
			field.Set(was)
		}
	}
}

// A tag comes back as its text says it.
func TestTagIsStored(t *testing.T) {
	j := pending(1, "be")
	j.Tag = jobtag.Tag{Type: "be", Grace: time.Minute, Speed: map[string]float64{"a100": 1, "v100": 0.5}, CPU: map[string]jobtag.Curve{"a100": {{Amount: 1, Speed: 1}, {Amount: 4, Speed: 2.5}}}}
	if err := setText(&j); err != nil {
		t.Fatal(err)
	}
	s, _ := openStore(t, t.TempDir(), Options{})
	if err := s.q.PutJob(ctx, s.db, jobParams(&j, 1, epoch)); err != nil {
		t.Fatal(err)
	}
	rows, err := s.q.JobsInQueue(ctx, s.db)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(j, jobOf(&rows[0])); diff != "" {
		t.Error(diff)
	}
	if shown := showJob(&rows[0]); shown.Tag != j.TagText || !cmp.Equal(shown.Said, j.Tag) {
		t.Errorf("%+v", shown)
	}
}
