package speed

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Program names the runs that are taken to do the same: those of one workload, or of
// one user and job name, on the same number of GPUs.
type Program struct {
	Workload   string // as the tag names it; then User and Name are ""
	User, Name string
	GPUs       int // of the whole job; 0: of any, see Pooled
}

// Pooled stands for all programs of one job name: of all users, on any number of GPUs. Programs of a workload are
// not pooled.
func (p Program) Pooled() Program { return Program{Name: p.Name} }

// IsPooled reports whether the program stands for all of its name.
func (p Program) IsPooled() bool { return p.Name != "" && p.GPUs == 0 }

// Named reports whether a program is known by anything at all.
func (p Program) Named() bool { return p.Workload != "" || p.Name != "" }

// Compare orders programs.
func (p Program) Compare(o Program) int {
	return cmp.Or(strings.Compare(p.Workload, o.Workload), strings.Compare(p.User, o.User), strings.Compare(p.Name, o.Name), cmp.Compare(p.GPUs, o.GPUs))
}

// Run is what one job did from its first start to its end, when it completed.
type Run struct {
	Program Program
	Seconds map[string]float64 // on each GPU type, with all of its GPUs
	// Work is the tag's steps; 0: not said. Then a run counts as one unit of work, as every other run of the
	// program does, or its time limit as so much: as its runs on one type scatter less.
	Work  float64
	Limit float64 // s; 0: none, or the partition's
	End   time.Time
	Place Place
}

// Place is where and when a run was; the zero Place where unknown, or it moved.
type Place struct {
	Nodes string // host list
	Start time.Time
	Job   uint32 // its raw id
}

// History collects runs. It is plain data: the same runs in any order give
// the same Knowledge, to the last bit.
type History struct {
	programs map[subject][]observation
}

// Unit is what the work of a program's runs is counted in.
type Unit int

// The units. Numbers are stored.
const (
	Runs   Unit = iota // each run is as much work
	Steps              // of the tag, or of the command line
	Limits             // seconds of the time limit: users ask for more time where there is more to do
)

// String is the unit's name.
func (u Unit) String() string {
	switch u {
	case Steps:
		return "steps"
	case Limits:
		return "limits"
	}
	return "runs"
}

// units in order of preference where they agree.
var units = []Unit{Steps, Runs, Limits}

// subject is a program with its unit of work. Units cannot be compared, so each is a row of its own.
type subject struct {
	Program
	unit Unit
}

func (s subject) compare(o subject) int {
	return cmp.Or(s.Compare(o.Program), slices.Index(units, s.unit)-slices.Index(units, o.unit))
}

// observation is one run: the log of the work done in a second, and which part of that
// second was spent on each type, sorted by type.
type observation struct {
	logRate float64
	shares  []share
	end     time.Time
	weight  float64 // of its program's latest run it is 1, see halfLife; set by Learn
}

type share struct {
	gpuType string
	column  int // of the type; set by Learn
	part    float64
}

func (o observation) compare(p observation) int {
	return cmp.Or(cmp.Compare(o.logRate, p.logRate), o.end.Compare(p.end), slices.CompareFunc(o.shares, p.shares, func(a, b share) int {
		return cmp.Or(strings.Compare(a.gpuType, b.gpuType), cmp.Compare(a.part, b.part))
	}))
}

// longest is the share of the type on which the run was longest.
func (o observation) longest() share {
	return slices.MaxFunc(o.shares, func(a, b share) int { return cmp.Compare(a.part, b.part) })
}

// maxLogRate bounds the logs of rates, above and below: 1e50 units of work in a second,
// or one in 1e50 seconds, is never measured. Ratios of rates within it are numbers.
const maxLogRate = 115

// Add takes in a run. It ignores one without a name, without any time or with a rate
// beyond maxLogRate.
func (h *History) Add(r Run) {
	o := observation{end: r.End}
	total := 0.0
	for _, gpuType := range slices.Sorted(maps.Keys(r.Seconds)) {
		s := max(r.Seconds[gpuType], 0)
		if s > 0 {
			o.shares = append(o.shares, share{gpuType: gpuType, part: s})
		}
		total += s // NaN if one of them is
	}
	for i := range o.shares {
		o.shares[i].part /= total
	}
	add := func(unit Unit, work float64) {
		o.logRate = math.Log(work) - math.Log(total)
		if !r.Program.Named() || !(math.Abs(o.logRate) < maxLogRate) {
			return
		}
		if h.programs == nil {
			h.programs = map[subject][]observation{}
		}
		key := subject{r.Program, unit}
		h.programs[key] = append(h.programs[key], o)
	}
	if r.Work > 0 {
		add(Steps, r.Work)
		return
	}
	add(Runs, 1)
	if r.Limit > 0 {
		add(Limits, r.Limit)
	}
}
