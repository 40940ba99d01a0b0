// Package grid reads the grids of simulations that the papers' tables need, and gathers their results.
package grid

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"slurmprio/priod/simulate/sweep"
)

// Study is a grid: the settings that all points share, and the axes.
type Study struct {
	Title string
	base  []setting
	Axes  []Axis
	// Metrics are the columns of the table and the plots, in order.
	Metrics []string
}

// Axis is one dimension: a flag of priod simulate, or a key of priod.toml, and its values. An axis that
// [base] names in braces, as in generate = "fitgpp --load={load}", is put
// there instead.
type Axis struct {
	Flag   string
	Values []string
}

type setting struct{ flag, value string }

// maxPoints keeps a slip of the pen from becoming a week of computing.
const maxPoints = 100_000

var defaultMetrics = []string{"mean_jct_s", "p95_jct_s", "mean_wait_s", "p95_wait_s"}

// Load reads a study from a TOML file: title, metrics, [base] and [grid],
// whose keys are priod simulate's flags without the dashes, or keys of priod.toml such as
// preemption.max_evictions.
func Load(path string) (*Study, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func parse(text string) (*Study, error) {
	var file struct {
		Title   string
		Metrics []string
		Base    map[string]any
		Grid    map[string]any
	}
	meta, err := toml.Decode(text, &file)
	if err != nil {
		return nil, err
	}
	s := &Study{Title: file.Title, Metrics: file.Metrics}
	if len(s.Metrics) == 0 {
		s.Metrics = defaultMetrics
	}
	points := 1
	for _, key := range meta.Keys() { // in the file's order, which a map forgets
		name := strings.Join(key[1:], ".")
		value, leaf := lookup(map[string]any{"base": file.Base, "grid": file.Grid}, key)
		switch {
		case len(key) > 1 && key[0] == "base" && !leaf, len(key) > 1 && key[0] == "grid" && !leaf: // a table of keys
		case len(key) > 1 && key[0] == "base":
			values, err := words(value)
			if err != nil {
				return nil, fmt.Errorf("base.%s: %w", name, err)
			}
			for _, v := range values {
				s.base = append(s.base, setting{name, v})
			}
		case len(key) > 1 && key[0] == "grid":
			values, err := words(value)
			if err != nil {
				return nil, fmt.Errorf("grid.%s: %w", name, err)
			}
			if len(values) == 0 {
				return nil, fmt.Errorf("grid.%s has no values", name)
			}
			if slices.ContainsFunc(s.base, func(b setting) bool { return b.flag == name }) {
				return nil, fmt.Errorf("%s stands in [base] and in [grid]; leave it in one", name)
			}
			s.Axes = append(s.Axes, Axis{name, values})
			if points *= len(values); points > maxPoints {
				return nil, fmt.Errorf("more than %d points; split the study", maxPoints)
			}
		case len(key) == 1 && slices.Contains([]string{"title", "metrics", "base", "grid"}, key[0]):
		default:
			return nil, fmt.Errorf("unknown key %q; a study has title, metrics, [base] and [grid]", key.String())
		}
	}
	if len(s.Axes) == 0 {
		return nil, fmt.Errorf("no [grid]: nothing to sweep; use priod simulate for one run")
	}
	return s, nil
}

// lookup finds the value of a key; leaf: it is no table.
func lookup(table map[string]any, key toml.Key) (value any, leaf bool) {
	value = table
	for _, k := range key {
		inner, is := value.(map[string]any)
		if !is {
			return nil, false
		}
		value = inner[k]
	}
	_, is := value.(map[string]any)
	return value, !is
}

// argument is a flag with its value, or --set with a key of priod.toml.
func argument(name, value string) string {
	if strings.Contains(name, ".") {
		return "--set=" + name + "=" + value
	}
	return "--" + name + "=" + value
}

// words renders one value or a list of them as a command line takes them.
func words(v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return []string{v}, nil
	case int64:
		return []string{strconv.FormatInt(v, 10)}, nil
	case float64:
		return []string{strconv.FormatFloat(v, 'g', -1, 64)}, nil
	case bool:
		return []string{strconv.FormatBool(v)}, nil
	case []any:
		var all []string
		for _, e := range v {
			if _, nested := e.([]any); nested {
				return nil, fmt.Errorf("a list within a list")
			}
			w, err := words(e)
			if err != nil {
				return nil, err
			}
			all = append(all, w...)
		}
		return all, nil
	}
	return nil, fmt.Errorf("%v is no text, number, true or false", v)
}

// Points lists the grid, the last axis fastest.
func (s *Study) Points() []sweep.Point {
	points := []sweep.Point{{}}
	for _, axis := range s.Axes {
		longer := make([]sweep.Point, 0, len(points)*len(axis.Values))
		for _, p := range points {
			for _, v := range axis.Values {
				longer = append(longer, sweep.Point{At: append(slices.Clone(p.At), v)})
			}
		}
		points = longer
	}
	for i := range points {
		p := &points[i]
		var pairs []string
		for j, axis := range s.Axes {
			pairs = append(pairs, "{"+axis.Flag+"}", p.At[j])
		}
		fill := strings.NewReplacer(pairs...)
		for _, b := range s.base {
			p.Args = append(p.Args, argument(b.flag, fill.Replace(b.value)))
		}
		for j, axis := range s.Axes {
			if !s.inBraces(axis.Flag) {
				p.Args = append(p.Args, argument(axis.Flag, p.At[j]))
			}
		}
		p.Key = sweep.PointOf(p.Args).Key
	}
	return points
}

func (s *Study) inBraces(flag string) bool {
	return slices.ContainsFunc(s.base, func(b setting) bool { return strings.Contains(b.value, "{"+flag+"}") })
}
