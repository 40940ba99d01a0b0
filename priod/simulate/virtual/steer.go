package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// steers reports whether the daemon's cycles bind jobs.
func (s *slurm) steers() bool { return s.e.opt.Daemon.Settings.Steering.Settings.Enabled }

// feature is the node feature that stands for a GPU type.
func (s *slurm) feature(t int32) string {
	return s.e.opt.Daemon.Settings.Steering.Settings.Feature(s.e.types[t])
}

// featuresOf are a node's features, which matter only where jobs are steered: on a divided cluster its own, on others that of its type.
func (s *slurm) featuresOf(node int32, g *trace.NodeGroup) []string {
	if s.e.divided {
		return g.Features
	}
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

// bound are the types of a job on nodes with the feature of a type; "": on any.
func (s *slurm) bound(j *job, feature string) (types placement.Types) {
	if feature == "" {
		return j.own
	}
	for t := range int32(len(s.e.types)) {
		if j.own.Has(t) && s.feature(t) == feature {
			types |= 1 << uint(t)
		}
	}
	return types
}

// assign writes a value of the lever PartitionList: the partitions in which a job may run, in their order.
func (s *slurm) assign(j *job, value slurmplug.Value) error {
	list := value.String()
	for name := range strings.SplitSeq(list, ",") {
		if s.e.partOf(name) == nil {
			return fmt.Errorf("invalid partition name specified for job %s: %.80q", j.id, name)
		}
	}
	if list == s.anywhere && j.Partition == "" {
		list = ""
	}
	l, why := s.e.lineOf(&j.Job, list)
	if why != "" {
		return errors.New(why)
	}
	types := s.bound(j, j.features) & l.kinds
	if types == 0 || j.GPUs == 0 {
		return fmt.Errorf("job %s cannot run in partition %.80q", j.id, list)
	}
	return s.ask(j, func() {
		j.line, j.request.Types = l, types
		s.e.bar(j)
		j.occupancy = s.e.occupies(j)
		j.key = s.e.place(j)
	})
}

// constrain writes a value of the lever Features: the feature of one GPU type, or "" for none.
func (s *slurm) constrain(j *job, value slurmplug.Value) error {
	feature := value.String()
	if !j.pending() {
		return fmt.Errorf("job %s is not pending", j.id)
	}
	types := s.bound(j, feature) & j.line.kinds
	if types == 0 {
		return fmt.Errorf("job %s cannot run on nodes with feature %.80q", j.id, feature)
	}
	j.features = feature
	return s.ask(j, func() {
		j.request.Types = types
		j.occupancy = s.e.occupies(j)
		j.key = s.e.place(j)
	})
}
