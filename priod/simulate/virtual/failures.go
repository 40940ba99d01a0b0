package virtual

// failLater draws when a node fails next.
func (e *engine) failLater(node int32) {
	e.agenda.push(event{at: e.now + e.rand.ExpFloat64()*e.opt.MTBF, kind: failed, node: node})
}

// fail takes a node down. Jobs on it end at once, without a signal, and are
// requeued, as Slurm does with JobRequeue=1; they lose their turn.
func (e *engine) fail(node int32) {
	e.slurm.change()
	e.failed[node] = true
	e.nodes.SetDown(node, true)
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
	e.agenda.push(event{at: e.now + e.opt.Repair, kind: repaired, node: node})
	e.moved = true
}

// repair puts a node back.
func (e *engine) repair(node int32) {
	e.slurm.change()
	e.failed[node] = false
	e.nodes.SetDown(node, e.isReserved(node))
	e.failLater(node)
	e.moved = true
}
