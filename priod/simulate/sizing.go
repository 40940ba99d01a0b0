package simulate

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"slurmprio/priod/placement"
	"slurmprio/priod/simulate/ideal/bounds"
	"slurmprio/priod/simulate/ideal/rounds"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/size"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

// sizer lets a mechanism of priod/size decide in rounds.
type sizer struct {
	policy  *size.Packer // nil: Synergy's OPT
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

// newSizer returns the sizer of round model synergy, nil for the
// proportional share of nodes whose CPUs and memory nobody knows.
func newSizer(name string, in *Input) (rounds.Sizer, error) {
	s := &sizer{curve: in.Curve, types: in.Cluster.Types(), last: map[int]float64{}}
	known := in.Curve != nil
	s.largest = make([]size.Amount, len(s.types))
	for t, gpuType := range s.types {
		for _, g := range in.Cluster.Nodes {
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
	var mechanism size.Mechanism
	if !optimum {
		var err error
		if mechanism, err = size.Parse(name); err != nil {
			return nil, err
		}
	}
	switch {
	case !known && mechanism == size.Proportional:
		return nil, nil
	case !known:
		return nil, errors.New("--sizing " + name + needsNodes)
	}
	if !optimum {
		s.policy = size.NewPacker(size.Rule{Mechanism: mechanism})
	}
	s.demand = mechanism != size.Proportional
	s.published = mechanism == size.Tune
	return s, nil
}

const needsNodes = " needs the CPUs and memory of every GPU node, as in --nodes 16:v100:8:24:512000"

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
			best = max(best, size.Best(on.Curve, a.Job.GPUs, s.largest[t]))
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
	if s.policy == nil {
		return s.optimum(jobs, grants)
	}
	for _, g := range s.policy.Pack(s.jobs, s.nodes) {
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

// starts sizes the jobs that start in one pass of a virtual Slurm, beside those
// that run and stay as they are.
type starts struct {
	policy *size.Packer
	curve  func(*trace.Job, string) *workload.Curve
	shares map[string]size.Amount // the least of one GPU, by type
	jobs   []size.Job
	nodes  []size.Node
}

// newStarts refuses what has no meaning where nothing resizes a running job.
func newStarts(name string, in *Input) (*starts, error) {
	mechanism, err := size.Parse(name)
	if err != nil {
		return nil, err
	}
	s := &starts{policy: size.NewPacker(size.Rule{Mechanism: mechanism, Reserve: true}), curve: in.Curve, shares: map[string]size.Amount{}}
	if !in.sized() {
		return nil, errors.New("--sizing " + name + needsNodes)
	}
	for _, g := range in.Cluster.Nodes {
		if g.GPUs == 0 {
			continue
		}
		share := size.Amount{GPUs: 1, CPUs: float64(g.CPUs) / float64(g.GPUs), MemMB: float64(g.MemMB) / float64(g.GPUs)}
		if least, more := s.shares[g.GPUType]; more {
			share.CPUs, share.MemMB = min(share.CPUs, least.CPUs), min(share.MemMB, least.MemMB)
		}
		s.shares[g.GPUType] = share
	}
	return s, nil
}

// least has each job wait for the smaller of its share and what it can use: so
// it may start where others have taken of the share.
func (s *starts) least(jobs iter.Seq2[trace.Job, error]) iter.Seq2[trace.Job, error] {
	return func(yield func(trace.Job, error) bool) {
		for j, err := range jobs {
			cpus, mem, below, belowMem := 0.0, 0.0, true, true // on the type where it is most
			for t, share := range s.shares {
				if j.GPUType != "" && j.GPUType != t {
					continue
				}
				c := s.curve(&j, t)
				below = below && c != nil && c.DemandCPUs < share.CPUs
				belowMem = belowMem && c != nil && float64(c.DemandMemMB) < share.MemMB
				if c != nil {
					cpus, mem = max(cpus, c.DemandCPUs), max(mem, float64(c.DemandMemMB))
				}
			}
			if below {
				j.CPUs = int(math.Ceil(cpus * float64(j.GPUs)))
			}
			if belowMem {
				j.MemMB = int64(math.Ceil(mem * float64(j.GPUs)))
			}
			if !yield(j, err) {
				return
			}
		}
	}
}

func (s *starts) size(sys *virtual.System, starting []virtual.InSystem) [][]placement.Share {
	free, types := sys.Nodes(), sys.Types()
	s.jobs, s.nodes = s.jobs[:0], s.nodes[:0]
	for n := range int32(free.Len()) {
		total := free.Size(n)
		total.CPUs -= total.CPUs % total.GPUs // whole shares
		total.MemMB -= total.MemMB % int64(total.GPUs)
		node := size.Node{Type: int(free.Type(n)), Total: amount(total)}
		if !free.Down(n) {
			node.Free = amount(free.FreeOn(n))
		}
		s.nodes = append(s.nodes, node)
	}
	for i := range starting {
		w := &starting[i]
		on := make([]size.Sensitivity, len(types))
		t := free.Type(w.Shares[0].Node) // as Slurm chose
		on[t] = size.Sensitivity{Speed: 1, Curve: s.curve(w.Job, types[t])}
		s.jobs = append(s.jobs, size.Job{GPUs: w.Job.GPUs, On: on})
	}
	sized := make([][]placement.Share, len(starting))
	grants := s.policy.Pack(s.jobs, s.nodes)
	if len(grants) < len(starting) {
		return sized // what some have now may be what others would get
	}
	for _, g := range grants {
		for _, p := range g.Parts {
			// What Slurm hands out is whole.
			whole := placement.Amount{GPUs: int32(p.GPUs), CPUs: int32(p.CPUs + almost), MemMB: int64(p.MemMB + almost)}
			sized[g.Job] = append(sized[g.Job], placement.Share{Node: int32(p.Node), Amount: whole})
		}
	}
	return sized
}

// sized tells whether it is known how CPUs and memory make jobs faster, and how
// much of them nodes have.
func (in *Input) sized() bool {
	lacks := func(g trace.NodeGroup) bool { return g.GPUs > 0 && (g.CPUs <= 0 || g.MemMB <= 0) }
	return in.Curve != nil && !slices.ContainsFunc(in.Cluster.Nodes, lacks)
}

// speedup is how many times as fast a job is as with the share of its GPUs.
func (in *Input) speedup(job *trace.Job, gpuType string, cpus, memMB float64) float64 {
	if c := in.Curve(job, gpuType); c != nil {
		return c.Relative(cpus, memMB)
	}
	return 1
}

// almost forgives sums their rounding before they are cut to whole numbers.
const almost = 1e-6

func amount(a placement.Amount) size.Amount {
	return size.Amount{GPUs: int(a.GPUs), CPUs: float64(a.CPUs), MemMB: float64(a.MemMB)}
}
