package virtual

// Open is the GPU type of a job that is bound to none.
const Open = int32(-1)

// Types are the names of the cluster's GPU types.
func (s *System) Types() []string { return s.e.types }

// Speed is the work per second of a job on a GPU type; 0 where it cannot run.
func (s *System) Speed(j *InSystem, gpuType int32) float64 { return s.e.speed(j.j, gpuType) }

// Bind gives a waiting job the node feature of a GPU type, or with Open takes
// it away: Slurm starts it on that type only, also after a requeue. Of jobs in
// order fifo those of lower rank go first, whatever their turn. A type that
// the job does not ask for is refused.
func (s *System) Bind(w *InSystem, gpuType int32, rank float64) {
	e, j := s.e, w.j
	types := j.own
	if gpuType != Open {
		types &= 1 << uint(gpuType)
	}
	if types == 0 || j.state != waiting || types == j.request.Types && rank == j.rank {
		return
	}
	e.queue.remove(j)
	j.request.Types, j.rank = types, rank
	j.occupancy = e.occupies(j)
	j.key = e.place(j)
	e.queue.add(j)
}

// askSteering lets the options' Steer bind waiting jobs, or sees to it that it
// will.
func (e *engine) askSteering() {
	switch {
	case e.opt.Steer == nil || !e.stirred:
	case e.opt.SteerEvery > 0 && !e.steering:
		e.steering = true
		e.agenda.push(event{at: next(e.now, e.opt.SteerEvery), kind: steered})
	case e.opt.SteerEvery == 0 && e.idleGPUs():
		e.hopeless = e.steer()
	}
}

func (e *engine) steer() error {
	if e.queue.n == 0 {
		return nil
	}
	e.stirred = false
	return e.opt.Steer(&System{e})
}
