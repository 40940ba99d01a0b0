package virtual

import (
	"context"
	"slices"
	"strconv"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// leavesOf is the leaf switch of each node, by a number; nil where no group of nodes names
// one. Groups without one hang on one of their own.
func leavesOf(c trace.Cluster) (of []int32) {
	numbers, named := map[string]int32{}, false
	for i, g := range c.Nodes {
		named = named || g.Switch != ""
		name := g.Switch
		if name == "" {
			name = "\x00" + strconv.Itoa(i)
		}
		n, known := numbers[name]
		if !known {
			n = int32(len(numbers))
			numbers[name] = n
		}
		for range g.Count {
			of = append(of, n)
		}
	}
	if !named {
		return nil
	}
	return of
}

// slowest is the part of its speed that a job keeps at least, wherever it lies.
func (e *engine) slowest(j *job) float64 {
	if j.request.Nodes == 1 || (e.leaves == nil || e.opt.Spread == nil) && e.opt.SpreadNodes == nil {
		return 1
	}
	shares, fits := e.empty.Fit(placement.Request{Types: j.request.Types, Amount: j.request.Amount, Nodes: j.request.Nodes}, nil)
	if !fits {
		return 1
	}
	keeps := 1.0
	if e.opt.SpreadNodes != nil && j.Nodes == 0 {
		keeps = e.opt.SpreadNodes(max(float64(min(e.nodes.Len(), j.GPUs))/float64(len(shares)), 1))
	}
	if e.leaves == nil || e.opt.Spread == nil || len(shares) < 2 {
		return keeps
	}
	most := min(int(slices.Max(e.leaves))+1, j.GPUs)
	if j.Nodes > 0 {
		most = min(most, j.Nodes)
	}
	return keeps * e.opt.Spread(max(float64(most)/float64(e.empty.Leaves(shares)), 1))
}

// spreads is the part of its speed that a job keeps on the nodes and switches that it has.
func (e *engine) spreads(j *job) float64 {
	if len(j.shares) < 2 || (e.leaves == nil || e.opt.Spread == nil) && e.opt.SpreadNodes == nil {
		return 1
	}
	shares, fits := e.empty.Fit(placement.Request{Types: j.request.Types, Amount: j.request.Amount, Nodes: j.request.Nodes}, nil)
	if !fits {
		return 1
	}
	keeps := 1.0
	if e.opt.SpreadNodes != nil {
		keeps = e.opt.SpreadNodes(float64(len(j.shares)) / float64(len(shares)))
	}
	if e.leaves != nil && e.opt.Spread != nil {
		keeps *= e.opt.Spread(float64(e.nodes.Leaves(j.shares)) / float64(e.empty.Leaves(shares)))
	}
	return keeps
}

// waitForSwitches starts the clock of jobs that wait for few switches and could now start on more.
func (e *engine) waitForSwitches() {
	for _, c := range e.queue.active {
		if c.request.Switches == 0 {
			continue
		}
		if !slices.ContainsFunc(c.slots, func(s slot) bool {
			anywhere := s.with(s.waiting.root.least)
			anywhere.Switches = 0
			_, fits := e.nodes.Fit(anywhere, nil)
			return fits
		}) {
			continue
		}
		for j := range c.waiting.all {
			if j.switchStart < 0 {
				j.switchStart = e.now
				e.agenda.push(event{at: e.now + j.switchWait, kind: relaxed, job: j, epoch: j.epoch})
			}
		}
	}
}

// relax lets a job start on any number of switches, if it has waited long enough.
func (e *engine) relax(j *job) {
	if j.state == waiting && j.request.Switches > 0 && e.now >= j.switchStart+j.switchWait {
		e.queue.remove(j)
		j.request.Switches = 0
		e.enqueue(j)
		e.moved = true
	}
}

// limitSwitches writes a value of the lever Switches.
func (s *slurm) limitSwitches(j *job, value slurmplug.Value) error {
	count, wait, err := slurmplug.ParseSwitches(value.String())
	if err != nil {
		return err
	}
	return s.ask(j, func() {
		j.request.Switches, j.switchWait = int32(count), wait.Seconds()
		j.asksSwitches = slurmplug.SwitchesText(count, wait)
	})
}

// switches is what a job asks of switches.
func (s *slurm) switches(j *job) string {
	switch {
	case s.e.leaves == nil:
		return ""
	case j.asksSwitches == "":
		return slurmplug.NoSwitches
	}
	return j.asksSwitches
}

// Topology is the cluster's switches.
func (s *slurm) Topology(context.Context) (cluster.Topology, error) {
	t := cluster.Topology{MaxWait: -1} // max_switch_wait is unlimited
	if s.e.leaves == nil {
		return t, nil
	}
	t.Leaves = make(map[string]string, len(s.e.leaves))
	for node, leaf := range s.e.leaves {
		t.Leaves[s.nodes[node].Name] = strconv.Itoa(int(leaf))
	}
	return t, nil
}

// AskSwitches has nothing to read: rows say it.
func (s *slurm) AskSwitches(context.Context, []*cluster.Job) error { return nil }
