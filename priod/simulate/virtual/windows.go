package virtual

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// maintenance is the name of the reservations of Options.NodeEvents.
const maintenance = "maintenance"

// window is a time in which nodes are reserved.
type window struct {
	start, end float64
	nodes      []int32
	names      []string        // of the nodes, made when first asked for
	off        map[int32]int32 // by the Off of a request, that without these nodes
}

// announce takes in that nodes will be reserved.
func (e *engine) announce(v *trace.NodeEvent) {
	e.windows = append(e.windows, window{v.At, v.At + v.For, v.Nodes, nil, map[int32]int32{}})
	e.slurm.change()
	slices.SortStableFunc(e.windows, func(a, b window) int { return cmp.Compare(a.start, b.start) })
	e.moved = true
}

// windows are those that are announced, as Slurm shows them.
func (s *slurm) windows() (all []cluster.Window) {
	for i := range s.e.windows {
		w := &s.e.windows[i]
		if w.names == nil {
			for _, n := range w.nodes {
				w.names = append(w.names, s.nodes[n].Name)
			}
		}
		all = append(all, cluster.Window{Name: maintenance, Start: s.e.instant(w.start), End: s.e.instant(w.end), Nodes: w.names})
	}
	return all
}

// pastWindows forgets maintenance that is over.
func (e *engine) pastWindows() {
	e.windows = slices.DeleteFunc(e.windows, func(w window) bool { return w.end <= e.now })
}

// reached counts the windows that have begun before a time.
func (e *engine) reached(at float64) int {
	n := 0
	for n < len(e.windows) && e.windows[n].start < at {
		n++
	}
	return n
}

// beside is a request on none of the nodes of the first windows.
func (e *engine) beside(r placement.Request, windows int) placement.Request {
	for i := range e.windows[:windows] {
		w := &e.windows[i]
		off, known := w.off[r.Off]
		if !known {
			all := slices.Concat(e.nodes.Off(r), w.nodes)
			slices.Sort(all)
			off = e.nodes.Refused(slices.Compact(all))
			w.off[r.Off] = off
		}
		r.Off = off
	}
	return r
}

// asks is what a waiting job asks for in a partition if it starts now: no nodes on which it might run into maintenance.
func (e *engine) asks(j *job, s *slot) placement.Request {
	return e.beside(s.with(j.request.MemMB), e.reached(e.now+j.occupancy))
}

// longest is how long a job of a class may take that can start before maintenance, on whatever nodes; infinite: for any
// time. Longer ones block no job, as in Slurm (ESLURM_RESERVATION_BUSY).
func (e *engine) longest(s *slot) float64 {
	if s.limited == e.queue.pass {
		return s.longest
	}
	r, seconds := s.with(s.waiting.root.least), math.Inf(1)
	for n := len(e.windows); n >= 0; n-- {
		if _, fits := e.empty.Fit(e.beside(r, n), nil); fits {
			break
		}
		if seconds = math.Inf(-1); n > 0 {
			seconds = e.windows[n-1].start - e.now
		}
	}
	s.longest, s.limited = seconds, e.queue.pass
	return seconds
}
