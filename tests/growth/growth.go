// Package growth judges whether what a long run holds grows: memory, files, rows.
package growth

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
)

// Quantity is something that must not grow during a soak.
type Quantity struct {
	Name   string
	Margin float64   // of the middle third, by which the last may exceed it
	Slack  float64   // added to that
	Most   float64   // never more than this; 0: no such limit
	Judged bool      // by thirds
	Values []float64 // its samples
}

// grown says how a quantity grew, "" when it did not: the least of the last
// third of its samples is held against the least of the middle third, because
// what leaks also raises the floor, and what comes and goes does not. A leak of
// one unit between two samples shows once it exceeds the allowance within a
// third of the samples.
func (q *Quantity) grown() string {
	n := len(q.Values)
	if n < 3 {
		return ""
	}
	if top := slices.Max(q.Values); q.Most > 0 && top > q.Most {
		return fmt.Sprintf("%s reaches %.0f, want no more than %.0f", q.Name, top, q.Most)
	}
	if !q.Judged {
		return ""
	}
	middle, last := slices.Min(q.Values[n/3:n-n/3]), slices.Min(q.Values[n-n/3:])
	if allowed := middle*(1+q.Margin) + q.Slack; last > allowed {
		return fmt.Sprintf("%s grows: at least %.0f in the middle third, %.0f in the last, want no more than %.0f: %.0f", q.Name, middle, last, allowed, q.Values)
	}
	return ""
}

// Table are the samples of all quantities.
type Table struct {
	Quantities []*Quantity
}

// Add takes one sample; a quantity that is new gets the form of its kind.
func (t *Table) Add(value float64, kind Quantity) {
	i := slices.IndexFunc(t.Quantities, func(q *Quantity) bool { return q.Name == kind.Name })
	if i < 0 {
		i = len(t.Quantities)
		t.Quantities = append(t.Quantities, &kind)
	}
	t.Quantities[i].Values = append(t.Quantities[i].Values, value)
}

// Growth is what is wrong with the samples.
func (t *Table) Growth() (all []string) {
	for _, q := range t.Quantities {
		if why := q.grown(); why != "" {
			all = append(all, why)
		}
	}
	return all
}

// String shows for each quantity its first sample, the least of each third and
// the largest of all.
func (t *Table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "quantity\tfirst sample\tfirst third\tmiddle third\tlast third\tlargest\tallowed more\t")
	for _, q := range t.Quantities {
		n := len(q.Values)
		if n < 3 || slices.Max(q.Values) == 0 {
			continue
		}
		allowed := "not judged"
		switch {
		case q.Judged:
			allowed = fmt.Sprintf("%.0f %% + %.0f", 100*q.Margin, q.Slack)
		case q.Most > 0:
			allowed = fmt.Sprintf("%.0f in all", q.Most)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t\n", q.Name, q.Values[0],
			slices.Min(q.Values[:n/3]), slices.Min(q.Values[n/3:n-n/3]), slices.Min(q.Values[n-n/3:]), slices.Max(q.Values), allowed)
	}
	w.Flush()
	return b.String()
}

// Holdings counts what priod's own structs keep: the length of every map and
// slice that v leads to, by its path. What is foreign (a database handle) is
// not looked into.
func Holdings(name string, v any) map[string]int {
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
