package virtual

import "slurmprio/priod/placement"

// Sized is how a job starts: with how much, where, and how many times as fast
// as with the share of its GPUs.
type Sized struct {
	Shares  []placement.Share // nil: as it would without
	Speedup float64
}

// launch starts the jobs that the pass has found room for. The options' Size may
// give them other CPUs and memory, and other nodes of the type; what it gives
// must be free. Nothing resizes them afterwards.
func (e *engine) launch() {
	if len(e.starting) == 0 {
		return
	}
	starting := make([]InSystem, len(e.starting))
	for i, j := range e.starting {
		starting[i] = j.waits()
		starting[i].Shares = j.shares
	}
	for _, j := range e.starting {
		e.nodes.Release(j.shares)
	}
	sized := e.opt.Size(&System{e}, starting)
	for i, j := range e.starting {
		speedup := 1.0
		if s := sized[i]; s.Shares != nil {
			j.shares, speedup = append(j.one[:0], s.Shares...), s.Speedup
		}
		e.nodes.Take(j.shares)
		j.speed *= speedup
		e.start(j)
	}
	e.starting = e.starting[:0]
}
