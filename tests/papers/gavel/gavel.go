// Package gavel answers the round engine as a scheduler of Gavel's does (OSDI 2020): it
// solves the policy whenever the engine asks, with speeds that it is told or learns, of
// jobs alone or in pairs on the same GPUs. No daemon can move all jobs in each round.
package gavel

import (
	"fmt"
	"strings"

	"slurmprio/priod/trace"
	"slurmprio/tests/papers/policies"
	"slurmprio/tests/papers/published"
	"slurmprio/tests/papers/rounds"
)

// Options say how Gavel's rounds allocate.
type Options struct {
	Policy    string // none, isolated, proportional, or what policies.ParsePolicy reads
	Published bool   // with the faults of the published scheduler
	Seed      uint64
	// Pairs are the speeds of pairs, of policies with space sharing.
	Pairs Pairs
	// Tried, if above 0, is the chance that a pair of a new job and a reference is tried,
	// which all other pairs are estimated from; 0: all pairs are known. So many References,
	// 0: all, are drawn from those Workloads that pairs are known of.
	Tried      float64
	References int
	Workloads  []string
	Types      []string // of the cluster
	// Speed is the work per second of a job alone.
	Speed   func(job *trace.Job, gpuType string) float64
	Trouble Trouble
}

// Trouble gets what a policy's optimiser failed on, at a time in s; the last allocation
// then stays. nil: the run ends with the error.
type Trouble func(now float64, err error, p *policies.Problem)

// Model is the round engine's, with what allocates for it.
func Model(opt Options) (rounds.Gavel, error) {
	agnostic := opt.Policy == "isolated" || opt.Policy == "proportional"
	g := rounds.Gavel{Agnostic: agnostic}
	switch opt.Policy {
	case "none":
	case "isolated":
		g.Allocator = rounds.Isolated()
	case "proportional":
		g.Allocator = rounds.Proportional()
	default:
		policy, err := policies.ParsePolicy(opt.Policy)
		if err != nil {
			return g, err
		}
		g.Agnostic, g.Makespan = policy.Agnostic, policy.Name == "makespan"
		switch {
		case !policy.Pairs():
			g.Allocator = allocator(policy, opt.Published, opt.Trouble)
		case opt.Pairs == nil:
			return g, fmt.Errorf("allocation %s: no speeds of pairs", opt.Policy)
		default:
			g.Sharer = sharer(policy, &opt)
		}
	}
	if opt.Published {
		g.Published = faults(&opt, g.Agnostic)
	}
	return g, nil
}

// faults are those of Gavel's published scheduler: the baseline. Agnostic policies serve
// the types in an order drawn for each round.
func faults(opt *Options, agnostic bool) *rounds.Published {
	p := &rounds.Published{Strict: strings.HasPrefix(opt.Policy, "fifo")}
	if agnostic {
		p.TypeOrder = published.Shuffle(opt.Seed)
	}
	return p
}
