package slurmplug

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// unindexedText is what Slurm 22.05 says of a pending job for which accounting has no index yet, 5 s after each request to change it
// (slurmctld/proc_req.c, _slurm_rpc_update_job). Where slurmctld ended while it waited for the index, it never asks for it again
// (slurmctld.c, _set_db_inx_thread): the job refuses updates until it starts, and a dozen of such jobs use up WriteTimeout.
const unindexedText = "the DB index is being set"

// unindexedMost is how long such a job is not written to, at most.
const unindexedMost = 4 * time.Hour

// unindexed are such jobs by number: until when none is written to, and how long that was.
type unindexed map[uint32]pausedJob

type pausedJob struct {
	until time.Time
	pause time.Duration
}

// leave takes such jobs out of a session, and says so in their results.
func (u unindexed) leave(s *session, results []Result, now time.Time) {
	for i := range s.lines {
		l := &s.lines[i]
		l.targets = slices.DeleteFunc(l.targets, func(t target) bool {
			j := u[t.job]
			if !now.Before(j.until) {
				return false
			}
			for _, i := range t.updates {
				results[i].Message = laterTexts[0] + ", " + unindexedText + "; next attempt at " + j.until.Format(time.TimeOnly)
			}
			return true
		})
	}
	s.lines = slices.DeleteFunc(s.lines, func(l line) bool { return len(l.targets) == 0 })
}

// learn takes note of which jobs of a session were refused: for twice as long as it took, later for eight times as long each time.
func (u unindexed) learn(s *session, results []Result, began, now time.Time) {
	for i := range s.lines {
		for _, t := range s.lines[i].targets {
			r := &results[t.updates[0]]
			if j := u[t.job]; r.Status == Postponed && strings.Contains(r.Message, unindexedText) {
				j.pause = min(max(8*j.pause, 2*now.Sub(began)), unindexedMost)
				j.until = now.Add(j.pause)
				u[t.job] = j
			} else if r.Status == Applied {
				delete(u, t.job)
			}
		}
	}
}

// forget drops jobs that were not written to for long after their time.
func (u unindexed) forget(now time.Time) {
	maps.DeleteFunc(u, func(_ uint32, j pausedJob) bool { return now.Sub(j.until) > unindexedMost })
}
