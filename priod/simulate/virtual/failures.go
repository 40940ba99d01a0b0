package virtual

import (
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
)

// outage is why a node starts no jobs.
type outage uint8

const (
	broken    outage = 1 << iota // it failed
	drained                      // drained
	rebooting                    // it drains, or reboots
	absent                       // it has not joined the cluster yet
)

// failLater draws when a node fails next.
func (e *engine) failLater(node int32) {
	e.agenda.push(event{at: e.now + e.rand.ExpFloat64()*e.opt.MTBF, kind: failed, node: node})
}

// takeOut takes a node out of service, for one more reason.
func (e *engine) takeOut(node int32, why outage) {
	e.slurm.change()
	e.out[node] |= why
	e.nodes.SetDown(node, true)
	e.moved = true
}

// putIn ends one reason for which a node is out of service.
func (e *engine) putIn(node int32, why outage) {
	e.slurm.change()
	e.out[node] &^= why
	e.nodes.SetDown(node, e.out[node] != 0 || e.isReserved(node))
	e.moved = true
}

// fail takes a node down that fails by chance.
func (e *engine) fail(node int32) {
	if e.out[node]&(broken|absent) != 0 {
		e.failLater(node)
		return
	}
	e.breakDown(node)
	e.agenda.push(event{at: e.now + e.opt.Repair, kind: repaired, node: node})
}

// breakDown takes a node down. Jobs on it end at once, without a signal, and are
// requeued, as Slurm does with JobRequeue=1; they lose their turn.
func (e *engine) breakDown(node int32) {
	e.takeOut(node, broken)
	var hit []*job
	for j := range e.running[e.nodes.Type(node)].all {
		for _, s := range j.shares {
			if s.Node == node {
				hit = append(hit, j)
			}
		}
	}
	for _, j := range hit {
		j.returns = true
		switch j.state {
		case running:
			e.stop(j, false)
			j.turn = 0
			e.leave(j)
		case leaving: // its grace ends here; what it saved is saved
			e.outcomes[j.index].Wasted -= (j.planned - e.opt.Epilog - e.now) * float64(j.GPUs)
			j.epoch++
			e.leave(j)
		}
	}
}

// repair puts a node back that failed by chance.
func (e *engine) repair(node int32) {
	e.putIn(node, broken)
	e.failLater(node)
}

// reboot is a reboot of several nodes that is under way.
type reboot struct {
	seconds float64
	next    []int32 // nodes whose turn is yet to come
}

// befall lets an event of Options.NodeEvents begin.
func (e *engine) befall(v *trace.NodeEvent) {
	switch v.Kind {
	case trace.NodesFail:
		for _, n := range v.Nodes {
			if e.out[n]&broken == 0 {
				e.breakDown(n)
				e.comesBack(n, broken, v.For)
			}
		}
	case trace.NodesDrain:
		for _, n := range v.Nodes {
			if e.out[n]&drained == 0 {
				e.takeOut(n, drained)
				e.comesBack(n, drained, v.For)
			}
		}
	case trace.NodesReboot:
		r := &reboot{seconds: v.For, next: v.Nodes}
		each := v.Each
		if each == 0 {
			each = len(v.Nodes)
		}
		for range each {
			e.rebootNext(r)
		}
	case trace.NodesJoin:
		for _, n := range v.Nodes {
			e.putIn(n, absent)
		}
	case trace.NodesReserved:
		if v.Announced == 0 {
			e.announce(v)
		}
		e.reserveNodes(maintenance, v.Nodes, v.For)
	}
}

func (e *engine) comesBack(node int32, why outage, seconds float64) {
	e.agenda.push(event{at: e.now + seconds, kind: returned, node: node, why: why})
}

// rebootNext drains the next node that is to reboot.
func (e *engine) rebootNext(r *reboot) {
	for len(r.next) > 0 {
		n := r.next[0]
		r.next = r.next[1:]
		if e.reboots[n] != nil {
			continue
		}
		e.takeOut(n, rebooting)
		e.reboots[n] = r
		e.rebootIdle(n)
		return
	}
}

// rebootIdle begins the reboot of a node that drains for one, once nothing runs there.
func (e *engine) rebootIdle(node int32) {
	if e.reboots[node] != nil && e.nodes.FreeOn(node) == e.nodes.Size(node) {
		e.comesBack(node, rebooting, e.reboots[node].seconds)
	}
}

// comeIn ends an outage; the next node of a reboot has its turn.
func (e *engine) comeIn(node int32, why outage) {
	e.putIn(node, why)
	if r := e.reboots[node]; why == rebooting && r != nil {
		delete(e.reboots, node)
		e.rebootNext(r)
	}
}

// rebootsAfter looks whether nodes became idle that drain for a reboot.
func (e *engine) rebootsAfter(shares []placement.Share) {
	if len(e.reboots) == 0 {
		return
	}
	for _, s := range shares {
		e.rebootIdle(s.Node)
	}
}
