// Package workload knows how fast programs run: workloads.toml with steps a
// second by GPU type and number of GPUs, and how speed depends on CPUs and
// memory.
package workload

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/BurntSushi/toml"

	"slurmprio/etc"
	"slurmprio/slurmplug/jobtag"
)

// ID is the place of a workload in its Table. Names are looked up once.
type ID int32

// Workload is one program with one set of hyperparameters.
type Workload struct {
	Name    string // valid in a tag: jobtag.ValidName
	Aliases []string
	Class   string // "image", "language", ...; "" when unknown
	Source  string // where the figures come from
	// Speeds are by GPU type, by number of GPUs rising.
	Speeds map[string][]Speed
	Curves map[string]Curve // by GPU type
}

// Speed is how fast a job runs on so many GPUs.
type Speed struct {
	GPUs      int     // of the whole job: the scale factor
	StepsPerS float64 // of the whole job; 0: it does not run there
}

// Table is all workloads that are known.
type Table struct {
	all   []Workload
	index map[string]ID // names and aliases
}

// Default is etc/workloads.toml, which is part of the program.
func Default() (*Table, error) { return Parse("etc/workloads.toml", etc.Workloads) }

// Load reads the file at path, and Default when path is empty.
func Load(path string) (*Table, error) {
	if path == "" {
		return Default()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("workloads: %w", err)
	}
	return Parse(path, string(text))
}

// file is workloads.toml as TOML sees it: numbers of GPUs are keys.
type file struct {
	Workload []struct {
		Name    string                        `toml:"name"`
		Aliases []string                      `toml:"aliases"`
		Class   string                        `toml:"class"`
		Source  string                        `toml:"source"`
		Speed   map[string]map[string]float64 `toml:"speed"`
		Curve   map[string]Curve              `toml:"curve"`
	} `toml:"workload"`
}

// Parse reads the text of a workloads.toml; name stands in errors, which also
// name the workload, the key and the value.
func Parse(name, text string) (*Table, error) {
	var f file
	meta, err := toml.Decode(text, &f)
	if err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("%s:%d: %s: %s", name, at.Position.Line, at.LastKey, at.Message)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: unknown key %q: a [[workload]] has name, aliases, class, source, speed.TYPE and curve.TYPE", name, unknown[0].String())
	}
	t := &Table{index: map[string]ID{}}
	for i, w := range f.Workload {
		entry := Workload{Name: w.Name, Aliases: w.Aliases, Class: w.Class, Source: w.Source, Curves: w.Curve}
		if entry.Speeds, err = speeds(w.Speed); err == nil {
			err = t.add(entry)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: workload %d (%.80q): %w", name, i+1, w.Name, err)
		}
	}
	if len(t.all) == 0 {
		return nil, fmt.Errorf("%s: no [[workload]] in it", name)
	}
	return t, nil
}

func speeds(byType map[string]map[string]float64) (map[string][]Speed, error) {
	all := make(map[string][]Speed, len(byType))
	for _, gpuType := range slices.Sorted(maps.Keys(byType)) {
		for _, key := range slices.Sorted(maps.Keys(byType[gpuType])) {
			n, err := strconv.ParseUint(key, 10, 20)
			if err != nil || n == 0 || key[0] == '0' {
				return nil, fmt.Errorf("speed.%s: key %.40q: want a number of GPUs from 1", gpuType, key)
			}
			all[gpuType] = append(all[gpuType], Speed{GPUs: int(n), StepsPerS: byType[gpuType][key]})
		}
		slices.SortFunc(all[gpuType], func(a, b Speed) int { return a.GPUs - b.GPUs })
	}
	return all, nil
}

// add appends a workload, or says what is wrong with it.
func (t *Table) add(w Workload) error {
	if err := w.Check(); err != nil {
		return err
	}
	names := append([]string{w.Name}, w.Aliases...)
	for i, n := range names {
		if other, taken := t.index[n]; taken {
			return fmt.Errorf("name or alias %.80q is that of workload %q too", n, t.all[other].Name)
		}
		if slices.Contains(names[:i], n) {
			return fmt.Errorf("name or alias %.80q stands twice", n)
		}
	}
	for _, n := range names {
		t.index[n] = ID(len(t.all))
	}
	t.all = append(t.all, w)
	return nil
}

// Check says what is wrong with a workload.
func (w *Workload) Check() error {
	if !jobtag.ValidName(w.Name) {
		return fmt.Errorf("name = %.80q: want 1 to 64 letters, digits, '.', '-' or '_'", w.Name)
	}
	for _, a := range append([]string{w.Class, w.Source}, w.Aliases...) {
		if strings.ContainsFunc(a, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("%.80q: aliases, class and source are printable text", a)
		}
	}
	if slices.Contains(w.Aliases, "") {
		return errors.New(`aliases: "" is no name`)
	}
	if len(w.Speeds)+len(w.Curves) == 0 {
		return errors.New("neither speed.TYPE nor curve.TYPE: nothing is known about it")
	}
	for _, gpuType := range slices.Sorted(maps.Keys(w.Speeds)) {
		if !jobtag.ValidName(gpuType) {
			return fmt.Errorf("speed: %.80q is no GPU type", gpuType)
		}
		for _, s := range w.Speeds[gpuType] {
			if !(s.StepsPerS >= 0) || math.IsInf(s.StepsPerS, 1) {
				return fmt.Errorf("speed.%s.%d = %v: want steps a second, 0 when it does not run there", gpuType, s.GPUs, s.StepsPerS)
			}
		}
	}
	for _, gpuType := range slices.Sorted(maps.Keys(w.Curves)) {
		if !jobtag.ValidName(gpuType) {
			return fmt.Errorf("curve: %.80q is no GPU type", gpuType)
		}
		c := w.Curves[gpuType]
		if err := c.check(); err != nil {
			return fmt.Errorf("curve.%s.%w", gpuType, err)
		}
	}
	return nil
}

// All are the workloads in the order of the file; ID is the index.
func (t *Table) All() []Workload { return t.all }

// Get returns one workload.
func (t *Table) Get(id ID) *Workload { return &t.all[id] }

// Lookup finds a workload by name or alias, as written; a nil Table knows none.
func (t *Table) Lookup(name string) (ID, bool) {
	if t == nil {
		return 0, false
	}
	id, ok := t.index[name]
	return id, ok
}

// Speed is how many steps a second a job of so many GPUs makes on one GPU
// type with its proportional share of CPUs and memory. Where only a curve is
// known, an iteration takes as long on any number of GPUs, as Synergy has it.
// ok is false when nothing is known and when it does not run there.
func (t *Table) Speed(id ID, gpus int, gpuType string) (stepsPerS float64, ok bool) {
	w := &t.all[id]
	for _, s := range w.Speeds[gpuType] {
		if s.GPUs == gpus {
			return s.StepsPerS, s.StepsPerS > 0
		}
	}
	if c, known := w.Curves[gpuType]; known && len(w.Speeds[gpuType]) == 0 {
		return 1 / c.IterationS, true
	}
	return 0, false
}
