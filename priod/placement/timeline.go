package placement

import (
	"math"
	"slices"
	"sort"
)

// Timeline is what will be free on each node from now on, as far as time limits tell: what backfill with reservations works on.
type Timeline struct {
	nodes  *Nodes
	lines  [][]step
	window *Nodes
	times  []float64
	one    [1]Share
}

// step holds from its time until the next one's; the last one without end.
type step struct {
	at   float64
	free Amount
}

// NewTimeline begins with what is free now and stays so.
func NewTimeline(now float64, nodes *Nodes) *Timeline {
	t := &Timeline{nodes: nodes, lines: make([][]step, nodes.Len()), window: nodes.Clone()}
	t.Reset(now)
	return t
}

// Reset forgets everything but what is free now. A node that is down stays so.
func (t *Timeline) Reset(now float64) {
	for i := range t.lines {
		free := t.nodes.free[i]
		if t.nodes.down[i] {
			free = Amount{}
		}
		t.lines[i] = append(t.lines[i][:0], step{now, free})
	}
	copy(t.window.down, t.nodes.down)
}

// Advance forgets what lies before now.
func (t *Timeline) Advance(now float64) {
	for i, line := range t.lines {
		if k := at(line, now); k > 0 {
			t.lines[i] = slices.Delete(line, 0, k)
		}
	}
}

// at is the index of the step that holds at a time, 0 before the first.
func at(line []step, time float64) int {
	if len(line) == 1 || line[1].at > time { // most often
		return 0
	}
	return max(sort.Search(len(line), func(i int) bool { return line[i].at > time })-1, 0)
}

// Reserve takes the shares from one time until another, which may be infinite.
func (t *Timeline) Reserve(shares []Share, from, until float64) {
	t.change(shares, from, until, Amount.Minus)
}

// Free gives the shares back from one time until another, which may be infinite.
func (t *Timeline) Free(shares []Share, from, until float64) {
	t.change(shares, from, until, Amount.Plus)
}

func (t *Timeline) change(shares []Share, from, until float64, by func(a, b Amount) Amount) {
	if until <= from {
		return
	}
	for _, s := range shares {
		line := t.lines[s.Node]
		line, first := cut(line, from)
		last := len(line)
		if !math.IsInf(until, 1) {
			line, last = cut(line, until)
		}
		for i := first; i < last; i++ {
			line[i].free = by(line[i].free, s.Amount)
		}
		// Equal neighbours merge, so that a long run does not grow the line.
		for _, i := range []int{last, first} {
			if i > 0 && i < len(line) && line[i].free == line[i-1].free {
				line = slices.Delete(line, i, i+1)
			}
		}
		t.lines[s.Node] = line
	}
}

// cut makes a step begin at a time and returns its index.
func cut(line []step, time float64) ([]step, int) {
	i := at(line, time)
	if line[i].at >= time {
		return line, i
	}
	return slices.Insert(line, i+1, step{time, line[i].free}), i + 1
}

// Earliest finds the first time, not before from, at which the request fits for d seconds on end. It is false when that never
// comes. The shares are valid until the next call.
func (t *Timeline) Earliest(r Request, from, d float64) (start float64, shares []Share, ok bool) {
	if t.nodes.onOneNode(r) {
		return t.alone(r, from, d)
	}
	for _, start := range t.candidates(r, from) {
		t.look(start, start+d, r.Types)
		if shares, ok := t.window.Fit(r, nil); ok {
			return start, shares, true
		}
	}
	return 0, nil, false
}

// candidates are times at which the request may begin to fit.
func (t *Timeline) candidates(r Request, from float64) []float64 {
	t.times = append(t.times[:0], from)
	for g := range t.nodes.byType {
		if !r.Types.Has(int32(g)) {
			continue
		}
		for _, node := range t.nodes.byType[g].nodes {
			if t.nodes.down[node] {
				continue
			}
			for _, s := range t.lines[node] {
				if s.at > from {
					t.times = append(t.times, s.at)
				}
			}
		}
	}
	slices.Sort(t.times)
	return slices.Compact(t.times)
}

// alone is Earliest on one node: by Fit's order, the first type with the earliest start, and of it the node that is fullest afterwards.
func (t *Timeline) alone(r Request, from, d float64) (start float64, shares []Share, ok bool) {
	start = math.Inf(1)
	var best Share
	for g := range t.nodes.byType {
		if !r.Types.Has(int32(g)) {
			continue
		}
		left := int32(math.MaxInt32)
		for _, node := range t.nodes.byType[g].nodes {
			if t.nodes.down[node] || r.On > 0 && r.On != node+1 || t.nodes.off(r).holds(node) {
				continue
			}
			need := t.nodes.Need(r, r.GPUs, node)
			at, free := t.first(node, need, from, d, start)
			rest := free - r.GPUs
			switch {
			case math.IsInf(at, 1):
			case at < start, at == start && t.nodes.Type(best.Node) == int32(g) && rest < left:
				start, best, left = at, Share{node, need}, rest
			}
		}
	}
	t.one[0] = best
	return start, t.one[:], !math.IsInf(start, 1)
}

// first is when a node can first hold the need for d seconds, and the GPUs
// that are free there all that time; infinite when not up to the latest start.
func (t *Timeline) first(node int32, need Amount, from, d, latest float64) (start float64, free int32) {
	line := t.lines[node]
	start, free = from, math.MaxInt32
	for i := at(line, from); i < len(line) && (line[i].at <= start || line[i].at < start+d); i++ {
		if line[i].free.Holds(need) {
			free = min(free, line[i].free.GPUs)
			continue
		}
		if i+1 == len(line) || line[i+1].at > latest {
			return math.Inf(1), 0
		}
		start, free = line[i+1].at, math.MaxInt32
	}
	return start, free
}

// FreeUntil is until when the shares, which are free at a time, stay free; infinite: for ever.
func (t *Timeline) FreeUntil(shares []Share, from float64) float64 {
	until := math.Inf(1)
	for _, s := range shares {
		line := t.lines[s.Node]
		for i := at(line, from) + 1; i < len(line) && line[i].at < until; i++ {
			if !line[i].free.Holds(s.Amount) {
				until = line[i].at
			}
		}
	}
	return until
}

// look makes the window show what is free on each node all the time.
func (t *Timeline) look(from, until float64, types Types) {
	for g := range t.window.byType {
		group := &t.window.byType[g]
		group.free = 0
		group.forget()
		if !types.Has(int32(g)) {
			continue
		}
		for _, node := range group.nodes {
			line := t.lines[node]
			i := at(line, from)
			free := line[i].free
			for i++; i < len(line) && line[i].at < until; i++ {
				free = free.least(line[i].free)
			}
			t.window.free[node] = free
			if !t.window.down[node] {
				group.free += int(max(free.GPUs, 0))
			}
		}
	}
}
