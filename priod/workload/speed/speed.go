// Package speed says how fast a job would run on each GPU type: for each type
// the first that answers of
//
//   - the job's tag (speed=a100:1,v100:0.45)
//   - its workload in workloads.toml
//   - this site's history of the same program, see Knowledge
//   - the type's speed in priod.toml
//   - this site's history of all programs
//   - 1
//
// Sources have units of their own. The types that a later source shares with
// the earlier ones say how to put it into theirs.
package speed

import (
	"fmt"
	"math"
	"slices"

	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
)

// Source is who answered.
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

// Words says who answered, for people.
func (s Source) Words() string {
	return map[Source]string{
		Tag: "the job's tag", Workload: "workloads.toml", Past: "this site's history", Default: "the type's speed in priod.toml",
		Site: "how other programs ran here", None: "nobody: it is taken to be as fast as the others",
	}[s]
}

// How far off the sources that do not know are: standard deviations of the log
// speeds of Gavel's 26 workloads (OSDI'20, one GPU) around the types' means,
// and around all types being equal.
const (
	spreadDefault = 0.35
	spreadNone    = 0.66
)

// contradiction is from which factor on two sources are said to contradict
// each other, if the second one is that sure.
const contradiction = 1.5

// Settings are the operator's.
type Settings struct {
	Types    map[string]float64 // relative speed of each GPU type
	Formerly map[string]string  // GPU types that have got another name: old, new
	Within   float64            // history answers for what it knows to within this factor, above 1
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
	switch id, known := lookup(table, name); {
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
	// off than this factor. 1: somebody said so, and is believed.
	Factor float64 `json:"within_factor"`
	Runs   int     `json:"runs"` // of this program on this type that history has
}

// Answers are the speeds on all types that were asked for, in their order.
type Answers struct {
	Speeds []Answer `json:"speeds"`
	Notes  []string `json:"notes,omitempty"` // what was passed over, and who contradicts whom
}

// claim is what one source says: speeds by place of the type, NaN where it says
// nothing.
type claim struct {
	source  Source
	speeds  []float64
	factors []float64
}

func newClaim(source Source, n int) claim {
	c := claim{source, make([]float64, n), make([]float64, n)}
	for i := range n {
		c.speeds[i], c.factors[i] = math.NaN(), 1
	}
	return c
}

// For answers for one job on the types of the cluster. table and k may be nil.
func (s *Settings) For(j *Job, types []string, table *workload.Table, k *Knowledge) Answers {
	var a Answers
	program := j.Program(table)
	claims := []claim{s.tag(j, types, &a), s.table(j, types, table, &a), k.program(program, types, s.Within)}
	said := newClaim(Default, len(types))
	for i, t := range types {
		if v, ok := s.Types[t]; ok {
			said.speeds[i], said.factors[i] = v, math.Exp(spreadDefault)
		}
	}
	none := newClaim(None, len(types))
	for i := range types {
		none.speeds[i], none.factors[i] = 1, math.Exp(spreadNone)
	}
	claims = append(claims, said, k.site(types, s.Within), none)
	a.Speeds = merge(claims, types)
	for i, runs := range k.runs(program, types) {
		a.Speeds[i].Runs = runs
	}
	a.contradictions(claims[:3], types)
	return a
}

func (s *Settings) tag(j *Job, types []string, a *Answers) claim {
	c := newClaim(Tag, len(types))
	for _, name := range sorted(j.Tag.Speed) {
		now := s.Today(name)
		i := slices.Index(types, now)
		switch _, twice := j.Tag.Speed[now]; {
		case i < 0:
			a.note("the tag's speed on %s is of no use: no node has GPUs of that type alone", name)
		case now != name && twice:
			a.note("the tag's speed on %s is passed over: the type is called %s now, and the tag has that one too", name, now)
		default:
			c.speeds[i] = j.Tag.Speed[name]
		}
	}
	return c
}

func (s *Settings) table(j *Job, types []string, table *workload.Table, a *Answers) claim {
	c := newClaim(Workload, len(types))
	if j.Tag.Workload == "" || table == nil {
		return c
	}
	id, known := lookup(table, j.Tag.Workload)
	if !known {
		a.note("nobody knows a workload %q: priod workloads list shows those that are known; only history may know its name", j.Tag.Workload)
		return c
	}
	w := table.Get(id)
	for _, name := range union(w.Speeds, w.Curves) {
		i := slices.Index(types, s.Today(name))
		if i < 0 || s.Today(name) != name && (w.Speeds[types[i]] != nil) {
			continue
		}
		if v, ok := table.Speed(id, j.GPUs, name); ok {
			c.speeds[i] = v
		} else if slices.Contains(w.Speeds[name], workload.Speed{GPUs: j.GPUs}) {
			c.speeds[i] = 0
		}
	}
	if empty(c.speeds) {
		a.note("workloads.toml has %s on none of this cluster's GPU types with %d GPUs", w.Name, j.GPUs)
	}
	return c
}

func lookup(table *workload.Table, name string) (workload.ID, bool) {
	if table == nil {
		return 0, false
	}
	return table.Lookup(name)
}

// merge takes for each type the first claim that has it, in the units of the
// first claim that has anything.
func merge(claims []claim, types []string) []Answer {
	answers := make([]Answer, len(types))
	have := newClaim(None, len(types)).speeds
	for n, c := range claims {
		if complete(have) {
			break
		}
		if empty(c.speeds) {
			continue
		}
		scale := align(have, c.speeds)
		for _, bridge := range claims[n+1:] { // a claim about other types than all before: by way of a later one that has both
			if !math.IsNaN(scale) {
				break
			}
			scale = align(have, bridge.speeds) / align(c.speeds, bridge.speeds)
		}
		if math.IsNaN(scale) {
			scale = 1 // nothing but zeros to go by
		}
		for i := range types {
			if math.IsNaN(have[i]) && !math.IsNaN(c.speeds[i]) {
				have[i] = scale * c.speeds[i]
				answers[i] = Answer{GPUType: types[i], Source: c.source, Factor: c.factors[i]}
			}
		}
	}
	fastest := 0.0
	for _, v := range have {
		fastest = max(fastest, v)
	}
	for i := range answers {
		if fastest > 0 {
			answers[i].Speed = have[i] / fastest
		}
	}
	return answers
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

// contradictions says where a claim that is believed does not fit a later one.
func (a *Answers) contradictions(claims []claim, types []string) {
	for i, first := range claims {
		for _, later := range claims[i+1:] {
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
