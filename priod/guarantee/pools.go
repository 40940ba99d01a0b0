package guarantee

import (
	"slices"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// cover is a set of kinds of nodes.
type cover uint64

// maxKinds is how many kinds of nodes are told apart.
const maxKinds = 64

// maxUnions bounds the sets of kinds that are looked at: beyond it no GPUs count as no account's.
const maxUnions = 4096

// pools tell which GPUs are no account's. Nodes that are alike in GPU type, partitions and features are of one kind. What is
// owned, or used by jobs that stay, is promised on a set of kinds; a promise more can be kept where no union of such sets has
// fewer GPUs than are promised within it (Hall's theorem).
type pools struct {
	kinds    []cluster.Node // one node of each
	kind     map[string]int // of nodes, by name
	gpus     []float64      // in service, by kind
	byAsks   map[asks]cover
	promised map[cover]float64
	unions   []cover
	coarse   bool // features are not told apart: there are too many kinds
}

// asks is what a request says of its nodes.
type asks struct{ partition, gpuType, features string }

func newPools(s *cluster.Snapshot) *pools {
	p := &pools{}
	for !p.divide(s) {
		p.coarse = true
	}
	return p
}

// divide finds the kinds of nodes; false: there are too many.
func (p *pools) divide(s *cluster.Snapshot) bool {
	*p = pools{kind: make(map[string]int, len(s.Nodes)), byAsks: map[asks]cover{}, promised: map[cover]float64{}, coarse: p.coarse}
	at := map[string]int{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		name := n.GPUType + " " + strings.Join(n.Partitions, ",")
		if !p.coarse {
			name += " " + strings.Join(n.Features, ",")
		}
		k, known := at[name]
		if !known {
			if k = len(p.kinds); k == maxKinds && !p.coarse {
				return false
			}
			k = min(k, maxKinds-1)
			at[name] = k
			if k == len(p.kinds) {
				p.kinds, p.gpus = append(p.kinds, *n), append(p.gpus, 0)
			}
		}
		p.kind[n.Name] = k
		if n.Usable {
			p.gpus[k] += float64(n.GPUs)
		}
	}
	return true
}

// where are the kinds on which a predicate holds.
func (p *pools) where(holds func(*cluster.Node) bool) (c cover) {
	for k := range p.kinds {
		if holds(&p.kinds[k]) {
			c |= 1 << k
		}
	}
	return c
}

// reach are the kinds on which a waiting job may come to run. A constraint that cannot be read rules out none.
func (p *pools) reach(j *cluster.Job) cover {
	a := asks{j.Partition, j.GPUType, j.Features}
	c, known := p.byAsks[a]
	if !known {
		constraint, err := slurmplug.ParseConstraint(a.features)
		open := err != nil || p.coarse
		types := strings.Split(a.gpuType, ",")
		c = p.where(func(n *cluster.Node) bool {
			return n.In(a.partition) && (a.gpuType == "" || slices.Contains(types, n.GPUType)) && (open || constraint.Allows(n.Features))
		})
		p.byAsks[a] = c
	}
	return c
}

// on are the kinds of the nodes that a job holds.
func (p *pools) on(j *cluster.Job) (c cover) {
	if k, known := p.kind[j.NodeList]; known {
		return 1 << k
	}
	hosts, _ := slurmplug.ExpandHosts(j.NodeList) // one that cannot be read holds no node that is known
	for _, host := range hosts {
		if k, known := p.kind[host]; known {
			c |= 1 << k
		}
	}
	return c
}

// promise promises GPUs on some kinds.
func (p *pools) promise(c cover, gpus float64) {
	if c == 0 || gpus <= 0 {
		return
	}
	if _, known := p.promised[c]; !known && len(p.unions) < maxUnions {
		for _, u := range slices.Clone(p.unions) {
			if u |= c; !slices.Contains(p.unions, u) {
				p.unions = append(p.unions, u)
			}
		}
		if !slices.Contains(p.unions, c) {
			p.unions = append(p.unions, c)
		}
	}
	p.promised[c] += gpus
}

// keeps reports whether so many GPUs more can be promised on some kinds.
func (p *pools) keeps(c cover, gpus float64) bool {
	if c == 0 || len(p.unions) >= maxUnions || !p.holds(c, gpus) {
		return false
	}
	for _, u := range p.unions {
		if !p.holds(u|c, gpus) {
			return false
		}
	}
	return true
}

// holds reports whether kinds have what is promised within them, and so many GPUs more.
func (p *pools) holds(c cover, gpus float64) bool {
	for of, promised := range p.promised {
		if of&^c == 0 {
			gpus += promised
		}
	}
	return gpus <= p.has(c)+rounding
}

// has counts the GPUs in service of some kinds.
func (p *pools) has(c cover) (gpus float64) {
	for k, has := range p.gpus {
		if c&(1<<k) != 0 {
			gpus += has
		}
	}
	return gpus
}
