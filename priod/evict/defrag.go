package evict

import (
	"math"

	"slurmprio/priod/cluster"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
)

// Fragmented is a waiting job for which enough GPUs are free, but not in the shape that it
// asks for, and who would have to leave for it.
type Fragmented struct {
	Job     cluster.JobID  `json:"job"`
	User    string         `json:"user"`
	GPUs    int            `json:"gpus"`
	Free    int            `json:"free_gpus"` // of one type, on nodes that it may have
	Why     preemption.Why `json:"why"`
	Nodes   []string       `json:"nodes"` // on which it would lie; none unless others leave
	Victims []Leaver       `json:"victims"`
	Cost    float64        `json:"cost_gpu_s"`
	WaitS   float64        `json:"wait_s"` // until the last one has left
}

// Leaver is a small job that would leave.
type Leaver struct {
	Job  cluster.JobID `json:"job"`
	User string        `json:"user"`
	GPUs int           `json:"gpus"`
	Node string        `json:"node"`
	Cost float64       `json:"cost_gpu_s"` // GPU-seconds of work lost
}

// Defragment says which small jobs would open nodes for jobs that wait though enough GPUs
// are free, with the least work lost: among jobs that agreed to evictions, within the
// limits of those. It is a dry run; nothing is begun.
func Defragment(s *cluster.Snapshot, p *plan.Plan, j *Journal, set *Settings) []Fragmented {
	m := nodemap.New(s)
	c := &Choice{set: set.Policy}
	c.set.Policy = preemption.LeastLoss
	c.snapshot.Nodes = m.Nodes
	c.addCandidates(s, j, set, m, nil)
	for i := range c.snapshot.Candidates {
		if x := &c.snapshot.Candidates[i]; len(x.Shares) > 1 || x.Shares[0].GPUs >= m.Nodes.Size(x.Shares[0].Node).GPUs {
			x.Consent = x.Leaving // to move it would open no node
		}
	}
	all := []Fragmented{}
	for _, q := range p.Queue {
		job := &s.Jobs[q.Job]
		types, understood := allowedTypes(m, job)
		if !p.Decisions[q.Decision].Ranked || job.GPUs == 0 || job.HetLeader != 0 || !job.WantsRoom() || !understood || len(all) >= maxTrials {
			continue
		}
		free := map[string]int{}
		most := 0
		for kind, n := range m.Kinds {
			if types.Has(int32(kind)) {
				free[n.GPUType] += m.Nodes.FreeGPUs(int32(kind))
				most = max(most, free[n.GPUType])
			}
		}
		r := m.Request(job, types)
		if _, fits := m.Nodes.Fit(r, nil); fits || most < job.GPUs {
			continue
		}
		all = append(all, Fragmented{Job: job.FirstTask(), User: job.User, GPUs: job.GPUs, Free: most, Nodes: []string{}, Victims: []Leaver{}})
		c.snapshot.Trials = append(c.snapshot.Trials, preemption.Trial{Request: r, Owner: preemption.Nobody, Start: math.Inf(1)})
	}
	for _, claim := range j.openClaims() {
		c.snapshot.Trials = append(c.snapshot.Trials, preemption.Trial{Start: math.Inf(1)})
		c.addClaim(len(c.snapshot.Trials)-1, claim, m)
	}
	c.countRecent(s, j)
	c.setShadowTimes(m, set)
	c.decision = preemption.Decide(&c.snapshot, c.set)
	for i := range all {
		f, v := &all[i], &c.decision.Verdicts[i]
		f.Why = v.Why
		if v.Why != preemption.Evicts {
			continue
		}
		f.Cost, f.WaitS = v.Cost, v.Grace
		for _, share := range v.Shares {
			f.Nodes = append(f.Nodes, m.Names[share.Node])
		}
		for _, x := range v.Victims {
			victim := c.running[x]
			f.Victims = append(f.Victims, Leaver{victim.ID, victim.User, victim.GPUs, victim.NodeList, c.snapshot.Candidates[x].Loss()})
		}
	}
	return all
}
