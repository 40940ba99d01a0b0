package rounds

import (
	"fmt"
	"math"
)

// Server is one node, as a Sizer may fill it.
type Server struct {
	Type       int // index of its GPU type
	GPUs, CPUs int
	MemMB      int64
}

// Grant is what a job gets for one round.
type Grant struct {
	Job     *Active
	Type    int
	Speedup float64 // over the job's Speed, which is that of the proportional share
	Parts   []Part
}

// Part is a job's share of one server.
type Part struct {
	Server int
	GPUs   float64 // whole, but where a bound is computed that nothing can run
	CPUs   float64
	MemMB  float64
}

// Sizer says which jobs run in a round, where, and with how many CPUs and how
// much memory: Synergy's mechanism. The policy above it orders the jobs.
type Sizer interface {
	// Best is the largest speed-up that a job could be granted, at least 1.
	Best(*Active) float64
	// Size appends to grants. jobs stand in the policy's order; the servers are
	// empty and must be left as they are.
	Size(jobs []*Active, servers []Server, grants []Grant) ([]Grant, error)
}

// ProportionalSizer grants each job, in turn, CPUs and memory in the
// proportion of its GPUs to its servers', on the first GPUs that are free: the
// baseline of Synergy. A job that does not fit is passed over.
type ProportionalSizer struct {
	servers [][]int // by type
	left    []int   // free GPUs of each server
	free    []int   // and of each type
	first   []int   // of servers, by type: those before it are full
	parts   []Part
}

// Best is 1: the proportional share is what Speed means.
func (*ProportionalSizer) Best(*Active) float64 { return 1 }

func (p *ProportionalSizer) Size(jobs []*Active, servers []Server, grants []Grant) ([]Grant, error) {
	p.reset(servers)
	left := 0
	for _, n := range p.free {
		left += n
	}
	for _, a := range jobs {
		if left == 0 {
			break
		}
		t := fastestFree(a, p.free)
		if t < 0 {
			continue
		}
		p.free[t] -= a.Job.GPUs
		left -= a.Job.GPUs
		from := len(p.parts)
		for need := a.Job.GPUs; need > 0; {
			i := p.servers[t][p.first[t]]
			n := min(need, p.left[i])
			if n == 0 {
				p.first[t]++
				continue
			}
			need -= n
			p.left[i] -= n
			s := &servers[i]
			share := float64(n) / float64(s.GPUs)
			p.parts = append(p.parts, Part{i, float64(n), share * float64(s.CPUs), share * float64(s.MemMB)})
		}
		grants = append(grants, Grant{Job: a, Type: t, Speedup: 1, Parts: p.parts[from:len(p.parts):len(p.parts)]})
	}
	return grants, nil
}

func (p *ProportionalSizer) reset(servers []Server) {
	if p.left == nil {
		p.left = make([]int, len(servers))
		for i, s := range servers {
			for len(p.servers) <= s.Type {
				p.servers = append(p.servers, nil)
			}
			p.servers[s.Type] = append(p.servers[s.Type], i)
		}
		p.free = make([]int, len(p.servers))
		p.first = make([]int, len(p.servers))
	}
	clear(p.free)
	clear(p.first)
	p.parts = p.parts[:0]
	for i, s := range servers {
		p.left[i] = s.GPUs
		p.free[s.Type] += s.GPUs
	}
}

// check finds what a Sizer must not do: more than a server has, a gang cut
// short or over two types, a job twice.
func check(grants []Grant, servers []Server, round int, used []Part) error {
	clear(used)
	for _, g := range grants {
		if g.Job.run == round {
			return fmt.Errorf("job %s: granted twice in a round", g.Job.Job.ID)
		}
		g.Job.run = round
		gpus := 0.0
		for _, p := range g.Parts {
			s, u := &servers[p.Server], &used[p.Server]
			gpus += p.GPUs
			u.GPUs += p.GPUs
			u.CPUs += p.CPUs
			u.MemMB += p.MemMB
			const rounding = 1 + 1e-6
			if s.Type != g.Type || u.GPUs > float64(s.GPUs)*rounding || u.CPUs > float64(s.CPUs)*rounding || u.MemMB > float64(s.MemMB)*rounding {
				return fmt.Errorf("job %s: granted more than server %d has, or another type", g.Job.Job.ID, p.Server)
			}
		}
		if math.Abs(gpus-float64(g.Job.Job.GPUs)) > 1e-6 {
			return fmt.Errorf("job %s: granted %v of its %d GPUs", g.Job.Job.ID, gpus, g.Job.Job.GPUs)
		}
	}
	return nil
}
