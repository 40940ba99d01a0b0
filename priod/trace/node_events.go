package trace

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"slurmprio/slurmplug"
)

// NodeEventKind is what happens to nodes.
type NodeEventKind string

// What happens to nodes.
const (
	NodesFail   NodeEventKind = "fail"   // their jobs end at once and are requeued
	NodesDrain  NodeEventKind = "drain"  // their jobs run to the end, and none starts
	NodesReboot NodeEventKind = "reboot" // as drain; each node reboots once it is idle
	NodesJoin   NodeEventKind = "join"   // they are new: before, there is no such node
	// NodesReserved are kept for maintenance: jobs run to the end, none starts, and once that is announced, none whose
	// time limit reaches into it.
	NodesReserved NodeEventKind = "maintenance"
)

// NodeEvent is something that happens to some nodes during a simulation.
type NodeEvent struct {
	At    float64 // s
	Kind  NodeEventKind
	Nodes []int32 // indices in the order of the cluster's description
	For   float64 // s until they are back; of reboot, from when a node is idle; not of join
	Each  int     // of reboot: so many nodes at a time; 0: all at once

	Announced float64 // s before At, of maintenance
}

// ReadNodeEvents reads what happens to the nodes of a cluster: TOML with [[events]] tables of at, event,
// nodes, for, each and announced. Nodes are a host list of n0, n1 and so on in the order of the cluster's
// description, or a GPU type. Errors name the file, the table and the value.
func ReadNodeEvents(path string, c *Cluster) ([]NodeEvent, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Events []nodeEventTable `toml:"events"`
	}
	meta, err := toml.Decode(string(text), &file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: unknown key %s: an [[events]] table has at, event, nodes, for, each and announced", path, unknown[0])
	}
	if len(file.Events) == 0 {
		return nil, fmt.Errorf("%s: it has no [[events]] table", path)
	}
	var all []NodeEvent
	joined := map[int32]bool{}
	for i := range file.Events {
		e, err := file.Events[i].event(c)
		if err == nil && e.Kind == NodesJoin {
			for _, n := range e.Nodes {
				if joined[n] {
					err = fmt.Errorf("node n%d joins twice", n)
				}
				joined[n] = true
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: [[events]] %d: %w", path, i+1, err)
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b NodeEvent) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

// nodeEventTable is one [[events]] table.
type nodeEventTable struct {
	At        span   `toml:"at"`
	Event     string `toml:"event"`
	Nodes     string `toml:"nodes"`
	For       span   `toml:"for"`
	Each      int    `toml:"each"`
	Announced span   `toml:"announced"`
}

// span is a time such as "90m" or "3d".
type span struct{ time.Duration }

// UnmarshalText reads a time.
func (d *span) UnmarshalText(text []byte) (err error) {
	if days, is := strings.CutSuffix(string(text), "d"); is {
		n, bad := strconv.ParseUint(days, 10, 16)
		d.Duration, err = time.Duration(n)*24*time.Hour, bad
	} else {
		d.Duration, err = time.ParseDuration(string(text))
	}
	if err != nil {
		return fmt.Errorf("%.40q is no time such as 90m, 8h or 3d", text)
	}
	return nil
}

func (t *nodeEventTable) event(c *Cluster) (e NodeEvent, err error) {
	e = NodeEvent{At: t.At.Seconds(), Kind: NodeEventKind(t.Event), For: t.For.Seconds(), Each: t.Each, Announced: t.Announced.Seconds()}
	kinds := []NodeEventKind{NodesFail, NodesDrain, NodesReboot, NodesJoin, NodesReserved}
	switch {
	case !slices.Contains(kinds, e.Kind):
		return e, fmt.Errorf("event %.40q: want fail, drain, reboot, join or maintenance", t.Event)
	case t.At.Duration < 0:
		return e, fmt.Errorf("at %s: want 0s or more", t.At)
	case t.Announced.Duration < 0 || t.Announced.Duration > 0 && e.Kind != NodesReserved:
		return e, fmt.Errorf("announced %s: want how long before it users know of a maintenance, such as 3d; with event maintenance only", t.Announced)
	case e.Kind == NodesJoin && t.For.Duration != 0:
		return e, fmt.Errorf("for %s: nodes that join stay", t.For)
	case e.Kind != NodesJoin && t.For.Duration <= 0:
		return e, fmt.Errorf("for %s: want how long the nodes are away, such as 8h", t.For)
	case t.Each < 0 || t.Each > 0 && e.Kind != NodesReboot:
		return e, fmt.Errorf("each %d: want how many nodes reboot at a time, 0 for all at once; with event reboot only", t.Each)
	}
	e.Nodes, err = c.nodesNamed(t.Nodes)
	return e, err
}

// nodesNamed are the nodes of a host list or of a GPU type.
func (c *Cluster) nodesNamed(text string) (nodes []int32, err error) {
	first := int32(0)
	for i := range c.Nodes {
		g := &c.Nodes[i]
		for n := range int32(g.Count) {
			if g.GPUs > 0 && g.GPUType == text {
				nodes = append(nodes, first+n)
			}
		}
		first += int32(g.Count)
	}
	if len(nodes) > 0 {
		return nodes, nil
	}
	hosts, err := slurmplug.ExpandHosts(text)
	if err != nil {
		return nil, fmt.Errorf("nodes %.80q: %w", text, err)
	}
	for _, h := range hosts {
		n, err := strconv.Atoi(strings.TrimPrefix(h, "n"))
		if err != nil || !strings.HasPrefix(h, "n") || n < 0 || n >= int(first) {
			return nil, fmt.Errorf("nodes %.80q: %.40q is neither a GPU type nor a node: the cluster has n0 to n%d", text, h, first-1)
		}
		if !slices.Contains(nodes, int32(n)) {
			nodes = append(nodes, int32(n))
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("nodes %q: want a host list such as n[0-15], or a GPU type", text)
	}
	return nodes, nil
}
