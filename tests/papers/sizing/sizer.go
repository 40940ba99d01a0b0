// Package sizing lets Synergy's mechanisms, priod's own, and Synergy's OPT, decide in rounds,
// in which every running job may be resized at no cost.
package sizing

import (
	"errors"
	"fmt"

	site "slurmprio/priod/simulate"
	"slurmprio/priod/size"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
	"slurmprio/tests/papers/bounds"
	"slurmprio/tests/papers/mechanisms"
	"slurmprio/tests/papers/rounds"
)

// sizer lets a mechanism decide in rounds.
type sizer struct {
	pack    mechanisms.Pack // nil: Synergy's OPT
	curve   func(*trace.Job, string) *workload.Curve
	types   []string
	largest []size.Amount        // node, by type
	on      [][]size.Sensitivity // by type, by Active.Index; made when the job is first seen
	jobs    []size.Job
	nodes   []size.Node
	parts   []rounds.Part
	demand  bool // speeds are counted on in full: Best is that of the demand

	// The published simulator counts on the speed that a job was cut to for as
	// long as it runs.
	published bool
	last      map[int]float64 // speed in the last round, by Active.Index
}

// NewSizer returns the sizer of round model synergy, nil for the
// proportional share of nodes whose CPUs and memory nobody knows.
func NewSizer(name string, cluster trace.Cluster, curve func(job *trace.Job, gpuType string) *workload.Curve) (rounds.Sizer, error) {
	s := &sizer{curve: curve, types: cluster.Types(), last: map[int]float64{}}
	known := curve != nil
	s.largest = make([]size.Amount, len(s.types))
	for t, gpuType := range s.types {
		for _, g := range cluster.Nodes {
			if g.GPUType == gpuType && g.GPUs > 0 {
				known = known && g.CPUs > 0 && g.MemMB > 0
				l := &s.largest[t]
				l.GPUs, l.CPUs, l.MemMB = max(l.GPUs, g.GPUs), max(l.CPUs, float64(g.CPUs)), max(l.MemMB, float64(g.MemMB))
			}
		}
	}
	if name == "request" {
		name = "proportional"
	}
	optimum := name == "opt"
	if !optimum {
		var err error
		if s.pack, err = mechanisms.ByName(name); err != nil {
			return nil, err
		}
	}
	switch {
	case !known && name == "proportional":
		return nil, nil
	case !known:
		return nil, errors.New("--sizing " + name + site.NeedsNodes)
	}
	s.demand = name != "proportional"
	s.published = name == "tune"
	return s, nil
}

func (s *sizer) Best(a *rounds.Active) float64 {
	if !s.demand {
		return 1
	}
	if speed, ran := s.last[a.Index]; ran && s.published {
		return speed
	}
	best := 1.0
	for t, on := range s.sensitivity(a) {
		if on.Speed > 0 && on.Curve != nil {
			best = max(best, mechanisms.Best(on.Curve, a.Job.GPUs, s.largest[t]))
		}
	}
	return best
}

func (s *sizer) sensitivity(a *rounds.Active) []size.Sensitivity {
	for len(s.on) <= a.Index {
		s.on = append(s.on, nil)
	}
	if s.on[a.Index] == nil {
		on := make([]size.Sensitivity, len(s.types))
		for t, name := range s.types {
			on[t] = size.Sensitivity{Speed: a.Speed[t], Curve: s.curve(&a.Job, name)}
		}
		s.on[a.Index] = on
	}
	return s.on[a.Index]
}

func (s *sizer) Size(jobs []*rounds.Active, servers []rounds.Server, grants []rounds.Grant) ([]rounds.Grant, error) {
	if s.nodes == nil {
		for _, v := range servers {
			all := size.Amount{GPUs: v.GPUs, CPUs: float64(v.CPUs), MemMB: float64(v.MemMB)}
			s.nodes = append(s.nodes, size.Node{Type: v.Type, Total: all, Free: all})
		}
	}
	s.jobs, s.parts = s.jobs[:0], s.parts[:0]
	for _, a := range jobs {
		s.jobs = append(s.jobs, size.Job{GPUs: a.Job.GPUs, On: s.sensitivity(a)})
	}
	clear(s.last)
	if s.pack == nil {
		return s.optimum(jobs, grants)
	}
	for _, g := range s.pack(s.jobs, s.nodes) {
		a, from := jobs[g.Job], len(s.parts)
		for _, p := range g.Parts {
			s.parts = append(s.parts, rounds.Part{Server: p.Node, GPUs: float64(p.GPUs), CPUs: p.CPUs, MemMB: p.MemMB})
		}
		s.last[a.Index] = g.Speed
		grants = append(grants, rounds.Grant{Job: a, Type: g.Type, Speedup: g.Speed, Parts: s.parts[from:len(s.parts):len(s.parts)]})
	}
	return grants, nil
}

// optimum grants what nothing can run: parts of GPUs.
func (s *sizer) optimum(jobs []*rounds.Active, grants []rounds.Grant) ([]rounds.Grant, error) {
	all, err := bounds.Optimum(s.jobs, s.nodes)
	if err != nil {
		return nil, fmt.Errorf("--sizing opt: %w", err)
	}
	for _, g := range all {
		a, from := jobs[g.Job], len(s.parts)
		for _, on := range g.On {
			gpus := on.Part * float64(a.Job.GPUs)
			s.parts = append(s.parts, rounds.Part{Server: on.Node, GPUs: gpus, CPUs: gpus * g.CPUs, MemMB: gpus * g.MemMB})
		}
		grants = append(grants, rounds.Grant{Job: a, Type: g.Type, Speedup: g.Speed, Parts: s.parts[from:len(s.parts):len(s.parts)]})
	}
	return grants, nil
}
