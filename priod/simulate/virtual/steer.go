package virtual

import (
	"context"
	"fmt"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
)

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
	e.bind(j, types, rank)
}

// bind changes on which types a pending job may start, and its rank.
func (e *engine) bind(j *job, types placement.Types, rank float64) {
	waits := j.state == waiting
	if waits {
		e.queue.remove(j)
	}
	j.request.Types, j.rank = types, rank
	j.occupancy = e.occupies(j)
	j.key = e.place(j)
	if waits {
		e.queue.add(j)
	}
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

// steers tells whether the daemon's cycles bind jobs.
func (s *slurm) steers() bool { return s.e.opt.Daemon.Settings.Steering.Settings.Enabled }

// feature is the node feature that stands for a GPU type.
func (s *slurm) feature(t int32) string {
	return s.e.opt.Daemon.Settings.Steering.Settings.Feature(s.e.types[t])
}

// featuresOf are a node's features, which matter only where somebody is steered.
func (s *slurm) featuresOf(node int32) []string {
	if t := s.e.nodes.Type(node); s.steers() && s.e.types[t] != "" {
		return []string{s.feature(t)}
	}
	return nil
}

// nodeList names the nodes that a job holds, where steering asks for them.
func (s *slurm) nodeList(j *job) string {
	if !s.steers() && !s.evicts() && s.e.opt.Daemon.Settings.Waits.Tracker == nil || len(j.shares) == 0 {
		return ""
	}
	names := make([]string, len(j.shares))
	for i, share := range j.shares {
		names[i] = s.snapshot.Nodes[share.Node].Name
	}
	return strings.Join(names, ",")
}

// Places says which nodes pending jobs name and refuse: none does in a trace.
func (s *slurm) Places(_ context.Context, jobs map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	places := make(map[cluster.JobID]cluster.Place, len(jobs))
	for id := range jobs {
		if s.known[id] != nil {
			places[id] = cluster.Place{}
		}
	}
	return places, nil
}

// constrain writes a value of the lever Features: the feature of one GPU type, or
// "" for none.
func (s *slurm) constrain(j *job, feature string) error {
	if !j.pending() {
		return fmt.Errorf("job %s is not pending", number(j.index))
	}
	types := j.own
	if feature != "" {
		types = 0
		for t := range s.e.types {
			if j.own.Has(int32(t)) && s.feature(int32(t)) == feature {
				types |= 1 << uint(t)
			}
		}
	}
	if types == 0 {
		return fmt.Errorf("job %s cannot run on nodes with feature %.80q", number(j.index), feature)
	}
	j.features = feature
	s.e.bind(j, types, j.rank)
	s.e.moved = true
	return nil
}
