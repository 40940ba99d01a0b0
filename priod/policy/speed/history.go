package speed

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Program names the runs that are taken to do the same: those of one workload,
// or of one user and job name, on as many GPUs.
type Program struct {
	Workload   string // as the tag names it; then User and Name are ""
	User, Name string
	GPUs       int // of the whole job
}

// Named tells whether a program is known by anything at all.
func (p Program) Named() bool { return p.Workload != "" || p.Name != "" }

// Compare orders programs.
func (p Program) Compare(o Program) int {
	return cmp.Or(strings.Compare(p.Workload, o.Workload), strings.Compare(p.User, o.User), strings.Compare(p.Name, o.Name), cmp.Compare(p.GPUs, o.GPUs))
}

// Run is what one job did from its first start to its end, when it completed.
type Run struct {
	Program Program
	Seconds map[string]float64 // on each GPU type, with all of its GPUs
	// Work is the tag's steps; 0: not said. Then a run counts as one unit of work,
	// as every other run of the program does.
	Work float64
}

// History collects runs. It is plain data: the same runs in any order teach
// the same.
type History struct {
	types    []string // columns, in the order in which they came
	programs map[subject]*past
}

// subject is a program with its unit of work: steps and whole runs cannot be
// compared, so that they are rows of their own.
type subject struct {
	Program
	steps bool
}

func (s subject) compare(o subject) int {
	if c := s.Compare(o.Program); c != 0 || s.steps == o.steps {
		return c
	}
	if s.steps {
		return -1
	}
	return 1
}

// past is what is known of a program. An observation is the log of the work
// done in a second, and the share of that second on each type.
type past struct {
	rates  []float64
	shares [][]share
	types  []int // runs that spent most of their time on a type
}

type share struct {
	column int
	part   float64
}

// Add takes in a run. One without a name, or without any time, says nothing.
func (h *History) Add(r Run) {
	total := 0.0
	for _, s := range r.Seconds {
		total += max(s, 0)
	}
	if !r.Program.Named() || !(total > 0) || math.IsInf(total, 1) || !(r.Work >= 0) || math.IsInf(r.Work, 1) {
		return
	}
	key := subject{r.Program, r.Work > 0}
	p := h.programs[key]
	if p == nil {
		p = &past{}
		if h.programs == nil {
			h.programs = map[subject]*past{}
		}
		h.programs[key] = p
	}
	var parts []share
	longest := share{part: -1}
	for _, gpuType := range slices.Sorted(maps.Keys(r.Seconds)) {
		s := r.Seconds[gpuType]
		if !(s > 0) {
			continue
		}
		one := share{h.column(gpuType), s / total}
		parts = append(parts, one)
		if one.part > longest.part {
			longest = one
		}
	}
	slices.SortFunc(parts, func(a, b share) int { return a.column - b.column })
	work := r.Work
	if work == 0 {
		work = 1
	}
	p.rates = append(p.rates, math.Log(work)-math.Log(total))
	p.shares = append(p.shares, parts)
	for len(p.types) <= longest.column {
		p.types = append(p.types, 0)
	}
	p.types[longest.column]++
}

func (h *History) column(gpuType string) int {
	if i := slices.Index(h.types, gpuType); i >= 0 {
		return i
	}
	h.types = append(h.types, gpuType)
	return len(h.types) - 1
}
