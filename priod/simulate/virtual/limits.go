package virtual

import (
	"fmt"
	"time"

	"slurmprio/slurmplug"
)

// limited is what priod makes of a job's time limit.
type limited struct {
	own     float64       // its own
	shown   time.Duration // as Slurm shows that
	written bool
}

// limit writes a value of the lever TimeLimit, into a job that waits or runs.
func (s *slurm) limit(j *job, v slurmplug.Value) error {
	d, is := v.Limit()
	if !is {
		return fmt.Errorf("%.40q is no time limit", v)
	}
	row := &s.snapshot.Jobs[j.row]
	if !j.limited.written {
		j.limited = limited{j.Limit, row.TimeLimit, true}
	}
	to := max(d.Seconds(), 0)
	if v == slurmplug.LimitOf(j.limited.shown) {
		to, d = j.limited.own, j.limited.shown
	}
	set := func() {
		j.Limit = to
		row.TimeLimit = d
	}
	if j.state == running {
		set()
		s.e.relimit(j)
		return nil
	}
	return s.ask(j, func() {
		set()
		j.occupancy = s.e.occupies(j)
		j.key = s.e.place(j)
	})
}

// relimit plans the end of a run by another time limit.
func (e *engine) relimit(j *job) {
	seconds := j.lost + j.todo/j.speed
	j.cut = j.Limit > 0 && seconds > j.Limit
	planned := j.start + seconds + e.opt.Epilog
	if j.Limit > 0 {
		planned = j.start + j.Limit + e.opt.Epilog
		seconds = min(seconds, j.Limit)
	}
	j.epoch++
	e.agenda.push(event{at: max(j.start+seconds, e.now), kind: ended, job: j, epoch: j.epoch})
	e.replan(j, planned)
}
