package virtual

import (
	"context"
	"fmt"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// steers reports whether the daemon's cycles bind jobs.
func (s *slurm) steers() bool { return s.e.opt.Daemon.Settings.Steering.Settings.Enabled }

// feature is the node feature that stands for a GPU type.
func (s *slurm) feature(t int32) string {
	return s.e.opt.Daemon.Settings.Steering.Settings.Feature(s.e.types[t])
}

// featuresOf are a node's features, which matter only where jobs are steered.
func (s *slurm) featuresOf(node int32) []string {
	if t := s.e.nodes.Type(node); s.steers() && s.e.types[t] != "" {
		return []string{s.feature(t)}
	}
	return nil
}

// nodeList names the nodes that a job holds, where steering asks for them.
func (s *slurm) nodeList(j *job) string {
	set := &s.e.opt.Daemon.Settings
	if !s.steers() && !s.evicts() && !s.classifies() && !set.Sizing.Sizes.Enabled() && set.Waits.Tracker == nil || len(j.shares) == 0 {
		return ""
	}
	names := make([]string, len(j.shares))
	for i, share := range j.shares {
		names[i] = s.nodes[share.Node].Name
	}
	return strings.Join(names, ",")
}

// parts are what a job holds of each of several nodes.
func parts(j *job) []cluster.Part {
	if len(j.shares) < 2 {
		return nil
	}
	all := make([]cluster.Part, len(j.shares))
	for i, s := range j.shares {
		all[i] = cluster.Part{GPUs: int(s.GPUs), CPUs: int(s.CPUs), MemMB: s.MemMB}
	}
	return all
}

// Places says which nodes pending jobs name and refuse: none does in a trace, but by priod.
func (s *slurm) Places(_ context.Context, jobs map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error) {
	places := make(map[cluster.JobID]cluster.Place, len(jobs))
	for id := range jobs {
		j := s.known[id]
		if h := s.record(id); h != nil {
			j = h.job
		}
		if j != nil {
			places[id] = cluster.Place{Excluded: s.refuses(j)}
		}
	}
	return places, nil
}

// constrain writes a value of the lever Features: the feature of one GPU type, or
// "" for none.
func (s *slurm) constrain(j *job, value slurmplug.Value) error {
	feature := value.String()
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
	return s.ask(j, func() {
		j.request.Types = types
		j.occupancy = s.e.occupies(j)
		j.key = s.e.place(j)
	})
}
