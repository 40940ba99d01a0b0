package order

import "slurmprio/priod/cluster"

// Stranger is a job that holds a value which a priod writes, and this one did
// not.
type PeerValue struct {
	Job      cluster.JobID
	Written  cluster.Written // as the other priod must have written it
	Replaced bool            // this priod had written another value
}

// reach is where a priod's values may lie, whatever its step was when it wrote.
type valueRange struct{ least, step, top, nice int64 }

// Strangers lists the pending jobs of the ranked partitions that hold values of
// another priod, in the order of the snapshot. It changes nothing.
func FindPeerValues(s *cluster.Snapshot, h *cluster.History, set Settings) []PeerValue {
	d := decider{s: s, h: h, set: set, lever: leverOf(set.Lever)}
	values := valueRange{least: set.Step, step: d.step(), top: set.Top, nice: set.NiceLimit}
	if values.least <= 0 {
		values.least = roundUp(s.Multifactor.Span + 1)
	}
	var found []PeerValue
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != cluster.Pending || !set.Ranking.Ranks(j.Partition) {
			continue
		}
		w, wrote := h.Written[j.ID]
		if wrote && w.Lever != set.Lever {
			continue // what the old lever wrote goes first
		}
		if other, ok := d.lever.peerValue(j, w, wrote, values); ok {
			found = append(found, PeerValue{Job: j.ID, Written: other, Replaced: wrote})
		}
	}
	return found
}

// Adopt makes the strangers' values this priod's own: where every controller
// host has a priod with a state folder of its own, they are what the one before
// it wrote.
func Adopt(strangers []PeerValue, s *cluster.Snapshot, h *cluster.History) {
	for _, x := range strangers {
		x.Written.At = s.At
		h.Written[x.Job] = x.Written
	}
}
