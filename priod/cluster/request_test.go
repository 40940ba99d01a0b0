package cluster

import (
	"reflect"
	"testing"
	"time"

	"slurmprio/slurmplug"
)

// A request holds all that it says it does: a job made of it asks for the same, and two that differ in one field are two.
func TestRequestHoldsEachField(t *testing.T) {
	var whole Request
	for i := range reflect.TypeFor[Request]().NumField() {
		one := Request{}
		for _, r := range []*Request{&one, &whole} {
			switch f := reflect.ValueOf(r).Elem().Field(i); f.Kind() {
			case reflect.String:
				f.SetString("x")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Struct:
				f.Set(reflect.ValueOf(Least{GPUs: 1, CPUs: 2, MemMB: 3}))
			default:
				f.SetInt(7)
			}
		}
		j := one.Job()
		if again := j.Asks(j.Partition); again != one || again == (Request{}) {
			t.Errorf("%+v of %+v", again, one)
		}
	}
	j := whole.Job()
	if j.Asks("x") != whole {
		t.Errorf("%+v", whole)
	}
	var found ByRequest[int]
	n := 0
	for _, r := range []Request{{}, {GPUs: 1}, {GPUs: 1}, {}, {GPUs: 1, TaskCPUs: 4}} {
		found.Get(&r, func() int { n++; return n })
	}
	if n != 3 || len(found.All) != 3 {
		t.Errorf("found out %d times: %v", n, found.All)
	}
}

// A refusal counts for a job's wait: also for the tasks of the array whose write was refused, and no more once the job was
// requeued or its id is another's.
func TestRefusalCountsForOneWait(t *testing.T) {
	h, at := NewHistory(), time.Unix(1_800_000_000, 0)
	array, task := slurmplug.Plain(5), JobID{ID: 5, Task: 3}
	j := Job{ID: array, Submit: at.Add(-time.Hour)}
	h.Refuse(array, slurmplug.Features, "veto", at)
	for name, c := range map[string]struct {
		id     JobID
		lever  slurmplug.Lever
		submit time.Time
		words  string
	}{
		"the array":     {array, slurmplug.Features, j.Submit, "veto"},
		"its task":      {task, slurmplug.Features, j.Submit, "veto"},
		"another field": {array, slurmplug.Size, j.Submit, ""},
		"another job":   {slurmplug.Plain(6), slurmplug.Features, j.Submit, ""},
		"a later wait":  {array, slurmplug.Features, at.Add(time.Second), ""},
	} {
		j.Submit = c.submit
		if got := h.Refusal(&j, c.id, c.lever).Words; got != c.words {
			t.Errorf("%s: %q, want %q", name, got, c.words)
		}
	}
	h.Refuse(task, slurmplug.Features, "its own", at)
	if j.Submit = at; h.Refusal(&j, task, slurmplug.Features).Words != "its own" {
		t.Error("a task's own refusal does not count")
	}
}
