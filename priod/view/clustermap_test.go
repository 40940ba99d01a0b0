package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every GPU in use is some job's, also where a job of several nodes has more on one of them.
func TestMapKnowsTheJobOfEachGPU(t *testing.T) {
	v, at := &Map{Jobs: []MapJob{{GPUs: 9}, {GPUs: 3}, {GPUs: 4}, {GPUs: 2}}}, map[string]int{"n1": 0, "n2": 1, "n3": 2}
	for _, used := range []int{8, 4, 4} {
		n := MapNode{}
		n.InUse = used
		v.Nodes = append(v.Nodes, n)
	}
	v.hold([][]string{{"n1", "n2"}, {"n2"}, {"n3", "gone"}, {"gone"}}, at)
	want := [][]int{{0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 2, 2}}
	for i := range v.Nodes {
		if diff := cmp.Diff(want[i], v.Nodes[i].Held); diff != "" {
			t.Errorf("node %d: %s", i+1, diff)
		}
	}
}
