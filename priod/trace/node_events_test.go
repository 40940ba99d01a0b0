package trace

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReadNodeEvents(t *testing.T) {
	c, err := ParseNodes([]string{"4:v100:8", "2:h100:8", "3::0:64"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "events.toml")
	read := func(text string) ([]NodeEvent, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadNodeEvents(path, &c)
	}
	one := func(table string) string { return "[[events]]\n" + strings.ReplaceAll(table, ", ", "\n") + "\n" }
	events, err := read(one(`at = "2h", event = "reboot", nodes = "v100", for = "10m", each = 2`) + one(`at = "1h", event = "drain", nodes = "n[0-1,7]", for = "8h"`) + one(`at = "0s", event = "join", nodes = "h100"`) + one(`at = "2d", event = "maintenance", nodes = "n2", for = "2h", announced = "1d"`))
	want := []NodeEvent{
		{0, NodesJoin, []int32{4, 5}, 0, 0, 0},
		{3600, NodesDrain, []int32{0, 1, 7}, 28800, 0, 0},
		{7200, NodesReboot, []int32{0, 1, 2, 3}, 600, 2, 0},
		{172800, NodesReserved, []int32{2}, 7200, 0, 86400},
	}
	if err != nil || !reflect.DeepEqual(events, want) {
		t.Errorf("%+v, %v; want %+v", events, err, want)
	}
	for text, want := range map[string]string{
		"":    "it has no [[events]] table",
		"x=1": "unknown key x",
		one(`at = "1h", event = "explode", nodes = "n1"`):                                                 `[[events]] 1: event "explode": want fail, drain, reboot, join or maintenance`,
		one(`at = "1h", event = "drain", nodes = "n1"`):                                                   "want how long the nodes are away",
		one(`at = "-1h", event = "drain", nodes = "n1", for = "1h"`):                                      "at -1h0m0s: want 0s or more",
		one(`at = "1h", event = "join", nodes = "n1", for = "1h"`):                                        "nodes that join stay",
		one(`at = "1h", event = "drain", nodes = "n1", for = "1h", each = 2`):                             "each 2: want how many nodes reboot at a time",
		one(`at = "1h", event = "drain", nodes = "n9", for = "1h"`):                                       `"n9" is neither a GPU type nor a node: the cluster has n0 to n8`,
		one(`at = "1h", event = "drain", nodes = "t4", for = "1h"`):                                       `"t4" is neither a GPU type nor a node`,
		one(`at = "1h", event = "drain", nodes = "n[0-", for = "1h"`):                                     `nodes "n[0-"`,
		one(`at = "1h", event = "drain", nodes = "", for = "1h"`):                                         "want a host list",
		one(`at = "1h", event = "join", nodes = "h100"`) + one(`at = "2h", event = "join", nodes = "n5"`): "[[events]] 2: node n5 joins twice",
		one(`at = "1h", event = "drain", nodes = "n1", for = "1h", announced = "1h"`):                     "announced 1h0m0s: want how long before it",
		one(`at = "1h", event = "maintenance", nodes = "n1", for = "1h", announced = "1w"`):               `"1w" is no time such as 90m, 8h or 3d`,
		one(`at = "soon", event = "drain", nodes = "n1", for = "1h"`):                                     "events.toml",
	} {
		if events, err := read(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, %v; want %q", text, events, err, want)
		}
	}
	if _, err := ReadNodeEvents(path+".not", &c); err == nil {
		t.Error("no file, no error")
	}
}
