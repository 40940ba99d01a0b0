package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// quantity is something that must not grow during a soak.
type quantity struct {
	name   string
	margin float64 // of the middle third, by which the last may exceed it
	slack  float64 // added to that
	most   float64 // never more than this; 0: no such limit
	judged bool    // by thirds
	values []float64
}

// grown says how a quantity grew, "" when it did not: the least of the last
// third of its samples is held against the least of the middle third, because
// what leaks also raises the floor, and what comes and goes does not. A leak of
// one unit between two samples shows once it exceeds the allowance within a
// third of the samples.
func (q *quantity) grown() string {
	n := len(q.values)
	if n < 3 {
		return ""
	}
	if top := slices.Max(q.values); q.most > 0 && top > q.most {
		return fmt.Sprintf("%s reaches %.0f, want no more than %.0f", q.name, top, q.most)
	}
	if !q.judged {
		return ""
	}
	middle, last := slices.Min(q.values[n/3:n-n/3]), slices.Min(q.values[n-n/3:])
	if allowed := middle*(1+q.margin) + q.slack; last > allowed {
		return fmt.Sprintf("%s grows: at least %.0f in the middle third, %.0f in the last, want no more than %.0f: %.0f", q.name, middle, last, allowed, q.values)
	}
	return ""
}

// soakTable are the samples of all quantities.
type soakTable struct {
	quantities []*quantity
}

// add takes one sample; a quantity that is new gets the form of its kind.
func (t *soakTable) add(value float64, kind quantity) {
	i := slices.IndexFunc(t.quantities, func(q *quantity) bool { return q.name == kind.name })
	if i < 0 {
		i = len(t.quantities)
		t.quantities = append(t.quantities, &kind)
	}
	t.quantities[i].values = append(t.quantities[i].values, value)
}

// growth is what is wrong with the samples.
func (t *soakTable) growth() (all []string) {
	for _, q := range t.quantities {
		if why := q.grown(); why != "" {
			all = append(all, why)
		}
	}
	return all
}

// String shows for each quantity its first sample, the least of each third and
// the largest of all.
func (t *soakTable) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "quantity\tfirst sample\tfirst third\tmiddle third\tlast third\tlargest\tallowed more\t")
	for _, q := range t.quantities {
		n := len(q.values)
		if n < 3 || slices.Max(q.values) == 0 {
			continue
		}
		allowed := "not judged"
		switch {
		case q.judged:
			allowed = fmt.Sprintf("%.0f %% + %.0f", 100*q.margin, q.slack)
		case q.most > 0:
			allowed = fmt.Sprintf("%.0f in all", q.most)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t\n", q.name, q.values[0],
			slices.Min(q.values[:n/3]), slices.Min(q.values[n/3:n-n/3]), slices.Min(q.values[n-n/3:]), slices.Max(q.values), allowed)
	}
	w.Flush()
	return b.String()
}

// holdings counts what priod's own structs keep: the length of every map and
// slice that v leads to, by its path. What is foreign (a database handle) is
// not looked into.
func holdings(name string, v any) map[string]int {
	found := map[string]int{}
	seen := map[uintptr]bool{}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && !seen[v.Pointer()] && strings.HasPrefix(v.Type().Elem().PkgPath(), "slurmprio/") {
				seen[v.Pointer()] = true
				walk(path, v.Elem())
			}
		case reflect.Struct:
			if strings.HasPrefix(v.Type().PkgPath(), "slurmprio/") {
				for i := range v.NumField() {
					walk(path+"."+v.Type().Field(i).Name, v.Field(i))
				}
			}
		case reflect.Map:
			found[path] = v.Len()
		case reflect.Slice:
			found[path] = v.Cap() // what it held at most
		}
	}
	walk(name, reflect.ValueOf(v))
	return found
}

// openFiles counts the file descriptors of a process; "self" is this one.
func openFiles(tb testing.TB, pid string) int {
	tb.Helper()
	fds, err := os.ReadDir(filepath.Join("/proc", pid, "fd"))
	if err != nil {
		tb.Fatal(err)
	}
	return len(fds)
}

// fileSize is 0 for a file that is not there.
func fileSize(path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return float64(info.Size())
}

func TestGrowthIsSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	const perHour = 1200 // jobs that end
	series := func(step, noise float64) []float64 {
		var all []float64
		for hour := range 24 {
			all = append(all, 3000+float64(hour)*step+noise*r.Float64())
		}
		return all
	}
	sawtooth := make([]float64, 24)
	for i := range sawtooth {
		sawtooth[i] = float64(1000 + 311*(i%7))
	}
	for _, c := range []struct {
		name  string
		q     quantity
		grows bool
	}{
		{"still", quantity{judged: true, margin: 0.1, values: series(0, 0)}, false},
		{"noise", quantity{judged: true, margin: 0.1, values: series(0, 900)}, false},
		{"one record for each job", quantity{judged: true, margin: 0.1, values: series(perHour, 900)}, true},
		{"one record for each tenth job", quantity{judged: true, margin: 0.1, values: series(perHour/10, 300)}, true},
		{"a file each hour", quantity{judged: true, slack: 2, values: series(1, 0)}, true},
		{"falling", quantity{judged: true, values: series(-50, 10)}, false},
		{"a sawtooth", quantity{judged: true, margin: 0.1, values: sawtooth}, false},
		{"too high", quantity{most: 2000, values: sawtooth}, true},
		{"not judged", quantity{values: series(perHour, 0)}, false},
	} {
		c.q.name = c.name
		if why := c.q.grown(); (why != "") != c.grows {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
