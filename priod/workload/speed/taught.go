package speed

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
)

// Taught is what history knows of one program, for people.
type Taught struct {
	Program Program
	Unit    Unit // of its work
	Runs    int
	Cells   []Cell // one for each type that any run was on and that was asked for
}

// Cell is one program on one type.
type Cell struct {
	GPUType string  `json:"gpu_type"`
	Rate    float64 `json:"work_per_s"` // steps, or runs, per second with all of the program's GPUs
	Speed   float64 `json:"speed"`      // relative: the fastest of the program's cells is 1
	Factor  float64 `json:"within_factor"`
	Runs    int     `json:"runs"`     // that spent most of their time there; 0: from the other cells
	Counts  bool    `json:"believed"` // it is sure enough to answer
}

// All lists what history knows of all programs, those with most runs first.
func (s *Settings) All(k *Knowledge, types []string) []Taught {
	most := s.doubts(types)
	var taught []Taught
	for _, l := range k.programs {
		if other := k.programs[subject{l.Program, Runs + Limits - l.Unit}]; l.Unit != Steps && other != nil && k.believes(other, l, types) {
			continue
		}
		e := k.estimate(l.Mean, l.Covariance, types)
		whole, sure := e.answers(Past, nil), e.answers(Past, most)
		t := Taught{Program: l.Program, Unit: l.Unit, Runs: l.Runs}
		fastest := 0.0
		for _, u := range e.types {
			fastest = max(fastest, math.Exp(e.logSpeed[u]))
		}
		for _, u := range e.types {
			c := Cell{GPUType: types[u], Rate: math.Exp(e.logSpeed[u]), Factor: whole.factors[u], Counts: !math.IsNaN(sure.speeds[u])}
			c.Speed = c.Rate / fastest
			if c.Counts {
				c.Factor = sure.factors[u]
			}
			if j := slices.Index(k.usual.Types, types[u]); j < len(l.OnType) {
				c.Runs = l.OnType[j]
			}
			t.Cells = append(t.Cells, c)
		}
		taught = append(taught, t)
	}
	slices.SortFunc(taught, func(a, b Taught) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), subject{a.Program, a.Unit}.compare(subject{b.Program, b.Unit}))
	})
	return taught
}

// believes reports whether of two units of one program the first leaves less doubt; where both leave the same, it is Runs.
func (k *Knowledge) believes(first, second *Lesson, types []string) bool {
	doubt := func(l *Lesson) float64 {
		e := k.estimate(l.Mean, l.Covariance, types)
		a := e.answers(Past, nil)
		return a.doubt()
	}
	a, b := doubt(first), doubt(second)
	return a < b || a == b && first.Unit == Runs
}

// Workloads turns the believed cells into workloads: steps a second, or runs or seconds of their time limits a
// second where the number of steps of a run is not known. A program that is known by its user and
// name gets a name that is valid in a tag. When two programs get the same name on the
// same number of GPUs, the one with more runs counts.
func Workloads(taught []Taught) []workload.Workload {
	var all []workload.Workload
	for _, t := range taught {
		name := t.Program.Workload
		if t.Program.IsPooled() {
			continue
		}
		if name == "" {
			name = validName(t.Program.User + "-" + t.Program.Name)
		}
		counts := func(c Cell) bool { return c.Counts }
		if !slices.ContainsFunc(t.Cells, counts) {
			continue
		}
		i := slices.IndexFunc(all, func(w workload.Workload) bool { return w.Name == name })
		if i < 0 {
			i = len(all)
			all = append(all, workload.Workload{Name: name, Source: "history", Speeds: map[string][]workload.Speed{}})
		}
		for _, c := range t.Cells {
			list := all[i].Speeds[c.GPUType]
			if counts(c) && !slices.ContainsFunc(list, func(s workload.Speed) bool { return s.GPUs == t.Program.GPUs }) {
				all[i].Speeds[c.GPUType] = append(list, workload.Speed{GPUs: t.Program.GPUs, StepsPerS: c.Rate})
			}
		}
	}
	for _, w := range all {
		for _, list := range w.Speeds {
			slices.SortFunc(list, func(a, b workload.Speed) int { return a.GPUs - b.GPUs })
		}
	}
	slices.SortFunc(all, func(a, b workload.Workload) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// validName makes a name of a workload out of a user's text.
func validName(s string) string {
	name := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || jobtag.ValidName(string(r)) {
			return r
		}
		return '_'
	}, s)
	name = name[:min(len(name), 64)]
	if !jobtag.ValidName(name) { // it begins with a dot or a minus
		name = "_" + name[:min(len(name), 63)]
	}
	return name
}
