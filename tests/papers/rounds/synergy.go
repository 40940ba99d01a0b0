package rounds

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Synergy is the round model of Synergy (OSDI 2022, section 4; arithmetic of
// msr-fiddle/synergy, simulator): rounds stand on a fixed grid, a round does
// whole units of work, jobs end and are credited only at its end, and whatever
// was submitted by the start of a round takes part in it.
type Synergy struct {
	Sizer      Sizer   // nil: proportional
	FirstRound float64 // s; the published simulator says 1 for static traces
	Published  bool    // FTF as published: the best-off job first
}

func (Synergy) round() float64 { return 300 }

// starvation is how long a job may go without running before it comes first,
// in s; FIFO does without.
const starvation = 1000 * 3600

func (m Synergy) run(ctx context.Context, e *engine) error {
	if m.Sizer == nil {
		m.Sizer = &ProportionalSizer{}
	}
	e.whole = true
	e.order.smallest, e.order.speedup = m.Published, m.Sizer.Best
	r := &grid{engine: e, servers: servers(e)}
	r.used = make([]Part, len(r.servers))
	boundary := func(from float64) float64 {
		return m.FirstRound + math.Ceil(max(from-m.FirstRound, 0)/e.length)*e.length
	}
	for e.now = boundary(e.now); !e.done(); e.now += e.length {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(e.active) == 0 {
			e.now = boundary(e.ahead.Submit)
		}
		if err := e.admit(); err != nil {
			return err
		}
		e.active = e.order.sort(e.active, e.now)
		r.previous = r.running()
		var err error
		if r.grants, err = m.Sizer.Size(e.active, r.servers, r.grants[:0]); err != nil {
			return err
		}
		if err := r.runRound(); err != nil {
			return err
		}
	}
	return nil
}

// grid is a run of the Synergy model.
type grid struct {
	*engine
	servers  []Server
	used     []Part // by server, to check what the Sizer grants
	grants   []Grant
	previous []*Active // unfinished jobs of the round before
	runs     []Assignment
}

func servers(e *engine) []Server {
	var all []Server
	for _, g := range e.cluster.Nodes {
		t := slices.IndexFunc(e.types, func(t Type) bool { return t.Name == g.GPUType })
		if g.GPUs == 0 {
			continue
		}
		for range g.Count {
			all = append(all, Server{t, g.GPUs, g.CPUs, g.MemMB})
		}
	}
	return all
}

// running lists the jobs of the last round that have not ended.
func (r *grid) running() []*Active {
	list := r.previous[:0]
	for _, g := range r.grants {
		if g.Job.Left() > 0 {
			list = append(list, g.Job)
		}
	}
	return list
}

// runRound credits each grant with what it does in a whole round.
func (r *grid) runRound() error {
	if err := check(r.grants, r.servers, r.rounds, r.used); err != nil {
		return err
	}
	if len(r.grants) == 0 {
		return stuckError(r.active, "an empty cluster is not enough for them")
	}
	for _, a := range r.previous {
		if a.run != r.rounds {
			r.outcomes[a.Index].Preemptions++
			a.moved = true // a Sizer may count on another speed now
		}
	}
	for _, a := range r.active {
		if !a.starving && r.now-a.last > starvation {
			a.starving, a.moved = true, true
		}
	}
	end, ended := r.now+r.length, false
	for i := range r.grants {
		g := &r.grants[i]
		a := g.Job
		units := math.Floor(r.length / (1 / a.Speed[g.Type] / g.Speedup))
		if units <= 0 {
			return stuckError([]*Active{a}, fmt.Sprintf("a round of %v s is too short for a unit of their work", r.length))
		}
		r.ran(a, g.Type, r.now, r.length)
		a.Done, a.last = a.Done+units, end
		if a.Done >= a.work {
			r.finish(a, end)
			ended = true
		}
	}
	r.rounds++
	if r.opt.Watch != nil {
		r.watch(end)
	}
	if ended {
		r.drop()
	}
	return nil
}

func (r *grid) watch(end float64) {
	r.runs = r.runs[:0]
	for _, g := range r.grants {
		r.runs = append(r.runs, Assignment{Job: g.Job, Type: g.Type, Parts: g.Parts})
	}
	r.opt.Watch(Round{Start: r.now, End: end, Jobs: len(r.active), Runs: r.runs})
}
