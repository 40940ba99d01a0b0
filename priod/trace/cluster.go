package trace

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// NodeGroup is Count nodes that are alike. GPUs, CPUs and MemMB are of one
// node; CPUs and MemMB of 0 are not counted: such a node never runs out. Nodes without
// GPUs have no GPUType, and CPUs that count.
type NodeGroup struct {
	Count    int      `toml:"count" json:"count"`
	GPUType  string   `toml:"gpu_type" json:"gpu_type"`
	GPUs     int      `toml:"gpus" json:"gpus"`
	CPUs     int      `toml:"cpus" json:"cpus"`
	MemMB    int64    `toml:"mem_mb" json:"mem_mb"`
	Features []string `toml:"features" json:"features,omitempty"`
	// Partitions are Slurm's. A job whose partitions are those of some nodes runs on these, if it has GPUs only where
	// these divide the nodes with GPUs (Divided). A job that names none runs anywhere; so does one without GPUs of others.
	Partitions []string `toml:"partitions" json:"partitions,omitempty"`
	Switch     string   `toml:"switch" json:"switch,omitempty"` // the leaf switch that the nodes hang on
	// Slowdown is how many times as long as on other nodes jobs take here, by workload;
	// AnyWorkload stands for those that it does not name.
	Slowdown map[string]float64 `toml:"slowdown" json:"slowdown,omitempty"`
}

// AnyWorkload is the key of NodeGroup.Slowdown for all workloads.
const AnyWorkload = "any"

// Cluster is what a trace runs on.
type Cluster struct {
	Nodes []NodeGroup `toml:"nodes" json:"nodes"`
	// Partitions say more of those that nodes name. They count where these divide the nodes (Divided).
	Partitions []Partition `toml:"partitions" json:"partitions,omitempty"`
	// QOS are the limits of jobs by their QOS and those of their partitions; that of "" is of jobs whose QOS is not among them.
	QOS          map[string]slurmplug.QOSLimits `toml:"qos" json:"qos,omitempty"`
	Associations []slurmplug.Association        `toml:"associations" json:"associations,omitempty"`
	Accounts     []slurmplug.Account            `toml:"-" json:"-"` // whose shares count; none: those of the jobs, one share each
}

// Types are the GPU types in order of first appearance.
func (c *Cluster) Types() []string {
	var types []string
	for i := range c.Nodes {
		if t := c.Nodes[i].GPUType; c.Nodes[i].GPUs > 0 && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// GPUs counts the GPUs of one type.
func (c *Cluster) GPUs(gpuType string) int {
	n := 0
	for i := range c.Nodes {
		if g := &c.Nodes[i]; g.GPUType == gpuType {
			n += g.Count * g.GPUs
		}
	}
	return n
}

// TotalGPUs counts the GPUs of all types.
func (c *Cluster) TotalGPUs() int {
	n := 0
	for i := range c.Nodes {
		n += c.Nodes[i].Count * c.Nodes[i].GPUs
	}
	return n
}

// UntypedGPU is the type of GPUs whose GRES names none.
const UntypedGPU = "gpu"

// Bounds of one description: products of two stay numbers.
const (
	maxNodes  = 1 << 20
	maxAmount = 1 << 20 // GPUs or CPUs of one node
	maxMemMB  = 1 << 40
)

// ReadCluster reads a cluster description, [[nodes]], [[partitions]], [qos.NAME] and [[associations]] tables with
// the keys of NodeGroup, Partition, slurmplug.QOSLimits and Association. Errors name the file, the key and the value.
func ReadCluster(path string) (Cluster, error) {
	var c Cluster
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	meta, err := toml.Decode(string(text), &c)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return c, fmt.Errorf("%s: unknown key %s: a [[nodes]] table has count, gpu_type, gpus, cpus, mem_mb, features, partitions, switch and slowdown, a [[partitions]] table name, priority_tier, priority_job_factor, max_time, max_nodes, qos and state, [qos.NAME] job, user, account, all, max_time and flags, [[associations]] account, user, partition, parent, all and job", path, unknown[0])
	}
	for i := range c.Partitions { // Slurm's defaults
		p := &c.Partitions[i]
		p.Tier, p.JobFactor = cmp.Or(p.Tier, 1), cmp.Or(p.JobFactor, 1)
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseNodes reads groups in short, COUNT:TYPE:GPUS[:CPUS[:MEM_MB]].
func ParseNodes(groups []string) (Cluster, error) {
	var c Cluster
	for _, text := range groups {
		fields := strings.Split(text, ":")
		if len(fields) < 3 || len(fields) > 5 {
			return c, fmt.Errorf("nodes %.80q: want COUNT:TYPE:GPUS[:CPUS[:MEM_MB]], such as 16:v100:8:24:512000, or without GPUs 40::0:64:256000", text)
		}
		numbers := [5]int64{}
		for i, f := range fields {
			if i == 1 {
				continue
			}
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return c, fmt.Errorf("nodes %.80q: %s %.40q is no whole number", text, [...]string{"COUNT", "", "GPUS", "CPUS", "MEM_MB"}[i], f)
			}
			numbers[i] = min(max(n, -1), maxMemMB+1) // what lies beyond is refused below, as an int too
		}
		g := NodeGroup{Count: int(numbers[0]), GPUType: fields[1], GPUs: int(numbers[2]), CPUs: int(numbers[3]), MemMB: numbers[4]}
		if err := g.Check(); err != nil {
			return c, fmt.Errorf("nodes %.80q: %w", text, err)
		}
		c.Nodes = append(c.Nodes, g)
	}
	return c, c.check()
}

// Hang hangs the nodes on leaf switches, so many on each; 0: on none.
func (c *Cluster) Hang(each int) error {
	if each < 0 {
		return fmt.Errorf("switches with %d nodes: want 0 (no switches) or more", each)
	}
	if each == 0 {
		return nil
	}
	var hung []NodeGroup
	at := 0 // nodes so far
	for _, g := range c.Nodes {
		for left := g.Count; left > 0; left -= g.Count {
			g.Count, g.Switch = min(left, each-at%each), "s"+strconv.Itoa(at/each)
			hung = append(hung, g)
			at += g.Count
		}
	}
	c.Nodes = hung
	return nil
}

// FromSnapshot describes the usable nodes of a cluster as it stands, alike ones
// together and those with GPUs first, and counts the nodes with GPUs and without that it
// leaves out because they are down or drained. A snapshot knows no switches.
func FromSnapshot(s *cluster.Snapshot) (c Cluster, leftOut [2]int) {
	for kind, gpus := range []bool{true, false} {
		for i := range s.Nodes {
			n := &s.Nodes[i]
			if gpus != (n.GPUs > 0) || n.CPUs == 0 && !gpus {
				continue
			}
			if !n.Usable {
				leftOut[kind]++
				continue
			}
			c.add(groupOf(n))
		}
	}
	for i := range s.Partitions {
		c.Partitions = append(c.Partitions, partitionOf(&s.Partitions[i]))
	}
	return c, leftOut
}

// groupOf describes one node.
func groupOf(n *cluster.Node) NodeGroup {
	g := NodeGroup{Count: 1, GPUType: n.GPUType, GPUs: n.GPUs, CPUs: n.CPUs, MemMB: n.MemMB, Features: n.Features, Partitions: n.Partitions}
	if g.GPUType == "" && g.GPUs > 0 {
		g.GPUType = UntypedGPU
	}
	return g
}

// add puts a node to those that are alike, else behind those that differ in partitions alone: these make no difference
// to jobs that may run in all, and neither does the order of nodes then.
func (c *Cluster) add(g NodeGroup) {
	at := len(c.Nodes)
	for i := range c.Nodes {
		if o := &c.Nodes[i]; g.alike(o) {
			if slices.Equal(g.Partitions, o.Partitions) {
				o.Count++
				return
			}
			at = i + 1
		}
	}
	c.Nodes = slices.Insert(c.Nodes, at, g)
}

// alike tells of two nodes that they differ in partitions at most.
func (g *NodeGroup) alike(o *NodeGroup) bool {
	return g.GPUType == o.GPUType && g.GPUs == o.GPUs && g.CPUs == o.CPUs && g.MemMB == o.MemMB && slices.Equal(g.Features, o.Features)
}

func (c *Cluster) check() error {
	if len(c.Nodes) == 0 {
		return errors.New("a cluster without nodes: want at least one [[nodes]] table")
	}
	nodes := 0
	for i := range c.Nodes {
		if err := c.Nodes[i].Check(); err != nil {
			return fmt.Errorf("[[nodes]] table %d: %w", i+1, err)
		}
		if nodes += c.Nodes[i].Count; nodes > maxNodes {
			return fmt.Errorf("[[nodes]] table %d: more than %d nodes in all", i+1, maxNodes)
		}
	}
	if i := slices.IndexFunc(c.Associations, func(a slurmplug.Association) bool { return a.Account == "" }); i >= 0 {
		return fmt.Errorf("[[associations]] table %d: want an account", i+1)
	}
	return c.checkPartitions()
}

// Check refuses what no node has.
func (g *NodeGroup) Check() error {
	for _, n := range []struct {
		key       string
		value     int64
		low, high int64
	}{
		{"count", int64(g.Count), 1, maxNodes},
		{"gpus", int64(g.GPUs), 0, maxAmount},
		{"cpus", int64(g.CPUs), 0, maxAmount},
		{"mem_mb", g.MemMB, 0, maxMemMB},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("%s = %d: want %d to %d", n.key, n.value, n.low, n.high)
		}
	}
	for _, workload := range slices.Sorted(maps.Keys(g.Slowdown)) {
		if times := g.Slowdown[workload]; !(times >= 0.01 && times <= 100) {
			return fmt.Errorf("slowdown.%.80s = %v: want how many times as long jobs take, 0.01 to 100", workload, times)
		}
	}
	for _, p := range g.Partitions {
		if p == "" || !validText(p) {
			return fmt.Errorf("partitions: %.80q: want the names of Slurm's partitions", p)
		}
	}
	switch {
	case g.GPUs > 0:
	case g.GPUType != "":
		return fmt.Errorf("gpus = 0 and gpu_type = %.80q: nodes without GPUs have no type", g.GPUType)
	case g.CPUs == 0:
		return errors.New("gpus = 0 and cpus = 0: nodes without GPUs want cpus")
	}
	if g.GPUs > 0 && !jobtag.ValidName(g.GPUType) {
		return fmt.Errorf("gpu_type = %.80q: want a GRES type, 1 to 64 letters, digits, '.', '-' or '_'", g.GPUType)
	}
	return nil
}
