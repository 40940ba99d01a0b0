// Package tests holds what spans packages: the rule of the house, end-to-end
// scripts and the lab.
package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rows is the house from the ground up, as DESIGN lists it: a package may
// import packages of rows above its own line here, and of its own row only
// below its own folder.
var rows = []string{
	"etc",
	"slurmplug",
	"slurmplug/jobtag",
	"slurmplug/sbatch",
	"slurmplug/prio",
	"sbatchwrap",
	"priod/cluster",
	"priod/consent",
	"priod/workload",
	"priod/workload/speed",
	"priod/workload/sensitivity",
	"priod/nodespeed",
	"priod/profile",
	"priod/placement",
	"priod/placement/nodemap",
	"priod/placement/forecast",
	"priod/plan",
	"priod/guarantee",
	"priod/order",
	"priod/allocate",
	"priod/steer",
	"priod/size",
	"priod/locality",
	"priod/headroom",
	"priod/evict",
	"priod/retry",
	"priod/idle",
	"priod/waits",
	"priod/window",
	"priod/trial",
	"priod/advise",
	"priod/journal",
	"priod/undo",
	"sql",
	"priod/store",
	"priod/cycle",
	"priod/expect",
	"priod/config",
	"priod/live/tail",
	"priod/live",
	"priod/trace",
	"priod/simulate/metrics",
	"priod/simulate/virtual",
	"priod/simulate",
	"priod/daemon",
	"priod/report",
	"priod/view",
	"priod/web",
	"priod/cli",
	"priod",
}

const module = "slurmprio/"

// row is the longest row that holds the package, -1 when none does.
func row(pkg string) int {
	best, length := -1, -1
	for i, r := range rows {
		if within(pkg, r) && len(r) > length {
			best, length = i, len(r)
		}
	}
	return best
}

// features are the rooms that take part in a cycle; none imports another.
var features = []string{"priod/guarantee", "priod/order", "priod/allocate", "priod/steer", "priod/size", "priod/locality", "priod/headroom", "priod/evict", "priod/retry", "priod/idle", "priod/waits", "priod/window"}

// feature is the feature's room that holds a package; "": none.
func feature(pkg string) string {
	i := slices.IndexFunc(features, func(f string) bool { return within(pkg, f) })
	if i < 0 {
		return ""
	}
	return features[i]
}

// simulator reports whether a package is of the simulator: it reaches features, and what programs
// are, through cycle and config alone.
func simulator(pkg string) bool { return within(pkg, "priod/simulate") }

// private reports whether a package stands behind cycle and config.
func private(pkg string) bool {
	return feature(pkg) != "" || within(pkg, "priod/workload/speed") || within(pkg, "priod/workload/sensitivity")
}

// within reports whether a package is another one or below it.
func within(pkg, room string) bool { return pkg == room || strings.HasPrefix(pkg, room+"/") }

type goPackage struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "../...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsGoOnlyDownwards(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		if from == "tests" || strings.HasPrefix(from, "tests/") {
			continue // tests may import anything
		}
		own := row(from)
		if own < 0 {
			t.Errorf("%s has no room in the house: see DESIGN", from)
			continue
		}
		for _, i := range p.Imports {
			to, ours := strings.CutPrefix(i, module)
			if !ours {
				continue
			}
			switch target := row(to); {
			case target < 0:
				t.Errorf("%s imports %s, which no production code may", from, to)
			case target > own, target == own && !strings.HasPrefix(to, from+"/"):
				t.Errorf("%s imports %s, which stands beside or above it", from, to)
			case feature(from) != "" && feature(to) != "" && feature(from) != feature(to):
				t.Errorf("%s imports %s: what a feature needs of another goes through plan", from, to)
			case simulator(from) && private(to):
				t.Errorf("%s imports %s: the simulator knows features through cycle and config only", from, to)
			case strings.HasPrefix(from, "sbatchwrap") && !strings.HasPrefix(to, "slurmplug"):
				t.Errorf("sbatchwrap imports %s; it may import only slurmplug", to)
			}
		}
	}
}

// The words of the rule itself, so that the test above cannot pass by blindness.
func TestRowsOrder(t *testing.T) {
	if row("priod/evict/preemption") != slices.Index(rows, "priod/evict") || row("priod/cli") <= row("priod/store") || row("elsewhere") != -1 || row("tests/papers") != -1 ||
		!simulator("priod/simulate/virtual") || simulator("priod/simulates") || !private("priod/evict/preemption") || private("priod/workload") {
		t.Fatal("row does not find the rooms")
	}
}
