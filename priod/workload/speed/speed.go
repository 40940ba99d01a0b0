// Package speed says how fast a job would run on each GPU type. For each type the first
// of these sources counts that knows it:
//
//   - the job's tag (speed=a100:1,v100:0.45)
//   - its workload in workloads.toml
//   - this site's history of the same program, see Knowledge
//   - the type's speed in priod.toml
//   - this site's history of all programs
//   - 1
//
// Each source has units of its own, such as steps a second. A later source is scaled so
// that it agrees with the earlier ones on the types that both know.
//
// speed.go asks the sources; history.go and stays.go gather past runs, learn.go and fit.go
// learn from them, estimate.go reads out what was learned, stored.go and taught.go give it
// to the database and to people.
package speed

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
)

// Source is where an answer comes from.
type Source string

// The sources, the first one first.
const (
	Tag      Source = "tag"
	Workload Source = "workload"
	Past     Source = "history"
	Default  Source = "type"
	Site     Source = "site"
	None     Source = "none"
)

// Words name the source, for people.
func (s Source) Words() string {
	return map[Source]string{
		Tag: "the job's tag", Workload: "workloads.toml", Past: "this site's history", Default: "the type's speed in priod.toml",
		Site: "how other programs ran here", None: "no source: assumed equal",
	}[s]
}

// Standard deviations of the log speeds of Gavel's 26 workloads (OSDI'20, one GPU)
// around the means of the types, and around all types being equal: how far off the
// last sources are.
const (
	spreadDefault = 0.35
	spreadNone    = 0.66
)

// contradiction is the factor from which on two sources contradict each other, if the
// second one is that sure.
const contradiction = 1.5

// Settings are the operator's.
type Settings struct {
	Types    map[string]float64 // relative speed of each GPU type
	Formerly map[string]string  // GPU types that have got another name: old, new
}

// doubts are those of the source that answers where history does not, by type: standard deviations of the log speed.
// History answers only where it leaves less doubt than this: a guess that is wrong then costs less than what it replaces would.
func (s *Settings) doubts(types []string) []float64 {
	most := make([]float64, len(types))
	for i, t := range types {
		most[i] = spreadNone
		if _, told := s.Types[t]; told {
			most[i] = spreadDefault
		}
	}
	return most
}

// Today is the name that a GPU type has now.
func (s *Settings) Today(gpuType string) string {
	if now, renamed := s.Formerly[gpuType]; renamed {
		return now
	}
	return gpuType
}

// Job is what is asked about.
type Job struct {
	Tag        jobtag.Tag
	User, Name string
	GPUs       int // of the whole job
}

// Program is what the job's runs are remembered by.
func (j *Job) Program(table *workload.Table) Program {
	name := j.Tag.Workload
	switch id, known := table.Lookup(name); {
	case known:
		name = table.Get(id).Name // one workload under all of its aliases
	case name == "":
		return Program{User: j.User, Name: j.Name, GPUs: j.GPUs}
	}
	return Program{Workload: name, GPUs: j.GPUs}
}

// Answer is the speed on one type.
type Answer struct {
	GPUType string  `json:"gpu_type"`
	Speed   float64 `json:"speed"` // relative: the fastest of the answers is 1; 0: it does not run there
	Source  Source  `json:"source"`
	// Factor is how sure that is: in two cases of three the truth is not farther
	// off than this factor. 1: declared.
	Factor float64 `json:"within_factor"`
	Runs   int     `json:"runs"` // of this program on this type that history has
}

// Answers are the speeds on all types that were asked for, in their order.
type Answers struct {
	Speeds []Answer `json:"speeds"`
	Notes  []string `json:"notes,omitempty"` // what was passed over, and which contradict each other
}

// answers are those of one source, by type; a speed is NaN where it has none.
type answers struct {
	source  Source
	speeds  []float64
	factors []float64 // see Answer.Factor
}

func noAnswers(source Source, n int) answers {
	a := answers{source, make([]float64, n), make([]float64, n)}
	for i := range n {
		a.speeds[i], a.factors[i] = math.NaN(), 1
	}
	return a
}

// For answers for one job on the types of the cluster. table and k may be nil.
func (s *Settings) For(j *Job, types []string, table *workload.Table, k *Knowledge) Answers {
	var result Answers
	program := j.Program(table)
	operator, none := noAnswers(Default, len(types)), noAnswers(None, len(types))
	for i, t := range types {
		if v, ok := s.Types[t]; ok {
			operator.speeds[i], operator.factors[i] = v, math.Exp(spreadDefault)
		}
		none.speeds[i], none.factors[i] = 1, math.Exp(spreadNone)
	}
	most := s.doubts(types)
	all := []answers{s.fromTag(j, types, &result), s.fromTable(j, types, table, &result), k.program(program, types, most), k.program(program.Pooled(), types, most), operator, k.site(types, most), none}
	result.Speeds = merge(all, types)
	if !k.Knows(program) {
		program = program.Pooled()
	}
	for i, runs := range k.runs(program, types) {
		result.Speeds[i].Runs = runs
	}
	result.noteContradictions(all[:3], types)
	return result
}

// fromTag are the answers of the job's tag.
func (s *Settings) fromTag(j *Job, types []string, result *Answers) answers {
	a := noAnswers(Tag, len(types))
	for _, name := range slices.Sorted(maps.Keys(j.Tag.Speed)) {
		now := s.Today(name)
		i := slices.Index(types, now)
		switch _, twice := j.Tag.Speed[now]; {
		case i < 0:
			result.note("the tag's speed on %s is of no use: no node has GPUs of that type alone", name)
		case now != name && twice:
			result.note("the tag's speed on %s is passed over: the type is called %s now, and the tag has that one too", name, now)
		default:
			a.speeds[i] = j.Tag.Speed[name]
		}
	}
	return a
}

// fromTable are those of the job's workload in workloads.toml.
func (s *Settings) fromTable(j *Job, types []string, table *workload.Table, result *Answers) answers {
	a := noAnswers(Workload, len(types))
	if j.Tag.Workload == "" || table == nil {
		return a
	}
	id, known := table.Lookup(j.Tag.Workload)
	if !known {
		result.note("unknown workload %q: priod workloads list shows the known ones; history may know its name", j.Tag.Workload)
		return a
	}
	w := table.Get(id)
	names := slices.AppendSeq(slices.Collect(maps.Keys(w.Speeds)), maps.Keys(w.Curves))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		i := slices.Index(types, s.Today(name))
		if i < 0 || s.Today(name) != name && (w.Speeds[types[i]] != nil) {
			continue
		}
		if v, ok := table.Speed(id, j.GPUs, name); ok {
			a.speeds[i] = v
		} else if slices.Contains(w.Speeds[name], workload.Speed{GPUs: j.GPUs}) {
			a.speeds[i] = 0
		}
	}
	if empty(a.speeds) {
		result.note("workloads.toml has %s on none of this cluster's GPU types with %d GPUs", w.Name, j.GPUs)
	}
	return a
}

// merge takes for each type the first source that has it, in the units of the first
// source that has anything.
func merge(sources []answers, types []string) []Answer {
	merged := make([]Answer, len(types))
	speeds := noAnswers(None, len(types)).speeds
	for n, a := range sources {
		if complete(speeds) {
			break
		}
		if empty(a.speeds) {
			continue
		}
		scale := align(speeds, a.speeds)
		for _, bridge := range sources[n+1:] { // without a type in common: by way of a later source that has one with both
			if !math.IsNaN(scale) {
				break
			}
			scale = align(speeds, bridge.speeds) / align(a.speeds, bridge.speeds)
		}
		if math.IsNaN(scale) {
			scale = 1 // all that they have in common is zero
		}
		for i := range types {
			if math.IsNaN(speeds[i]) && !math.IsNaN(a.speeds[i]) {
				speeds[i] = scale * a.speeds[i]
				merged[i] = Answer{GPUType: types[i], Source: a.source, Factor: a.factors[i]}
			}
		}
	}
	fastest := 0.0
	for _, v := range speeds {
		fastest = max(fastest, v)
	}
	for i := range merged {
		if fastest > 0 {
			merged[i].Speed = speeds[i] / fastest
		}
	}
	return merged
}

// align is what to multiply b by so that it agrees with a, NaN when they share
// no type on which both run; 1 when a is empty.
func align(a, b []float64) float64 {
	if empty(a) {
		return 1
	}
	sum, n := 0.0, 0.0
	for i := range a {
		if a[i] > 0 && b[i] > 0 {
			sum += math.Log(a[i] / b[i])
			n++
		}
	}
	return math.Exp(sum / n)
}

// noteContradictions says where a source that counts does not fit a later one.
func (a *Answers) noteContradictions(sources []answers, types []string) {
	for i, first := range sources {
		for _, later := range sources[i+1:] {
			scale := align(first.speeds, later.speeds) // NaN when they share no type: then only "never" contradicts
			for t := range types {
				x, y := first.speeds[t], later.speeds[t]
				never := (x == 0) != (y == 0) && !math.IsNaN(x+y)
				if y != 0 {
					y *= scale
				}
				off := math.Exp(math.Abs(math.Log(x / y)))
				sure := max(contradiction, later.factors[t]*later.factors[t])
				if a.Speeds[t].Source == first.source && (never || off > sure) {
					a.note("%s is believed on %s, and %s contradicts: %s against %s",
						first.source.Words(), types[t], later.source.Words(), inWords(x), inWords(y))
				}
			}
		}
	}
}

func inWords(speed float64) string {
	switch {
	case math.IsNaN(speed):
		return "it runs"
	case speed == 0:
		return "it does not run"
	}
	return fmt.Sprintf("%.3g", speed)
}

func (a *Answers) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

func empty(speeds []float64) bool {
	return !slices.ContainsFunc(speeds, func(v float64) bool { return !math.IsNaN(v) })
}

func complete(speeds []float64) bool { return !slices.ContainsFunc(speeds, math.IsNaN) }
