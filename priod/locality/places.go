package locality

import (
	"slices"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Places are what jobs wait for few of.
type Places uint8

// Leaf switches, and nodes.
const (
	OnSwitches Places = iota
	OnNodes
)

func (p Places) String() string {
	if p == OnNodes {
		return "nodes"
	}
	return "switches"
}

func (p Places) lever() slurmplug.Lever {
	if p == OnNodes {
		return slurmplug.NumNodes
	}
	return slurmplug.Switches
}

// what is the What of a wait for few of them.
func (p Places) what() string {
	if p == OnNodes {
		return plan.FewNodes
	}
	return plan.FewSwitches
}

// spreads reports whether a job may come to lie on several nodes although it asks for no number
// of them: it asks for its GPUs by job or by task, and for one node at least.
func spreads(j *cluster.Job) bool { return j.Nodes <= 1 && j.GPUs > 1 && j.Node.GPUs < j.GPUs }

// unknown reports whether it is not known which places there are.
func (w *work) unknown() bool { return w.places == OnSwitches && len(w.topology.Leaves) == 0 }

// asks is what a job asks of places; "" where that could not be read. What Slurm does not show
// is taken for what priod wrote: a change since cannot be seen.
func (w *work) asks(j *cluster.Job) string {
	if w.places == OnSwitches {
		return j.Switches
	}
	if r, written := w.c.History.Requests[j.ID][w.lever]; written && j.NodeCount == slurmplug.HiddenNodes {
		return r.Value.String()
	}
	return j.NodeCount
}

// own is what its user wants a job to ask of places.
func (w *work) own(j *cluster.Job) string {
	if r, written := w.c.History.Requests[j.ID][w.lever]; written {
		return r.Was.String()
	}
	if w.places == OnSwitches {
		return slurmplug.NoSwitches
	}
	return j.NodeCount
}

// ours reports whether what a job asks of places is what priod wrote.
func (w *work) ours(j *cluster.Job) bool {
	r, known := w.c.History.Requests[j.ID][w.lever]
	return known && r.Ours(slurmplug.Text(w.asks(j)))
}

// count is how many places a value of the lever allows; 0: any number.
func (w *work) count(text string) (count int, err error) {
	if w.places == OnNodes {
		_, count, err = slurmplug.ParseNodes(text)
		return count, err
	}
	count, _, err = slurmplug.ParseSwitches(text)
	return count, err
}

// text is the value of the lever that allows so many places.
func (w *work) text(accepts int) string {
	if w.places == OnNodes {
		return slurmplug.NodesText(1, accepts)
	}
	return slurmplug.SwitchesText(accepts, time.Duration(w.rule().Longest)*time.Second/time.Minute*time.Minute)
}

// fixedNodes says why the number of nodes that a job asks for is not bounded.
func (w *work) fixedNodes(asks string) string {
	least, most, err := slurmplug.ParseNodes(asks)
	switch {
	case asks == slurmplug.HiddenNodes:
		return "Slurm does not show how many nodes it accepts: it has run before, or slurmctld was started after it came"
	case err != nil:
		return unread
	case least > 1 || most == 1:
		return "it requests a number of nodes"
	case most == 0 && !w.opens:
		return "its number of nodes is open, which this Slurm could not restore"
	}
	return ""
}

// sized reports whether sizing has given a job CPUs and memory on one node, or does now.
func (w *work) sized(j *cluster.Job) bool {
	_, written := w.c.History.Requests[j.ID][slurmplug.Size]
	return written || slices.ContainsFunc(w.c.Plan.Actions, func(a plan.Action) bool { return a.Lever == slurmplug.Size && a.Job == j.ID })
}
