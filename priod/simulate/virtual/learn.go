package virtual

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug/jobtag"
)

// ran keeps a run that ends as accounting has it, where priod learns from that.
func (s *slurm) ran(j *job, state string) {
	if s == nil || s.e.opt.Daemon.Learn == nil || j.GPUs == 0 {
		return
	}
	row := &s.snapshot.Jobs[j.row]
	s.stays = append(s.stays, cluster.PastStay{
		Stay: cluster.Stay{
			Job: row.ID, User: j.User, Start: s.e.instant(j.start), End: s.e.instant(s.e.now), Closed: true, GPUs: j.GPUs,
			GPUType: s.e.types[s.e.nodes.Type(j.shares[0].Node)],
		},
		RawID: row.RawID, Name: j.Workload, NodeList: s.names(j.nodes()), State: state, Submit: row.Submit, Eligible: row.Eligible, Tag: jobtag.Text{Tag: row.Tag, Text: row.TagText}, Limit: time.Duration(j.Limit * float64(time.Second)),
	})
}

// learn has priod learn from accounting, when it is time for that.
func (s *slurm) learn() {
	d := &s.e.opt.Daemon
	if d.Learn == nil || s.learned > 0 && s.e.now < s.learned+d.LearnEvery.Seconds() {
		return
	}
	s.learned = s.e.now
	oldest := s.e.instant(s.e.now).Add(-d.LearnFrom)
	s.stays = slices.DeleteFunc(s.stays, func(x cluster.PastStay) bool { return x.End.Before(oldest) })
	if len(s.stays) < s.taught+max(s.taught/20, 1) && len(s.stays) >= s.taught {
		return // a twentieth more runs teach nothing new
	}
	s.taught = len(s.stays)
	d.Learn(&d.Settings, s.stays)
	s.changes = true
}
