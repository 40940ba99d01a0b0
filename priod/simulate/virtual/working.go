package virtual

import (
	"context"
	"fmt"

	"slurmprio/priod/cluster"
	"slurmprio/priod/trace"
)

// looks is how long a plan stands at most, s, where jobs may stop working without an event.
const looks = 60

// watchWork has priod look at what running jobs do from the first job on of which the trace says that it stops working.
func (s *slurm) watchWork(j *job) {
	if set := &s.e.opt.Daemon.Settings.Idle; j.IdleAfter > 0 && set.Memory == nil {
		set.Memory, s.until = s.idle, s.e.instant(s.e.now)
	}
}

// lookAgain has a plan stand no longer than until jobs are looked at again.
func (s *slurm) lookAgain() {
	if at := s.e.instant(s.e.now + looks); s.e.opt.Daemon.Settings.Idle.Memory != nil && (s.until.IsZero() || s.until.After(at)) {
		s.until = at
	}
}

// works reports whether a running job works at a time.
func (j *job) works(now float64) bool {
	return j.IdleAfter == 0 || j.runs > 1 || now-j.start < j.IdleAfter
}

// Signs are what the trace says of the jobs that run.
func (s *slurm) Signs(context.Context, *cluster.Snapshot, []cluster.JobID) (map[cluster.JobID][]cluster.Sign, error) {
	signs := map[cluster.JobID][]cluster.Sign{}
	for _, j := range s.jobs {
		if j.state == running && j.GPUs > 0 {
			signs[number(j.index)] = []cluster.Sign{{Shows: cluster.GPUs, Source: cluster.FromTrace, Works: j.works(s.e.now)}}
		}
	}
	return signs, nil
}

// cancel ends a job that runs.
func (s *slurm) cancel(j *job) error {
	if j.state != running {
		return fmt.Errorf("job %s does not run", number(j.index))
	}
	e, o := s.e, &s.e.outcomes[j.index]
	o.Ran += e.now - j.start
	o.Nodes = e.ranOn(j)
	s.ran(j, "CANCELLED")
	j.ending, j.todo = trace.Ending{}, 0
	j.epoch++
	e.done(j, e.now)
	e.close(j)
	return nil
}
