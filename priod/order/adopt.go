package order

import "slurmprio/priod/cluster"

// PeerValue is a value that a job holds and that another host's priod must have
// written.
type PeerValue struct {
	Job      cluster.JobID
	Written  cluster.Written // what the other priod must have written
	Replaced bool            // this priod had written another value
}

// valueRange is where the values of a priod may lie, whatever its step was when it
// wrote them.
type valueRange struct{ least, step, top, nice int64 }

// FindPeerValues returns the values of other priods that the pending jobs of the ranked
// partitions hold, in the order of the snapshot. It changes nothing.
func FindPeerValues(s *cluster.Snapshot, h *cluster.History, set Settings) []PeerValue {
	d := decider{s: s, h: h, set: set, lever: leverOf(set.Lever)}
	values := valueRange{least: set.Step, step: d.step(), top: set.Top, nice: set.NiceLimit}
	if values.least <= 0 {
		if values.least = roundUp(s.Multifactor.Span + 1); d.narrow {
			values.least = smallestStep(set.Top)
		}
	}
	var found []PeerValue
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending || !set.Ranking.Ranks(j.Partition) {
			continue
		}
		w, wrote := h.Written[j.ID]
		if wrote && w.Lever != set.Lever {
			continue // first the old lever's value is taken back
		}
		if other, ok := d.lever.peerValue(j, w, wrote, values); ok {
			found = append(found, PeerValue{Job: j.ID, Written: other, Replaced: wrote})
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
