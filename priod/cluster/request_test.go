package cluster

import (
	"reflect"
	"testing"
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
