package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Each kind of weather comes, and its last command undoes its first.
func TestWeathersEnd(t *testing.T) {
	nodes := []string{"a100-1", "a100-2", "t4-1"}
	size := Size{Length: time.Minute}
	all := Weathers(7, size, 2*len(weathers))
	for _, kind := range weathers {
		if n := slices.IndexFunc(all, func(w Weather) bool { return w.What == kind }); n < 0 {
			t.Errorf("%s never comes", kind)
		}
	}
	for _, w := range all {
		changes := w.Changes(nodes)
		first, last := strings.Join(changes[0].Argv, " "), strings.Join(changes[len(changes)-1].Argv, " ")
		switch w.What {
		case Feature:
			if !strings.Contains(first, ",repaired") || strings.Contains(last, ",repaired") {
				t.Errorf("%s: %s, at last %s", w.What, first, last)
			}
		case Partition:
			if strings.Count(first, ",") != len(nodes)-2 || !strings.HasSuffix(last, "Nodes="+strings.Join(nodes, ",")) {
				t.Errorf("%s: %s, at last %s", w.What, first, last)
			}
		default:
			if strings.Contains(first, "RESUME") || !strings.Contains(last, "State=RESUME") {
				t.Errorf("%s: %s, at last %s", w.What, first, last)
			}
		}
	}
}

// A signal on a node that went down is the node's; the same signal on another node is priod's.
func TestStruck(t *testing.T) {
	at := time.Now()
	r := Run{Weather: []Weathered{{Weather{What: Failure}, "a100-2", at.Add(time.Second), at.Add(4 * time.Second)}, {Weather{What: Drain}, "a100-3", at, at.Add(time.Second)}}}
	start := func(nodes string) []Event {
		return []Event{{At: at, What: "start", More: []string{"0", "0", nodes}}}
	}
	r.Logs = map[string][]Event{"gang": start("a100-[1-2]"), "drained": start("a100-3"), "one": start("a100-2")}
	for name, want := range map[string]bool{"gang": true, "drained": false, "one": true, "no log": false} {
		if got := r.struck(Part{ID: "5", Name: name}, at.Add(2*time.Second)); got != want {
			t.Errorf("%s: struck %v, want %v", name, got, want)
		}
	}
	if r.struck(Part{ID: "5", Name: "one"}, at.Add(time.Minute)) {
		t.Error("a failure ends jobs for a minute")
	}
}
