package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/idle"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

const mostHolders = 8 // named beside a node

// Node is a node.
type Node struct {
	Name     string  `json:"name"`
	GPUType  string  `json:"gpu_type,omitempty"`
	GPUs     int     `json:"gpus"`
	InUse    int     `json:"gpus_in_use"`
	State    string  `json:"state"`
	Stranded string  `json:"stranded,omitempty"`    // why its free GPUs start nothing
	Slow     float64 `json:"slow_factor,omitempty"` // jobs run so many times as long there, beyond doubt
	For      string  `json:"vacated_for,omitempty"` // the job for which others leave it
}

// node is a node as the last cycle saw it.
func (x *onNodes) node(n *cluster.Node) Node {
	return Node{Name: n.Name, GPUType: n.GPUType, GPUs: n.GPUs, InUse: n.GPUsUsed, State: n.State, Stranded: n.Stranded(), Slow: x.slow[n.Name], For: x.vacated[n.Name]}
}

// ListedNode is a node in a list.
type ListedNode struct {
	Node
	CPUs    int    `json:"cpus"`
	CPUsUse int    `json:"cpus_in_use"`
	MemMB   int64  `json:"mem_mb"`
	MemUse  int64  `json:"mem_in_use_mb"`
	Holders []Held `json:"jobs"`
	More    int    `json:"more_jobs"` // that are not listed
}

// MemGB is the memory as people read it.
func (v *ListedNode) MemGB() int64 { return (v.MemMB + 512) >> 10 }

// MemUseGB is the part of it in use.
func (v *ListedNode) MemUseGB() int64 { return (v.MemUse + 512) >> 10 }

// Held is a job that holds GPUs of a node, perhaps also of others.
type Held struct {
	Job  cluster.JobID `json:"job"`
	User string        `json:"user"`
	GPUs int           `json:"gpus"` // on all its nodes
}

// NodePage is the list of nodes.
type NodePage struct {
	Types []*TypeUse `json:"gpu_types"`
	Only  string     `json:"type,omitempty"` // GPU type that is listed; "": all
	Part
	Nodes []ListedNode `json:"nodes"`
}

func (a *Asked) nodes(ctx context.Context) (shown, error) {
	all, err := a.Store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	v := &NodePage{Types: ByType(all), Nodes: []ListedNode{}, Only: a.Values.Get("type")}
	if a.Values.Has("type") {
		if !slices.ContainsFunc(all, func(n cluster.Node) bool { return n.GPUType == v.Only }) {
			return nil, wrongf("type=%.40q: no node has it", v.Only)
		}
		all = slices.DeleteFunc(all, func(n cluster.Node) bool { return n.GPUType != v.Only })
	}
	var skip int
	if v.Part, skip, err = a.part("map", len(all)); err != nil {
		return nil, err
	}
	x, err := readNodes(ctx, a.Store)
	if err != nil {
		return nil, err
	}
	shown := all[skip:min(skip+rowsOfPage, len(all))]
	at := make(map[string]int, len(shown))
	for i := range shown {
		n := &shown[i]
		at[n.Name] = i
		v.Nodes = append(v.Nodes, ListedNode{Node: x.node(n), CPUs: n.CPUs, CPUsUse: n.CPUsUsed, MemMB: n.MemMB, MemUse: n.MemUsedMB, Holders: []Held{}})
	}
	for i := range x.holders {
		h := &x.holders[i]
		for _, host := range hosts(h.Nodes) {
			k, ok := at[host]
			if !ok {
				continue
			}
			if n := &v.Nodes[k]; len(n.Holders) < mostHolders {
				n.Holders = append(n.Holders, Held{h.Job, h.User, h.GPUs})
			} else {
				n.More++
			}
		}
	}
	return v, nil
}

// onNodes is what holds of nodes beside their own records.
type onNodes struct {
	holders []store.Holder
	leaves  map[cluster.JobID]string // of those signalled, the job for which
	vacated map[string]string        // node -> job for which others leave it
	slow    map[string]float64
	idle    map[cluster.JobID]idle.Spell
}

func readNodes(ctx context.Context, r *store.Reader) (x onNodes, err error) {
	if x.holders, err = r.Holders(ctx); err != nil {
		return x, err
	}
	open, err := openEvictions(ctx, r)
	if err != nil {
		return x, err
	}
	x.leaves, x.vacated = leaving(open), map[string]string{}
	for i := range open {
		if !open[i].ClaimEnded.IsZero() {
			continue
		}
		for _, name := range hosts(open[i].Nodes) {
			x.vacated[name] = open[i].For.String()
		}
	}
	if x.idle, err = r.OpenSpells(ctx); err != nil {
		return x, err
	}
	last, err := r.LastSample(ctx)
	x.slow = last.Slow
	return x, err
}

// hosts are the nodes of a list; none of one that cannot be read, as Slurm wrote it.
func hosts(list string) []string {
	names, err := slurmplug.ExpandHosts(list)
	if err != nil {
		return nil
	}
	return names
}

// Map is the whole cluster, each GPU of it, as a picture needs it.
type Map struct {
	At    time.Time `json:"at"`
	Jobs  []MapJob  `json:"jobs"`
	Nodes []MapNode `json:"nodes"` // with GPUs, by name
}

// MapJob is a job that holds GPUs. Times are Unix s; 0: not known.
type MapJob struct {
	Job     string `json:"job"` // "": of a user whose jobs the viewer may not see
	User    string `json:"user"`
	Account string `json:"account"`
	Class   string `json:"class,omitempty"` // te or be; left out: not seen to start
	GPUs    int    `json:"gpus"`
	Start   int64  `json:"start"`
	End     int64  `json:"end,omitempty"`   // as half of such jobs end
	Limit   int64  `json:"limit,omitempty"` // its time limit ends
	Leaves  string `json:"leaves_for,omitempty"`
	Idle    string `json:"idle,omitempty"` // it shows no work: idle, hung or never-used

	user string // as it is
}

// MapNode is a node with GPUs.
type MapNode struct {
	Node
	Down     bool  `json:"down,omitempty"`     // not usable: down, drained or reserved for maintenance
	Headroom bool  `json:"headroom,omitempty"` // priod keeps it for TE jobs
	Held     []int `json:"held,omitempty"`     // of each GPU in use, the index of its job; left out where that is not known
}

func (a *Asked) clusterMap(ctx context.Context) (shown, error) {
	all, err := a.Store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	x, err := readNodes(ctx, a.Store)
	if err != nil {
		return nil, err
	}
	v := &Map{At: a.Last.Until, Jobs: []MapJob{}, Nodes: []MapNode{}}
	at, names := map[string]int{}, [][]string{}
	for i := range all {
		n := &all[i]
		if n.GPUs == 0 {
			continue
		}
		at[n.Name] = len(v.Nodes)
		v.Nodes = append(v.Nodes, MapNode{Node: x.node(n), Down: !n.Usable, Headroom: n.Headroom()})
	}
	for i := range x.holders {
		h := &x.holders[i]
		if h.GPUs == 0 {
			continue
		}
		j := MapJob{Job: h.Job.String(), User: report.Name(h.User), Account: report.Name(h.Account), Class: h.Class, GPUs: h.GPUs, Start: h.Start.Unix(), Leaves: x.leaves[h.Job], Idle: string(x.idle[h.Job].Kind), user: h.User}
		if !h.End.Median.IsZero() {
			j.End = h.End.Median.Unix()
		}
		if h.Limit > 0 {
			j.Limit = h.Start.Add(h.Limit).Unix()
		}
		v.Jobs, names = append(v.Jobs, j), append(names, hosts(h.Nodes))
	}
	v.hold(names, at)
	slices.SortFunc(v.Nodes, func(a, b MapNode) int { return cmp.Compare(a.Name, b.Name) })
	return v, nil
}

// hold says which GPUs are whose, of jobs on nodes of these names. How the GPUs of a job are divided Slurm does not tell: evenly,
// as far as jobs on one node leave as many in use.
func (v *Map) hold(names [][]string, at map[string]int) {
	for _, several := range []bool{false, true} {
		for job := range v.Jobs {
			for left, placed := v.Jobs[job].GPUs, len(names[job]) > 1 == several; left > 0 && placed; {
				placed = false
				for _, name := range names[job] {
					if i, ok := at[name]; ok && left > 0 && v.Nodes[i].InUse > len(v.Nodes[i].Held) {
						v.Nodes[i].Held, left, placed = append(v.Nodes[i].Held, job), left-1, true
					}
				}
			}
		}
	}
}

func (v *NodePage) only(user string) {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		all := len(n.Holders)
		n.Holders = slices.DeleteFunc(n.Holders, func(h Held) bool { return h.User != user })
		n.More, n.For = n.More+all-len(n.Holders), ""
	}
}

func (v *Map) only(user string) {
	for i := range v.Jobs {
		if j := &v.Jobs[i]; j.user != user {
			*j = MapJob{User: anotherUser, Account: anotherUser, Class: j.Class, GPUs: j.GPUs}
		}
	}
	for i := range v.Nodes {
		v.Nodes[i].For = ""
	}
}
