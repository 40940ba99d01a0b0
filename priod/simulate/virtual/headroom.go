package virtual

import (
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// bar has a job that waits refuse the nodes that it names, those of other partitions, and those that are kept
// for TE jobs unless it may start there.
func (e *engine) bar(j *job) {
	off := slices.Concat(j.excluded, j.line.off)
	if !j.headroom {
		off = append(off, e.headroom...)
	}
	j.request.Off = e.nodes.Refused(slices.Compact(slices.Sorted(slices.Values(off))))
}

// KeepNodes keeps nodes for jobs that name the reservation, for so long from now on.
func (s *slurm) KeepNodes(_ context.Context, list string, d time.Duration) error {
	nodes, err := s.nodesNamed(list)
	if err != nil {
		return err
	}
	s.e.headroomEnds = s.e.now + d.Seconds()
	s.e.agenda.push(event{at: s.e.headroomEnds, kind: unreserved})
	s.setHeadroom(nodes)
	return nil
}

// setHeadroom changes which nodes are kept. At none the jobs forget the reservation.
func (s *slurm) setHeadroom(nodes []int32) {
	e := s.e
	if slices.Equal(nodes, e.headroom) {
		return
	}
	e.headroom, s.commanded = nodes, true
	s.change()
	for _, j := range s.jobs {
		if !j.pending() {
			continue
		}
		if len(nodes) == 0 {
			j.headroom = false
		}
		_ = s.ask(j, func() { e.bar(j) }) // it is pending
		s.changed(j)
	}
}

// name writes a value of the lever Reservation.
func (s *slurm) name(j *job, value slurmplug.Value) error {
	return s.ask(j, func() {
		j.headroom = value.String() == cluster.HeadroomReservation
		s.e.bar(j)
	})
}
