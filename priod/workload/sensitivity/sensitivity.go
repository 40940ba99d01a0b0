// Package sensitivity says how the speed of a job depends on CPUs and memory, which
// Synergy (OSDI 2022) calls its sensitivity, and how that is known: by the curves of its
// tag, else by those of its workload, else by what accounting shows of its earlier runs.
// A job of which nothing is known gets its proportional share. The answer depends on the
// GPU type: a faster GPU needs more cores for the same program. The package is pure.
package sensitivity

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/workload"
	"slurmprio/slurmplug/jobtag"
)

// Job is what a sensitivity depends on.
type Job struct {
	User, Name string // the job's name, as the user chose it
	Tag        *jobtag.Tag
}

// Share is the proportional share of one GPU of a node.
type Share struct{ CPUs, MemMB float64 }

// Sensitivity of a job on one GPU type.
type Sensitivity struct {
	Curve *workload.Curve // speed 1 is that of the proportional share; nil: nothing is known
	CPU   bool            // the curve depends on CPUs; else it is flat
	Mem   bool            // likewise on memory
	Why   string          // for people: the source
	Notes []string        // for people: what was passed over, and why
}

// Of finds the sensitivity of a job on nodes of one GPU type whose GPUs have
// this share. It returns a new curve each time. Callers keep it for as long as the job
// stays the same, because sizing remembers its results by curve.
func Of(j Job, gpuType string, share Share, table *workload.Table, past Past) Sensitivity {
	var s Sensitivity
	if c, why := fromTag(j.Tag, gpuType, share, &s); c != nil {
		s.Curve, s.Why = c, why
		return s
	}
	name := j.Tag.Workload
	if name != "" {
		if id, known := table.Lookup(name); !known {
			s.note("workload %.64q is not in workloads.toml", name)
		} else if c, known := table.Get(id).Curves[gpuType]; !known {
			s.note("workloads.toml has no curve of workload %s on %s", table.Get(id).Name, gpuType)
		} else {
			s.CPU, s.Mem = true, true
			s.Curve, s.Why = &c, fmt.Sprintf("workload %s of workloads.toml", table.Get(id).Name)
			return s
		}
	}
	for _, key := range []Key{{Workload: name, GPUType: gpuType}, {User: j.User, Name: j.Name, GPUType: gpuType}} {
		if use, known := past[key]; known && key != (Key{GPUType: gpuType}) {
			s.Curve, s.Why = use.Curve(share), use.why(key)
			s.CPU, s.Mem = true, use.RSSMB > 0
			return s
		}
	}
	s.Why = fmt.Sprintf("unknown on %s: it gets its share", gpuType)
	return s
}

func (s *Sensitivity) note(format string, a ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, a...))
}

// fromTag makes one curve of a tag's cpu and mem. Each gives the speed that the one
// resource allows, so with both the lower one counts, as in Synergy's model of the data
// cache. A curve that falls cannot have been measured, and is ignored.
func fromTag(tag *jobtag.Tag, gpuType string, share Share, s *Sensitivity) (*workload.Curve, string) {
	cpu := usable(tag.CPU, "cpu", gpuType, s)
	mem := usable(tag.Mem, "mem", gpuType, s)
	if cpu == nil && mem == nil {
		return nil, ""
	}
	s.CPU, s.Mem = cpu != nil, mem != nil
	var said []string
	c := workload.Curve{IterationS: 1, CPUs: []float64{share.CPUs}, MemMB: []int64{max(1, int64(share.MemMB))}}
	unlimited := jobtag.Curve{{Speed: math.Inf(1)}} // a resource that the tag does not name
	if cpu == nil {
		cpu = unlimited
	} else {
		said, c.CPUs = append(said, "cpu"), amounts(cpu, func(x float64) float64 { return x })
	}
	if mem == nil {
		mem = unlimited
	} else {
		said = append(said, "mem")
		mem = wholeMB(mem)
		c.MemMB = amounts(mem, func(x float64) int64 { return int64(x) })
	}
	for _, p := range cpu {
		row := make([]float64, len(mem))
		for j, q := range mem {
			row[j] = min(p.Speed, q.Speed)
		}
		c.Speed = append(c.Speed, row)
	}
	best := c.Speed[len(cpu)-1][len(mem)-1]
	c.DemandCPUs = c.CPUs[slices.IndexFunc(c.Speed, func(row []float64) bool { return row[len(mem)-1] >= best })]
	c.DemandMemMB = c.MemMB[slices.IndexFunc(c.Speed[len(cpu)-1], func(s float64) bool { return s >= best })]
	relativeTo(&c, share)
	return &c, "its tag's " + strings.Join(said, " and ")
}

// relativeTo scales a curve so that the speed of the proportional share is 1.
func relativeTo(c *workload.Curve, share Share) {
	one := c.Relative(share.CPUs, share.MemMB)
	for _, row := range c.Speed {
		for j := range row {
			row[j] /= one
		}
	}
}

// usable is the tag's curve for the type, nil when there is none or it falls.
func usable(curves map[string]jobtag.Curve, key, gpuType string, s *Sensitivity) jobtag.Curve {
	if len(curves) == 0 {
		return nil
	}
	curve, has := curves[gpuType]
	if !has {
		s.note("its tag's %s says nothing about %s", key, gpuType)
		return nil
	}
	for i := 1; i < len(curve); i++ {
		if curve[i].Speed < curve[i-1].Speed {
			s.note("its tag's %s for %s falls from %v to %v at %v: not used", key, gpuType, curve[i-1].Speed, curve[i].Speed, curve[i].Amount)
			return nil
		}
	}
	return curve
}

func amounts[T any](c jobtag.Curve, as func(float64) T) []T {
	all := make([]T, len(c))
	for i, p := range c {
		all[i] = as(p.Amount)
	}
	return all
}

// wholeMB rounds amounts up to whole MB, at least 1; of those that fall together
// the fastest stays.
func wholeMB(c jobtag.Curve) jobtag.Curve {
	c = slices.Clone(c)
	for i := range c {
		c[i].Amount = max(1, math.Ceil(c[i].Amount))
	}
	slices.Reverse(c)
	c = slices.CompactFunc(c, func(a, b jobtag.Point) bool { return a.Amount == b.Amount })
	slices.Reverse(c)
	return c
}
