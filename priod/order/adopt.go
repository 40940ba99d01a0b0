package order

import (
	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// PeerValue is a value that a job holds and that another host's priod must have
// written.
type PeerValue struct {
	Job      cluster.JobID
	Written  cluster.Written // what the other priod must have written
	Replaced bool            // this priod had written another value
}

// FindPeerValues returns the values of other priods that the pending jobs of the ranked
// partitions hold, in the order of the snapshot. It changes nothing.
func FindPeerValues(s *cluster.Snapshot, h *cluster.History, set Settings) []PeerValue {
	least := set.Step
	if least <= 0 {
		d := decider{s: s, h: h, set: set}
		d.step()
		if least = roundUp(s.Multifactor.Span + 1); d.narrow {
			least = smallestStep(set.Top)
		}
	}
	var found []PeerValue
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending || !set.Ranking.Ranks(j.Partition) {
			continue
		}
		w, wrote := h.Written[j.ID]
		if v := j.SiteFactor; j.SiteFactorKnown && v >= least && v <= set.Top && !(wrote && w.Sent(v)) {
			found = append(found, PeerValue{Job: j.ID, Written: cluster.Written{Lever: slurmplug.SiteFactor, Value: v, Tried: v}, Replaced: wrote})
		}
	}
	return found
}

// Adopt makes other priods' values this one's own. Where each controller host runs a
// priod with a state folder of its own, the priod that was active before wrote them.
func Adopt(strangers []PeerValue, s *cluster.Snapshot, h *cluster.History) {
	for _, x := range strangers {
		x.Written.At = s.At
		h.Written[x.Job] = x.Written
	}
}
