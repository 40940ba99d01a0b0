package locality

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/nodespeed"
	"slurmprio/priod/placement"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
)

// SlowNodes are the nodes that run times show to be slow beyond doubt.
type SlowNodes struct {
	Known bool // else not looked at yet, and what was written stays; Failing are known
	Nodes []nodespeed.Node
	// Failing are nodes on which jobs of several users failed alike (retry.Suspects).
	Failing []string
	Table   *workload.Table // of the workloads that tags name
}

// factor is how many times as long as elsewhere a job runs on a slow node: as its program did there, else as all did; 1: as long.
func (s *SlowNodes) factor(n *nodespeed.Node, j *cluster.Job) float64 {
	name := j.Tag.Workload
	if id, known := s.Table.Lookup(name); known {
		name = s.Table.Get(id).Name
	}
	best := -1
	for i := range n.Where {
		p := &n.Where[i]
		same := p.Workload == name && (name != "" || p.Name != "" && p.Name == j.Name && cluster.SameUser(p.User, j.User))
		switch {
		case !same:
		case best < 0, p.GPUs == j.GPUs, n.Where[best].GPUs != j.GPUs && p.Runs > n.Where[best].Runs:
			best = i
		}
	}
	switch {
	case best >= 0:
		return n.Where[best].Factor
	case n.Factor != nil:
		return *n.Factor
	}
	return 1
}

// Refusals has jobs of several nodes refuse slow nodes, and any job those that fail jobs, for as long as that pays.
type Refusals struct {
	plan.PlanOnly
	Settings Settings
	Memory   *Memory // nil: no job is looked at
	Slow     SlowNodes
	// Waited is how long a job has waited for a cause, and for such a What of it, by the cycles before this one (Wait.For);
	// nil: not read.
	Waited func(j *cluster.Job, cause plan.Cause, what string) time.Duration
	Slurm  interface {
		// Places reads which nodes pending jobs name and refuse: see steer.Feature.
		Places(context.Context, map[cluster.JobID]uint32) (map[cluster.JobID]cluster.Place, error)
	}
}

// failingCost is for how long, s, a job waits for others than nodes that fail jobs: what it would do there is not known, and operators look meanwhile.
const failingCost = 3600

// refused is a slow node and what lying there costs a job, in seconds of its waiting.
type refused struct {
	name   string
	factor float64 // 0: it is not slow, jobs fail there
	cost   float64
}

// Plan says of each job near the head of the queue which nodes it refuses, slow ones and those that fail jobs, and writes that
// where it has changed. It writes over nothing that a user asked for, or that another feature wrote.
func (f *Refusals) Plan(ctx context.Context, c *plan.Cycle) error {
	if f.Memory == nil || f.Slurm == nil || c.Paused != "" || f.Settings.Enabled && !f.Slow.Known && len(f.Slow.Failing) == 0 {
		return nil
	}
	if wants := f.Settings.Enabled && len(f.Slow.Nodes)+len(f.Slow.Failing) > 0; !wants && !anyRequest(c.History, slurmplug.ExcNodeList) {
		return nil
	}
	w := &work{set: &f.Settings, c: c, memory: f.Memory, lever: slurmplug.ExcNodeList, topology: cluster.Topology{MaxWait: -1}}
	x := newCell(c.Nodes(), nil)
	f.Memory.begin()
	wanted := map[cluster.JobID][]string{}
	var gangs []*gang
	for _, g := range w.gangs(x) {
		if want, says := f.decide(w, x, g); says {
			wanted[g.job.ID] = want
			gangs = append(gangs, g)
		}
	}
	err := f.write(ctx, w, gangs, wanted)
	f.Memory.end()
	c.Plan.Ask(w.actions)
	return err
}

// decide says which nodes a job is to refuse; says is false where that stays as it is. Jobs come in the order of the queue: those
// that would start now take their room from those behind.
func (f *Refusals) decide(w *work, x *cell, g *gang) (nodes []string, says bool) {
	far, off := g.excluded != "", g.request
	now, written := w.c.History.Requests[g.job.ID][slurmplug.ExcNodeList]
	state, known := f.Memory.of(g.job, w.c.Snapshot.At)
	if g.state = state; !known && f.Waited != nil { // by an earlier priod, or far from the head of the queue since
		state.waited = f.Waited(g.job, plan.Locality, plan.SlowNodes).Seconds()
	}
	switch {
	case written && (g.job.Unsatisfied() || slurmplug.NotAvailable(g.job.Reason) && !x.leaves(g, now.Value)):
		w.c.History.Refuse(g.job.ID, w.lever, "no node was left for it", w.c.Snapshot.At)
		return nil, true
	case far && f.Settings.Enabled:
		return nil, false // it keeps what it has until it is its turn
	case f.alone(w, g.job) || !w.field(g.job).Refused.At.IsZero():
		x.take(g.job, g.request)
		return nil, written
	}
	all := f.costs(w, x, g)
	for len(all) > 0 && all[0].cost <= state.waited { // the mildest first
		all = all[1:]
	}
	for _, r := range all {
		nodes = append(nodes, r.name)
	}
	if !f.Slow.Known && written { // what an earlier priod learned stays
		hosts, err := slurmplug.ExpandHosts(now.Value.String())
		if len(nodes) == 0 || err != nil {
			x.take(g.job, g.request)
			return nil, false
		}
		nodes = slices.Compact(slices.Sorted(slices.Values(append(nodes, hosts...))))
	}
	if off.Off = x.off(g.request.Types, nodes); off.Off != 0 && !x.everFits(off) {
		nodes, off.Off = nil, 0
		g.decision.Locality = plan.Joined(g.decision.Locality, "slow nodes: too few other nodes are left for it")
	}
	if starts := x.take(g.job, off); !starts && off.Off != 0 {
		if _, state.ticking = x.fit(g.request); state.ticking {
			w.c.Keep(g.job.ID, plan.SlowNodes)
			w.c.Plan.Stands(all[0].cost - state.waited)
		}
	}
	if len(nodes) > 0 {
		worst := slices.MaxFunc(all, func(a, b refused) int { return cmp.Compare(a.factor, b.factor) })
		c := &plan.RefusedNodes{Nodes: slurmplug.CompactHosts(slices.Clone(nodes)), WaitsAtMost: math.Round(all[len(all)-1].cost/60) * 60}
		if worst.factor > 0 {
			c.Worst, c.WorstFactor = worst.name, math.Round(100*worst.factor)/100
		}
		if failing := failingOf(all); len(failing) > 0 {
			c.Failing = slurmplug.CompactHosts(failing)
		}
		if state.nodes == nil || state.nodes.Nodes != c.Nodes || state.nodes.Worst != c.Worst || state.nodes.Failing != c.Failing {
			state.nodes = c
		}
		g.decision.Choices.Refused = state.nodes
	}
	slices.Sort(nodes)
	return nodes, true
}

func failingOf(all []refused) (names []string) {
	for _, r := range all {
		if r.factor == 0 {
			names = append(names, r.name)
		}
	}
	return names
}

// alone reports whether a job may not be kept off nodes.
func (f *Refusals) alone(w *work, j *cluster.Job) bool {
	return !f.Settings.Enabled || !j.AllowsWaiting() || j.GPUs == 0 || j.HetLeader != 0 || j.Tasks != "" || w.c.History.Claiming[j.ID]
}

// costs are the nodes on which a job could come to lie that are slow or fail jobs, and what each costs it, the least first. A slow
// node costs a job nothing that takes one node, or whose run time is not known; one that fails jobs costs any job failingCost.
func (f *Refusals) costs(w *work, x *cell, g *gang) (all []refused) {
	run, rule, gang := w.expected(g.job), w.rule(), x.nodesOf(g.request) > 1
	others := 1 + rule.Others*w.delayed(g.job)
	for i := range f.Slow.Nodes {
		n := &f.Slow.Nodes[i]
		factor := f.Slow.factor(n, g.job)
		if !gang || !n.Slow || factor <= 1+nodespeed.Margin || !x.has(g.request.Types, n.Name) {
			continue
		}
		cost := math.Inf(1)
		if rule.Wait > 0 {
			cost = run * (factor - 1) * others / rule.Wait
		}
		if cost = min(cost, rule.Longest); run > 0 && cost >= Shortest.Seconds() {
			all = append(all, refused{n.Name, factor, cost})
		}
	}
	for _, name := range f.Slow.Failing {
		if x.has(g.request.Types, name) && !slices.ContainsFunc(all, func(r refused) bool { return r.name == name }) {
			all = append(all, refused{name: name, cost: min(failingCost, rule.Longest)})
		}
	}
	slices.SortStableFunc(all, func(a, b refused) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.name, b.name)) })
	return all
}

// write has jobs refuse what they are to, after a closer look at those that do not yet.
func (f *Refusals) write(ctx context.Context, w *work, gangs []*gang, wanted map[cluster.JobID][]string) error {
	look := map[cluster.JobID]uint32{}
	for _, g := range gangs {
		r := w.c.History.Requests[g.job.ID][slurmplug.ExcNodeList]
		if plan.SameHosts(r.Value.String(), strings.Join(wanted[g.job.ID], ",")) {
			continue
		}
		if most := f.Settings.WritesPerCycle; most > 0 && len(look) >= most {
			break
		}
		look[g.job.ID] = g.job.RawID
	}
	if len(look) == 0 {
		return nil
	}
	places, err := f.Slurm.Places(ctx, look)
	if w.c.Pinned != nil {
		maps.DeleteFunc(places, func(id cluster.JobID, _ cluster.Place) bool { return w.c.Pinned(id) })
	}
	for _, g := range gangs {
		place, seen := places[g.job.ID]
		if !seen {
			continue
		}
		r := w.c.History.Requests[g.job.ID][slurmplug.ExcNodeList]
		ours := plan.SameHosts(place.Excluded, r.Value.String()) || place.Excluded == "" && !r.Sure
		if !ours || place.Required != "" {
			const why = "it requests or excludes nodes, or failed on some"
			w.c.History.Refuse(g.job.ID, w.lever, why, w.c.Snapshot.At)
			g.decision.Locality = "slow nodes: " + why
			continue
		}
		to := slurmplug.CompactHosts(wanted[g.job.ID])
		field := cluster.Field{Lever: w.lever, Now: slurmplug.Text(place.Excluded)} // its user's own is none
		why := cmp.Or(g.decision.Locality, "slow nodes: any node")
		if c := g.decision.Choices.Refused; c != nil {
			why = c.Words()
		}
		w.actions = append(w.actions, plan.Change(g.job, &field, slurmplug.Text(to), why))
	}
	if err != nil {
		err = fmt.Errorf("which nodes some jobs refuse: %w", err)
	}
	return err
}

// joined are two things that are said of a job. off is the Off of requests that refuse these nodes.
func (x *cell) off(types placement.Types, names []string) int32 {
	p := x.part(types)
	var places []int32
	for at, i := range p.nodes {
		if slices.Contains(names, x.nodes.Names[i]) {
			places = append(places, int32(at))
		}
	}
	return p.up.Refused(places)
}

// has reports whether a request for these types may come to lie on a node.
func (x *cell) has(types placement.Types, name string) bool {
	return slices.ContainsFunc(x.part(types).nodes, func(i int32) bool { return x.nodes.Names[i] == name })
}

// leaves reports whether nodes are left for a job in several partitions beside those that it refuses: Slurm says of one
// of them that there is none.
func (x *cell) leaves(g *gang, refused slurmplug.Value) bool {
	hosts, err := slurmplug.ExpandHosts(refused.String())
	r := g.request
	if r.Off = x.off(r.Types, hosts); err != nil || !g.job.InSeveral() {
		return false
	}
	return x.everFits(r)
}

// everFits reports whether a request has a place with nothing on the nodes.
func (x *cell) everFits(r placement.Request) bool {
	p := x.part(r.Types)
	r.Types = anyType
	_, fits := p.up.Fit(r, nil)
	return fits
}

// nodesOf is the fewest nodes that a request takes; 0: it has no place.
func (x *cell) nodesOf(r placement.Request) int {
	p := x.part(r.Types)
	r.Types = anyType
	shares, _ := p.up.Fit(r, nil)
	return len(shares)
}
