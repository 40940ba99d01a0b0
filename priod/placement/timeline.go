package placement

import (
	"math"
	"slices"
	"sort"
)

// Timeline is what will be free on each node from now on, as far as time
// limits tell: what backfill with reservations works on.
type Timeline struct {
	nodes  *Nodes
	lines  [][]step
	window *Nodes
	times  []float64
}

// step holds from its time until the next one's; the last one for ever.
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
	return max(sort.Search(len(line), func(i int) bool { return line[i].at > time })-1, 0)
}

// Reserve takes the shares from one time until another, which may be infinite.
func (t *Timeline) Reserve(shares []Share, from, until float64) {
	t.change(shares, from, until, Amount.minus)
}

// Free gives the shares back from one time until another, which may be infinite.
func (t *Timeline) Free(shares []Share, from, until float64) {
	t.change(shares, from, until, Amount.plus)
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

// Earliest finds the first time, not before from, at which the request fits
// for d seconds on end. It is false when that never comes. The shares are
// valid until the next call.
func (t *Timeline) Earliest(r Request, from, d float64) (start float64, shares []Share, ok bool) {
	for _, start := range t.candidates(r, from, d) {
		t.look(start, start+d, r.Types)
		if shares, ok := t.window.Fit(r, nil); ok {
			return start, shares, true
		}
	}
	return 0, nil, false
}

// candidates are times at which the request may begin to fit.
func (t *Timeline) candidates(r Request, from, d float64) []float64 {
	t.times = append(t.times[:0], from)
	best := math.Inf(1)
	for g := range t.nodes.byType {
		if !r.Types.Has(int32(g)) {
			continue
		}
		group := &t.nodes.byType[g]
		single := t.nodes.mode == Pool || r.Nodes <= 1 && r.GPUs <= group.largest && (t.nodes.mode == Consolidated || r.Nodes == 1)
		for _, node := range group.nodes {
			if t.nodes.down[node] {
				continue
			}
			if single {
				best = min(best, t.alone(node, r, from, d))
				continue
			}
			for _, s := range t.lines[node] {
				if s.at > from {
					t.times = append(t.times, s.at)
				}
			}
		}
	}
	if !math.IsInf(best, 1) {
		t.times = append(t.times, best)
	}
	slices.Sort(t.times)
	return slices.Compact(t.times)
}

// alone is when one node alone can first hold the request for d seconds.
func (t *Timeline) alone(node int32, r Request, from, d float64) float64 {
	need := Amount{GPUs: r.GPUs}
	if t.nodes.mode != Pool {
		need = t.nodes.need(r, r.GPUs, node)
	}
	line := t.lines[node]
	start := from
	for i := at(line, from); i < len(line) && line[i].at < start+d; i++ {
		if line[i].free.holds(need) {
			continue
		}
		if i+1 == len(line) {
			return math.Inf(1)
		}
		start = line[i+1].at
	}
	return start
}

// look makes the window show what is free on each node all the time.
func (t *Timeline) look(from, until float64, types Types) {
	for g := range t.window.byType {
		group := &t.window.byType[g]
		group.free = 0
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
				group.free += int(free.GPUs)
			}
		}
	}
}
