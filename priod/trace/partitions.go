package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
)

// Partition is what a partition of a cluster asks of its jobs.
type Partition struct {
	Name      string        `toml:"name" json:"name"`
	Tier      int           `toml:"priority_tier" json:"priority_tier"`             // jobs of a higher one are looked at first
	JobFactor int           `toml:"priority_job_factor" json:"priority_job_factor"` // counts beside the largest one
	MaxTime   time.Duration `toml:"max_time" json:"max_time,omitempty"`             // of its jobs' limits; 0: any
	MaxNodes  int           `toml:"max_nodes" json:"max_nodes,omitempty"`           // of one job; 0: any number
	QOS       string        `toml:"qos" json:"qos,omitempty"`                       // whose limits its jobs are under; "": none
	State     string        `toml:"state" json:"state,omitempty"`                   // up ("": the same), down, drain, inactive: it starts no job
}

// Divided reports whether nodes with GPUs are in several partitions, or only some of them in one: then jobs with GPUs
// run on the nodes of their partitions, and wait there.
func (c *Cluster) Divided() bool {
	var all []string
	nodes, in := 0, 0
	for i := range c.Nodes {
		if g := &c.Nodes[i]; g.GPUs > 0 {
			if nodes++; len(g.Partitions) > 0 {
				in++
			}
			all = append(all, g.Partitions...)
		}
	}
	slices.Sort(all)
	return len(slices.Compact(all)) > 1 || in > 0 && in < nodes
}

// Partition is the one of a name; nil where nothing is said of it.
func (c *Cluster) Partition(name string) *Partition {
	if i := slices.IndexFunc(c.Partitions, func(p Partition) bool { return p.Name == name }); i >= 0 {
		return &c.Partitions[i]
	}
	return nil
}

// Closed is the state of a partition that starts no job, as Slurm writes it; else "".
func (p *Partition) Closed() string {
	if state := strings.ToUpper(p.State); state != "UP" {
		return state
	}
	return ""
}

// maxTier is the largest PriorityTier and PriorityJobFactor.
const maxTier = 1<<16 - 1

// partitionOf is a partition of a snapshot.
func partitionOf(p *cluster.Partition) Partition {
	o := Partition{Name: p.Name, Tier: p.Tier, JobFactor: p.JobFactor, MaxTime: max(p.MaxTime, 0), MaxNodes: p.MaxNodes, QOS: p.OwnQOS, State: p.Closed}
	if p.Draining {
		o.State = "DRAIN"
	}
	return o
}

// checkPartitions refuses what no partition is.
func (c *Cluster) checkPartitions() error {
	for i := range c.Partitions {
		p := &c.Partitions[i]
		switch {
		case !slices.ContainsFunc(c.Nodes, func(g NodeGroup) bool { return slices.Contains(g.Partitions, p.Name) }):
			return fmt.Errorf("[[partitions]] table %d: name = %.80q: no [[nodes]] table has it among its partitions", i+1, p.Name)
		case c.Partition(p.Name) != p:
			return fmt.Errorf("[[partitions]] table %d: name = %.80q stands twice", i+1, p.Name)
		case !slices.Contains([]string{"", "UP", "DOWN", "DRAIN", "INACTIVE"}, strings.ToUpper(p.State)):
			return fmt.Errorf("[[partitions]] table %d: state = %.40q: want up, down, drain or inactive", i+1, p.State)
		case min(p.Tier, p.JobFactor, p.MaxNodes) < 0 || p.MaxTime < 0:
			return fmt.Errorf("[[partitions]] table %d: want 0 or more of priority_tier, priority_job_factor, max_time and max_nodes", i+1)
		case max(p.Tier, p.JobFactor) > maxTier:
			return fmt.Errorf("[[partitions]] table %d: want at most %d of priority_tier and priority_job_factor", i+1, maxTier)
		}
	}
	return nil
}
