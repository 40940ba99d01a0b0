package size

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
)

// A job is planned for a node, or its plan is changed, when it is so much faster by it.
const (
	worthNode   = 1.05
	worthChange = 1.02
)

// longestWait is how long a job stays planned for a node at most while later ones
// start before it.
const longestWait = 24 * time.Hour

// planAhead sizes the jobs that cannot start now. A job that gains from more than its
// share waits for the node on which it is fastest once a job there has ended, with what
// it finds then: at most one job for each node. The others wait for any node.
func (d *decider) planAhead() {
	if len(d.later) == 0 {
		return
	}
	ends := d.endsByNode()
	d.rooms, d.open, d.idle = map[roomKey]placement.Amount{}, map[int][]*openNodes{}, make([]int, len(ends))
	for i := range d.s.Nodes {
		if at, known := d.nodes.Index[d.s.Nodes[i].Name]; known {
			d.idle[at] = d.s.Nodes[i].GPUs - d.s.Nodes[i].GPUsUsed
		}
	}
	taken := make([]bool, len(ends))
	for _, c := range d.later {
		switch {
		case d.planFor(c, ends, taken):
		case c.ahead == nil:
			d.sizeAhead(c)
		case c.ahead.job.Asked.Nodes == "":
			if c.ahead.dec.Size == "" {
				d.explainKept(c.job, c.dec, c.ahead.r)
			}
		case d.isPassed(c):
			d.addRestore(c.job, c.dec, c.ahead.r, plan.SizeRests, "later jobs started before it while it waited for "+c.ahead.job.Asked.Nodes)
		case !d.sizeAhead(c):
			d.addRestore(c.job, c.dec, c.ahead.r, reasonSize, "its node has no room for it any more")
		}
	}
}

// endsByNode is what the jobs that run give back at their ends, by node.
func (d *decider) endsByNode() [][]placement.Amount {
	ends := make([][]placement.Amount, d.nodes.Nodes.Len())
	for i := range d.s.Jobs {
		j := &d.s.Jobs[i]
		if j.State != cluster.Running && j.State != cluster.Completing {
			continue
		}
		for _, o := range d.nodes.Shares(j) {
			if o.GPUs > 0 {
				ends[o.Node] = append(ends[o.Node], o.Amount)
			}
		}
	}
	return ends
}

// plannedOn is the node that a job waits for by an earlier cycle; -1: none that is up.
func (d *decider) plannedOn(c *resizable) int32 {
	if c.ahead == nil {
		return -1
	}
	if at, known := d.nodes.Index[c.ahead.job.Asked.Nodes]; known && !d.nodes.Nodes.Down(at) && c.on[d.nodes.Nodes.Type(at)] != nil {
		return at
	}
	return -1
}

// keepsNode reports whether a job keeps waiting for the node that it was planned for:
// half of the ends there still make room for it, it would not be much faster with
// what is there now, and later jobs have not started before it for too long.
func (d *decider) keepsNode(c *resizable, at int32, ends []placement.Amount) bool {
	a := c.ahead.job.Asked
	room := d.roomAfterEnd(at, a.GPUs, ends)
	wider := d.widerEnds(at, ends, a.GPUs)
	if room.GPUs == 0 || int32(a.CPUs) > room.CPUs || a.MemMB > room.MemMB || d.isPassed(c) || d.takesAtSomeEnd(at, wider, a.GPUs, a.CPUs, a.MemMB) {
		return false
	}
	_, speed := d.fastestIn(c, at, room, wider)
	return speed < worthChange*c.speedWith(d, at, a.CPUs, a.MemMB)
}

// speedWith is how fast a job is on a node with so much.
func (c *resizable) speedWith(d *decider, at int32, cpus int, memMB int64) float64 {
	gpus := float64(c.asked.GPUs)
	return c.on[d.nodes.Nodes.Type(at)].Curve.Relative(float64(cpus)/gpus, float64(memMB)/gpus)
}

// isPassed reports whether later jobs that need no fewer GPUs have started while a job has
// waited for its node for as long as its time limit is, a day at most.
func (d *decider) isPassed(c *resizable) bool {
	j, since := c.job, c.ahead.r.At
	wait := longestWait
	if limit := j.Remaining(j.Start); limit < wait.Seconds() {
		wait = time.Duration(limit * float64(time.Second))
	}
	then := since.Add(wait)
	if first := d.h.Sizes[j.ID].Since; !first.IsZero() && first.Add(longestWait).Before(then) {
		since, then = first, first.Add(longestWait)
	}
	if d.s.At.Before(then) {
		d.byTheClock(then)
		return false
	}
	return slices.ContainsFunc(d.s.Jobs, func(o cluster.Job) bool {
		return o.State == cluster.Running && o.GPUs >= j.GPUs && o.Start.After(since) && o.Submit.After(j.Submit)
	})
}

// planFor lets a job keep the node that it waits for, or sizes it for the one on which it is
// fastest; false when it gains on none.
func (d *decider) planFor(c *resizable, ends [][]placement.Amount, taken []bool) bool {
	at := d.plannedOn(c)
	if c.dec.Class == cluster.TE || c.job.Right == cluster.Entitled || at >= 0 && d.isPassed(c) { // others may leave for it, on any node
		return false
	}
	best, most, room, fastest := d.fastestNode(c, ends, taken)
	if at >= 0 && !taken[at] && d.keepsNode(c, at, ends[at]) {
		if a := c.ahead.job.Asked; best < 0 || fastest < worthChange*c.speedWith(d, at, a.CPUs, a.MemMB) {
			taken[at] = true
			d.explainKept(c.job, c.dec, c.ahead.r)
			return true
		}
	}
	if best < 0 {
		return false
	}
	free := d.nodes.Nodes.FreeOn(best) // from here on the node has that room, and no other job is planned for it
	d.nodes.Nodes.Take([]placement.Share{{Node: best, Amount: placement.Amount{GPUs: free.GPUs - room.GPUs, CPUs: free.CPUs - room.CPUs, MemMB: free.MemMB - room.MemMB}}})
	taken[best] = true
	size := part(int(best), c.asked.GPUs, most)
	g, ok := d.wholeUnits(c, best, &size)
	if !ok {
		return false
	}
	name := d.nodes.Names[best]
	if value := g.value(name); value != c.job.Asked.Holds {
		d.addWrite(c, value, plan.SizeAhead, fmt.Sprintf("%s on %s as soon as a job there ends", g.explanation, name))
	}
	return true
}

// fastestNode is the node for which no job is planned and on which a job is fastest once a
// job there has ended, with the size for each GPU and the room; below 0 when it gains on none.
func (d *decider) fastestNode(c *resizable, ends [][]placement.Amount, taken []bool) (best int32, most point, room placement.Amount, fastest float64) {
	cpus, memMB := d.leastToPlace(c)
	best = -1
	for _, o := range d.openFor(c.asked.GPUs, ends) {
		at, has := o.first(taken), o.room
		if at < 0 || c.on[o.kind] == nil || has.CPUs < cpus || has.MemMB < memMB {
			continue
		}
		size, speed := d.fastestIn(c, at, has, o.wider)
		faster := speed > fastest*rounding || speed == fastest && at < best
		if faster && speed >= worthNode*c.speedWith(d, at, int(cpus), memMB) {
			best, fastest, most, room = at, speed, size, has
		}
	}
	return best, most, room, fastest
}

// openNodes are nodes of one kind and size on which a job finds the same room once a job
// there has ended, and the same ends that leave other GPUs free: one of them stands for all.
type openNodes struct {
	kind  int32
	room  placement.Amount
	wider []placement.Amount // widerEnds there
	nodes []int32            // ascending
}

// first is the first of the nodes for which no job is planned; -1: none is left.
func (o *openNodes) first(taken []bool) int32 {
	for len(o.nodes) > 0 && taken[o.nodes[0]] {
		o.nodes = o.nodes[1:]
	}
	if len(o.nodes) == 0 {
		return -1
	}
	return o.nodes[0]
}

// openFor are the nodes where a job of so many GPUs finds room once a job has ended, in the
// order of their first ones.
func (d *decider) openFor(gpus int, ends [][]placement.Amount) []*openNodes {
	if open, known := d.open[gpus]; known {
		return open
	}
	type likeness struct {
		kind       int32
		size, room placement.Amount
		wider      string
	}
	var open []*openNodes
	like := map[likeness]*openNodes{}
	for at := range int32(len(ends)) {
		if len(ends[at]) == 0 || d.nodes.Nodes.Down(at) {
			continue
		}
		room := d.roomAfterEnd(at, gpus, ends[at])
		if room.GPUs == 0 {
			continue
		}
		wider := d.widerEnds(at, ends[at], gpus)
		key := likeness{d.nodes.Nodes.Type(at), d.nodes.Nodes.Size(at), room, ""}
		if len(wider) > 0 {
			key.wider = fmt.Sprint(d.nodes.Nodes.FreeOn(at), wider)
		}
		if like[key] == nil {
			like[key] = &openNodes{kind: key.kind, room: room, wider: wider}
			open = append(open, like[key])
		}
		like[key].nodes = append(like[key].nodes, at)
	}
	d.open[gpus] = open
	return open
}

// roomAfterEnd is what a job of so many GPUs finds on a node once one of the jobs there
// has ended, beside the share of the GPUs that are free then: after half of the ends at
// least. No GPUs: the end of one job is not always enough, or the job could start before.
func (d *decider) roomAfterEnd(at int32, gpus int, ends []placement.Amount) placement.Amount {
	key := roomKey{at, gpus}
	room, known := d.rooms[key]
	if !known {
		room = d.findRoom(at, gpus, ends)
		d.rooms[key] = room
	}
	return room
}

// roomKey is all that a room depends on before a job is planned for the node.
type roomKey struct {
	node int32
	gpus int
}

func (d *decider) findRoom(at int32, gpus int, ends []placement.Amount) placement.Amount {
	if d.idle[at] >= gpus {
		return placement.Amount{}
	}
	size, free := d.nodes.Nodes.Size(at), d.nodes.Nodes.FreeOn(at)
	rooms := make([]placement.Amount, 0, len(ends))
	for _, end := range ends {
		left := free.GPUs + end.GPUs - int32(gpus)
		if left < 0 {
			return placement.Amount{}
		}
		rooms = append(rooms, placement.Amount{
			GPUs:  int32(gpus),
			CPUs:  free.CPUs + end.CPUs - (size.CPUs*left+size.GPUs-1)/size.GPUs,
			MemMB: free.MemMB + end.MemMB - (size.MemMB*int64(left)+int64(size.GPUs)-1)/int64(size.GPUs),
		})
	}
	if len(rooms) == 0 {
		return placement.Amount{}
	}
	slices.SortFunc(rooms, func(a, b placement.Amount) int {
		return cmp.Or(cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.MemMB, b.MemMB))
	})
	half := rooms[len(rooms)/2]
	for _, r := range rooms[len(rooms)/2:] {
		half.MemMB = min(half.MemMB, r.MemMB)
	}
	return half
}

// widerEnds are the ends on a node that leave other GPUs free beside those of a job.
func (d *decider) widerEnds(at int32, ends []placement.Amount, gpus int) (wider []placement.Amount) {
	free := d.nodes.Nodes.FreeOn(at).GPUs
	for _, end := range ends {
		if free+end.GPUs > int32(gpus) {
			wider = append(wider, end)
		}
	}
	return wider
}

// takesAtSomeEnd reports whether a job with that size could start on a node at one of its
// widerEnds and take of the share of the other GPUs.
func (d *decider) takesAtSomeEnd(at int32, wider []placement.Amount, gpus, cpus int, memMB int64) bool {
	size, free := d.nodes.Nodes.Size(at), d.nodes.Nodes.FreeOn(at)
	takes := func(has, left, all int64, others int32) bool {
		return has*int64(size.GPUs) > all*int64(gpus) && (left-has)*int64(size.GPUs) < all*int64(others)
	}
	return slices.ContainsFunc(wider, func(end placement.Amount) bool {
		others := free.GPUs + end.GPUs - int32(gpus)
		leftCPUs, leftMB := int64(free.CPUs+end.CPUs), free.MemMB+end.MemMB
		return int64(cpus) <= leftCPUs && memMB <= leftMB &&
			(takes(int64(cpus), leftCPUs, int64(size.CPUs), others) || takes(memMB, leftMB, size.MemMB, others))
	})
}

// fastestIn is the size for each GPU with which a job is fastest in that room without taking
// the share of other GPUs at any of the node's widerEnds; of equally fast ones the smallest.
func (d *decider) fastestIn(c *resizable, at int32, room placement.Amount, wider []placement.Amount) (best point, speed float64) {
	curve, gpus := c.on[d.nodes.Nodes.Type(at)].Curve, float64(c.asked.GPUs)
	r := request{curve: curve}
	r.want.cpus, r.want.mem = Usable(curve, c.asked.GPUs, amountOf(d.nodes.Nodes.Size(at)))
	for _, l := range d.packer.levelsOf(&r) {
		if l.speed > speed*rounding && l.cpus*gpus <= float64(room.CPUs)*rounding && l.mem*gpus <= float64(room.MemMB)*rounding &&
			!d.takesAtSomeEnd(at, wider, c.asked.GPUs, int(math.Ceil(l.cpus*gpus)), int64(math.Ceil(l.mem*gpus))) {
			best, speed = l.point, l.speed
		}
	}
	return best, speed
}
